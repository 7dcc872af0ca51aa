"""Values of a joined column in the type of the other side: the same value, or none."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.transforms.keys.hops import fitting

pytestmark = pytest.mark.scenario("X103")


def fitted(values, kind, wanted):
    table = pa.table({"v": pa.array(values, kind), "place": pa.array(range(len(values)))})
    found = fitting(table, {"v": wanted})
    assert found.column("v").type == wanted
    return dict(zip(found.column("place").to_pylist(), found.column("v").to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("values", "kind", "wanted", "kept"),
    [
        ([1, -5, 10**10], pa.int64(), pa.decimal128(10, 0), {0: Decimal(1), 1: Decimal(-5)}),
        ([1, 2], pa.int32(), pa.decimal128(20, 2), {0: Decimal("1.00"), 1: Decimal("2.00")}),
        ([Decimal("1.00"), Decimal("1.50")], pa.decimal128(12, 2), pa.int64(), {0: 1}),
        ([Decimal(1), Decimal(2**40)], pa.decimal128(20, 0), pa.int32(), {0: 1}),
        ([1, 2**40], pa.int64(), pa.int32(), {0: 1}),
        ([Decimal("1.50"), Decimal("1.55")], pa.decimal128(12, 2), pa.decimal128(5, 1), {0: Decimal("1.5")}),
    ],
)
def test_a_value_that_the_other_type_cannot_hold_equals_nothing(values, kind, wanted, kept):
    assert fitted(values, kind, wanted) == kept


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(1, 38), st.data())
def test_whole_numbers_and_decimals_keep_their_value(values, digits, data):
    scale = data.draw(st.integers(0, digits))
    found = fitted(values, pa.int64(), pa.decimal128(digits, scale))
    for place, value in enumerate(values):
        if abs(value) < 10 ** (digits - scale):
            assert found[place] == value
        else:
            assert place not in found
