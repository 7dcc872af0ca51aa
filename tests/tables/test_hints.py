"""What an error about a frame or a folder says to do fits its cause."""

import datetime

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm

DAY = {"id": [1], "day": [datetime.date(2026, 1, 31)], "at": [datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)]}


@pytest.mark.scenario("C50")
@pytest.mark.parametrize(
    ("column", "value", "hint"),
    [
        ("day", "31.01.2026", "pd.to_datetime(frame['day']).dt.date, or cast(day AS date) in Spark"),
        ("at", "2026-01-31 10:00", "pd.to_datetime(frame['at'], utc=True), or cast(at AS timestamp) in Spark"),
        ("id", "one", "pd.to_numeric(frame['id']), or cast(id AS bigint) in Spark"),
    ],
)
def test_a_text_where_something_else_is_due(dry, column, value, hint):
    table = dry.table("days", "id long, day date, at timestamp", key="id")
    for frame in (pd.DataFrame(DAY | {column: [value]}), pa.table(DAY | {column: [value]})):
        with pytest.raises(sm.SeamarkError) as caught:
            table.upsert(frame)
        assert f"column '{column}' is string" in caught.value.message
        assert caught.value.hint == f"convert it first, for example with {hint}."


@pytest.mark.scenario("C50")
def test_a_text_where_a_date_is_due_in_a_spark_frame(ds, spark):
    table = ds.table("days", "id long, day date", key="id")
    with pytest.raises(sm.SeamarkError) as caught:
        table.upsert(spark.sql("SELECT 1L AS id, array('31.01.2026') AS day"))
    assert caught.value.hint.startswith("convert it first, for example with pd.to_datetime(frame['day'])")


@pytest.mark.scenario("C50")
def test_a_column_that_is_missing_is_still_the_first_thing_to_say(dry):
    table = dry.table("days", "id long, day date", key="id")
    with pytest.raises(sm.SeamarkError) as caught:
        table.upsert(pd.DataFrame({"day": ["31.01.2026"]}))
    assert caught.value.hint == "the frame needs the table's columns, in any order, and no others."


@pytest.mark.scenario("C50")
def test_a_warehouse_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "file" / "warehouse") as store:
        table = store.table("days", "id long", key="id")
        with pytest.raises(sm.SeamarkError) as caught:
            table.upsert(pa.table({"id": [1]}))
    assert "the warehouse folder" in caught.value.message
    assert "cannot be written to: Not a directory" in caught.value.message
    assert "Nothing was written." in caught.value.message
    assert "correct `warehouse`" in caught.value.hint
