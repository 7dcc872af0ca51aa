from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark import ledger
from seamark.errors import ChainRuleBroken, InvalidIdentifier
from seamark.ledger import AddData, Checkpoint, DatasetKind, ExecuteTransform, Seed, SourceState

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
THREE = datetime(2020, 1, 1, 3, tzinfo=UTC)
ETAG_A, ETAG_B = SourceState("posts", "odf/etag", "a"), SourceState("posts", "odf/etag", "b")


def refused(rule, expected, found):
    """Expects a refusal by this rule with these two values, all of which the text names."""

    class Refused:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _traceback):
            assert kind is ChainRuleBroken, f"expected a refusal, got {error!r}"
            assert (error.rule, error.expected, error.found) == (rule, expected, found)
            for value in (rule, expected, found):
                assert ("null" if value is None else str(value)) in str(error)
            return True

    return Refused()


# --- the offsets of a root chain --------------------------------------------------------------------------------------


@pytest.mark.scenario("L8")
def test_the_first_data_starts_at_zero(root, rows):
    root.add(AddData(new_data=rows(0, 9)))
    assert root.state.last_offset == 9
    assert root.state.next_offset == 10
    assert root.state.sequence == 2


@pytest.mark.scenario("L9")
def test_data_follows_on_without_a_gap(root, rows):
    root.add(AddData(new_data=rows(0, 9)))
    with refused("offsetInterval.start", 10, 11):
        root.offer(AddData(prev_offset=9, new_data=rows(11, 20)))
    assert root.add(AddData(prev_offset=9, new_data=rows(10, 19))).state.last_offset == 19


@pytest.fixture
def with_watermark(root, rows):
    """Records 0 to 19, then the watermark 03:00 without data."""
    root.add(AddData(new_data=rows(0, 9)), AddData(prev_offset=9, new_data=rows(10, 19)))
    return root.add(AddData(prev_offset=19, new_watermark=THREE))


@pytest.mark.scenario("L10")
def test_a_watermark_without_data_carries_the_offset_on(with_watermark, rows):
    assert with_watermark.state.last_offset == 19
    assert with_watermark.state.watermark == THREE
    with_watermark.add(AddData(prev_offset=19, new_data=rows(20, 24), new_watermark=THREE))
    assert with_watermark.state.last_offset == 24


@pytest.mark.scenario("L11")
def test_stale_offsets_are_refused(with_watermark, rows):
    with refused("prevOffset", 19, 9):
        with_watermark.offer(AddData(prev_offset=9, new_data=rows(10, 14), new_watermark=THREE))
    with refused("prevOffset", 19, None):
        with_watermark.offer(AddData(new_data=rows(0, 4), new_watermark=THREE))


@pytest.mark.scenario("L12")
def test_the_very_first_data_cannot_claim_a_past(root, rows):
    with refused("prevOffset", None, 5):
        root.offer(AddData(prev_offset=5, new_data=rows(6, 9)))


@pytest.mark.scenario("L13")
def test_offset_zero_is_a_record(root, rows):
    root.add(AddData(new_data=rows(0, 0)))
    assert root.state.last_offset == 0
    with refused("prevOffset", 0, None):
        root.offer(AddData(new_data=rows(0, 0)))
    assert root.add(AddData(prev_offset=0, new_data=rows(1, 3))).state.last_offset == 3


@pytest.mark.scenario("L14")
def test_an_interval_is_never_empty(root, rows):
    root.add(AddData(new_data=rows(0, 9)))
    with refused("offsetInterval.end", "10 or more", 9):
        root.offer(AddData(prev_offset=9, new_data=rows(10, 9)))


@pytest.mark.scenario("L15")
def test_data_needs_a_schema_and_a_source_state_does_not(seeded, rows):
    with refused("newData", "a SetDataSchema before the first data", "data without a schema"):
        seeded.offer(AddData(new_data=rows(0, 9)))
    assert seeded.add(AddData(new_source_state=ETAG_A)).state.source_state == ETAG_A


@given(counts=st.lists(st.integers(0, 5), max_size=12))
def test_offsets_of_any_run_of_events_have_no_gap(new_root, make_rows, counts):
    chain = new_root()
    total = 0
    for index, count in enumerate(counts):
        last = total - 1 if total else None
        data = make_rows(total, total + count - 1) if count else None
        chain.add(AddData(prev_offset=last, new_data=data, new_watermark=THREE + timedelta(index)))
        total += count
        assert chain.state.next_offset == total


# --- what else data events carry --------------------------------------------------------------------------------------


@pytest.mark.scenario("L16")
def test_an_event_that_changes_nothing_is_refused(root):
    empty = ("empty event", "new data, checkpoint, watermark or source state", "AddData that changes nothing")
    with refused(*empty):
        root.offer(AddData())
    root.add(AddData(new_watermark=THREE, new_source_state=ETAG_B))
    with refused(*empty):
        root.offer(AddData(new_watermark=THREE, new_source_state=ETAG_B))


@pytest.mark.scenario("L17")
def test_a_newer_source_state_alone_is_a_change(root):
    root.add(AddData(new_watermark=THREE, new_source_state=ETAG_A))
    root.add(AddData(new_watermark=THREE, new_source_state=ETAG_B))
    assert (root.state.source_state, root.state.watermark, root.state.last_offset) == (ETAG_B, THREE, None)


@pytest.mark.scenario("L18")
def test_a_source_state_is_never_dropped(root):
    root.add(AddData(new_watermark=THREE, new_source_state=ETAG_B))
    later = THREE + timedelta(hours=1)
    with refused("newSourceState", f"{ETAG_B} or a newer one", None):
        root.offer(AddData(new_watermark=later))
    assert root.add(AddData(new_watermark=later, new_source_state=ETAG_B)).state.source_state == ETAG_B


@pytest.mark.scenario("L20")
def test_a_watermark_is_never_dropped_and_never_goes_back(root, rows):
    new_year = datetime(2020, 1, 1, tzinfo=UTC)
    root.add(AddData(new_data=rows(0, 0), new_watermark=new_year))
    for watermark in (None, datetime(2019, 12, 31, tzinfo=UTC)):
        with refused("newWatermark", f"{new_year} or later", watermark):
            root.offer(AddData(prev_offset=0, new_data=rows(1, 1), new_watermark=watermark))
    root.add(AddData(prev_offset=0, new_data=rows(1, 1), new_watermark=new_year))
    assert root.state.watermark == new_year


@pytest.mark.scenario("L21")
def test_checkpoints_are_chained(root, rows, hash_of):
    c1, c2 = hash_of("c1"), hash_of("c2")
    with refused("prevCheckpoint", None, c1):
        root.offer(AddData(prev_checkpoint=c1, new_data=rows(0, 0)))
    root.add(AddData(new_data=rows(0, 0), new_checkpoint=Checkpoint(c1, 1)))
    root.add(AddData(prev_checkpoint=c1, prev_offset=0, new_checkpoint=Checkpoint(c2, 1)))
    for stale in (None, c1):
        with refused("prevCheckpoint", c2, stale):
            root.offer(AddData(prev_checkpoint=stale, prev_offset=0, new_data=rows(1, 1)))
    root.add(AddData(prev_checkpoint=c2, prev_offset=0, new_data=rows(1, 1)))
    with refused("prevCheckpoint", None, c2):
        root.offer(AddData(prev_checkpoint=c2, prev_offset=1, new_data=rows(2, 2)))
    root.add(AddData(prev_offset=1, new_data=rows(2, 2)))
    assert root.state.last_offset == 2


@pytest.mark.scenario("L21")
def test_the_same_checkpoint_again_is_no_change(root, hash_of):
    root.add(AddData(new_checkpoint=Checkpoint(hash_of("c1"), 1)))
    with pytest.raises(ChainRuleBroken, match="changes nothing"):
        root.offer(AddData(prev_checkpoint=hash_of("c1"), new_checkpoint=Checkpoint(hash_of("c1"), 1)))


# --- the block itself -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L22")
def test_time_may_stand_still_and_not_go_back(root, rows):
    earlier = NOON - timedelta(milliseconds=1)
    with refused("systemTime", f"{NOON} or later", earlier):
        root.offer(AddData(new_data=rows(0, 0)), system_time=earlier)
    assert root.offer(AddData(new_data=rows(0, 0)), system_time=NOON).system_time == NOON


@pytest.mark.scenario("L23")
def test_sequence_numbers_follow_on(root, rows):
    root.add(AddData(new_data=rows(0, 0)))
    event = AddData(prev_offset=0, new_data=rows(1, 1))
    for wrong in (2, 4, 0):
        with refused("sequenceNumber", 3, wrong):
            root.offer(event, sequence_number=wrong)
    assert root.offer(event, sequence_number=3).sequence == 3


@pytest.mark.scenario("L23")
def test_a_seed_has_nothing_before_it(empty_chain, hash_of):
    seed = Seed(ledger.new_dataset_id(), DatasetKind.ROOT)
    with refused("prevBlockHash of a Seed", None, hash_of("x")):
        empty_chain.offer(seed, prev_block_hash=hash_of("x"))
    with refused("sequenceNumber of a Seed", 0, 1):
        empty_chain.offer(seed, sequence_number=1)


@pytest.mark.scenario("L24")
def test_a_chain_begins_with_a_seed(empty_chain):
    with refused("first block", "a Seed", "AddData"):
        empty_chain.offer(AddData(new_watermark=THREE))


@pytest.mark.scenario("L24")
def test_there_is_one_seed(root):
    other = ledger.new_dataset_id()
    with refused(
        "event", f"any but a Seed: the chain is that of {root.state.dataset_id}", f"a second Seed, of {other}"
    ):
        root.offer(Seed(other, DatasetKind.ROOT))


@pytest.mark.scenario("L24")
def test_a_block_names_the_head(root, rows, hash_of):
    for other in (hash_of("unknown"), None):
        with refused("prevBlockHash", root.state.head, other):
            root.offer(AddData(new_data=rows(0, 0)), prev_block_hash=other)


@pytest.mark.scenario("L24")
def test_a_declared_hash_must_be_the_computed_one(root, rows, hash_of):
    block = root.next_block(AddData(new_data=rows(0, 0)))
    computed = ledger.block_hash(ledger.encode(block))
    with refused("block hash", hash_of("other"), computed):
        ledger.check_append(root.state, block, hash_of("other"))
    assert ledger.check_append(root.state, block, computed).head == computed
    assert ledger.check_append(root.state, block, "F" + computed[1:].upper()).head == computed


def test_hashes_may_be_written_in_upper_case(root, rows):
    head = root.state.head
    assert root.offer(AddData(new_data=rows(0, 0)), prev_block_hash="F" + head[1:].upper()).last_offset == 0


def test_a_block_that_cannot_be_written_is_refused(root):
    with pytest.raises(InvalidIdentifier):
        root.offer(AddData(prev_checkpoint="f1620"))


@pytest.mark.scenario("L25")
def test_data_events_fit_the_kind_of_the_chain(root, empty_chain, rows, hash_of):
    transform = ExecuteTransform((ledger.ExecuteTransformInput(ledger.new_dataset_id(), None, hash_of("a1")),))
    with refused("data event", f"AddData, as {root.state.dataset_id} is a root dataset", "ExecuteTransform"):
        root.offer(transform)
    derived_id = ledger.new_dataset_id()
    empty_chain.add(Seed(derived_id, DatasetKind.DERIVATIVE))
    with refused("data event", f"ExecuteTransform, as {derived_id} is a derivative dataset", "AddData"):
        empty_chain.offer(AddData(new_watermark=THREE))


def test_a_refusal_can_name_the_table(root, rows):
    with pytest.raises(ChainRuleBroken) as error:
        root.offer(AddData(prev_offset=5, new_data=rows(6, 9)))
    assert str(error.value.on("posts")) == (
        "table 'posts': prevOffset: expected null, found 5. The block was not appended."
    )


def test_a_refusal_leaves_the_state_as_it_was(root, rows):
    before = root.state
    with pytest.raises(ChainRuleBroken):
        root.add(AddData(prev_offset=5, new_data=rows(6, 9)))
    assert root.state == before


def test_the_state_after_the_seed_says_whose_chain_it_is(seeded):
    state = seeded.state
    assert (state.kind, state.sequence, state.last_offset, state.has_data_event) == (DatasetKind.ROOT, 0, None, False)
    assert seeded.add(AddData(new_watermark=THREE)).state.has_data_event
