"""Planning and drafting a commit: times, watermarks, and how little is read for it."""

from datetime import UTC, datetime, timedelta

import pytest

from seamark import DataStore
from seamark.clock import MILLISECOND, commit_time
from seamark.control import Mode, RunRecord
from seamark.errors import ChainRuleBroken
from seamark.ledger import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    SetTransform,
    SourceState,
    SqlQueryStep,
    TransformInput,
    TransformSql,
    check_append,
    new_dataset_id,
)
from seamark.ledger.chain import ChainDraft, walk_back
from seamark.ledger.codec import block_hash
from seamark.ledger.events import ExecuteTransformInput
from seamark.ledger.objects import ChainFiles, Objects
from seamark.tables.write.change import LocalChange, NoRecords, appended_rows
from seamark.tables.write.publish import (
    Planned,
    add_data,
    begin_chain,
    data_slice,
    declare_schema,
    plan_table,
    publish,
)
from seamark.tables.write.slices import write_slice
from seamark.tables.write.write_change import Advance, write_change
from seamark.tables.write.writing import writing


def commit_times(store: DataStore, table: str) -> list[datetime]:
    """The system time of each block, oldest first."""
    return [entry.system_time for entry in reversed(store.control.index.blocks(table))]


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of all objects that are read from now on."""
    names: list[str] = []
    read = Objects.read

    def counted(objects: Objects, name: str) -> bytes:
        names.append(name)
        return read(objects, name)

    monkeypatch.setattr(Objects, "read", counted)
    return names


@pytest.fixture
def unsafe(monkeypatch) -> None:
    """Thousands of files need not survive a power cut here."""
    monkeypatch.setattr("seamark.ledger.objects.os.fsync", lambda _: None)


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L56")
def test_every_commit_is_later_than_the_one_before_whatever_the_clock_does(open_store, clock, clicks_of):
    store = open_store(clock=clock, block_rows=2)
    clicks = store.table("clicks", "number long")
    start = clock.now().replace(microsecond=clock.now().microsecond // 1000 * 1000)
    clicks.append(clicks_of(1, 2, 3))  # Seed, schema and two blocks of data
    clicks.append(clicks_of(4))  # the clock stands still
    clock.advance(hours=-5)
    clicks.append(clicks_of(5))  # it went back
    clicks.set_watermark(datetime(2020, 1, 1, tzinfo=UTC))
    store.table("clicks", "number long, page string")
    store.run()  # the new column is committed
    clock.advance(hours=6)
    store.table("clicks").set_watermark(datetime(2021, 1, 1, tzinfo=UTC))

    steps = [(moment - start) / MILLISECOND for moment in commit_times(store, "clicks")]
    assert steps == [0, 0, 0, 0, 1, 2, 3, 4, timedelta(hours=1) / MILLISECOND]
    assert store.verify().ok


# --- watermarks and source states -------------------------------------------------------------------------------------


@pytest.mark.scenario("L19")
def test_a_watermark_moves_forward_only(open_store):
    store = open_store()
    clicks = store.table("clicks", "number long")
    found = []
    for day in (1, 2, 3, 3, 2):
        clicks.set_watermark(datetime(2020, 1, day, tzinfo=UTC))
        found.append(len(store.control.index.blocks("clicks")))
    assert found == [3, 4, 5, 5, 5]  # Seed, schema and the first watermark
    assert plan_table(clicks.source.context, "clicks").state.watermark == datetime(2020, 1, 3, tzinfo=UTC)


def etag(value: str) -> SourceState:
    return SourceState("clicks", "odf/etag", value)


@pytest.mark.scenario("L16")
@pytest.mark.scenario("L17")
def test_only_a_new_source_state_or_watermark_makes_a_block_without_data(open_store, clicks_of):
    store = open_store()
    clicks = store.table("clicks", "number long")
    three = datetime(2020, 1, 1, 3, tzinfo=UTC)
    write_change(
        clicks.source,
        Mode.FEED,
        lambda _: LocalChange(appended_rows(clicks_of(1, 2))),
        Advance(three, source_state=etag("a")),
    )

    moved = write_change(clicks.source, Mode.FEED, lambda _: NoRecords(), Advance(source_state=etag("b")))

    block = ChainFiles(store.warehouse / "clicks").block(clicks.head.block_hash)
    assert (moved.blocks, block.sequence_number) == (1, 3)
    assert block.event == AddData(prev_offset=1, new_watermark=three, new_source_state=etag("b"))
    for _ in range(2):
        same = Advance(three, source_state=etag("b"))
        assert write_change(clicks.source, Mode.FEED, lambda _: NoRecords(), same) is None
    assert clicks.head.sequence == 3
    state = plan_table(clicks.source.context, "clicks").state
    with pytest.raises(ChainRuleBroken, match="empty event"):
        ChainDraft(state, state.system_time).add(block.event)


# --- how little is read -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("L59")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_planning_reads_three_blocks_after_ten_thousand(open_store, clicks_of, unsafe, reads):
    store = open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    context = clicks.source.context
    planned = plan_table(context, "clicks")
    draft = ChainDraft(planned.state, commit_time(context.clock, planned.state.system_time))
    for minute in range(10_000):
        add_data(draft, [], watermark=datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=minute))
    with writing(context) as run:
        publish(context, run, RunRecord(run.run_id, "clicks", "feed", 0.0), [(planned, draft)])
    grown = store.table("clicks", "number long, page string")
    store.run()
    assert grown.head.sequence == 10_003
    reads.clear()

    planned = plan_table(context, "clicks")

    assert len(reads) == len(set(reads)) <= 3
    assert planned.state == replayed(planned)
    assert planned.next_offset == 1
    reads.clear()
    assert grown.append(clicks_of(2).append_column("page", [["front"]])).first_offset == 1
    assert len(reads) <= 3


def replayed(planned: Planned) -> object:
    """The state as the whole chain gives it."""
    state = None
    for name, block in reversed(list(walk_back(planned.files, planned.head.head_hash))):
        state = check_append(state, block, name)
    return state


@pytest.mark.scenario("L32")
def test_a_thousand_batches_of_which_two_gave_output_are_planned_from_three_blocks(
    open_store, clicks_of, unsafe, reads, monkeypatch
):
    monkeypatch.setattr("seamark.tables.write.commit_checks._check_inputs", lambda *_: None)  # the inputs are made up
    store = open_store()
    context = store.table("feed", "number long").source.context
    schema = store.table("feed").schema
    planned = plan_table(context, "feed")
    posts = new_dataset_id()
    hashes = [None, *[block_hash(str(number).encode()) for number in range(1000)]]
    ends = []
    draft = ChainDraft(None, commit_time(context.clock, None))
    begin_chain(draft, DatasetKind.DERIVATIVE)
    queries = (SqlQueryStep("process_posts", "{}"), SqlQueryStep(None, "SELECT 1"))
    draft.add(SetTransform((TransformInput(posts, "posts"),), TransformSql("seamark", queries=queries)))
    declare_schema(draft, schema)
    with writing(context) as run:
        for number in range(1000):
            state = draft.state
            piece = None
            if number in (10, 500):
                records = appended_rows(clicks_of(number, number))
                piece = write_slice(run.folder_of("feed"), schema, records, state.next_offset, draft.system_time)
                run.adopt_slices(planned.files, [piece])
            taken = ExecuteTransformInput(
                posts, hashes[number], hashes[number + 1], number - 1 if number else None, number
            )
            new_data = data_slice(piece) if piece else None
            draft.add(ExecuteTransform((taken,), state.checkpoint, state.last_offset, new_data=new_data))
            ends.append(draft.blocks[-1].block.event.prev_offset)
        publish(context, run, RunRecord(run.run_id, "feed", "x", 0.0), [(planned, draft)])

    assert ends == [None] * 11 + [1] * 490 + [3] * 499
    reads.clear()
    planned = plan_table(context, "feed")
    assert len(reads) <= 3
    assert planned.state == replayed(planned)
    assert (planned.next_offset, planned.state.input(posts).offset) == (4, 999)
    kinds = [entry.kind for entry in store.control.index.blocks("feed") if entry.slice_hash is None]
    assert kinds.count("ExecuteTransform") == 998
    assert {finding.kind for finding in store.verify().findings} == {"input"}  # no such table; all else is well
