"""What goes into steps and comes out of them, at every door: in chunks, as pandas has it, in sessions of any zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import seamark as sm

BAD = 13


def in_chunks(rows: pa.Table) -> pa.Table:
    """The rows in chunks of which some are empty, as a filtered data set or a concatenation has them."""
    return pa.concat_tables([rows.slice(0, 1), rows.slice(0, 0), rows.slice(1), rows.slice(0, 0)])


def odd_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an index that says nothing, as a filter or a concatenation leaves it."""
    return frame.set_index(pd.Index([7] * len(frame)))


IN_SPARK = pytest.param(("Pacific/Kiritimati", 0), id="in Spark", marks=pytest.mark.long)


@pytest.fixture(params=[pytest.param(("America/Los_Angeles", None), id="local"), IN_SPARK])
def session(request: Any, spark: Any, set_small: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session in another time zone, as a program brings it along; and what is small stays with the driver or not."""
    zone, small = request.param
    if small is not None:
        set_small(monkeypatch, small)
    made = spark.newSession()
    made.conf.set("spark.sql.session.timeZone", zone)
    return made


# --- moments, days and chunks -----------------------------------------------------------------------------------------

# The night in which Los Angeles shows 01:30 twice: 08:30 and 09:30 in UTC.
NIGHT = [datetime(2024, 11, 3, 7, 30) + timedelta(hours=n) for n in range(4)]
ALL = {0: 0, 1: 1, 2: 2, 3: 3}
HOURS = "at timestamp, wall timestamp_ntz, day date, n long"
RESULTS = "at timestamp, back timestamp, n long"
DAY = date(2024, 3, 10)
MIDNIGHT = datetime(2024, 3, 10, tzinfo=UTC)


def hours(numbers: dict[int, int]) -> pa.Table:
    """Rows for some hours of the night: the moment, the same as a wall clock, a day, and a number."""
    walls = pa.array([NIGHT[hour] for hour in numbers], pa.timestamp("us"))
    columns = [walls.cast(pa.timestamp("us", tz="UTC")), walls, pa.array([DAY] * len(numbers)), [*numbers.values()]]
    return pa.table(dict(zip(("at", "wall", "day", "n"), columns, strict=True)))


def keys_in(session: Any, *numbers: int) -> dict[str, Any]:
    """The same keys, naive, from everybody who may give them."""
    walls = [NIGHT[number] for number in numbers]
    literals = ", ".join(f"(TIMESTAMP_NTZ'{wall}')" for wall in walls)
    return {
        "pandas": odd_index(pd.DataFrame({"at": pd.Series(np.array(walls, dtype="datetime64[us]"))})),
        "arrow": in_chunks(pa.table({"at": pa.array(walls, pa.timestamp("us"))})),
        "spark": session.sql(f"SELECT * FROM VALUES {literals} AS t(at)"),
        "dicts": [{"at": wall} for wall in walls],
    }


def for_spark(hours: Any) -> Any:
    checked = F.when(F.col("n") == BAD, F.raise_error(F.lit("bad luck")).cast("long")).otherwise(F.col("n"))
    return hours.select(F.col("wall").alias("at"), F.col("day").alias("back"), checked.alias("n"))


def for_pandas(hours: Any) -> Any:
    return odd_index(pd.DataFrame({"at": hours.wall, "back": hours.day, "n": hours.n}))


def giving_pandas(hours: Any) -> Any:
    return for_pandas(hours.select("wall", "day", "n").toPandas())


def giving_arrow(hours: Any) -> Any:
    return in_chunks(hours.selectExpr("wall AS at", "day AS back", "n").toArrow())


STEPS = {"spark": for_spark, "pandas": for_pandas, "giving_pandas": giving_pandas, "giving_arrow": giving_arrow}


def results(table: sm.Table) -> dict[int, int]:
    """What stands for each hour; the day has become its midnight in UTC."""
    found = table.rows().toArrow()
    moments, back = (found.column(name).cast(pa.timestamp("us", tz="UTC")).to_pylist() for name in ("at", "back"))
    assert set(back) <= {MIDNIGHT}
    places = [NIGHT.index(moment.replace(tzinfo=None)) for moment in moments]
    return dict(sorted(zip(places, found.column("n").to_pylist(), strict=True)))


@pytest.mark.scenario("T53")
@pytest.mark.scenario("T61")
def test_frames_that_steps_return_hold_the_same_moments_and_all_chunks(open_store, session):
    ds = open_store(spark=session)
    table = ds.table("hours", HOURS, key="at")
    outputs = {name: ds.table(f"by_{name}", RESULTS, key="at") for name in STEPS}
    for name, function in STEPS.items():
        ds.add(sm.BatchTransform(function, [table], [outputs[name]], name=name, pandas=name == "pandas"))
    table.upsert(in_chunks(hours({0: 0, 1: 1, 2: 2, 3: 3})))
    ds.run(fail_fast=True)
    assert {name: results(output) for name, output in outputs.items()} == {name: dict(ALL) for name in STEPS}


@pytest.mark.scenario("T53")
@pytest.mark.scenario("T61")
def test_keys_that_a_step_is_given_are_the_same_moments_in_every_zone(open_store, session, clock):
    ds = open_store(spark=session)
    table, output = ds.table("hours", HOURS, key="at"), ds.table("results", RESULTS, key="at")
    ds.add(sm.BatchTransform(for_spark, [table], [output], name="step", batch_keys=2))
    step = ds.step("step")
    table.upsert(hours(ALL))
    assert step.run_full().batches == 2  # by ranges of two keys
    assert results(output) == ALL

    table.upsert(hours({0: 20, 1: 21, 2: 30, 3: BAD}))
    filtered = sm.RunConfig(filters={"at": NIGHT[1]})
    (waiting,) = step.get_changed_idx(filtered).select(F.unix_seconds("at").alias("at")).collect()
    assert waiting.at == NIGHT[1].replace(tzinfo=UTC).timestamp()
    assert step.run_full(filtered).corrected == 1
    for number, (name, keys) in enumerate(keys_in(session, 0, 2).items()):
        changes = sm.ChangeList({"hours": keys}).extend(sm.ChangeList({"hours": keys_in(session, 0)["arrow"]}))
        report = step.run_idx(keys) if number % 2 == 0 else step.run_changelist(changes)
        assert report.corrected == 2, name
        assert results(output) == {0: 20 + number, 1: 21, 2: 30 + number, 3: 3}
        table.upsert(hours({0: 21 + number, 2: 31 + number}))

    assert step.run_full().failed == 1
    (failed,) = step.failures()["at"]
    assert failed.isoformat() == "2024-11-03T10:30:00+00:00"
    clock.advance(days=1)
    table.upsert(hours({3: 13_000}))
    assert step.run_full().keys == 1
    assert results(output) == {0: 24, 1: 21, 2: 34, 3: 13_000}
    assert step.failures().empty
    verified = ds.verify(replay=True)
    assert verified.ok, verified.findings


@pytest.mark.parametrize("options", [{}, {"commit": "run", "batch_rows": 1}], ids=["at once", "row by row"])
def test_a_changed_post_and_a_renamed_profile_in_one_run_leave_the_other_lines(make_blog, options):
    """The pipeline of the README: two inputs lead to keys in one run."""
    blog = make_blog(**options)
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"), (3, 100, "again"), (4, 300, "alone"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()
    blog.write_posts((2, 200, "changed"))
    blog.write_profiles((100, "Alicia"))

    report = blog.run()

    assert (report.appended, report.corrected, report.retracted) == (0, 3, 0)
    assert blog.lines() == [(1, "Alicia: hello"), (2, "Bob: changed"), (3, "Alicia: again"), (4, "?: alone")]
    assert blog.is_settled()


# --- what pandas says of columns --------------------------------------------------------------------------------------

ANY = "k long, t string, n int, b boolean, at timestamp, d date, m decimal(10,2), tags array<string>, s struct<x:int>"
VALUES = ("t", "n", "b", "at", "d", "m", "tags", "s")
EMPTY = {
    "nothing at all": lambda keys: pd.DataFrame([]),
    "a header": lambda keys: pd.DataFrame(columns=["k", *VALUES]),
    "an empty list": lambda keys: [],
}
NULLS = {
    "NaN": lambda keys: odd_index(pd.DataFrame({"k": keys, **dict.fromkeys(VALUES, float("nan"))})),
    "None": lambda keys: pd.DataFrame({"k": keys, **{name: [None] * len(keys) for name in VALUES}}),
    "dicts": lambda keys: [{"k": key, **dict.fromkeys(VALUES)} for key in keys],
}


@pytest.mark.scenario("T59")
@pytest.mark.parametrize("pandas", [False, True], ids=["spark", "pandas"])
def test_a_step_may_give_no_rows_and_columns_without_values_as_pandas_has_them(ds, rows, frame, pandas):
    source = ds.table("source", "k long", key="k")
    outputs = {}
    for number, (name, make) in enumerate({**EMPTY, **NULLS}.items()):

        def step(source: Any, make: Any = make) -> Any:
            return make(source.k.tolist() if pandas else [row.k for row in source.collect()])

        outputs[name] = ds.table(f"out{number}", ANY, key="k")
        ds.add(sm.BatchTransform(step, [source], [outputs[name]], name=f"step{number}", pandas=pandas))
    source.upsert(frame(source, [(1,), (2,)]))
    ds.run(fail_fast=True)

    nulls = [(1, *[None] * len(VALUES)), (2, *[None] * len(VALUES))]
    assert {name: rows(outputs[name]) for name in EMPTY} == {name: [] for name in EMPTY}
    assert {name: rows(outputs[name]) for name in NULLS} == dict.fromkeys(NULLS, nulls)


@pytest.mark.scenario("T59")
@pytest.mark.parametrize("kind", ["spark", "giving pandas", "giving arrow", "pandas"])
def test_a_step_gives_floats_for_decimals_if_they_give_themselves_back(ds, rows, frame, kind):
    source = ds.table("source", "k long, x double", key="k")
    prices = ds.table("prices", "k long, m decimal(10,2)", key="k")

    def step(source: Any) -> Any:
        named = source.rename(columns={"x": "m"}) if kind == "pandas" else source.withColumnRenamed("x", "m")
        return {"giving pandas": lambda: named.toPandas(), "giving arrow": lambda: in_chunks(named.toArrow())}.get(
            kind, lambda: named
        )()

    ds.add(sm.BatchTransform(step, [source], [prices], pandas=kind == "pandas"))
    source.upsert(frame(source, [(1, 121.32), (2, 0.1), (3, None), (4, 99_999_999.99)]))
    ds.run(fail_fast=True)
    wanted = [(1, Decimal("121.32")), (2, Decimal("0.10")), (3, None), (4, Decimal("99999999.99"))]
    assert rows(prices) == wanted

    source.upsert(frame(source, [(3, 0.125)]))
    report = ds.run().steps["step"]
    said = "the value 0.125 does not fit column 'm'"
    assert (report.error, report.failed) == (None, 1)
    assert said in ds.step("step").failures().error[0]
    assert rows(prices) == wanted


# --- names of fields --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T60")
@pytest.mark.parametrize("pandas", [False, True], ids=["spark", "pandas"])
def test_fields_with_odd_names_go_through_a_step_and_its_reference(ds, rows, frame, pandas, large):
    odd = "struct<`a-b`:int,`a:b`:struct<`größe`:array<date>>>"
    posts = ds.table("posts", f"k long, user_id long, s {odd}", key="k")
    users = ds.table("users", f"id long, s {odd}", key="id")
    both = ds.table("both", f"k long, mine {odd}, theirs {odd}", key="k")

    def for_spark(posts: Any, users: Any) -> Any:
        theirs = users.withColumnRenamed("s", "theirs")
        return posts.join(theirs, posts.user_id == theirs.id, "left").selectExpr("k", "s AS mine", "theirs")

    def for_pandas(posts: Any, users: Any) -> Any:
        joined = posts.merge(users, left_on="user_id", right_on="id", how="left", suffixes=("_mine", "_theirs"))
        return joined.rename(columns={"s_mine": "mine", "s_theirs": "theirs"})[["k", "mine", "theirs"]]

    reference = sm.JoinSpec(users, join_keys={"user_id": "id"})
    function = for_pandas if pandas else for_spark
    ds.add(sm.BatchTransform(function, [posts, reference], [both], name="step", pandas=pandas))
    one = {"a-b": 1, "a:b": {"größe": [DAY, None]}}
    two = {"a-b": None, "a:b": None}
    posts.upsert(frame(posts, [(1, 1, one), (2, 2, None), (3, 3, two)]))
    users.upsert(frame(users, [(1, two), (2, one)]))
    ds.run(fail_fast=True)
    users.upsert(frame(users, [(1, one)]))
    ds.run(fail_fast=True)
    assert sorted(rows(both)) == [(1, one, one), (2, None, one), (3, two, None)]
    verified = ds.verify(replay=True)
    assert verified.ok, verified.findings
