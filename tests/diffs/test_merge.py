"""How two pieces of knowledge become one: every rule over two values, and over a visit's records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from seamark.diffs.merge import DEFAULT_RULE, RULES, MergeColumn, Record

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


# --- the records of a visit -------------------------------------------------------------------------------------------

NEWS, UNDONE, NEITHER = "news", "undone", "neither"

# visit, offset, what it is, number, text, list; not in the order of their offsets
RECORDS = [
    ("in order", 2, NEWS, 5, "b", [2]),
    ("in order", 1, NEWS, 3, "a", [1, 1]),
    ("in order", 3, NEWS, 4, "c", [3]),
    ("with nulls", 3, NEWS, None, None, None),
    ("with nulls", 1, NEWS, None, None, None),
    ("with nulls", 2, NEWS, 7, "only", [7]),
    ("nothing", 1, NEWS, None, None, None),
    ("not mine", 1, NEITHER, 9, "other", [9]),
    ("corrected", 1, UNDONE, 10, "before", None),
    ("corrected", 2, NEWS, 15, "after", None),
    ("taken back", 1, UNDONE, 10, "before", None),
]
WANTED = {
    "in order": {"keep": "a", "overwrite": "c", "sum": 12, "min": 3, "max": 5, "append": [1, 1, 2, 3], "own": 354},
    "with nulls": {"keep": "only", "overwrite": "only", "sum": 7, "min": 7, "max": 7, "append": [7], "own": 7},
    "nothing": dict.fromkeys(["keep", "overwrite", "sum", "min", "max", "append", "own"]),
    "not mine": dict.fromkeys(["keep", "overwrite", "sum", "min", "max", "append", "own"]),
    "corrected": {
        "keep": "after",
        "overwrite": "after",
        "sum": 5,
        "min": 15,
        "max": 15,
        "append": None,
        "own": 15,
    },
    "taken back": dict.fromkeys(["keep", "overwrite", "min", "max", "append", "own"]) | {"sum": -10},
}
TAKES = {"keep": ("text", TEXT), "overwrite": ("text", TEXT), "append": ("list", LIST)}


def test_every_rule_over_the_records_of_a_visit_in_their_order(spark):
    frame = spark.createDataFrame(
        RECORDS, "visit string, offset long, kind string, number long, text string, list array<long>"
    ).repartition(5, "offset")
    record = Record(F.col("offset"), F.col("kind") == NEWS, F.col("kind") == UNDONE)
    made = []
    for rule in (*RULES, "own"):
        column, kind = TAKES.get(rule, ("number", LONG))
        merged = MergeColumn(column, kind, one_after_another if rule == "own" else rule)
        made.append(merged.from_records(F.col(column), record).alias(rule))

    found = {row.visit: row.asDict() for row in frame.groupBy("visit").agg(*made).collect()}

    assert {visit: {rule: told[rule] for rule in told if rule != "visit"} for visit, told in found.items()} == WANTED


def test_floats_are_added_in_the_order_of_the_records(spark):
    """In another order the small number survives: (1e16 + 1.0) - 1e16 is 0.0, and (1e16 - 1e16) + 1.0 is 1.0."""
    rows = [(visit, offset, value) for visit in range(8) for offset, value in enumerate([1e16, 1.0, -1e16])]
    frame = spark.createDataFrame(list(reversed(rows)), "visit long, offset long, x double").repartition(7)
    record = Record(F.col("offset"), F.lit(True), F.lit(False))
    column = MergeColumn("x", DOUBLE, "sum")

    told = frame.groupBy("visit").agg(column.from_records(F.col("x"), record).alias("x")).collect()

    assert [row.x for row in told] == [0.0] * 8


@pytest.mark.parametrize(("rule", "wanted"), [("longer", "longer"), (longer, "longer"), (max, "max")])
def test_a_rule_is_named_as_people_read_it(rule, wanted):
    assert MergeColumn("x", TEXT, rule).rule_name == wanted
