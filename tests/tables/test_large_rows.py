"""Few rows of many bytes: what is small enough for the driver is a matter of bytes as well as of rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import SUPPORT

from seamark.ledger.verify.footer import group_sizes
from seamark.tables import small
from seamark.tables.care import fold
from seamark.tables.care.group_rows import rows_that_fit
from seamark.tables.read import local_slices
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.in_process import read_base_keys
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.to_driver import collect_small
from seamark.tables.row_bytes import bytes_in_spark, bytes_of_rows
from seamark.tables.small import fits_on_driver

ROOM = 20_000  # bytes that the driver takes in these tests


@pytest.fixture
def docs(ds, set_small, monkeypatch):
    """A hundred documents of a kilobyte, half folded, half in the tail; the driver takes twenty kilobytes."""
    set_small(monkeypatch, values=ROOM)
    docs = ds.table("docs", "id long, body string", key="id")
    docs.upsert(large("a", range(50)))
    docs.fold()
    docs.upsert(large("a", range(50, 100)))
    return docs


def large(letter: str, ids: Any) -> pa.Table:
    return pa.table({"id": list(ids), "body": [f"{letter}{n}" * 400 for n in ids]})


def tiny(ids: Any) -> pa.Table:
    return pa.table({"id": list(ids), "body": [f"tiny {n}" for n in ids]})


def bodies(table: Any) -> dict[int, str]:
    found = table.rows().toPandas()
    return dict(zip(found.id, found.body, strict=True))


def as_dict(*tables: pa.Table) -> dict[int, str]:
    return {row["id"]: row["body"] for table in tables for row in table.to_pylist()}


@pytest.mark.scenario("T54")
@pytest.mark.parametrize(
    ("rows", "values", "fits"),
    [
        (50_000, 32 << 20, True),
        (50_001, 0, False),
        (1, (32 << 20) + 1, False),
        (0, 0, True),
    ],
)
def test_rows_and_bytes_decide_what_fits(rows, values, fits):
    assert fits_on_driver(rows, values) is fits


@pytest.mark.scenario("T54")
def test_writes_compare_large_rows_in_spark(docs, fetched):
    commit = docs.upsert(tiny(range(40, 60)))
    assert (commit.corrected, commit.appended) == (20, 0)
    assert docs.upsert(tiny(range(40, 60))) is None
    assert docs.delete(pa.table({"id": range(0, 80, 2)})).retracted == 40
    assert fetched.most_bytes <= 2 * ROOM
    kept = [*range(1, 80, 2), *range(80, 100)]
    tinies = [n for n in kept if 40 <= n < 60]
    assert bodies(docs) == as_dict(large("a", [n for n in kept if n not in tinies]), tiny(tinies))

    fetched.clear()
    commit = docs.replace(tiny([1, 99, 200]))
    assert (commit.corrected, commit.appended, commit.retracted) == (2, 1, len(kept) - 2)
    assert fetched.most_bytes <= 2 * ROOM
    assert bodies(docs) == as_dict(tiny([1, 99, 200]))


@pytest.mark.scenario("T54")
def test_large_rows_in_memory_go_to_spark_through_files(docs, fetched):
    assert docs.upsert(large("a", range(100))) is None
    assert docs.upsert(large("b", range(50, 150))).appended == 50
    assert docs.replace(large("b", range(50, 150))).retracted == 50
    assert docs.delete(pa.table({"id": range(50, 150)})).retracted == 100
    assert fetched.most_bytes <= 2 * ROOM


@pytest.mark.scenario("T54")
def test_a_read_by_keys_that_are_large_themselves(ds, spark, set_small, monkeypatch, fetched):
    set_small(monkeypatch, values=ROOM)
    pages = ds.table("pages", "url string, n long", key="url")
    urls = [f"/{n}" * 300 for n in range(90)]
    pages.upsert(pa.table({"url": urls, "n": range(90)}))
    pages.fold()
    wanted = spark.createDataFrame([(url,) for url in urls[::2]], "url string")

    fetched.clear()
    assert sorted(row.n for row in pages.get_data(wanted).collect()) == list(range(0, 90, 2))
    assert sorted(row.n for row in pages.get_data(pa.table({"url": urls[:3]})).collect()) == [0, 1, 2]
    assert pages.upsert(pa.table({"url": urls, "n": range(1, 91)})).corrected == 90
    assert fetched.most_bytes <= 2 * ROOM


# --- rows on their way from Spark -------------------------------------------------------------------------------------

COLUMNS = {"id": pa.int64(), "body": pa.string(), "tags": pa.list_(pa.string()), "s": pa.struct([("t", pa.binary())])}


def sized(spark, sizes):
    rows = [(n, "x" * size, ["t" * size, None], (b"b" * size,)) for n, size in enumerate(sizes)]
    return spark.createDataFrame(rows, "id long, body string, tags array<string>, s struct<t: binary>")


@pytest.mark.scenario("T54")
def test_the_bytes_of_a_row_are_the_same_in_spark_and_in_arrow(spark):
    frame = sized(spark, [0, 1, 7, 1000]).union(
        spark.createDataFrame([(4, None, None, None)], sized(spark, [0]).schema)
    )
    counted = frame.select(bytes_in_spark(COLUMNS)).toArrow().column(0).to_pylist()
    assert counted == bytes_of_rows(frame.toArrow()).tolist() == [8, 11, 29, 3008, 8]


@pytest.mark.scenario("T54")
@pytest.mark.parametrize(
    ("sizes", "at_most", "comes", "jobs"),
    [
        ([100] * 20, 20, True, 1),
        ([100] * 20, 5_000, True, 2),  # each is more than an equal share: their sizes come first
        ([10] * 19 + [4_000], 20, True, 2),
        ([1_000] * 20, 20, False, 1),
        ([20_000], 20, False, 1),
        ([0], 20, True, 1),
        ([], 20, True, 1),
    ],
)
def test_rows_are_fetched_if_they_are_small_in_all(
    spark, set_small, monkeypatch, fetched, count_jobs, sizes, at_most, comes, jobs
):
    set_small(monkeypatch, values=ROOM)
    frame = sized(spark, sizes).coalesce(1)
    with count_jobs() as counted:
        found = collect_small(frame, COLUMNS, at_most)
    assert (found is not None) is comes
    assert counted.jobs <= jobs
    assert fetched.most_bytes <= 2 * ROOM
    if found is not None:
        assert found.column_names == list(COLUMNS)
        assert found.column("body").to_pylist() == ["x" * size for size in sizes]


@pytest.mark.scenario("T54")
def test_no_more_rows_are_asked_for_than_fit(spark, set_small, monkeypatch, fetched):
    set_small(monkeypatch, 10)
    assert collect_small(spark.range(11), {"id": pa.int64()}, 1_000) is None
    assert collect_small(spark.range(10), {"id": pa.int64()}, 1_000).num_rows == 10
    assert collect_small(spark.range(1_000), {"id": pa.int64()}, 1_000, most_rows=1_000).num_rows == 1_000


# --- slices on the driver ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("T54")
@pytest.mark.parametrize("count", [10, 30, 300])
def test_a_text_that_repeats_counts_for_every_row(dry, set_small, monkeypatch, count):
    """It is stored once: by its file a slice of three hundred of them is as small as one of ten."""
    notes = dry.table("notes", "id long, body string, more string")
    notes.append(pa.table({"id": range(count), "body": ["x" * 1_000] * count, "more": [str(n) for n in range(count)]}))
    blocks = dry.control.index.slices("notes", after=None, upto=None)
    whole = pq.read_table(dry._context.files("notes").data.path(blocks[0].slice_hash))
    set_small(monkeypatch, values=40_000)

    found = read_small(notes.source, blocks, ["offset", "body", "more"])

    assert (found is not None) is (count <= 30)
    assert found is None or found.equals(whole.select(["offset", "body", "more"]).cast(found.schema))
    assert read_small(notes.source, blocks, ["offset", "id"]).num_rows == count  # these columns are small


@pytest.mark.scenario("T54")
def test_slices_are_small_together(dry, set_small, monkeypatch):
    notes = dry.table("notes", "id long, body string")
    for start in range(0, 40, 10):
        notes.append(large("a", range(start, start + 10)))
    blocks = dry.control.index.slices("notes", after=None, upto=None)
    set_small(monkeypatch, values=30_000)
    read: list[str] = []
    plain = local_slices._read_slice

    def watched(source, block, wanted, most):
        read.append(block.hash)
        return plain(source, block, wanted, most)

    monkeypatch.setattr(local_slices, "_read_slice", watched)

    assert read_small(notes.source, blocks, ["body"]) is None
    assert len(read) < 4  # the rest is not looked at
    assert read_small(notes.source, blocks[:2], ["body"]).num_rows == 20


# --- row groups of the base -------------------------------------------------------------------------------------------


@pytest.fixture
def groups_of(monkeypatch):
    """Gives the rows of each row group of a table's base, of which no group may hold more than ten kilobytes."""
    monkeypatch.setattr(fold, "GROUP_BYTES", 10_000)

    def groups(table: Any) -> list[int]:
        base = DeltaLog(Path(table.source.base_folder))
        return [rows for path in base.files(base.newest()) for rows, _ in group_sizes(path.read_bytes())]

    return groups


@pytest.mark.scenario("T54")
def test_a_base_has_groups_of_few_rows_where_rows_are_large(ds, groups_of):
    """A thousand letters that repeat are packed to a few bytes; who reads the base has them all."""
    docs = ds.table("docs", "id long, body string", key="id")
    docs.upsert(large("a", range(100)))
    docs.fold()
    assert sum(groups_of(docs)) == 100
    assert max(groups_of(docs)) <= 12  # the first ones have shorter numbers

    docs.upsert(large("b", range(95, 105)))
    assert docs.fold().folded  # merged into the file
    assert sum(groups_of(docs)) == 105
    assert max(groups_of(docs)) <= 12

    docs.upsert(tiny(range(1_000, 1_400)))  # more than a tenth: written anew, and the large rows are in the base
    assert docs.fold().folded
    assert sum(groups_of(docs)) == 505
    assert max(groups_of(docs)) <= 12


@pytest.mark.scenario("T54")
def test_a_log_has_groups_of_few_rows_where_rows_are_large(ds, groups_of):
    notes = ds.table("notes", "id long, parts array<string>")
    for first in (0, 50):
        notes.append(pa.table({"id": range(first, first + 50), "parts": [["x" * 100] * 10] * 50}))
        notes.fold()
    assert sum(groups_of(notes)) == 100
    assert max(groups_of(notes)) <= 10


@pytest.mark.scenario("T54")
@pytest.mark.parametrize(("letters", "in_here"), [(100_000, True), (1_000_000, False)])
def test_rows_whose_pages_are_large_are_left_to_spark(ds, letters, in_here):
    """DuckDB unpacks a page as a whole: one of twenty megabytes for a single document."""
    docs = ds.table("docs", "id long, body string, n long", key="id")
    docs.upsert(pa.table({"id": range(20), "body": [str(n) * letters for n in range(20)], "n": range(20)}))
    docs.fold()
    base, one = ds.control.index.bases("docs")[0], pa.table({"id": [7]})

    found = read_base_keys(docs.source, base, one, ["body"])

    assert (found is not None) is in_here
    assert found is None or found.column("body").to_pylist() == ["7" * letters]
    assert read_base_keys(docs.source, base, one, ["n"]).column("n").to_pylist() == [7]  # these pages are small
    assert docs.get_data(one).collect()[0].body == "7" * letters


@pytest.mark.scenario("T54")
def test_few_large_rows_among_many_small_ones_make_no_small_groups(ds, groups_of):
    docs = ds.table("docs", "id long, body string", key="id")
    docs.upsert(large("a", range(5)))
    docs.upsert(tiny(range(5, 500)))
    docs.fold()
    assert max(groups_of(docs)) > 100


@pytest.mark.scenario("T54")
def test_the_rows_that_fit_are_counted_from_the_largest(tmp_path):
    paths = []
    for place, (rows, size) in enumerate([(10, 100), (1_000, 1), (5, 1_000), (0, 0)]):
        paths.append(tmp_path / f"{place}.parquet")
        pq.write_table(pa.table({"body": ["x" * size] * rows}, schema=pa.schema([("body", pa.string())])), paths[-1])
    assert rows_that_fit(paths, 3_000) == 3
    assert rows_that_fit(paths, 5_000) == 5
    assert rows_that_fit(paths, 5_550) == 10
    assert rows_that_fit(paths, 6_500) == 15 + 500
    assert rows_that_fit(paths, 7_000) is None
    assert rows_that_fit(paths, 10) == 1
    (tmp_path / "0.parquet").write_bytes(b"")
    (tmp_path / "1.parquet").write_bytes(b"no such file, but long enough for its end")
    assert rows_that_fit([*paths, tmp_path / "none"], 4_000) == 4


@pytest.mark.scenario("T54")
def test_footers_with_any_bit_damaged_are_left_to_whoever_reads_the_rows(tmp_path):
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "body": ["x" * 100, "y" * 100, None]}), path)
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(begin, len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            fit = rows_that_fit([path], 1_000)
            assert fit is None or fit > 0, (place, bit)


# --- a driver without room --------------------------------------------------------------------------------------------


def peak_of(tmp_path: Path, rows: int, timeout: float) -> int:
    """The most memory, in MiB, that the driver's Python held while rows of a megabyte went through every verb."""
    program = [sys.executable, str(SUPPORT / "large_rows.py"), str(tmp_path), str(rows)]
    ended = subprocess.run(
        program, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=timeout, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    return int(ended.stdout.split()[-1])


@pytest.mark.long
@pytest.mark.scenario("T54")
@pytest.mark.timeout(900)
def test_sixty_rows_of_a_megabyte_and_a_driver_with_room_for_forty(tmp_path):
    assert peak_of(tmp_path, 60, timeout=880) < 700


@pytest.mark.long
@pytest.mark.scenario("T54")
@pytest.mark.timeout(3600)
def test_a_thousand_rows_of_a_megabyte(tmp_path):
    assert peak_of(tmp_path, 1_000, timeout=3500) < 900


@pytest.mark.scenario("T54")
def test_the_bounds_are_decided_in_one_place():
    """Whoever asks what is small asks `small`; only those who fetch no more than that know its numbers."""
    package = Path(small.__file__).parents[1]
    texts = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    found = {name for name, text in texts.items() if "SMALL_RECORDS" in text or "SMALL_BYTES" in text}
    assert found == {
        "tables/small.py",
        "tables/read/to_driver.py",
        "tables/read/local_slices.py",
        "tables/read/in_process.py",
        "tables/write/change.py",
    }
