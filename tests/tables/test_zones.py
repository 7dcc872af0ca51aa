"""Moments and dates are the same whatever the time zone of the session that a program brings along."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from seamark.errors import BadValue, DuplicateKey

ZONES = ["America/Los_Angeles", "UTC", "Pacific/Kiritimati"]

# Los Angeles has no 02:30 on the tenth of March, and shows 01:30 twice on the third of November.
CLOCKS = [
    datetime(2024, 5, 1, 12),
    datetime(2024, 3, 10, 2, 30),
    datetime(2024, 11, 3, 1, 30),
    datetime(2024, 11, 3, 8, 30),
    datetime(2024, 11, 3, 9, 30),
    datetime(1500, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
MOMENTS = [clock.replace(tzinfo=UTC) for clock in CLOCKS]
DAYS = [date(2024, 3, 10), date(2024, 11, 3), date(1582, 10, 4), date(9999, 12, 31)]
MIDNIGHTS = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in DAYS]


@pytest.fixture(params=ZONES)
def session(request, spark) -> Any:
    """A session in another time zone, as a program brings it along."""
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", request.param)
    return made


@pytest.fixture
def ds(open_store, session):
    return open_store(spark=session)


@pytest.fixture(params=["on the driver", "in Spark"])
def place(request, set_small, monkeypatch):
    if request.param == "in Spark":
        set_small(monkeypatch, 0)


def in_spark(session, column, kind, values):
    """Literals, so that nothing but Spark's own reading of a text stands between the test and the frame."""
    written = ", ".join(f"({number}L, {kind}'{value}')" for number, value in enumerate(values))
    return session.sql(f"SELECT * FROM VALUES {written} AS t(k, {column})")


def frames_of_clocks(session):
    """The same naive moments from everybody who may bring them."""
    stamps = np.array(CLOCKS, dtype="datetime64[us]")
    return {
        "pandas": pd.DataFrame({"k": range(len(CLOCKS)), "at": pd.Series(stamps)}),
        "arrow": pa.table({"k": range(len(CLOCKS)), "at": pa.array(CLOCKS, pa.timestamp("us"))}),
        "dicts": [{"k": number, "at": clock} for number, clock in enumerate(CLOCKS)],
        "spark": in_spark(session, "at", "TIMESTAMP_NTZ", CLOCKS),
        "spark, moments": in_spark(session, "at", "TIMESTAMP_LTZ", [f"{clock}Z" for clock in CLOCKS]),
        "arrow, elsewhere": pa.table(
            {"k": range(len(CLOCKS)), "at": pa.array(MOMENTS, pa.timestamp("us", tz="Asia/Tokyo"))}
        ),
    }


def frames_of_days(session):
    return {
        "arrow": pa.table({"k": range(len(DAYS)), "at": DAYS}),
        "pandas": pd.DataFrame({"k": range(len(DAYS)), "at": pd.Series(DAYS, dtype=object)}),
        "spark": in_spark(session, "at", "DATE", DAYS),
    }


def moments_in(frame, column="at"):
    """What a Spark frame holds, by its order, as moments in UTC."""
    found = frame.orderBy("k").select(column).toArrow().column(column)
    return found.cast(pa.timestamp("us", tz="UTC")).to_pylist()


@pytest.mark.scenario("T61", "D36")
@pytest.mark.parametrize("frames", [frames_of_clocks, frames_of_days])
def test_a_naive_moment_or_a_date_is_the_same_moment_from_everybody(ds, session, place, slices, frames):
    t = ds.table("t", "k long, at timestamp", key="k")
    wanted = MOMENTS if frames is frames_of_clocks else MIDNIGHTS
    (_, first), *others = frames(session).items()
    t.upsert(first)

    assert {name: t.upsert(frame) for name, frame in others} == dict.fromkeys([name for name, _ in others])
    assert {name: t.replace(frame) for name, frame in others} == dict.fromkeys([name for name, _ in others])

    assert pa.concat_tables(slices(t)).column("at").to_pylist() == wanted
    assert moments_in(t.rows()) == wanted
    assert moments_in(t.changes()) == wanted
    assert moments_in(t.get_data(pd.DataFrame({"k": range(len(wanted))}))) == wanted
    t.fold()
    assert moments_in(t.rows()) == wanted


@pytest.mark.scenario("T61", "D36")
def test_what_spark_appends_is_the_same_in_every_zone(ds, session, place, slices):
    """Each kind of column from each kind of frame, and the event time that is taken from a wall clock."""
    columns = "k long, at timestamp, wall timestamp_ntz, day date, many array<timestamp>, s struct<`a-b`:timestamp>"
    t = ds.table("clicks", columns, event_time="wall")
    t.append(
        session.sql(
            """SELECT 0L AS k, DATE'2024-11-03' AS at, TIMESTAMP_NTZ'2024-03-10 02:30:00' AS wall,
                      TIMESTAMP_LTZ'2024-11-03 00:00:00Z' AS day, array(DATE'2024-11-03', NULL) AS many,
                      named_struct('a-b', TIMESTAMP_NTZ'2024-03-10 02:30:00') AS s"""
        )
    )
    gap = datetime(2024, 3, 10, 2, 30)
    (found,) = pa.concat_tables(slices(t)).drop_columns(["offset", "op", "system_time"]).to_pylist()
    assert found == {
        "event_time": gap.replace(tzinfo=UTC),
        "k": 0,
        "at": datetime(2024, 11, 3, tzinfo=UTC),
        "wall": gap,
        "day": date(2024, 11, 3),
        "many": [datetime(2024, 11, 3, tzinfo=UTC), None],
        "s": {"a-b": gap.replace(tzinfo=UTC)},
    }
    assert t.rows().select("wall", "day").toArrow().to_pylist() == [{"wall": gap, "day": date(2024, 11, 3)}]
    assert moments_in(t.changes(), "event_time") == [gap.replace(tzinfo=UTC)]


@pytest.mark.scenario("T61", "D36")
def test_a_moment_is_a_day_only_at_midnight_in_utc(ds, session):
    t = ds.table("t", "k long, day date", key="k")
    t.upsert(in_spark(session, "day", "TIMESTAMP_LTZ", ["2024-05-01 00:00:00Z", "1500-01-01 00:00:00Z"]))
    assert [row.day for row in t.rows().orderBy("k").collect()] == [date(2024, 5, 1), date(1500, 1, 1)]
    for wrong in ("2024-05-01 00:00:00-07:00", "2024-05-01 00:00:00+14:00", "1969-12-31 23:59:59.999999Z"):
        shown = str(datetime.fromisoformat(wrong).astimezone(UTC).replace(tzinfo=None))
        with pytest.raises(BadValue, match=rf"the value {shown}(\.000000)?Z does not fit column 'day'"):
            t.upsert(in_spark(session, "day", "TIMESTAMP_LTZ", [wrong]))


# --- keys -------------------------------------------------------------------------------------------------------------

HOURS = [datetime(2024, 11, 3, tzinfo=UTC) + timedelta(minutes=30 * step) for step in range(240)]  # over the long night


def keys_of_clocks(session, moments):
    naive = [moment.replace(tzinfo=None) for moment in moments]
    return {
        "pandas": pd.DataFrame({"at": pd.Series(np.array(naive, dtype="datetime64[us]"))}),
        "arrow": pa.table({"at": pa.array(naive, pa.timestamp("us"))}),
        "spark": in_spark(session, "at", "TIMESTAMP_NTZ", naive).select("at"),
    }


@pytest.mark.scenario("T61", "D36")
@pytest.mark.parametrize("folded", [False, True], ids=["tail", "base"])
@pytest.mark.parametrize("count", [3, 200], ids=["literals", "a join"])
def test_rows_are_found_and_deleted_by_naive_keys(ds, session, set_small, monkeypatch, folded, count):
    if folded:  # what is small is compared on the driver, so that both ways are taken
        set_small(monkeypatch, 0)
    t = ds.table("t", "at timestamp, k long", key="at")
    t.upsert(pa.table({"at": pa.array(HOURS, pa.timestamp("us", tz="UTC")), "k": range(len(HOURS))}))
    if folded:
        t.fold()
    wanted = HOURS[16 : 16 + count]  # 08:00, 08:30 and 09:00: the last two are both 01:30 and 01:00 to Los Angeles

    for name, keys in keys_of_clocks(session, wanted).items():
        assert moments_in(t.get_data(keys)) == wanted, name
    assert t.delete(keys_of_clocks(session, wanted[:1])["spark"]).retracted == 1
    assert t.delete(keys_of_clocks(session, wanted)["pandas"]).retracted == count - 1
    assert moments_in(t.rows()) == [hour for hour in HOURS if hour not in wanted]


@pytest.mark.scenario("T61")
def test_a_key_that_is_there_twice_is_named_in_utc(ds, session):
    t = ds.table("t", "at timestamp, k long", key="at")
    t.upsert([{"at": MOMENTS[0], "k": 1}])
    twice = in_spark(session, "at", "TIMESTAMP_LTZ", ["2024-11-03 08:30:00Z", "2024-11-03 08:30:00Z"])
    with pytest.raises(DuplicateKey, match=r"the key at=2024-11-03 08:30:00(\.000000Z|\+00:00) is in the frame"):
        t.upsert(twice)
    once = in_spark(session, "at", "TIMESTAMP_LTZ", ["2024-11-03 08:30:00Z", "2024-11-03 09:30:00Z"])
    assert t.upsert(once).appended == 2
