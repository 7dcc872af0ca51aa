"""Functions for pandas: whole keys on the executors, failing keys caught there, types as pandas people expect them."""

from __future__ import annotations

import datetime as dt
import os

import pandas as pd
import pytest

import seamark as sm
from seamark.errors import BadOutput, FunctionFailed, TooManyFailures

UTC = dt.UTC


@pytest.mark.scenario("X88")
def test_a_function_for_pandas_runs_on_executors_and_gets_whole_keys_with_their_references(ds, frame, rows):
    posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    feed = ds.table("feed", "user_id long, posts long, line string, process long", key="user_id")

    def collect_posts(posts, profiles):
        assert isinstance(posts, pd.DataFrame)
        assert list(posts.columns) == ["post_id", "user_id", "content"]
        assert list(profiles.columns) == ["id", "name"]
        names = dict(zip(profiles.id, profiles.name, strict=True))
        found = [
            (user, len(mine), f"{names.get(user, '?')}: {' '.join(mine.sort_values('post_id').content)}", os.getpid())
            for user, mine in posts.groupby("user_id")
        ]
        return pd.DataFrame(found, columns=["user_id", "posts", "line", "process"])

    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})
    step = ds.add(sm.BatchTransform(collect_posts, [posts, reference], [feed], pandas=True))
    posts.upsert(frame(posts, [(1, 100, "hello"), (2, 200, "hi"), (3, 100, "again"), (4, 300, "hey")]))
    profiles.upsert(frame(profiles, [(100, "Alice"), (200, "Bob"), (900, "nobody's")]))

    assert step.transform_keys == ("user_id",)
    assert step.run_full().keys == 3
    told = rows(feed)
    assert [row[:3] for row in told] == [(100, 2, "Alice: hello again"), (200, 1, "Bob: hi"), (300, 1, "?: hey")]
    assert os.getpid() not in {row[3] for row in told}

    profiles.upsert(frame(profiles, [(100, "Alicia")]))
    posts.delete(frame(posts, [(4,)], only_key=True))
    assert step.run_full().keys == 2
    assert [row[:3] for row in rows(feed)] == [(100, 2, "Alicia: hello again"), (200, 1, "Bob: hi")]
    assert not ds.run().did_something
    assert ds.verify("feed").ok


@pytest.mark.scenario("X88")
def test_failing_keys_are_recorded_without_an_extra_job_and_retried(ds, frame, rows, count_jobs, tmp_path):
    numbers = ds.table("numbers", "id long, divisor long", key="id")
    results = ds.table("results", "id long, value long", key="id")
    mended = str(tmp_path / "mended")

    def divide(numbers):
        if not os.path.exists(mended) and (numbers.divisor == 0).any():
            raise ZeroDivisionError(f"{(numbers.divisor == 0).sum()} of {len(numbers)}")
        return numbers.assign(value=1000 // numbers.divisor.replace(0, 1))[["id", "value"]]

    step = ds.add(sm.BatchTransform(divide, [numbers], [results], pandas=True))
    numbers.upsert(frame(numbers, [(key, 1 + key) for key in range(100)]))
    step.run_full()

    with count_jobs() as without_failures:
        numbers.upsert(frame(numbers, [(key, 2 + key) for key in range(100)]))
        assert step.run_full().corrected > 0
    broken = {3, 50, 97}
    with count_jobs() as with_failures:
        numbers.upsert(frame(numbers, [(key, 0 if key in broken else 3 + key) for key in range(100)]))
        report = step.run_full()

    assert (report.keys, report.failed, report.error) == (100, 3, None)
    assert with_failures.jobs == without_failures.jobs
    found = step.failures()
    assert list(zip(found.id, found.error, found.attempts, strict=True)) == [
        (3, "ZeroDivisionError: 1 of 1", 1),
        (50, "ZeroDivisionError: 1 of 1", 1),
        (97, "ZeroDivisionError: 1 of 1", 1),
    ]
    before = {key: 1000 // (2 + key) for key in broken}  # their former rows stand
    assert rows(results) == [(key, before.get(key, 1000 // (3 + key))) for key in range(100)]

    with open(mended, "w"):
        pass
    assert step.run_full().keys == 3
    assert step.failures().empty
    assert rows(results)[50] == (50, 1000)
    assert ds.verify("results", replay=True).ok


@pytest.mark.scenario("X88")
def test_whole_numbers_stay_whole_beside_nulls_and_moments_keep_their_zone(ds, frame, rows):
    events = ds.table(
        "events", "id long, count long, flag boolean, at timestamp, day date, cost decimal(10,2), raw binary", key="id"
    )
    told = ds.table("told", "id long, count long, kinds string, later timestamp, cost decimal(10,2)", key="id")

    def describe(events):
        kinds = f"{events['count'].dtype} {events.flag.dtype} {events['at'].dt.tz} {type(events.day.iloc[0]).__name__}"
        return pd.DataFrame(
            {
                "id": events.id,
                "count": events["count"] + 1,
                "kinds": kinds,
                "later": events["at"] + pd.Timedelta(hours=1),
                "cost": events.cost,
            }
        )

    step = ds.add(sm.BatchTransform(describe, [events], [told], pandas=True))
    big = 2**62 + 1  # a float would lose the last digit
    at = dt.datetime(2024, 3, 10, 2, 30, 0, 123456, tzinfo=UTC)
    day = dt.date(2024, 3, 10)
    from decimal import Decimal

    written = [(1, big, True, at, day, Decimal("1.10"), b"\x00"), (2, None, None, None, day, None, None)]
    events.upsert(frame(events, written))

    step.run_full(sm.RunConfig(fail_fast=True))

    found = {row[0]: row for row in rows(told)}
    assert found[1][1] == big + 1
    assert found[2][1] is None
    assert found[1][3] == at + dt.timedelta(hours=1)
    assert (found[1][4], found[2][3], found[2][4]) == (Decimal("1.10"), None, None)
    kinds = {row[2] for row in found.values()}
    assert kinds <= {"Int64 boolean UTC date", "int64 bool UTC date"}
    assert ds.verify("told", replay=True).ok


@pytest.mark.scenario("X88")
def test_inputs_without_a_key_of_their_own_are_given_whole_to_every_call(ds, frame, rows):
    numbers = ds.table("numbers", "id long", key="id")
    rates = ds.table("rates", "name string, rate long", key="name")
    results = ds.table("results", "id long, value long", key="id")
    total = ds.table("total", "name string, value long", key="name")

    def apply_rates(numbers, rates):
        return pd.DataFrame({"id": numbers.id, "value": numbers.id * rates.rate.sum()})

    def sum_up(results):
        return pd.DataFrame({"name": ["sum"], "value": [results.value.sum()]})

    ds.add(sm.BatchTransform(apply_rates, [numbers, rates], [results], transform_keys=["id"], pandas=True))
    ds.add(sm.BatchTransform(sum_up, [results], [total], transform_keys=[], pandas=True))
    numbers.upsert(frame(numbers, [(1,), (2,), (3,)]))
    rates.upsert(frame(rates, [("a", 10), ("b", 1)]))

    assert ds.run().ok
    assert rows(results) == [(1, 11), (2, 22), (3, 33)]
    assert rows(total) == [("sum", 66)]

    rates.upsert(frame(rates, [("b", 2)]))
    report = ds.run()
    assert (report.steps["apply_rates"].keys, report.steps["sum_up"].keys) == (3, 1)
    assert rows(results) == [(1, 12), (2, 24), (3, 36)]
    assert rows(total) == [("sum", 72)]
    assert not ds.run().did_something


@pytest.mark.scenario("X88")
def test_two_inputs_with_the_key_meet_and_two_outputs_are_written_together(ds, frame, rows):
    orders = ds.table("orders", "id long, price long", key="id")
    notes = ds.table("notes", "id long, n long, text string", key=["id", "n"])
    priced = ds.table("priced", "id long, price long", key="id")
    noted = ds.table("noted", "id long, texts string", key="id")

    def split(orders, notes):
        texts = notes.sort_values("n").groupby("id", as_index=False).agg(texts=("text", " ".join))
        return orders[["id", "price"]], texts[["id", "texts"]]

    step = ds.add(sm.BatchTransform(split, [orders, notes], [priced, noted], transform_keys=["id"], pandas=True))
    orders.upsert(frame(orders, [(1, 10), (2, None)]))
    notes.upsert(frame(notes, [(1, 1, "a"), (1, 2, "b"), (3, 1, "c")]))
    step.run_full(sm.RunConfig(fail_fast=True))

    assert rows(priced) == [(1, 10), (2, None)]
    assert rows(noted) == [(1, "a b"), (3, "c")]
    notes.delete(frame(notes, [(1, 1), (3, 1)], only_key=True))
    assert step.run_full().keys == 2
    assert rows(noted) == [(1, "b")]


@pytest.mark.scenario("X50")
@pytest.mark.scenario("X53")
@pytest.mark.scenario("X78")
def test_what_stops_a_spark_function_stops_one_for_pandas(ds, frame, tmp_path):
    numbers = ds.table("numbers", "id long", key="id")
    results = ds.table("results", "id long, value long", key="id")
    what = tmp_path / "what"

    def compute(numbers):
        mode = what.read_text()
        if mode == "fail":
            raise ValueError("no")
        wanted = {
            "column": numbers.assign(worth=1),
            "null": numbers.assign(id=None, value=1),
            "doubled": pd.concat([numbers, numbers]).assign(value=1),
            "foreign": numbers.assign(id=numbers.id + 1, value=1),
            "nothing": None,
            "good": numbers.assign(value=1),
        }
        return wanted[mode]

    step = ds.add(sm.BatchTransform(compute, [numbers], [results], pandas=True, max_failed_keys=2))
    what.write_text("good")
    numbers.upsert(frame(numbers, [(1,)]))
    step.run_full()
    standing, offsets = results.head, ds.offset_table.get_record_offsets("compute")
    numbers.upsert(frame(numbers, [(2,), (3,), (4,)]))

    for mode in ("column", "null", "doubled", "foreign", "nothing"):
        what.write_text(mode)
        with pytest.raises(BadOutput, match=r"(?s)step 'compute'.*Nothing of this batch was written"):
            step.run_full()
    what.write_text("fail")
    with pytest.raises(FunctionFailed, match=r'failed on key {"id":\d}: .*ValueError: no'):
        step.run_full(sm.RunConfig(fail_fast=True))
    with pytest.raises(TooManyFailures, match="3 keys failed"):
        step.run_full()
    assert step.failures().empty
    assert results.head == standing
    assert ds.offset_table.get_record_offsets("compute") == offsets
