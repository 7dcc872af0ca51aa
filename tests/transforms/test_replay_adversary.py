"""What somebody who can write to a store does to it, and what replay and the comparison of rows find."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm
from seamark import ledger
from seamark.ledger.chain import walk_back
from seamark.ledger.objects import ChainFiles


def rewritten(warehouse, table, change):
    """Make a chain anew from its first changed block on, as a forger would, with hashes that fit."""
    files = ChainFiles(warehouse / table)
    previous = None
    for _, block in reversed(list(walk_back(files, files.head()))):
        block = dataclasses.replace(change(files, block), prev_block_hash=previous)
        previous = files.blocks.put(ledger.encode(block))
    files.set_head(previous)


def forget_database(store, folder):
    store.close()
    for path in folder.glob("control.db*"):
        path.unlink()
    sm.DataStore.rebuild(f"sqlite:///{folder / 'control.db'}", folder / "warehouse")


# --- NULLs that the logical hash does not see -------------------------------------------------------------------------

COLUMNS = "id long, n long, s string, t struct<a: long>"
ROWS = [
    {"id": 1, "n": None, "s": None, "t": None},
    {"id": 2, "n": 1, "s": "", "t": {"a": 5}},
]
MOVED = {
    "n": pa.array([256, None], pa.int64()),
    "s": pa.array(["", None]),
    "t": pa.array([{"a": None}, {"a": 5}], pa.struct([("a", pa.int64())])),
}


@pytest.fixture
def copied(open_store, spark):
    """A table and a copy of it, made by a step."""

    def open_it():
        store = open_store(spark=spark)
        source = store.table("source", COLUMNS, key="id")
        copy = store.table("copy", COLUMNS, key="id")
        store.add(sm.BatchTransform("SELECT * FROM {source}", [source], [copy], name="copying"))
        return store

    store = open_it()
    store.table("source").upsert(ROWS)
    store.run()
    return store, open_it


def moved(column):
    def change(records: pa.Table) -> pa.Table:
        place = records.column_names.index(column)
        return records.set_column(place, records.schema.field(column), MOVED[column])

    return change


@pytest.mark.scenario("L61")
@pytest.mark.parametrize("column", MOVED)
def test_nulls_moved_in_a_slice_are_found_by_its_bytes_and_in_a_forged_one_by_replay(copied, tmp_path, column):
    store, open_it = copied
    for table in ("source", "copy"):
        (entry,) = store.control.index.slices(table, after=None, upto=None)
        path = tmp_path / "warehouse" / table / "data" / entry.slice_hash
        honest, records = path.read_bytes(), pq.read_table(path)
        assert ledger.logical_hash(moved(column)(records)) == ledger.logical_hash(records)
        pq.write_table(moved(column)(records), path)
        (finding,) = store.verify(table).findings
        assert (finding.table, finding.kind) == (table, "physical hash")
        path.write_bytes(honest)
    assert store.verify(replay=True).ok

    def forge(files, block):
        piece = getattr(block.event, "new_data", None)
        if piece is None:
            return block
        pq.write_table(moved(column)(pq.read_table(files.data.path(piece.physical_hash))), tmp_path / "forged")
        data = (tmp_path / "forged").read_bytes()
        piece = dataclasses.replace(piece, physical_hash=files.data.put(data), size=len(data))
        return dataclasses.replace(block, event=dataclasses.replace(block.event, new_data=piece))

    rewritten(tmp_path / "warehouse", "copy", forge)
    forget_database(store, tmp_path)
    store = open_it()
    assert store.verify().ok  # every hash fits

    (finding,) = store.verify("copy", replay=True).findings

    assert (finding.table, finding.kind) == ("copy", "replay")
    assert "the same logical hash" in finding.found
    assert "Recorded: " in finding.message


# --- the base ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folded(open_store, spark):
    store = open_store(spark=spark)
    table = store.table("stock", "id long, n long, f double", key="id")
    log = store.table("log", "n long")
    table.upsert([{"id": n, "n": n, "f": 0.0} for n in range(4)])
    log.append([{"n": n} for n in range(3)])
    store.fold()
    table.upsert([{"id": 3, "n": 33, "f": 0.0}])
    assert store.verify(rows=True).ok
    return store


def change_base(warehouse, table, change):
    (path,) = (warehouse / table / "rows").glob("*.parquet")
    for checksum in path.parent.glob(".*.crc"):
        checksum.unlink()
    pq.write_table(change(pq.read_table(path)), path)


def set_number(records, place=1, value=1000):
    values = records.column("n").to_pylist()
    values[place] = value
    return records.set_column(records.column_names.index("n"), records.schema.field("n"), pa.array(values, pa.int64()))


BASE_CHANGES = {
    "changed": (set_number, "{'id': 1}"),
    "removed": (lambda records: records.slice(1), "{'id': 0}"),
    "twice": (lambda records: pa.concat_tables([records, records.slice(2, 1)]), "{'id': 2}"),
    "made by another record": (
        lambda records: records.set_column(
            records.column_names.index("_offset"), records.schema.field("_offset"), pa.array([0, 1, 1, 3], pa.int64())
        ),
        "{'id': 2}",
    ),
    "minus zero": (
        lambda records: records.set_column(
            records.column_names.index("f"), records.schema.field("f"), pa.array([0.0, 0.0, 0.0, -0.0])
        ),
        "{'id': 3}",
    ),
}


@pytest.mark.scenario("L62")
@pytest.mark.scenario("T62")
def test_where_nothing_may_be_written_a_base_that_differs_is_named_and_said_to_be_read_still(folded, tmp_path):
    change_base(tmp_path / "warehouse", "stock", set_number)
    database = folded.control.database
    for is_read_only in (True, False):
        database.is_read_only = is_read_only
        (finding,) = folded.verify(rows=True).findings
        assert ("It is still read" in finding.message, "no longer read" in finding.message) == (
            is_read_only,
            not is_read_only,
        )


@pytest.mark.scenario("L62")
def test_a_base_that_is_folded_while_the_chain_is_read_is_left_alone(folded):
    stock, seen = folded.table("stock"), []

    def write_and_fold(*_):
        if not seen:
            stock.upsert([{"id": 9, "n": 9, "f": 0.0}])
            stock.fold()
        seen.append(1)

    assert folded.verify(rows=True, on_block=write_and_fold).findings == ()
    assert folded.verify(rows=True).findings == ()


@pytest.mark.scenario("L62")
@pytest.mark.parametrize("what", BASE_CHANGES)
def test_a_row_of_the_base_that_is_not_the_logs_is_named_and_the_next_fold_writes_the_base_anew(folded, tmp_path, what):
    alter, key = BASE_CHANGES[what]
    change_base(tmp_path / "warehouse", "stock", alter)
    assert folded.verify().ok  # files and chains are as they were: only the rows are not

    (finding,) = folded.verify(rows=True).findings

    assert (finding.table, finding.kind) == ("stock", "rows")
    assert f"the row {key} of its base" in finding.message
    # It is not read any more, and the next fold does not go on from it.
    rows = [(0, 0, 0.0), (1, 1, 0.0), (2, 2, 0.0), (3, 33, 0.0)]
    assert sorted(tuple(row) for row in folded.table("stock").rows().collect()) == rows
    assert folded.verify(rows=True).ok
    (report,) = folded.fold("stock")
    assert report.folded
    assert sorted(tuple(row) for row in folded.table("stock").rows().collect()) == rows
    assert folded.verify(rows=True).ok
    assert folded.control.index.bases("stock")[0].delta_version == report.delta_version


@pytest.mark.scenario("L62")
def test_a_base_at_the_head_is_written_anew_and_a_rebuild_does_not_take_the_old_one_back(folded, tmp_path, open_store):
    folded.fold()
    change_base_version = folded.control.index.bases("log")[0].delta_version
    change_base(tmp_path / "warehouse", "log", lambda records: set_number(records, 0, 7))
    (finding,) = folded.verify("log", rows=True).findings
    assert "{'_offset': 0}" in finding.message
    (report,) = folded.fold("log")
    assert (report.folded, report.delta_version > change_base_version) == (True, True)
    folded.close()

    sm.DataStore.rebuild(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse")

    store = open_store(spark=folded.spark)
    assert [base.delta_version for base in store.control.index.bases("log")] == [report.delta_version]
    assert store.verify(rows=True).ok


@pytest.mark.scenario("L62")
def test_a_base_that_cannot_be_read_is_a_finding_too(folded, tmp_path):
    (path,) = (tmp_path / "warehouse" / "stock" / "rows").glob("*.parquet")
    path.write_bytes(b"not Parquet")
    assert [(f.table, f.kind) for f in folded.verify(rows=True).findings] == [("stock", "unreadable base")]
    assert folded.table("stock").rows().count() == 4


# --- text from a stranger ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("L69")
def test_sql_of_an_older_definition_that_would_write_is_not_run(open_store, spark, tmp_path):
    target = tmp_path / "written"

    def open_it(text):
        store = open_store(spark=spark)
        a, b = (store.table(name, "id long, v long", key="id") for name in ("a", "b"))
        store.add(sm.BatchTransform(text, [a], [b], name="step", on_change="keep"))
        return store

    store = open_it("SELECT id, v FROM {a}")
    store.table("a").upsert([{"id": 1, "v": 1}])
    store.run()
    store = open_it("SELECT id, v + 0 AS v FROM {a}")
    store.table("a").upsert([{"id": 2, "v": 2}])
    store.run()
    evil = iter([f"INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT 'owned' AS x"])

    def forge(_files, block):
        if not isinstance(block.event, ledger.SetTransform):
            return block
        text = next(evil, None)
        if text is None:
            return block
        head, body = block.event.transform.queries
        facts = json.dumps(json.loads(head.query) | {"digest": "other"})
        queries = (dataclasses.replace(head, query=facts), dataclasses.replace(body, query=text))
        transform = dataclasses.replace(block.event.transform, queries=queries)
        return dataclasses.replace(block, event=dataclasses.replace(block.event, transform=transform))

    rewritten(tmp_path / "warehouse", "b", forge)
    forget_database(store, tmp_path)
    store = open_it("SELECT id, v + 0 AS v FROM {a}")

    report = store.verify("b", replay=True)

    assert not target.exists()
    assert (report.findings, report.replayed, report.not_replayable) == ((), 1, 1)
    (skipped,) = report.skipped
    assert (skipped.table, skipped.blocks) == ("b", 1)
    assert "its SQL is not run: it is not a query: it begins with INSERT" in skipped.reason


@pytest.mark.scenario("L66")
def test_a_damaged_checkpoint_makes_replay_a_finding_and_other_tables_are_verified(copied, tmp_path):
    store, _ = copied
    (entry,) = store.control.index.slices("copy", after=None, upto=None)
    path = tmp_path / "warehouse" / "copy" / "checkpoints" / entry.checkpoint_hash
    shutil.copy(path, tmp_path / "kept")
    path.write_text("{}")

    report = store.verify(replay=True)

    assert [(finding.table, finding.kind) for finding in report.findings] == [
        ("copy", "checkpoint hash"),
        ("copy", "replay"),
    ]
    assert report.blocks == 7
