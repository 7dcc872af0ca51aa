"""The footers of Parquet files, read without pyarrow: it ends the process at some that have a damaged byte."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.ledger.verify.footer import ColumnPlace, footer_size, row_groups
from seamark.ledger.verify.pages import BrokenPages

# Flips each bit of the footer of a file, one after another, and asks how many rows to read at a time.
FLIPPING = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from seamark.ledger.verify.footer import footer_size
from seamark.ledger.verify.unpacking import rows_at_a_time
healthy = Path(sys.argv[1]).read_bytes()
for place in range(len(healthy) - 8 - footer_size(healthy), len(healthy)):
    for bit in range(8):
        data = bytearray(healthy)
        data[place] ^= 1 << bit
        try:
            rows_at_a_time(bytes(data), pq.ParquetFile(pa.BufferReader(bytes(data))))
        except Exception:
            pass
print("survived")
"""


@pytest.fixture
def written(tmp_path):
    """A file with two row groups, a dictionary, a list, a struct and NULLs."""
    rows = {"n": [1, 2, None], "s": ["a", "a", None], "l": [[1], [], None], "t": [{"x": 1.5}, None, {"x": None}]}
    path = tmp_path / "slice"
    pq.write_table(pa.table(rows), path, row_group_size=2)
    return path


def test_the_places_of_columns_are_those_that_pyarrow_tells(written):
    told = pq.ParquetFile(written).metadata
    for number, group in enumerate(row_groups(written.read_bytes())):
        columns = [told.row_group(number).column(place) for place in range(told.num_columns)]
        assert group.rows == told.row_group(number).num_rows
        assert group.columns == tuple(
            ColumnPlace(
                column.dictionary_page_offset or column.data_page_offset,
                column.total_compressed_size,
                column.compression.lower(),
            )
            for column in columns
        )
    assert told.num_row_groups == 2


@pytest.mark.scenario("L66")
def test_no_damaged_bit_of_a_footer_ends_the_process(written):
    told = subprocess.run([sys.executable, "-c", FLIPPING, str(written)], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "survived\n"), told.stderr


@pytest.mark.parametrize("keep", [0, 4, 11, 20])
def test_a_footer_that_is_cut_is_none(written, keep):
    data = written.read_bytes()
    with pytest.raises(BrokenPages, match="footer"):
        row_groups(data[: len(data) - 8 - footer_size(data)][:4] + b"\x19" * keep + data[-8:])
