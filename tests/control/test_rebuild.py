"""The control database is lost: the chains alone give it back."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from sqlalchemy import delete

from seamark import DataStore
from seamark.clock import commit_time
from seamark.control import CommitRequest, Control, FailedKey, Position, RunRecord
from seamark.control.schema import metadata, seamark_schema
from seamark.errors import ChainRuleBroken, ObjectMissing, StoreError
from seamark.ledger import DatasetKind, ExecuteTransform, SetTransform, SqlQueryStep, TransformInput, TransformSql
from seamark.ledger.chain import ChainDraft
from seamark.ledger.events import Checkpoint, ExecuteTransformInput
from seamark.tables.care import rebuild
from seamark.tables.schema.table_schema import declare
from seamark.tables.write.publish import begin_chain, data_slice, declare_schema, plan_table, publish
from seamark.tables.write.slices import write_slice
from seamark.tables.write.writing import writing

FEED = declare("feed", "post_id long, text string", "post_id", None)
STEP = "process_posts"


def run_by_hand(store: DataStore, inputs: list[str], rows: dict[str, list], failed: list[FailedKey]) -> list[Position]:
    """Write one ExecuteTransform of the step, with everything new in its inputs, and give the positions it reached."""
    context = store.table(inputs[0]).source.context
    heads = {name: store.control.index.head(name) for name in inputs}
    planned = plan_table(context, "feed")
    moment = commit_time(context.clock, planned.head.system_time if planned.head else None)
    records = pa.table({"op": pa.array([0] * len(rows["post_id"]), pa.int32()), **rows})
    with writing(context) as run:
        pieces = (
            [write_slice(run.folder_of("feed"), FEED, records, planned.next_offset, moment)] if records.num_rows else []
        )
        run.adopt_slices(planned.files, pieces)
        told = {"mode": "changes", "failed": [_without_step(key) for key in failed], "at": str(moment)}
        content = json.dumps(told).encode()
        checkpoint = Checkpoint(planned.files.checkpoints.put(content), len(content))
        draft = ChainDraft(planned.state, moment)
        begin_chain(draft, DatasetKind.DERIVATIVE)
        if draft.state.transform is None:
            queries = (SqlQueryStep(STEP, "{}"), SqlQueryStep(None, "SELECT * FROM posts"))
            sources = tuple(TransformInput(heads[name].dataset_id, name) for name in inputs)
            draft.add(SetTransform(sources, TransformSql(engine="seamark", queries=queries)))
        declare_schema(draft, FEED)
        state = draft.state
        draft.add(
            ExecuteTransform(
                query_inputs=tuple(_taken(state.input(heads[name].dataset_id), heads[name]) for name in inputs),
                prev_checkpoint=state.checkpoint,
                prev_offset=state.last_offset,
                new_data=data_slice(pieces[0]) if pieces else None,
                new_checkpoint=checkpoint,
            )
        )
        record = RunRecord(run.run_id, STEP, "changes", 0.0)
        publish(context, run, record, [(planned, draft)])
    return [
        Position(STEP, name, head.system_time.timestamp(), head.last_offset, head.sequence, head.head_hash)
        for name, head in heads.items()
    ]


def _without_step(failed: FailedKey) -> dict:
    names = ("key", "process_ts", "error", "attempts", "retry_after", "read_at")
    return {name: getattr(failed, name) for name in names}


def _taken(position, head) -> ExecuteTransformInput:
    moved = position.block_hash != head.head_hash
    return ExecuteTransformInput(
        dataset_id=head.dataset_id,
        prev_block_hash=position.block_hash,
        new_block_hash=head.head_hash if moved else None,
        prev_offset=position.offset,
        new_offset=head.last_offset if head.last_offset != position.offset else None,
    )


def known(store: DataStore) -> dict[str, object]:
    """All that must come back."""
    index = store.control.index
    return {
        "heads": index.heads(),
        "blocks": {name: index.blocks(name) for name in index.heads()},
        "positions": sorted(index.positions(), key=lambda p: (p.step, p.input_table)),
        "failed": sorted(index.failed_keys(), key=lambda k: k.key),
    }


def lose_everything(store: DataStore) -> None:
    with store.control.database.write() as connection:
        for table in metadata.sorted_tables:
            if table is not seamark_schema:
                connection.execute(delete(table))
    store.close()


@pytest.fixture
def feed(open_store, clicks_of):
    """Posts and profiles, and a feed that a step made from them in two runs, with one failed key standing."""
    store = open_store()
    posts, profiles = (store.table(name, "number long") for name in ("posts", "profiles"))
    posts.append(clicks_of(1, 2))
    profiles.append(clicks_of(7))
    failed = [
        FailedKey(STEP, json.dumps({"post_id": 1}), 10.0, "ZeroDivisionError: division by zero", 1, 70.0),
        FailedKey(STEP, json.dumps({"post_id": 2}), 10.0, "boom", 1),
    ]
    run_by_hand(store, ["posts", "profiles"], {"post_id": [], "text": []}, failed)
    posts.append(clicks_of(3))
    standing = [replace(failed[0], attempts=2, process_ts=20.0)]
    positions = run_by_hand(store, ["posts", "profiles"], {"post_id": [2, 3], "text": ["two", "three"]}, standing)
    told = CommitRequest(RunRecord("r", STEP, "changes", 0.0), (), positions=tuple(positions), failed=tuple(standing))
    store.control.commit(told)
    return store


@pytest.mark.scenario("T45")
def test_everything_that_chains_tell_comes_back(feed, control_url, warehouse, open_store, clicks_of):
    before = known(feed)
    assert len(before["positions"]) == 2
    assert [key.attempts for key in before["failed"]] == [2]
    assert feed.verify().ok
    lose_everything(feed)

    report = DataStore.rebuild(control_url, warehouse)

    store = open_store()
    assert known(store) == before
    assert (report.tables, report.positions, report.failed_keys) == (3, 2, 1)
    assert report.blocks == sum(len(blocks) for blocks in before["blocks"].values())
    assert "leases" in report.not_restored
    assert "the scheduler's tables" in report.not_restored
    assert store.table("posts").append(clicks_of(4)).first_offset == 3
    assert store.verify().ok


@pytest.mark.scenario("T45")
def test_rebuilding_a_database_that_is_well_changes_nothing(feed, control_url, warehouse):
    before = known(feed)
    DataStore.rebuild(control_url, warehouse)
    assert known(feed) == before


@pytest.mark.scenario("T45")
def test_a_rebuild_that_cannot_be_finished_leaves_the_database_as_it_was(feed, control_url, warehouse):
    before = known(feed)
    (warehouse / "posts" / "blocks" / before["heads"]["posts"].schema_block).unlink()
    with pytest.raises(ObjectMissing, match=before["heads"]["posts"].schema_block):
        DataStore.rebuild(control_url, warehouse)
    assert known(feed) == before


@pytest.mark.scenario("T45")
def test_a_chain_that_breaks_the_rules_is_not_restored(feed, control_url, warehouse):
    before = known(feed)
    newest = warehouse / "posts" / "blocks" / before["heads"]["posts"].head_hash
    older = warehouse / "posts" / "blocks" / before["heads"]["posts"].schema_block
    newest.write_bytes(older.read_bytes())
    with pytest.raises(ChainRuleBroken, match="table 'posts': block hash"):
        DataStore.rebuild(control_url, warehouse)
    assert known(feed) == before


# --- beside writers ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T45")
def test_nothing_is_rebuilt_while_a_run_lives(feed, control_url, warehouse):
    before = known(feed)
    with feed.control.staging.run("a live one"), pytest.raises(StoreError, match="a live one") as refused:
        DataStore.rebuild(control_url, warehouse)
    assert "stop what is writing" in refused.value.hint
    assert known(feed) == before
    assert DataStore.rebuild(control_url, warehouse).tables == 3


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("table", ["posts", "brand_new"])
@pytest.mark.parametrize("mirrors", [True, False], ids=["mirrored", "not mirrored"])
def test_a_commit_while_the_chains_are_read_is_not_lost(
    feed, control_url, warehouse, clicks_of, monkeypatch, table, mirrors
):
    committed = []

    if not mirrors:
        monkeypatch.setattr("seamark.tables.write.publish.mirror_head", lambda *_: None)
    positions = rebuild.positions_of

    def commit_and_read(chains):
        if not committed:
            committed.append(feed.table(table, "number long").append(clicks_of(4)))
        return positions(chains)

    monkeypatch.setattr(rebuild, "positions_of", commit_and_read)
    with pytest.raises(StoreError, match=f"table '{table}' moved while the chains were read"):
        DataStore.rebuild(control_url, warehouse)

    assert feed.table(table).head.sequence == committed[0].sequence
    assert feed.verify().ok


@pytest.mark.scenario("T45")
def test_a_head_that_is_mirrored_while_the_chains_are_read_is_noticed(feed, control_url, warehouse, monkeypatch):
    """A writer with another database, such as the one that this one is a copy of."""
    before = known(feed)
    older = before["heads"]["posts"].schema_block
    positions = rebuild.positions_of

    def moved(chains):
        (warehouse / "posts" / "refs" / "head").write_text(older)
        return positions(chains)

    monkeypatch.setattr(rebuild, "positions_of", moved)
    with pytest.raises(StoreError, match="table 'posts' moved"):
        DataStore.rebuild(control_url, warehouse)
    assert known(feed) == before


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("table", ["posts", "brand_new"])
def test_a_commit_that_was_not_mirrored_is_rebuilt_from_what_the_database_knows(
    feed, control_url, warehouse, clicks_of, monkeypatch, open_store, table
):
    with monkeypatch.context() as patched:
        patched.setattr("seamark.tables.write.publish.mirror_head", lambda *_: None)  # killed after the commit
        feed.table(table, "number long").append(clicks_of(4))
    before = known(feed)

    DataStore.rebuild(control_url, warehouse)

    assert known(feed) == before
    store = open_store()
    assert [healed.table for healed in store.healed] == [table]
    assert store.verify().ok


@pytest.mark.scenario("T45")
def test_what_the_database_knows_counts_only_if_the_blocks_are_there_and_lead_to_the_mirrored_head(
    feed, control_url, warehouse, clicks_of
):
    posts = feed.table("posts")
    older = known(feed)
    posts.append(clicks_of(4))
    newest = feed.control.index.head("posts").head_hash
    (warehouse / "posts" / "refs" / "head").write_text(older["heads"]["posts"].head_hash)
    (warehouse / "posts" / "blocks" / newest).unlink()  # yesterday's copy of the warehouse beside today's database

    DataStore.rebuild(control_url, warehouse)

    assert known(feed) == older


@pytest.mark.scenario("T45")
def test_a_killed_run_is_in_the_way_for_an_hour(feed, control_url, warehouse, clock):
    before = known(feed)
    feed.control.staging.register("a killed one", [""])
    control = Control(control_url, clock=clock)
    with pytest.raises(StoreError, match="a killed one"):
        rebuild.rebuild_control(control, warehouse)
    clock.advance(hours=2)
    rebuild.rebuild_control(control, warehouse)
    control.close()
    assert known(feed) == before


# --- checkpoints that cannot be believed ------------------------------------------------------------------------------


def forget_failures(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"failed": []}))


def add_a_field(path):
    checkpoint = json.loads(path.read_text())
    checkpoint["failed"][0]["more"] = 1
    path.write_text(json.dumps(checkpoint))


CHANGES = {
    "its bytes were changed": forget_failures,
    "its bytes were changed, by a field": add_a_field,
    "it is empty": lambda path: path.write_bytes(b""),
    "it is missing": lambda path: path.unlink(),
}


@pytest.mark.scenario("L68")
@pytest.mark.parametrize("reason", CHANGES)
def test_a_checkpoint_that_is_not_its_blocks_is_named_and_nothing_is_taken_from_it(
    feed, control_url, warehouse, reason
):
    before = known(feed)
    head = feed.control.index.head("feed")
    checkpoint = feed.control.index.block_at("feed", head.data_block).checkpoint_hash
    CHANGES[reason](warehouse / "feed" / "checkpoints" / checkpoint)
    lose_everything(feed)

    report = DataStore.rebuild(control_url, warehouse)

    (lost,) = report.lost
    assert (lost.step, lost.table, lost.block, lost.checkpoint) == (STEP, "feed", head.data_block, checkpoint)
    assert lost.reason == reason.partition(",")[0]
    assert (report.failed_keys, report.positions) == (0, 2)
    assert known(feed) == before | {"failed": []}


@pytest.mark.scenario("L68")
def test_a_healthy_rebuild_has_lost_nothing(feed, control_url, warehouse):
    assert DataStore.rebuild(control_url, warehouse).lost == ()
