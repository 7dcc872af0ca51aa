"""One interface for rows in memory and rows in Spark: both give the same, whatever the values and wherever they are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from seamark.spark.frames import spark_frame
from seamark.tables.frame import LocalFrame, SparkFrame, by_name, union_of
from seamark.tables.ordering import comparable

NAN = float("nan")
KINDS = {
    "long": (pa.int64(), [0, -1, 2**62]),
    "double": (pa.float64(), [0.0, -0.0, NAN, 1.5]),
    "string": (pa.string(), ["", "a", "A", "ü", "a\x00b"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff"]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 1, UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(2024, 3, 31, 2, 30), datetime(1500, 1, 1)]),
    "decimal": (pa.decimal128(20, 3), [Decimal("0.000"), Decimal("-1.500"), Decimal("99999999999999999.999")]),
}


@pytest.fixture
def session(spark):
    return lambda: spark


def table(kind: str, *, names=("key", "number"), every_second: bool = False) -> pa.Table:
    """Each value of a kind twice, with NULLs among them, and the row's number; or every second of these rows."""
    arrow, values = KINDS[kind]
    keys = [*values, None, *values, None][:: 2 if every_second else 1]
    return pa.table({names[0]: pa.array(keys, arrow), names[1]: pa.array(range(len(keys)), pa.int64())})


def both(session, rows: pa.Table):
    return LocalFrame(rows), SparkFrame(spark_frame(session(), rows))


def content(frame) -> list[tuple]:
    return sorted(comparable(frame.to_arrow()))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_picked_from_one_frame_is_the_same_in_memory_and_in_spark(session, kind):
    local, in_spark = both(session, table(kind))
    for one, other in [
        (local, in_spark),
        (local.select(["number", "key"]), in_spark.select(["number", "key"])),
        (local.drop("number"), in_spark.drop("number")),
        (local.select(["key"]).distinct(), in_spark.select(["key"]).distinct()),
        (local.where_null("key"), in_spark.where_null("key")),
        (local.where_null("key", is_null=False), in_spark.where_null("key", is_null=False)),
        (local.renamed({"key": "its `key`"}), in_spark.renamed({"key": "its `key`"})),
    ]:
        assert one.names == other.names
        assert content(one) == content(other)
        assert one.count() == other.count() == one.in_memory.num_rows
        assert other.in_memory is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("null_safe", [True, False])
def test_joins_are_the_same_wherever_the_rows_are(session, kind, null_safe):
    mine, theirs = table(kind), table(kind, names=("its key", "other"), every_second=True).slice(1)
    ours, others = both(session, mine), both(session, theirs)
    on = [("key", "its key")]

    kept = [content(one.semi_join(other, on, session, null_safe=null_safe)) for one in ours for other in others]
    left = [content(one.anti_join(other, on, session, null_safe=null_safe)) for one in ours for other in others]

    assert kept[1:] == kept[:1] * 3
    assert left[1:] == left[:1] * 3
    assert sorted(kept[0] + left[0]) == content(ours[0])
    has_null = any(key is None for key in theirs["its key"].to_pylist())
    nulls = [row for row in kept[0] if row[0] == (0,)]
    assert bool(nulls) is (null_safe and has_null)


def test_a_frame_is_joined_with_itself(session):
    rows = table("long")
    for one in both(session, rows):
        assert content(one.semi_join(one, by_name(["key"]), session)) == content(one)
        assert one.anti_join(one, by_name(["key"]), session).is_empty()


def test_a_union_is_in_memory_only_if_all_of_it_is(session):
    rows = table("string")
    local, in_spark = both(session, rows)
    turned = local.select(["number", "key"])
    assert union_of([local, local], session).in_memory.num_rows == 2 * rows.num_rows
    for frames in ([local, in_spark], [in_spark, turned], [in_spark, in_spark]):
        union = union_of(frames, session)
        assert union.in_memory is None
        assert content(union) == sorted(content(local) * 2)


def test_a_union_takes_columns_that_may_be_null_in_one_frame_only(session):
    never = pa.table({"key": pa.array([1, 2])}, schema=pa.schema([pa.field("key", pa.int64(), nullable=False)]))
    union = union_of([LocalFrame(never), LocalFrame(pa.table({"key": pa.array([None], pa.int64())}))], session)
    assert union.to_arrow().column("key").to_pylist() == [1, 2, None]


def test_rows_without_columns_are_counted(session):
    rows = table("long").select([])
    assert union_of([LocalFrame(rows.slice(0, 0)), LocalFrame(rows)], session).distinct().count() == 1


def test_what_is_known_to_be_empty_costs_no_job(session, count_jobs):
    local, in_spark = both(session, table("long").slice(0, 0))
    with count_jobs() as counted:
        assert (local.is_known_empty, in_spark.is_known_empty) == (True, False)
        assert in_spark.anti_join(local, by_name(["key"]), session) is in_spark
    assert counted.jobs == 0
    assert (local.is_empty(), in_spark.is_empty()) == (True, True)
