"""Slices that are not what their block says are refused at the commit, and nothing changes."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.clock import commit_time
from seamark.control import RunRecord
from seamark.errors import ChainRuleBroken, ObjectMissing
from seamark.ledger import AddData
from seamark.ledger.chain import ChainDraft
from seamark.ledger.events import Checkpoint
from seamark.ledger.logical_hash import LogicalHasher
from seamark.ledger.objects import PendingFile
from seamark.tables.write import commit_checks
from seamark.tables.write.publish import add_data, plan_table, publish
from seamark.tables.write.slices import SliceInfo
from seamark.tables.write.writing import writing


@pytest.fixture
def clicks(open_store, clicks_of):
    """A table with the records 0 and 1."""
    table = open_store().table("clicks", "number long")
    table.append(clicks_of(1, 2))
    return table


def hand_written(folder, schema, offsets, moment, *, declared):
    """A slice with these offsets, that is declared to hold others; both its hashes are right."""
    count = len(offsets)
    times = pa.array([moment] * count, schema.slice.field("system_time").type)
    columns = [pa.array(offsets), pa.array([0] * count, pa.int32()), times, times, pa.array(range(count), pa.int64())]
    records = pa.Table.from_arrays(columns, schema=schema.slice)
    hasher = LogicalHasher(records.schema)
    for batch in records.to_batches():
        hasher.update(batch)
    pending = PendingFile(folder)
    with pa.PythonFile(pending, mode="w") as sink:
        pq.write_table(records, sink, store_schema=False)
    name = pending.finish()
    return SliceInfo(hasher.text(), name, pending.size, declared[0], declared[1], None)


def commit_by_hand(table, offsets, declared):
    context = table.source.context
    planned = plan_table(context, table.name)
    draft = ChainDraft(planned.state, commit_time(context.clock, planned.state.system_time))
    with writing(context) as run:
        piece = hand_written(run.folder_of(table.name), table.schema, offsets, draft.system_time, declared=declared)
        run.adopt_slices(planned.files, [piece])
        add_data(draft, [piece])
        publish(context, run, RunRecord(run.run_id, "clicks", "x", 0.0), [(planned, draft)])


WRONG = {
    "more records than declared": ([2, 3, 4, 5, 6], (2, 2), "records in the slice: expected 1, found 5", "records"),
    "fewer records than declared": ([2, 3], (2, 4), "records in the slice: expected 3, found 2", "records"),
    "a gap": ([2, 3, 5], (2, 4), "offsets in the slice: expected 2 to 4 with step 1, found 2 to 5", "offsets"),
    "out of order": ([2, 4, 3], (2, 4), "offsets in the slice: expected 2 to 4 with step 1", "offsets"),
    "first and last right": ([2, 2, 4], (2, 4), "offsets in the slice: expected 2 to 4 with step 1", "offsets"),
    "backwards": ([4, 3, 2], (2, 4), "offsets in the slice: expected 2 to 4 with step 1", "offsets"),
    "starting late": ([3, 4], (2, 3), "offsets in the slice: expected 2 to 3 with step 1, found 3 to 4", "offsets"),
    "one single wrong one": ([7], (2, 2), "offsets in the slice: expected 2 to 2 with step 1, found 7 to 7", "offsets"),
}


@pytest.mark.scenario("L26")
@pytest.mark.parametrize("what", WRONG)
def test_a_slice_with_other_offsets_than_declared_is_refused(clicks, open_store, what):
    offsets, declared, text, _ = WRONG[what]
    before = clicks.head
    with pytest.raises(ChainRuleBroken, match=f"table 'clicks': {text}"):
        commit_by_hand(clicks, offsets, declared)
    assert clicks.head == before
    store = open_store()
    assert len(store.control.index.runs()) == 1
    assert store.verify().ok


@pytest.mark.scenario("L26")
@pytest.mark.parametrize("what", WRONG)
def test_put_into_place_all_the_same_it_is_found_by_verify(clicks, open_store, what, monkeypatch):
    offsets, declared, _, kind = WRONG[what]
    monkeypatch.setattr(commit_checks, "check_slice_offsets", lambda *_: None)
    commit_by_hand(clicks, offsets, declared)
    findings = open_store().verify("clicks").findings
    assert kind in {finding.kind for finding in findings}
    assert {(finding.table, finding.block) for finding in findings} == {("clicks", clicks.head.block_hash)}


def test_a_right_slice_by_hand_is_accepted(clicks, open_store):
    commit_by_hand(clicks, [2, 3, 4], (2, 4))
    assert clicks.head.offset == 4
    assert open_store().verify().ok


@pytest.mark.scenario("L26")
def test_an_interval_that_does_not_follow_on_is_refused(clicks):
    before = clicks.head
    with pytest.raises(ChainRuleBroken, match=r"offsetInterval.start: expected 2, found 3"):
        commit_by_hand(clicks, [3, 4], (3, 4))
    assert clicks.head == before


@pytest.mark.scenario("L27")
@pytest.mark.parametrize("kind", ["data", "checkpoint"])
def test_a_block_that_names_a_file_that_is_not_there_is_refused(clicks, open_store, kind):
    context = clicks.source.context
    planned = plan_table(context, "clicks")
    draft = ChainDraft(planned.state, commit_time(context.clock, planned.state.system_time))
    missing = planned.head.head_hash  # a good name, but of no slice and no checkpoint
    if kind == "data":
        add_data(draft, [SliceInfo(missing, missing, 10, 2, 2, None)])
    else:
        draft.add(AddData(prev_offset=1, new_checkpoint=Checkpoint(missing, 10)))
    before = clicks.head
    with writing(context) as run, pytest.raises(ObjectMissing, match=f"the {kind} object {missing} is not in"):
        publish(context, run, RunRecord(run.run_id, "clicks", "x", 0.0), [(planned, draft)])
    assert clicks.head == before
    assert open_store().verify().ok


def test_one_run_may_publish_several_times(clicks, clicks_of, open_store):
    context = clicks.source.context
    with writing(context) as run:
        for offset in (2, 3):
            planned = plan_table(context, "clicks")
            draft = ChainDraft(planned.state, commit_time(context.clock, planned.state.system_time))
            piece = hand_written(
                run.folder_of(clicks.name), clicks.schema, [offset], draft.system_time, declared=(offset, offset)
            )
            run.adopt_slices(planned.files, [piece])
            add_data(draft, [piece])
            publish(context, run, RunRecord(run.run_id, "clicks", "x", 0.0), [(planned, draft)])
    assert clicks.head.offset == 3
    assert open_store().verify().ok
