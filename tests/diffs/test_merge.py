"""How two pieces of knowledge become one, and what of them can be taken back: every rule."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from seamark.diffs.compute.merge import DEFAULT_RULE, RULES, MergeColumn

LONG, INT, TEXT, DOUBLE = pa.int64(), pa.int32(), pa.string(), pa.float64()
LIST, MONEY = pa.list_(pa.int64()), pa.decimal128(10, 2)


def longer(older: Any, newer: Any) -> Any:
    return F.when(F.length(newer) > F.length(older), newer).otherwise(older)


def one_after_another(older: Any, newer: Any) -> Any:
    return older * 10 + newer


# rule, type, older, newer, what is known then
PAIRS = [
    ("keep", TEXT, "a", "b", "a"),
    ("overwrite", TEXT, "a", "b", "b"),
    ("sum", LONG, 2, 3, 5),
    ("sum", INT, 2, 3, 5),
    ("sum", DOUBLE, 0.5, 0.25, 0.75),
    ("sum", MONEY, Decimal("1.10"), Decimal("2.05"), Decimal("3.15")),
    ("min", LONG, 2, 3, 2),
    ("max", LONG, 2, 3, 3),
    ("max", TEXT, "b", "a", "b"),
    ("append", LIST, [1, 2], [2, 3], [1, 2, 2, 3]),
    ("append", LIST, [], [1], [1]),
    (longer, TEXT, "long", "no", "long"),
    (longer, TEXT, "no", "long", "long"),
    (one_after_another, INT, 1, 2, 12),
]


def typed(column: MergeColumn, value: Any) -> Any:
    made = F.array(*map(F.lit, value)) if isinstance(value, list) else F.lit(value)
    return made.cast(column.spark_type)


def test_every_rule_over_two_values_and_over_a_null_on_either_side(spark):
    """One job for all of them. A NULL is no news: the other side stands, whatever the rule."""
    cases = []
    for rule, kind, older, newer, both in PAIRS:
        column = MergeColumn("x", kind, rule)
        nothing = F.lit(None).cast(column.spark_type)
        cases += [
            (column.merged(typed(column, older), typed(column, newer)), both),
            (column.merged(nothing, typed(column, newer)), newer),
            (column.merged(typed(column, older), nothing), older),
            (column.merged(nothing, nothing), None),
        ]
    row = spark.range(1).select(*[made.alias(f"c{place}") for place, (made, _) in enumerate(cases)]).collect()[0]
    for place, (found, (_, wanted)) in enumerate(zip(row, cases, strict=True)):
        assert found == wanted, (PAIRS[place // 4], place % 4)


def test_every_rule_is_told_of_here():
    assert {rule for rule, *_ in PAIRS if isinstance(rule, str)} == set(RULES)
    assert DEFAULT_RULE == "overwrite"


def test_a_sum_has_the_type_of_its_column(spark):
    """Spark widens what it adds; the state's column does not change its type."""
    for kind in (INT, MONEY, pa.float32()):
        column = MergeColumn("x", kind, "sum")
        one = F.lit(1).cast(column.spark_type)
        frame = spark.range(1).select(column.merged(one, one).alias("two"))
        assert frame.schema["two"].dataType.simpleString() == column.spark_type


# --- taking back ------------------------------------------------------------------------------------------------------

# rule, type, what stands, what is taken back, what is left
TAKEN_BACK = [
    ("sum", LONG, 15, 10, 5),
    ("sum", INT, None, 10, -10),
    ("sum", INT, 5, None, 5),
    ("sum", MONEY, Decimal("3.15"), Decimal("2.05"), Decimal("1.10")),
    ("sum", INT, None, -(2**31), None),  # it does not fit the column
    ("overwrite", TEXT, "b", "a", "b"),
    ("keep", TEXT, "a", "a", "a"),
    (longer, TEXT, "long", "long", "long"),
]


def test_only_out_of_a_sum_is_anything_taken_back(spark):
    made = []
    for place, (rule, kind, stands, value, _) in enumerate(TAKEN_BACK):
        column = MergeColumn("x", kind, rule)
        made.append(column.undone(typed(column, stands), typed(column, value)).alias(f"c{place}"))
    assert tuple(spark.range(1).select(*made).collect()[0]) == tuple(left for *_, left in TAKEN_BACK)


def test_which_side_is_the_older_one_matters_where_the_rule_says_so():
    told = {rule: MergeColumn("x", LONG, rule).has_sides for rule in (*RULES, longer)}
    assert {rule for rule, matters in told.items() if not matters} == {"sum", "min", "max"}


@pytest.mark.parametrize(("rule", "wanted"), [("longer", "longer"), (longer, "longer"), (max, "max")])
def test_a_rule_is_named_as_people_read_it(rule, wanted):
    assert MergeColumn("x", TEXT, rule).rule_name == wanted
