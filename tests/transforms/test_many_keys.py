"""Many keys wait, and a run takes few: the driver is given those that it takes, whatever the number of the others."""

from __future__ import annotations

import pytest

import seamark as sm

MANY = 400


@pytest.fixture
def pairs(ds, spark, set_small, monkeypatch):
    """Two inputs with the same keys and a step over both, in a store for which twenty rows are many."""
    set_small(monkeypatch, 20)
    left = ds.table("left", "k long, a long", key="k")
    right = ds.table("right", "k long, b long", key="k")
    both = ds.table("both", "k long, a long, b long", key="k")

    @ds.transform(inputs=[left, right], outputs=[both])
    def pair(left, right):
        return left.join(right, "k", "full")

    left.upsert(spark.range(MANY).selectExpr("id AS k", "id AS a"))
    right.upsert(spark.range(MANY).selectExpr("id AS k", "-id AS b"))
    return ds, left, right, both


@pytest.mark.scenario("X106")
def test_a_limited_first_run_fetches_no_more_keys_than_it_takes(pairs, fetched):
    ds, _, _, both = pairs
    taken: list[int] = []
    for _ in range(3):
        fetched.clear()
        assert ds.run("pair", limit=10).steps["pair"].keys == 10
        assert fetched.most_rows <= 11
        taken = sorted(row.k for row in both.rows().collect())

    assert taken == list(range(30))
    assert ds.run("pair").ok
    assert both.rows().where("a = k AND b = -k").count() == MANY
    assert not ds.run().did_something


@pytest.mark.scenario("X106")
def test_after_a_reset_of_one_input_a_limited_run_fetches_no_more_keys_than_it_takes(pairs, fetched, spark):
    ds, left, _, both = pairs
    assert ds.run("pair").ok
    left.upsert(spark.range(MANY).selectExpr("id AS k", "id + 1 AS a"))
    ds.offset_table.reset_offset("pair", "left")

    for number in (1, 2, 3):
        fetched.clear()
        assert ds.run("pair", limit=10).steps["pair"].keys == 10
        assert fetched.most_rows <= 11
        assert both.rows().where("a = k + 1").count() == 10 * number

    fetched.clear()
    assert ds.run("pair").ok
    assert fetched.most_rows < MANY
    assert both.rows().where("a = k + 1").count() == MANY


@pytest.mark.scenario("X106")
def test_whoever_waits_longest_comes_first_in_whichever_input(pairs, clock, frame):
    ds, left, right, both = pairs
    assert ds.run("pair").ok
    for table, first in ((right, 300), (left, 100), (right, 0)):
        clock.advance(minutes=1)
        table.upsert(frame(table, [(k, 1) for k in range(first, first + 30)]))

    taken = []
    for _ in range(3):
        before = both.head.offset
        assert ds.run("pair", limit=25).steps["pair"].keys == 25
        taken.append(sorted(row.k for row in both.changes(after=before).where("op = 3").collect()))

    assert taken[0] == list(range(300, 325))
    assert taken[1] == [*range(100, 120), *range(325, 330)]
    assert taken[2] == [*range(15), *range(120, 130)]


@pytest.mark.scenario("X106")
def test_a_filter_and_a_limit_leave_the_others_waiting(pairs, fetched):
    ds, _, _, both = pairs
    step = ds.step("pair")
    assert step.run_full(sm.RunConfig(filters={"k": 399}, limit=10)).keys == 1
    assert fetched.most_rows <= 11
    assert [row.k for row in both.rows().collect()] == [399]
    assert step.run_full(sm.RunConfig(filters={"k": 399}, limit=10)).keys == 0
    assert step.get_changed_idx_count() == MANY - 1
    assert ds.run("pair").ok
    assert both.rows().count() == MANY
