"""The control database against the chains, tables against their inputs, and heads that were written down elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm
from seamark import ledger
from seamark.config import load_config
from seamark.control import FailedKey, Mode, Position, RunRecord
from seamark.errors import HeadMismatch, UsedWrongly
from seamark.ledger.chain import ChainDraft, walk_back
from seamark.ledger.objects import ChainFiles
from seamark.steps.past.checkpoint import Checkpoint, ReadAt
from seamark.tables.verify import read_heads, verify_unopened
from seamark.tables.write.publish import (
    Progress,
    begin_chain,
    data_slice,
    declare_schema,
    plan_table,
    publish,
)
from seamark.tables.write.slices import write_slice
from seamark.tables.write.writing import writing

STEP = "copy"
FAILED = FailedKey(STEP, '{"id":9}', 10.0, "boom", 2, 70.0, '{"orders":-1}')


def feed_out(store: sm.DataStore, failed: FailedKey = FAILED) -> None:
    """What a step that copies 'orders' to 'out' would commit now, with one failed key standing. No Spark."""
    context, out = store._context, store.table("out", "id long, revenue long", key="id")
    head, planned = store.control.index.head("orders"), plan_table(store._context, "out")
    moment = context.clock.now().replace(microsecond=0)
    rows = pa.table({"op": pa.array([0], pa.int32()), "id": [planned.next_offset], "revenue": [None]})
    with writing(context) as run:
        piece = write_slice(run.folder_of("out"), out.schema, rows, planned.next_offset, moment)
        run.adopt_slices(planned.files, [piece])
        read = {"orders": ReadAt(head.head_hash, head.sequence, head.last_offset)}
        checkpoint = run.put_checkpoint(planned.files, Checkpoint(STEP, Mode.CHANGES, read, failed=(failed,)).encode())
        draft = ChainDraft(planned.state, max(moment, planned.head.system_time) if planned.head else moment)
        begin_chain(draft, ledger.DatasetKind.DERIVATIVE)
        if draft.state.transform is None:
            queries = (ledger.SqlQueryStep(STEP, "{}"), ledger.SqlQueryStep(None, "SELECT 1"))
            inputs = (ledger.TransformInput(head.dataset_id, "orders"),)
            draft.add(ledger.SetTransform(inputs, ledger.TransformSql("seamark", queries=queries)))
        declare_schema(draft, out.schema)
        carried = draft.state.input(head.dataset_id)
        taken = ledger.ExecuteTransformInput(
            head.dataset_id, carried.block_hash, head.head_hash, carried.offset, head.last_offset
        )
        draft.add(
            ledger.ExecuteTransform(
                (taken,), draft.state.checkpoint, draft.state.last_offset, data_slice(piece), checkpoint
            )
        )
        position = Position(
            STEP, "orders", head.system_time.timestamp(), head.last_offset, head.sequence, head.head_hash
        )
        progress = Progress(positions=(position,), failed=(failed,))
        record = RunRecord(run.run_id, STEP, "changes", 0.0)
        publish(context, run, record, [(planned, draft)], progress=progress)


@pytest.fixture
def store(dry):
    """Orders, clicks, and a table derived from the orders; everything agrees."""
    orders = dry.table("orders", "id long, revenue long")
    clicks = dry.table("clicks", "url string")
    for number in range(3):
        orders.append(pa.table({"id": pa.array([number], pa.int64()), "revenue": pa.array([None], pa.int64())}))
    clicks.append(pa.table({"url": ["a"]}))
    feed_out(dry)
    orders.append(pa.table({"id": pa.array([9], pa.int64()), "revenue": pa.array([1], pa.int64())}))
    feed_out(dry)
    assert dry.verify().findings == ()
    return dry


def change(store: sm.DataStore, statement: str, *values) -> None:
    with store.control.database.write() as connection:
        connection.exec_driver_sql(statement, tuple(values))


def findings(store: sm.DataStore, table: str | None = None):
    return [(finding.table, finding.kind) for finding in store.verify(table).findings]


def rebuilt(store: sm.DataStore, tmp_path: Path) -> sm.DataStore:
    sm.DataStore.rebuild(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse")
    return store


CHANGES = {
    "slice of an index row": (
        "UPDATE block SET slice_hash = 'x' WHERE table_name = 'orders' AND sequence = 3", ("orders", "index row"),
    ),
    "offset of an index row": (
        "UPDATE block SET last_offset = 77 WHERE table_name = 'orders' AND sequence = 3", ("orders", "index row"),
    ),
    "an index row is gone": ("DELETE FROM block WHERE table_name = 'orders' AND sequence = 3", ("orders", "index row")),
    "an index row too many": (
        "INSERT INTO block SELECT table_name, 99, 'h', kind, 50, 60, system_time, slice_hash, slice_size, NULL "
        "FROM block WHERE table_name = 'orders' AND sequence = 3", ("orders", "index row"),
    ),
    "dataset id": (
        "UPDATE table_head SET dataset_id = 'did:odf:x' WHERE table_name = 'orders'", ("orders", "head row"),
    ),
    "kind": ("UPDATE table_head SET kind = 'derivative' WHERE table_name = 'clicks'", ("clicks", "head row")),
    "last offset": ("UPDATE table_head SET last_offset = 1 WHERE table_name = 'orders'", ("orders", "head row")),
    "schema block": (
        "UPDATE table_head SET schema_block = data_block WHERE table_name = 'orders'", ("orders", "head row"),
    ),
    "position, far off": ("UPDATE transform_input_offset SET record_offset = 1000000", ("out", "position")),
    "position, block": ("UPDATE transform_input_offset SET block_hash = 'x'", ("out", "position")),
    "position, time": ("UPDATE transform_input_offset SET update_ts_offset = 1.5", ("out", "position")),
    "a position is gone": ("DELETE FROM transform_input_offset", ("out", "position")),
    "a position too many": (
        "INSERT INTO transform_input_offset SELECT 'other', 'out', 'clicks', 1.0, 0, 2, 'h', 0", ("clicks", "position"),
    ),
    "failed key, error": ("UPDATE transform_meta SET error = 'other'", ("out", "failed key")),
    "failed key, due": ("UPDATE transform_meta SET retry_after = NULL", ("out", "failed key")),
    "a failed key is gone": ("DELETE FROM transform_meta", ("out", "failed key")),
    "a failed key too many": (
        "INSERT INTO transform_meta SELECT transformation_id, outputs, '{}', process_ts, is_success, error, attempts, "
        "NULL, NULL, NULL FROM transform_meta", ("out", "failed key"),
    ),
    "a key taken as computed ahead": (
        "INSERT INTO transform_meta SELECT transformation_id, outputs, '{\"id\":1}', 1.0, 1, NULL, 0, NULL, "
        "'{\"orders\":99}', NULL FROM transform_meta", ("out", "covered key"),
    ),
}  # fmt: skip


@pytest.mark.scenario("L63")
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_row_of_the_control_database_is_found_and_a_rebuild_cures_it(store, tmp_path, what):
    statement, expected = CHANGES[what]
    change(store, statement)

    assert findings(store) == [expected]

    assert rebuilt(store, tmp_path).verify().findings == ()


@pytest.mark.scenario("L63")
def test_a_key_too_long_for_an_index_is_compared_as_a_whole(dry):
    orders = dry.table("orders", "id long, revenue long")
    orders.append(pa.table({"id": pa.array([1], pa.int64()), "revenue": pa.array([None], pa.int64())}))
    feed_out(dry, dataclasses.replace(FAILED, key='{"id":"' + "x" * 500 + '"}'))
    assert findings(dry) == []

    change(dry, "UPDATE transform_meta SET whole_key = replace(whole_key, 'xxxx', 'xxxy')")

    assert set(findings(dry)) == {("out", "failed key")}


@pytest.mark.scenario("L63")
def test_one_table_alone_is_compared_with_its_rows(store):
    change(store, "UPDATE transform_input_offset SET record_offset = 2")
    change(store, "UPDATE block SET slice_size = 1 WHERE table_name = 'clicks' AND slice_size IS NOT NULL")
    assert findings(store, "orders") == []
    assert findings(store, "out") == [("out", "position")]
    assert findings(store, "clicks") == [("clicks", "index row")]


@pytest.mark.scenario("L63")
def test_a_reset_is_not_a_finding(store):
    store.offset_table.reset_offset(STEP)
    assert findings(store) == []


@pytest.mark.scenario("L63")
def test_a_head_that_was_made_up_is_refused_when_opened_found_by_verify_and_cured(
    store, open_store, no_spark, tmp_path
):
    mirrored = ChainFiles(tmp_path / "warehouse" / "orders").head()
    change(store, "UPDATE table_head SET head_hash = ? WHERE table_name = 'orders'", "f1620" + "0" * 64)
    store.close()

    with pytest.raises(HeadMismatch, match="table 'orders'"):
        open_store(spark=no_spark)

    assert ChainFiles(tmp_path / "warehouse" / "orders").head() == mirrored
    config = load_config(
        required=False, control=f"sqlite:///{tmp_path / 'control.db'}", warehouse=str(tmp_path / "warehouse")
    )
    report = verify_unopened(config)
    assert ("orders", "missing block") in [(finding.table, finding.kind) for finding in report.findings]
    assert rebuilt(store, tmp_path) is store
    assert open_store(spark=no_spark).verify().findings == ()


@pytest.mark.scenario("L63")
def test_a_head_that_was_set_back_does_not_take_the_mirrored_one_with_it(store, open_store, no_spark, tmp_path):
    newest = ChainFiles(tmp_path / "warehouse" / "orders").head()
    change(
        store,
        "UPDATE table_head SET head_hash = (SELECT hash FROM block WHERE table_name = 'orders' AND sequence = 3), "
        "sequence = 3 WHERE table_name = 'orders'",
    )
    with pytest.raises(HeadMismatch, match="table 'orders'"):
        open_store(spark=no_spark)
    rebuilt(store, tmp_path)
    assert open_store(spark=no_spark).table("orders").head.block_hash == newest


@pytest.mark.scenario("L63")
def test_the_name_in_the_folder(store, tmp_path):
    (tmp_path / "warehouse" / "orders" / "info" / "alias").write_text("clicks")
    assert findings(store) == [("orders", "alias")]


@pytest.mark.scenario("L63")
def test_a_sink_that_is_said_to_be_further_than_its_table(store):
    change(store, "INSERT INTO sink_position VALUES ('s', 'orders', 99, NULL)")
    assert findings(store) == [("orders", "sink position")]


def test_a_commit_while_verify_runs_is_no_finding(store):
    orders = store.table("orders")
    committed = []

    def commit(*_):
        if not committed:
            committed.append(
                orders.append(pa.table({"id": pa.array([5], pa.int64()), "revenue": pa.array([5], pa.int64())}))
            )

    assert store.verify(on_block=commit).findings == ()
    assert committed


# --- inputs -----------------------------------------------------------------------------------------------------------


def cut(store: sm.DataStore, tmp_path: Path) -> str:
    """Take the newest block of 'orders' away, from its chain and from the database alike; gives its hash."""
    files = ChainFiles(tmp_path / "warehouse" / "orders")
    (newest, _), (before, block) = list(walk_back(files, files.head()))[:2]
    change(store, "DELETE FROM block WHERE hash = ?", newest)
    change(
        store,
        "UPDATE table_head SET head_hash = ?, sequence = ?, last_offset = ?, data_block = ?, system_time = "
        "(SELECT system_time FROM block WHERE hash = ?) WHERE table_name = 'orders'",
        before, block.sequence_number, block.event.last_offset, before, before,
    )  # fmt: skip
    files.set_head(before)
    files.blocks.path(newest).unlink()
    return newest


@pytest.mark.scenario("L64")
@pytest.mark.parametrize("table", [None, "out"])
def test_an_input_that_was_cut_is_found_in_the_table_that_was_made_from_it(store, tmp_path, table):
    gone = cut(store, tmp_path)
    change(store, "DELETE FROM transform_input_offset")

    report = store.verify(table)

    found = [finding for finding in report.findings if finding.kind == "input"]
    assert {(finding.table, finding.found) for finding in found} == {("out", "no such block in it")}
    assert any(f"up to record 3, block {gone} of input 'orders'" in finding.message for finding in found)
    assert any("by reading 'orders' at block" in finding.message for finding in found)


@pytest.mark.scenario("L64")
def test_an_input_that_was_forged_with_its_database_rows(store, tmp_path):
    files = ChainFiles(tmp_path / "warehouse" / "orders")
    name, block = next(walk_back(files, files.head()))
    piece = block.event.new_data
    records = pq.read_table(files.data.path(piece.physical_hash))
    records = records.set_column(5, records.schema.field("revenue"), pa.array([999], pa.int64()))
    pq.write_table(records, tmp_path / "forged")
    data = (tmp_path / "forged").read_bytes()
    new = dataclasses.replace(
        piece, physical_hash=files.data.put(data), logical_hash=ledger.logical_hash(records), size=len(data)
    )
    forged = dataclasses.replace(block, event=dataclasses.replace(block.event, new_data=new))
    head = files.blocks.put(ledger.encode(forged))
    files.set_head(head)
    change(store, "UPDATE table_head SET head_hash = ?, data_block = ? WHERE table_name = 'orders'", head, head)
    change(
        store, "UPDATE block SET hash = ?, slice_hash = ?, slice_size = ? WHERE hash = ?",
        head, new.physical_hash, len(data), name,
    )  # fmt: skip
    assert findings(store, "orders") == []

    found = [finding for finding in store.verify().findings if finding.kind == "input"]

    assert found
    assert all(finding.table == "out" for finding in found)
    assert f"block {name} of input 'orders'" in found[0].message


# --- expected heads ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L67")
def test_heads_that_were_written_down_are_still_in_the_chains_after_they_grew(store):
    heads = store.heads()
    store.table("clicks").append(pa.table({"url": ["b"]}))
    assert store.verify(expect=heads).ok
    assert store.verify("clicks", expect={name: head.block_hash.upper() for name, head in heads.items()}).ok


@pytest.mark.scenario("L67")
def test_chains_and_database_that_were_rewritten_together_do_not_hold_them(store, tmp_path):
    heads = store.heads()
    clicks = tmp_path / "warehouse" / "clicks"
    change(store, "DELETE FROM block WHERE table_name = 'clicks'")
    change(store, "DELETE FROM table_head WHERE table_name = 'clicks'")
    clicks.rename(tmp_path / "away")
    store.table("clicks", "url string").append(pa.table({"url": ["forged"]}))
    assert store.verify().ok

    (finding,) = store.verify(expect=heads).findings

    assert (finding.table, finding.kind, finding.expected) == ("clicks", "expected head", heads["clicks"].block_hash)
    (gone,) = store.verify(expect={"gone": heads["clicks"].block_hash}).findings
    assert (gone.table, gone.found) == ("gone", "no such table")


@pytest.mark.scenario("L67")
def test_a_table_that_was_removed_with_its_rows_is_missed_by_name_too(store, tmp_path):
    heads = {name: head for name, head in store.heads().items() if name != "out"}
    for table in ("block", "table_head"):
        change(store, f"DELETE FROM {table} WHERE table_name = 'clicks'")
    (tmp_path / "warehouse" / "clicks").rename(tmp_path / "away")
    assert store.verify("clicks").ok  # it is declared, and was never written: nothing says otherwise
    for which in (None, "clicks"):
        (gone,) = store.verify(which, expect=heads).findings
        assert (gone.table, gone.kind, gone.found) == ("clicks", "expected head", "no such table")


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("column", ["head_hash", "table_name"])
def test_a_name_that_no_file_can_have_is_a_finding(store, tmp_path, column):
    change(store, f"UPDATE table_head SET {column} = 'a' || char(0) || 'b' WHERE table_name = 'clicks'")
    config = load_config(
        required=False, control=f"sqlite:///{tmp_path / 'control.db'}", warehouse=str(tmp_path / "warehouse")
    )
    kinds = {finding.kind for finding in verify_unopened(config).findings}
    assert kinds & {"missing block", "unverifiable", "head row"}


@pytest.mark.scenario("L67")
def test_a_text_of_heads_is_read_and_one_that_is_none_is_refused():
    head = "f1620" + "ab" * 32
    assert read_heads(f"# written on Monday\n\nposts {head}\nclicks  {head.upper()}\n") == {
        "posts": head,
        "clicks": head,
    }
    assert read_heads(f'{{"heads": [{{"table": "posts", "head": "{head}", "sequence": 3}}]}}') == {"posts": head}
    for text in ("", "posts", f"posts {head} more", "posts zzz", "{}", '{"heads": [1]}'):
        with pytest.raises(UsedWrongly, match="expected head"):
            read_heads(text)
