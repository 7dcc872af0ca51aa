from __future__ import annotations

import pytest

from seamark import ledger
from seamark.ledger import AddData, ExecuteTransform, ExecuteTransformInput, Op


@pytest.mark.scenario("L6")
def test_operations_have_their_numbers_and_signs():
    assert [(op.value, op.sign) for op in Op] == [(0, "+A"), (1, "-R"), (2, "-C"), (3, "+C")]
    assert Op(2) is Op.CORRECT_FROM


@pytest.mark.scenario("L13")
def test_the_last_offset_of_an_event_is_its_own_or_the_carried_one(rows):
    for event in (AddData, lambda **values: ExecuteTransform((), **values)):
        assert event().last_offset is None
        assert event(prev_offset=0).last_offset == 0
        assert event(new_data=rows(0, 0)).last_offset == 0
        assert event(prev_offset=9, new_data=rows(10, 19)).last_offset == 19
    assert rows(10, 19).num_records == 10


@pytest.mark.parametrize(
    ("source", "last_block", "last_offset", "num_records"),
    [
        (ExecuteTransformInput("a"), None, None, 0),
        (ExecuteTransformInput("a", None, "a1", None, 0), "a1", 0, 1),
        (ExecuteTransformInput("a", "a1", None, 99, None), "a1", 99, 0),
        (ExecuteTransformInput("a", "a1", "a2", 99, 109), "a2", 109, 10),
        (ExecuteTransformInput("a", "a2", "a3", 109, None), "a3", 109, 0),
    ],
)
def test_an_input_says_how_far_it_came(source, last_block, last_offset, num_records):
    assert (source.last_block, source.last_offset, source.num_records) == (last_block, last_offset, num_records)


def test_everything_public_is_named():
    assert all(hasattr(ledger, name) for name in ledger.__all__)
    assert callable(ledger.logical_hash)
