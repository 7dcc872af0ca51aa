"""What counts as a change: two values are one if a person who reads them both cannot tell them apart."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from seamark.errors import BadValue

NAN = float("nan")


@pytest.fixture(autouse=True, params=["on the driver", "in Spark"])
def place(request, set_small, monkeypatch):
    """Small changes are compared on the driver and large ones in Spark, and nobody can tell which it was."""
    if request.param == "in Spark":
        set_small(monkeypatch, 0)


@pytest.fixture
def value(ds):
    """Makes a keyed table with one value column of a type."""
    return lambda kind: ds.table("t", f"id long, v {kind}", key="id")


def written(told, table):
    """The values of the records, without ops and keys."""
    return [line.split(" ", 2)[0] + " " + line.split(" ", 2)[2] for line in told(table)]


@pytest.mark.scenario("T12")
def test_the_order_of_columns_means_nothing(posts, arrow, spark):
    posts.upsert(arrow(posts, (1, 100, "hello")))

    assert posts.upsert(pd.DataFrame({"content": ["hello"], "post_id": [1], "user_id": [100]})) is None
    assert posts.upsert(arrow(posts, (1, 100, "hello")).select(["content", "user_id", "post_id"])) is None
    assert (
        posts.replace(spark.createDataFrame([("hello", 100, 1)], "content string, user_id long, post_id long")) is None
    )


@pytest.mark.scenario("T13")
def test_a_whole_float_is_the_integer(value, arrow, spark, unchanged):
    t = value("long")
    t.upsert(arrow(t, (1, 1)))

    assert t.upsert(pd.DataFrame({"id": [1], "v": [1.0]})) is None
    assert t.upsert(pa.table({"id": [1], "v": [1.0]})) is None
    assert t.upsert(spark.createDataFrame([(1, 1.0)], "id long, v double")) is None
    for frame in (
        pd.DataFrame({"id": [1], "v": [1.5]}),
        pa.table({"id": [1, 2], "v": [1.0, 1.5]}),
        spark.createDataFrame([(1, 1.5)], "id long, v double"),
    ):
        with unchanged(t), pytest.raises(BadValue, match=r"table 't': the value 1\.5 does not fit column 'v'.*bigint"):
            t.upsert(frame)


@pytest.mark.scenario("T13")
def test_a_whole_integer_is_the_double(value, arrow, spark):
    t = value("double")
    t.upsert(arrow(t, (1, 1.0)))

    assert t.upsert(pd.DataFrame({"id": [1], "v": [1]})) is None
    assert t.upsert(spark.createDataFrame([(1, 1)], "id long, v int")) is None


@pytest.mark.scenario("T14")
def test_null_is_null_and_nothing_else(value, arrow, told):
    t = value("string")
    for v in (None, None, "", None):
        t.upsert(arrow(t, (1, v)))
    assert told(t) == ["+A 1 NULL", "-C 1 NULL", "+C 1 ", "-C 1 ", "+C 1 NULL"]


@pytest.mark.scenario("T15")
def test_nan_is_nan_and_zero_has_no_sign(value, arrow, told):
    t = value("double")
    for v in (NAN, NAN, None, 0.0, -0.0):
        t.upsert(arrow(t, (1, v)))
    assert told(t) == ["+A 1 nan", "-C 1 nan", "+C 1 NULL", "-C 1 NULL", "+C 1 0.0"]


@pytest.mark.scenario("T15")
def test_the_same_inside_arrays_and_structs(ds, arrow, told):
    t = ds.table("t", "id long, a array<double>, s struct<x:double>", key="id")
    t.upsert(arrow(t, (1, [NAN, 0.0, None], {"x": NAN})))

    assert t.upsert(arrow(t, (1, [NAN, 0.0, None], {"x": NAN}))) is None
    assert t.upsert(arrow(t, (1, [NAN, -0.0, None], {"x": NAN}))) is None
    assert t.upsert(arrow(t, (1, [NAN, 0.0, None], {"x": None}))).corrected == 1


@pytest.mark.scenario("T16")
def test_decimals_are_numbers_not_texts(value, arrow, spark, unchanged):
    t = value("decimal(10,2)")
    t.upsert(pa.table({"id": [1], "v": pa.array([Decimal("1.5")], pa.decimal128(5, 1))}))

    assert t.upsert(arrow(t, (1, Decimal("1.50")))) is None
    assert t.upsert(pd.DataFrame({"id": [1], "v": [Decimal("1.500")]})) is None
    assert t.upsert(spark.createDataFrame([(1, Decimal("1.5"))], "id long, v decimal(3,1)")) is None
    for frame in (
        pd.DataFrame({"id": [1], "v": [Decimal("12345678901.00")]}),
        pa.table({"id": [1], "v": [Decimal("12345678901.00")]}),
        spark.createDataFrame([(1, Decimal("12345678901.00"))], "id long, v decimal(20,2)"),
    ):
        with (
            unchanged(t),
            pytest.raises(BadValue, match=r"table 't': the value 12345678901\.00 does not fit.*'v'.*decimal\(10,2\)"),
        ):
            t.upsert(frame)


@pytest.mark.scenario("T17")
def test_one_moment_in_two_time_zones(value, rows, slices):
    t = value("timestamp")
    moscow = timezone(timedelta(hours=3))
    noon = datetime(2020, 1, 1, 12, tzinfo=moscow)
    t.upsert(pd.DataFrame({"id": [1], "v": [noon]}))

    assert t.upsert(pd.DataFrame({"id": [1], "v": [noon.astimezone(UTC)]})) is None
    assert t.upsert(pa.table({"id": [1], "v": [datetime(2020, 1, 1, 9)]})) is None  # without a zone it is UTC

    later = noon + timedelta(microseconds=1)
    t.upsert(pd.DataFrame({"id": [1], "v": [later]}))
    assert [s.column("v").to_pylist() for s in slices(t)] == [[noon], [noon, later]]
    assert t.rows().selectExpr("CAST(v AS string)").first()[0] == "2020-01-01 09:00:00.000001"
    assert t.rows(as_of=0).selectExpr("CAST(v AS string)").first()[0] == "2020-01-01 09:00:00"


@pytest.mark.scenario("T3")
def test_a_table_of_nothing_but_its_key_has_no_corrections(ds, arrow, told):
    tags = ds.table("tags", "post_id long, tag string", key=["post_id", "tag"])
    tags.upsert(arrow(tags, (1, "a")))
    assert tags.upsert(arrow(tags, (1, "a"))) is None
    tags.replace(arrow(tags, (1, "b")))
    assert told(tags) == ["+A 1 a", "-R 1 a", "+A 1 b"]
