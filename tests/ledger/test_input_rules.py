from __future__ import annotations

from datetime import UTC, datetime

import pytest

from seamark import ledger
from seamark.errors import ChainRuleBroken
from seamark.ledger import ExecuteTransform, InputPosition, SetDataSchema, SetTransform, SqlQueryStep, TransformSql
from seamark.ledger import ExecuteTransformInput as Input
from seamark.ledger import TransformInput as Declared

A, B, C = (ledger.new_dataset_id() for _ in range(3))
SQL = TransformSql("spark", queries=(SqlQueryStep(None, "SELECT * FROM a"),))
SCHEMA = ledger.DataSchema((ledger.DataField("id", ledger.DataTypeInt64()),))


def block(name: str) -> str:
    """The hash of a block of an input's chain."""
    return ledger.multihash(name.encode())


def declare(*dataset_ids):
    return SetTransform(tuple(Declared(dataset_id, f"in{n}") for n, dataset_id in enumerate(dataset_ids)), SQL)


@pytest.fixture
def unstarted(empty_chain):
    """A derived chain that has no transformation yet."""
    return empty_chain.add(ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.DERIVATIVE), SetDataSchema(SCHEMA))


@pytest.fixture
def derived(unstarted):
    """A derived chain with the one input A."""
    return unstarted.add(declare(A))


@pytest.fixture
def started(derived, rows):
    """The same after 100 records of A, in its block a1."""
    return derived.add(ExecuteTransform((Input(A, None, block("a1"), None, 99),), new_data=rows(0, 99)))


def step(*inputs, **values):
    return ExecuteTransform(inputs, **({"prev_offset": 99} | values))


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L28")
def test_the_first_run_takes_an_input_from_its_beginning(started):
    assert started.state.inputs == (InputPosition(A, block("a1"), 99),)
    assert started.state.last_offset == 99


@pytest.mark.scenario("L29")
def test_the_next_run_goes_on(started, rows):
    started.add(step(Input(A, block("a1"), block("a2"), 99, 109), new_data=rows(100, 109)))
    assert started.state.inputs == (InputPosition(A, block("a2"), 109),)
    assert started.state.last_offset == 109


@pytest.mark.scenario("L30")
def test_an_input_that_moves_only_its_watermark_moves_the_chain(started):
    started.add(step(Input(A, block("a1"), block("a3"), 99, None)))
    assert started.state.inputs == (InputPosition(A, block("a3"), 99),)
    assert started.state.last_offset == 99


@pytest.mark.scenario("L33")
def test_an_idle_input_carries_its_position_on(unstarted):
    unstarted.add(declare(A, B))
    unstarted.add(ExecuteTransform((Input(A, None, block("a0"), None, 0), Input(B, None, block("b7"), None, 41))))
    for run in range(1, 50):
        busy = Input(A, block(f"a{run - 1}"), block(f"a{run}"), run - 1, run)
        unstarted.add(ExecuteTransform((busy, Input(B, block("b7"), None, 41, None))))
    idle = Input(A, block("a49"), None, 49, None)
    unstarted.add(ExecuteTransform((idle, Input(B, block("b7"), block("b8"), 41, 44))))
    assert unstarted.state.input(B) == InputPosition(B, block("b8"), 44)
    assert unstarted.state.input(C) == InputPosition(C)


@pytest.mark.scenario("L45")
def test_further_blocks_of_a_commit_repeat_the_positions(started, rows):
    started.add(step(Input(A, block("a1"), None, 99, None), new_data=rows(100, 199)))
    assert started.state.inputs == (InputPosition(A, block("a1"), 99),)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L35")
@pytest.mark.parametrize("dataset_ids", [(B, A), (A,), (A, A), (A, B, C), (A, B, B), (A, C)])
def test_inputs_are_the_declared_ones_in_order(unstarted, dataset_ids):
    unstarted.add(declare(A, B))
    with pytest.raises(ChainRuleBroken) as refused:
        unstarted.offer(ExecuteTransform(tuple(Input(each, None, block("x"), None, 0) for each in dataset_ids)))
    assert refused.value.rule == "queryInputs"
    assert refused.value.expected == f"in0 ({A}), in1 ({B})"
    assert all(dataset_id in refused.value.found for dataset_id in dataset_ids)


@pytest.mark.scenario("L35")
def test_inputs_declared_by_name_are_counted_and_then_stay(unstarted):
    unstarted.add(declare("posts", "profiles"))
    with pytest.raises(ChainRuleBroken, match="expected posts, profiles"):
        unstarted.offer(ExecuteTransform((Input(A, None, block("a1"), None, 0),)))
    with pytest.raises(ChainRuleBroken, match="queryInputs"):
        unstarted.offer(ExecuteTransform((Input(A, None, block("a1"), None, 0), Input(A))))
    unstarted.add(ExecuteTransform((Input(A, None, block("a1"), None, 0), Input(B))))
    with pytest.raises(ChainRuleBroken, match="queryInputs"):
        unstarted.offer(ExecuteTransform((Input(B, None, block("b1"), None, 0), Input(A, block("a1"), None, 0))))


@pytest.mark.scenario("L36")
@pytest.mark.parametrize(
    ("source", "rule", "expected", "found"),
    [
        (Input(A, block("a1"), block("a2"), 98, 109), "prevOffset", 99, 98),
        (Input(A, block("a1"), block("a2"), None, 109), "prevOffset", 99, None),
        (Input(A, block("a1"), block("a2"), 99, 99), "newOffset", "more than 99, or null", 99),
        (Input(A, block("a1"), block("a2"), 99, 90), "newOffset", "more than 99, or null", 90),
        (Input(A, block("a1"), None, 99, 109), "newBlockHash", "the block with record 109", None),
        (Input(A, block("a0"), block("a2"), 99, 109), "prevBlockHash", block("a1"), block("a0")),
        (Input(A, None, block("a2"), None, 109), "prevBlockHash", block("a1"), None),
        (
            Input(A, block("a1"), block("a1"), 99, None),
            "newBlockHash",
            "another block than prevBlockHash, or null",
            block("a1"),
        ),
    ],
)
def test_an_input_goes_on_from_where_it_was(started, source, rule, expected, found):
    with pytest.raises(ChainRuleBroken) as refused:
        started.offer(step(source))
    assert refused.value.rule == f"{rule} of input in0 ({A})"
    assert (refused.value.expected, refused.value.found) == (expected, found)


@pytest.mark.scenario("L37")
@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (Input(A, None, block("a1"), 5, 99), "prevOffset"),
        (Input(A, block("a0"), block("a1"), None, 99), "prevBlockHash"),
        (Input(A, None, None, None, 99), "newBlockHash"),
    ],
)
def test_the_very_first_run_cannot_claim_a_past(derived, source, rule):
    with pytest.raises(ChainRuleBroken, match=f"{rule} of input in0"):
        derived.offer(ExecuteTransform((source,)))


@pytest.mark.scenario("L38")
def test_moving_only_the_inputs_is_a_change_and_nothing_is_none(derived):
    derived.add(ExecuteTransform((Input(A, None, block("a1")),)))
    assert derived.state.inputs == (InputPosition(A, block("a1"), None),)
    with pytest.raises(ChainRuleBroken, match="ExecuteTransform that changes nothing"):
        derived.offer(ExecuteTransform((Input(A, block("a1")),)))
    derived.add(ExecuteTransform((Input(A, block("a1"), block("a2"), None, 0),)))
    assert derived.state.inputs == (InputPosition(A, block("a2"), 0),)


@pytest.mark.scenario("L40")
def test_a_transformation_must_be_defined_before_it_is_executed(unstarted):
    with pytest.raises(ChainRuleBroken, match="expected a SetTransform before it, found none"):
        unstarted.offer(ExecuteTransform((Input(A, None, block("a1")),)))


@pytest.mark.parametrize("watermark", [None, datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_derived_chain_keeps_its_watermark_too(derived, watermark):
    derived.add(ExecuteTransform((Input(A, None, block("a1")),), new_watermark=datetime(2020, 1, 2, tzinfo=UTC)))
    with pytest.raises(ChainRuleBroken, match="newWatermark"):
        derived.offer(ExecuteTransform((Input(A, block("a1"), block("a2")),), new_watermark=watermark))


# --- a definition that is written again -------------------------------------------------------------------------------


@pytest.mark.scenario("L41")
def test_after_a_new_definition_an_input_may_start_over_once(started, rows):
    started.add(declare(A))
    assert started.state.transform_is_new
    started.add(step(Input(A, None, block("other"), None, 5), new_data=rows(100, 105)))
    assert started.state.inputs == (InputPosition(A, block("other"), 5),)
    with pytest.raises(ChainRuleBroken, match="prevBlockHash of input"):
        started.offer(step(Input(A, None, block("again"), None, 7), prev_offset=105))


@pytest.mark.scenario("L41")
def test_after_a_new_definition_an_input_may_go_on(started):
    started.add(declare(A))
    assert started.add(step(Input(A, block("a1"), block("a2"), 99, 120))).state.input(A).offset == 120


@pytest.mark.scenario("L41")
@pytest.mark.parametrize("prev", [(None, 99), (None, 5), ("a0", 99), ("a1", 98), ("a1", None)])
def test_after_a_new_definition_an_input_may_not_start_anywhere_else(started, prev):
    started.add(declare(A))
    prev_block, prev_offset = prev
    with pytest.raises(ChainRuleBroken, match="of input in0"):
        started.offer(step(Input(A, prev_block and block(prev_block), block("a2"), prev_offset, 120)))


def test_a_new_definition_may_have_other_inputs(started):
    started.add(declare(B, A))
    started.add(step(Input(B, None, block("b1"), None, 3), Input(A, block("a1"), None, 99)))
    assert started.state.inputs == (InputPosition(B, block("b1"), 3), InputPosition(A, block("a1"), 99))
