"""Slices whose blocks fit them, and which break the rules all the same; and files that no reader should trust."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark import ledger
from seamark.ledger.objects import ChainFiles
from seamark.ledger.verify import verify_chain
from seamark.ledger.verify.footer import row_groups
from seamark.ledger.verify.lists import row_starts, widest_batch
from seamark.ledger.verify.pages import BrokenPages, Page, pages_of
from seamark.ledger.verify.unpacking import Chunk, TooLarge, batch_rows, check_footer, check_room, rows_at_a_time

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MILLIS = pa.timestamp("ms", "UTC")


class Forged:
    """A root chain made by hand: blocks and hashes fit, whatever its slices hold."""

    def __init__(self, folder: Path, schema: ledger.DataSchema | None = None) -> None:
        self.files = ChainFiles(folder)
        self.state = None
        self.moment = NOON
        self._add(ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.ROOT))
        self._add(ledger.SetDataSchema(schema or ledger.DataSchema((ledger.DataField("x", ledger.DataTypeInt64()),))))

    def _add(self, event) -> None:
        state = self.state
        block = ledger.Block(self.moment, state.head if state else None, state.sequence + 1 if state else 0, event)
        self.state = ledger.check_append(state, block)
        self.files.blocks.put(ledger.encode(block))

    def add(self, data: bytes, logical_hash: str, records: int) -> None:
        first, last = self.state.next_offset, self.state.last_offset
        interval = ledger.OffsetInterval(first, first + records - 1)
        piece = ledger.DataSlice(logical_hash, self.files.data.put(data), interval, len(data))
        self._add(ledger.AddData(prev_offset=last, new_data=piece))

    def records(self, ops, /, **columns) -> pa.Table:
        first = self.state.next_offset
        system = {
            "offset": pa.array(range(first, first + len(ops)), pa.int64()),
            "op": pa.array(ops, pa.int32()),
            "system_time": pa.array([self.moment] * len(ops), MILLIS),
            "event_time": pa.array([self.moment] * len(ops), MILLIS),
        }
        return pa.table({**system, **(columns or {"x": pa.array(range(len(ops)), pa.int64())})})

    def add_table(self, table: pa.Table) -> None:
        self.add(encoded(table), ledger.logical_hash(table), table.num_rows)

    def verify(self):
        return verify_chain("forged", self.files, self.state.head)


def encoded(table: pa.Table, **options) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


@pytest.fixture
def forged(tmp_path):
    return Forged(tmp_path / "forged")


def keyed(kind=None) -> ledger.DataSchema:
    fields = (ledger.DataField("x", kind or ledger.DataTypeInt64()),)
    return ledger.DataSchema(fields, {"seamark/key": ["x"]})


def kinds(chain) -> list[str]:
    return [finding.kind for finding in chain.verify().findings]


# --- rules inside slices ----------------------------------------------------------------------------------------------

INT = pa.int64()
BROKEN = {
    "ends with -C": ([0, 2], {}, "ops", "ends between the two records of a correction"),
    "op 7": ([0, 7], {}, "ops", "record 1 has an op that it cannot have"),
    "op NULL": ([0, None], {}, "nulls", "record 1 lacks a value"),
    "+C alone": ([0, 3], {}, "ops", "record 1 breaks the two records"),
    "op 9 after -C": ([2, 9], {}, "ops", "record 1 has an op that it cannot have"),
    "another column": ([0], {"z": pa.array(["a"])}, "columns", "expected column 'x', found no such column"),
    "one more column": ([0], {"x": pa.array([1], INT), "z": pa.array(["a"])}, "columns", "found 'z' string"),
    "another type": ([0], {"x": pa.array(["a"])}, "columns", "expected 'x' Int64, found 'x' string"),
    "another width": ([0], {"x": pa.array([1], pa.int32())}, "columns", "found 'x' int32"),
    "NULL where none may be": ([0, 0], {"x": pa.array([1, None], INT)}, "nulls", "record 1 lacks a value"),
}  # fmt: skip


@pytest.mark.scenario("L65")
@pytest.mark.parametrize("what", BROKEN)
def test_a_slice_that_breaks_a_rule_is_found_though_its_block_fits_it(forged, what):
    ops, columns, kind, message = BROKEN[what]
    forged.add_table(forged.records(ops, **columns))
    forged.add_table(forged.records([0, 1]))  # what follows is verified all the same

    report = forged.verify()

    assert [finding.kind for finding in report.findings] == [kind]
    assert message in report.findings[0].message
    assert report.blocks == 4


@pytest.mark.scenario("L65")
def test_offsets_out_of_order(forged):
    records = forged.records([0, 0, 0])
    forged.add_table(records.take([0, 2, 1]))
    assert kinds(forged) == ["offsets"]


@pytest.mark.scenario("L65")
@pytest.mark.parametrize(
    ("ops", "keys", "place"),
    [
        ([0, 0], [2, 1], 1),
        ([0, 0], [1, 1], 1),
        ([2, 3], [1, 2], 1),
        ([0, 2, 3, 0], [1, 2, 2, 2], 3),
    ],
    ids=["order", "twice", "a correction of two keys", "once more after its correction"],
)
def test_keys_come_once_and_in_order_within_a_commit(tmp_path, ops, keys, place):
    forged = Forged(tmp_path / "keyed", keyed())
    forged.add_table(forged.records(ops, x=pa.array(keys, INT)))

    (finding,) = forged.verify().findings

    assert finding.kind == "order"
    assert f"record {place} " in finding.message


@pytest.mark.scenario("L65")
def test_the_keys_of_a_commit_go_on_from_slice_to_slice_and_begin_anew_with_the_next_commit(tmp_path):
    forged = Forged(tmp_path / "keyed", keyed())
    forged.add_table(forged.records([0, 0], x=pa.array([1, 5], INT)))
    forged.add_table(forged.records([0, 0], x=pa.array([6, 7], INT)))
    forged.moment = datetime(2026, 1, 2, tzinfo=UTC)
    forged.add_table(forged.records([2, 3], x=pa.array([1, 1], INT)))
    assert kinds(forged) == []

    forged.add_table(forged.records([0], x=pa.array([0], INT)))

    assert kinds(forged) == ["order"]


@pytest.mark.scenario("L65")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (ledger.DataTypeFloat64(), pa.array([-1.0, 0.0, float("inf"), float("nan")], pa.float64())),
        (ledger.DataTypeString(), pa.array(["", "Z", "a", "ä"])),
        (ledger.DataTypeBinary(), pa.array([b"", b"\x01", b"\x80"])),
        (ledger.DataTypeBool(), pa.array([False, True])),
        (ledger.DataTypeDecimal(10, 2), pa.array([-1, 0, 1], pa.decimal128(10, 2))),
    ],
)
def test_sorted_keys_of_any_type_are_well(tmp_path, kind, values):
    forged = Forged(tmp_path / "keyed", keyed(kind))
    forged.add_table(forged.records([0] * len(values), x=values))
    assert kinds(forged) == []


@pytest.mark.scenario("L65")
def test_an_append_only_table_is_only_appended_to(tmp_path):
    schema = ledger.DataSchema((ledger.DataField("x", ledger.DataTypeInt64()),), {"seamark/key": []})
    forged = Forged(tmp_path / "log", schema)
    forged.add_table(forged.records([0, 1]))
    (finding,) = forged.verify().findings
    assert (finding.kind, finding.expected, finding.found) == ("ops", "0 (+A)", "1 (-R)")


@pytest.mark.scenario("L65")
def test_a_field_within_a_struct_that_must_have_a_value(tmp_path):
    inner = ledger.DataField("a", ledger.DataTypeInt64())
    field = ledger.DataField("x", ledger.DataTypeOption(ledger.DataTypeStruct((inner,))))
    forged = Forged(tmp_path / "struct", ledger.DataSchema((field,)))
    kind = pa.struct([("a", INT)])
    forged.add_table(forged.records([0, 0], x=pa.array([None, {"a": 1}], kind)))
    assert kinds(forged) == []
    forged.add_table(forged.records([0], x=pa.array([{"a": None}], kind)))
    assert kinds(forged) == ["nulls"]


# --- whatever lies there ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("L66")
def test_a_time_in_the_year_3_000_000(forged):
    table = forged.records([0])
    forged.add_table(table.set_column(2, "system_time", pa.array([10**17], MILLIS)))
    (finding,) = forged.verify().findings
    assert (finding.kind, finding.found) == ("system time", "100000000000000000 ms after 1970")


@pytest.mark.scenario("L66")
def test_a_map_column(tmp_path):
    kind = ledger.DataTypeMap(ledger.DataTypeString(), ledger.DataTypeInt64())
    forged = Forged(tmp_path / "map", ledger.DataSchema((ledger.DataField("x", kind),)))
    table = forged.records([0], x=pa.array([[("a", 1)]], pa.map_(pa.string(), INT)))
    forged.add(encoded(table), ledger.logical_hash(forged.records([0])), 1)
    (finding,) = forged.verify().findings
    assert finding.kind == "unreadable data"
    assert "UnhashableType" in finding.found


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe_instead(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def loop_instead(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("instead", [folder_instead, pipe_instead, loop_instead])
@pytest.mark.parametrize("what", ["block", "slice"])
def test_something_else_where_a_file_should_be(forged, instead, what):
    forged.add_table(forged.records([0]))
    block = forged.files.block(forged.state.head)
    paths = {
        "block": forged.files.blocks.path(block.prev_block_hash),
        "slice": forged.files.data.path(block.event.new_data.physical_hash),
    }
    instead(paths[what])

    (finding,) = forged.verify().findings

    assert finding.kind == {"block": "unreadable block", "slice": "unreadable data"}[what]
    assert finding.found in ("a folder", "something that is not a file", "Too many levels of symbolic links")


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 10, b"\0" * 1000, b"PAR1" + b"\xff" * 4000 + b"PAR1"])
def test_bytes_that_are_no_parquet(forged, data):
    forged.add(data, ledger.logical_hash(forged.records([0])), 1)
    assert kinds(forged) == ["unreadable data"]


# --- files that unfold ------------------------------------------------------------------------------------------------

CHILD = """
import re, sys
from pathlib import Path
from seamark.ledger.objects import ChainFiles
from seamark.ledger.verify import verify_chain
report = verify_chain("forged", ChainFiles(Path(sys.argv[1])), sys.argv[2])
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
print([(finding.kind, finding.found) for finding in report.findings])
"""


def verify_apart(forged: Forged) -> tuple[int, str]:
    """How many megabytes a process takes that verifies the chain, and what it finds."""
    command = [sys.executable, "-c", CHILD, str(forged.files.folder), forged.state.head]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    megabytes, found = told.stdout.splitlines()
    return int(megabytes), found


def text_column(folder: Path) -> Forged:
    return Forged(folder, ledger.DataSchema((ledger.DataField("x", ledger.DataTypeString()),)))


@pytest.mark.scenario("L66")
def test_a_page_that_unpacks_to_hundreds_of_megabytes_is_not_unpacked(tmp_path):
    forged = text_column(tmp_path / "bomb")
    table = forged.records([0, 0], x=pa.array(["x" * (200 << 20), "y"]))
    data = encoded(table, compression="zstd", use_dictionary=False)
    assert len(data) < 100_000
    forged.add(data, ledger.logical_hash(forged.records([0])), 2)
    del table

    megabytes, found = verify_apart(forged)

    assert "unreadable data" in found
    assert "its pages would unpack" in found
    assert megabytes < 300


@pytest.mark.scenario("L66")
def test_a_list_of_twenty_million_items_in_a_few_bytes_is_not_unpacked(tmp_path):
    field = ledger.DataField("x", ledger.DataTypeList(ledger.DataTypeOption(ledger.DataTypeInt64())))
    forged = Forged(tmp_path / "bomb", ledger.DataSchema((field,)))
    items = pa.repeat(pa.scalar(7, INT), 20_000_000)
    column = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
    data = encoded(forged.records([0], x=column), compression="zstd")
    assert len(data) < 100_000
    forged.add(data, ledger.logical_hash(forged.records([0])), 1)
    del items, column

    megabytes, found = verify_apart(forged)

    assert "the lists in 'x.list.element' would unpack" in found
    assert megabytes < 300


@pytest.mark.scenario("L66")
def test_a_long_value_that_a_dictionary_names_for_every_row_is_read_a_few_rows_at_a_time(tmp_path):
    """Honest, if unusual: half a gigabyte of text in a small file, with the right hash."""
    forged = text_column(tmp_path / "long")
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), pa.array(["x" * (8 << 20)]))
    table = forged.records([0] * 64, x=values)
    hasher = ledger.LogicalHasher(table.schema.set(4, pa.field("x", pa.string())))
    for row in range(64):
        hasher.update(table.slice(row, 1).set_column(4, "x", values.slice(row, 1).cast(pa.string())))
    stream = io.BytesIO()
    with pq.ParquetWriter(stream, table.schema, compression="zstd", store_schema=False, data_page_size=1) as writer:
        writer.write_table(table)
    forged.add(stream.getvalue(), hasher.text(), 64)
    assert len(stream.getvalue()) < 1 << 20

    megabytes, found = verify_apart(forged)

    assert found == "[]"
    assert megabytes < 300


def page(unpacked=1000, values=100, *, is_dictionary=False, is_prefixed=False) -> Page:
    return Page(is_dictionary, unpacked, values, is_prefixed, 4, 10)


def test_the_room_for_pages_grows_with_the_file_and_never_ends_for_what_snappy_packs():
    flat = Chunk("x", None, (page(15 << 20),))
    check_room([flat], 1_000)
    with pytest.raises(TooLarge, match="its pages would unpack from 1000 to 33554432 bytes"):
        check_room([Chunk("x", None, (page(32 << 20),))], 1_000)
    check_room([Chunk("x", None, (page(22 * 5_000_000),))], 5_000_000)


def test_batches_stay_small_wherever_the_long_values_are():
    def never(_chunk):
        raise AssertionError("the dictionary is small")

    assert batch_rows([Chunk("x", 8, (page(),))], 100, never) == 128 * 1024
    one_long_value = Chunk("x", None, (page(100, 50_000), page(8 << 20, 1), page(100, 50_000)))
    assert batch_rows([one_long_value], 100_001, never) == 2
    named = Chunk("x", None, (page(1 << 20, 10, is_dictionary=True), page(1000, 100_000)))
    assert batch_rows([named], 100_000, lambda _: 1 << 20) == 15
    assert batch_rows([named], 100_000, lambda _: 20) == 128 * 1024
    repeating = Chunk("x", None, (page(1 << 20, 100_000, is_prefixed=True),))
    assert batch_rows([repeating], 100_000, never) == 16


LISTS = {
    "tags from a dictionary": lambda n: [f"tag-{(n * 7 + place) % 2000:08}" for place in range(5)],
    "long lists of one value": lambda n: [0] * 60,
    "lists within lists": lambda n: [[n % 3] * 10, [], [1, 2]] * 2,
    "none, and empty ones": lambda n: None if n % 3 == 0 else [] if n % 3 == 1 else [None, "x"],
    "all in one row": lambda n: [n % 5] * (1_500_000 if n == 777 else 0),
}


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize("how", [{"compression": "snappy"}, {"compression": "zstd", "data_page_version": "2.0"}])
def test_honest_lists_are_read_in_batches_of_a_few_megabytes(case, how):
    """Lists pack well: what they unpack to is no sign of malice, unless it is all in one row."""
    rows = 50_000
    table = pa.table({"n": range(rows), "x": [LISTS[case](n) for n in range(rows)]})
    data = encoded(table, row_group_size=30_000, **how)
    opened = pq.ParquetFile(io.BytesIO(data))

    at_once = rows_at_a_time(data, opened)

    assert at_once >= (1 if case == "all in one row" else 1000)
    largest = max(batch.nbytes for batch in opened.iter_batches(at_once))
    assert largest < (20 << 20)


@pytest.mark.parametrize("page_size", [100, 5_000, 1 << 20])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_rows_of_lists_are_told_from_the_levels_alone(page_size, version):
    chance = random.Random(page_size)
    values = [
        None if chance.random() < 0.1 else [[7] * chance.randint(0, 40)] * chance.randint(0, 3) for _ in range(3000)
    ]
    values[1234] = [[1] * 10_000]
    data = encoded(pa.table({"x": values}), compression="zstd", data_page_size=page_size, data_page_version=version)
    (group,) = row_groups(data)
    pages = [page for page in pages_of(data, group.columns[0].start, group.columns[0].size) if not page.is_dictionary]

    starts = row_starts(data, pages, "zstd", 2, len(values))

    # a list without items stands as one entry
    wanted = [max(1, sum(max(1, len(inner)) for inner in value or [])) for value in values]
    assert np.diff(starts).tolist() == wanted
    for rows in (1, 7, 3000):
        sums = [sum(wanted[place : place + rows]) for place in range(0, len(wanted), rows)]
        assert widest_batch(starts, pages, 1000, rows) >= 1000 * max(sums)
    with pytest.raises(BrokenPages, match="rows"):
        row_starts(data, pages, "zstd", 2, len(values) - 1)


def test_a_file_that_is_all_footer_is_not_opened():
    with pytest.raises(TooLarge, match="are its footer"):
        check_footer(b"PAR1" + b"\0" * (2 << 20) + (2 << 20).to_bytes(4, "little") + b"PAR1")
    check_footer(b"PAR1")


def test_page_headers_say_what_a_reader_will_unpack(tmp_path):
    table = pa.table({"x": pa.array(["a", "b"] * 500), "n": pa.array(range(1000))})
    data = encoded(table, compression="snappy", use_dictionary=["x"])
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    column = group.column(0)
    pages = list(pages_of(data, column.dictionary_page_offset, column.total_compressed_size))
    assert [found.is_dictionary for found in pages] == [True, False]
    assert [found.values for found in pages] == [2, 1000]
    header = column.total_uncompressed_size - sum(found.unpacked for found in pages)
    assert 0 < header < 200


@pytest.mark.parametrize(
    "data",
    [
        b"PAR1" + b"\x15" * 40,
        b"PAR1" + b"\x1c" * 100,
        b"PAR1\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"PAR1\x19\x0c",
    ],
)
def test_what_is_no_page_header_is_refused(data):
    with pytest.raises(BrokenPages):
        list(pages_of(data, 4, len(data) - 4))
