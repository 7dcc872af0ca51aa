"""Days and moments that Java's old calendar and time zones have no equal of are read like any others.

Constants of a query reach the readers of files as objects of that calendar, unless the session says otherwise: 10
October 1582 arrived as another day, and files, groups and pages that had the right one were skipped.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import BadValue, FrameMismatch
from seamark.facts.rows import read_rows
from seamark.spark.frames import arrow_rows, spark_frame
from seamark.tables.far_times import python_values
from seamark.tables.read import few_rows

SETTING = "spark.sql.datetime.java8API.enabled"
FIRST = datetime(1582, 10, 1, tzinfo=UTC)
MOMENTS = [FIRST + timedelta(hours=8 * n) for n in range(17 * 3)]
DAYS = [date(1582, 9, 20) + timedelta(days=n) for n in range(30)]
OLD = [datetime(1883, 11, 18, 12, tzinfo=UTC) + timedelta(minutes=n) for n in range(30)]  # New York's clocks were set
KINDS = {
    "timestamp": (pa.timestamp("us", tz="UTC"), MOMENTS),
    "date": (pa.date32(), DAYS),
    "timestamp_ntz": (pa.timestamp("us"), [moment.replace(tzinfo=None) for moment in MOMENTS]),
    "timestamp of 1883": (pa.timestamp("us", tz="UTC"), OLD),
}

pytestmark = pytest.mark.scenario("T61")


@pytest.fixture(params=["true", "false"])
def calendar(spark, request, monkeypatch):
    """Sessions as Seamark builds them, and those that somebody else has built; every read is Spark's."""
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, request.param)
    monkeypatch.setattr(few_rows, "read_base_keys", lambda *_: None)
    yield
    spark.conf.set(SETTING, before)


def rows_of(kind: str, values: list, v: int) -> pa.Table:
    return pa.table({"k": pa.array(values, KINDS[kind][0]), "v": pa.array([v] * len(values), pa.int32())})


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def days(ds, calendar, kind, monkeypatch):
    """A table with one row per moment, folded in pages of a few rows."""
    monkeypatch.setattr("seamark.tables.care.fold.PAGE_ROWS", 10)
    table = ds.table("days", f"k {kind.partition(' ')[0]}, v int", key="k")
    table.upsert(rows_of(kind, KINDS[kind][1], 1))
    table.fold()
    return table


def values_in(table: sm.Table) -> list[int]:
    return sorted(arrow_rows(table.rows()).column("v").to_pylist())


def test_few_keys_and_many_are_read_as_they_stand(days, kind):
    keys = KINDS[kind][1]
    days.upsert(rows_of(kind, keys, 2))  # the base has what was before
    for wanted in ([keys[len(keys) // 2]], keys[5:25]):
        found = days.get_data(rows_of(kind, wanted, 0).select(["k"]))
        assert arrow_rows(found).column("v").to_pylist() == [2] * len(wanted)


def test_a_day_is_corrected_and_back_again(days, kind):
    for key in KINDS[kind][1][7::20]:
        assert days.upsert(rows_of(kind, [key], 2)).corrected == 1
        assert days.upsert(rows_of(kind, [key], 1)).corrected == 1
    assert values_in(days) == [1] * len(KINDS[kind][1])


def test_a_first_run_in_ranges_takes_every_day(ds, days, kind):
    copy = ds.table("copy", f"k {kind.partition(' ')[0]}, v int", key="k")
    ds.add(sm.BatchTransform("SELECT * FROM {days}", name="copy_days", inputs=[days], outputs=[copy], batch_keys=12))
    report = ds.run("copy_days").steps["copy_days"]
    assert (report.error, report.batches > 1) == (None, True)
    assert values_in(copy) == [1] * len(KINDS[kind][1])

    day = KINDS[kind][1][len(KINDS[kind][1]) // 2]
    filtered = ds.step("copy_days").run_full(sm.RunConfig(filters={"k": day}))
    assert filtered.keys == 0  # it is as it should be
    days.upsert(rows_of(kind, [day], 5))
    assert ds.step("copy_days").run_full(sm.RunConfig(filters={"k": day})).keys == 1
    assert values_in(copy)[-1] == 5


# --- days that Python does not have -----------------------------------------------------------------------------------

FAR = {"date": 2932897, "timestamp": 253402300800000000, "timestamp_ntz": -62135596800000001}


@pytest.mark.parametrize("far_kind", FAR)
def test_a_key_of_a_day_that_python_does_not_have_is_refused(ds, spark, far_kind):
    keyed = ds.table("keyed", f"k {far_kind}, v int", key="k")
    plain = ds.table("plain", f"k int, v {far_kind}", key="k")
    arrow = KINDS[far_kind][0]
    far = pa.array([FAR[far_kind]], pa.int32() if pa.types.is_date(arrow) else pa.int64()).cast(arrow)
    last = pa.array([datetime(9999, 12, 31, 23) if pa.types.is_timestamp(arrow) else date.max], arrow)
    ones = pa.array([1], pa.int32())
    for frame in (pa.table({"k": far, "v": ones}), spark_frame(spark, pa.table({"k": far, "v": ones}))):
        with pytest.raises(BadValue, match=r"'keyed': the value .* does not fit column 'k'"):
            keyed.upsert(frame)
    assert keyed.upsert(pa.table({"k": last, "v": ones})).appended == 1
    assert keyed.delete(spark_frame(spark, pa.table({"k": last}))).retracted == 1
    assert plain.upsert(pa.table({"k": ones, "v": far})).appended == 1  # a value can be replaced by its key


@pytest.mark.parametrize("far_kind", FAR)
def test_such_days_among_the_values_are_compared_shown_and_traced(ds, far_kind):
    arrow = KINDS[far_kind][0]
    number = pa.int32() if pa.types.is_date(arrow) else pa.int64()
    near = 1 if FAR[far_kind] > 0 else -1
    inside = ds.table("inside", f"k int, days array<{far_kind}>, both struct<a: {far_kind}, b: int>", key="k")

    def given(value: int) -> pa.Table:
        day = pa.array([value], number).cast(arrow)
        both = pa.StructArray.from_arrays([day, pa.array([1], pa.int32())], ["a", "b"])
        return pa.table({"k": pa.array([1], pa.int32()), "days": pa.ListArray.from_arrays([0, 1], day), "both": both})

    assert inside.upsert(given(FAR[far_kind])).appended == 1
    assert inside.upsert(given(FAR[far_kind])) is None
    assert inside.upsert(given(FAR[far_kind] + near)).corrected == 1
    (shown,) = read_rows(ds, "inside", limit=5, as_of=None).rows
    row = ds.why("inside", {"k": 1}).row
    assert shown == row
    assert str(row["both"]["a"]) == str(row["days"][0])
    assert str(row["days"][0]).startswith("10000-01-0" if near > 0 else "0000-12-31")


def test_far_days_stand_before_and_after_all_others():
    days = pa.chunked_array([pa.array([2932897, None, 0, -719163, 2932898], pa.int32()).cast(pa.date32())])
    after, nothing, epoch, before, last = python_values(days)
    assert (nothing, epoch) == (None, date(1970, 1, 1))
    assert sorted([last, epoch, after, before]) == [before, epoch, after, last]
    assert [str(before), str(after)] == ["0000-12-31", "10000-01-01"]
    assert before != epoch
    assert after == python_values(days)[0]


def test_an_error_of_a_read_does_not_say_that_nothing_was_written(ds):
    table = ds.table("t", "k int, v int", key="k")
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    for read in (lambda: table.get_data([{"k": "one"}]), lambda: ds.why("t", {"k": "one"})):
        with pytest.raises(FrameMismatch, match="column 'k'") as caught:
            read()
        assert "written" not in str(caught.value)
    with pytest.raises(FrameMismatch, match="Nothing was written"):
        table.delete([{"k": "one"}])
