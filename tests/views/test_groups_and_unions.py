"""Rows that are made of several: groups that fill and empty, orders with several rows, and parts side by side."""

from __future__ import annotations

from datetime import date

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    return ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V35")
def test_exactly_the_groups_that_a_change_concerns_are_computed(shop):
    shop.view(
        "v",
        "SELECT c.region_id, count(*) AS n, sum(o.id) AS s, min(o.note) AS first, max(o.note) AS last "
        "FROM orders o JOIN customer c ON c.id = o.customer_id WHERE c.region_id IS NOT NULL GROUP BY c.region_id",
    )
    shop.put("customer", (1, "x", 10), (2, "y", 20), (3, "z", 30))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 3, "d"))
    assert shop.keys() == 3

    shop.put("orders", (5, 1, "e"))
    assert shop.keys() == 1
    assert shop.rows("v") == [(10, 2, 6, "a", "e"), (20, 1, 2, "b", "b"), (30, 2, 7, "c", "d")]
    shop.put("orders", (5, 2, "e"))  # to a customer of another region
    assert shop.keys() == 2
    shop.put("customer", (2, "renamed", 20))  # which no group shows
    assert shop.keys() == 0
    shop.put("customer", (2, "renamed", 30))  # with all his orders: the group 20 is empty
    assert shop.keys() == 2
    assert shop.rows("v") == [(10, 1, 1, "a", "a"), (30, 4, 14, "b", "e")]
    shop.assert_equal()

    shop.drop("orders", 1)
    report = shop.run().steps["v"]
    assert (report.keys, report.retracted, len(shop.rows("v"))) == (1, 1, 1)
    shop.put("customer", (3, "z", None))
    assert shop.keys() == 1
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V49")
def test_a_group_of_two_joined_columns_that_change_in_one_run(shop):
    """The group before is that of both old values; in between, by batches, stand those with one of each."""
    shop.view(
        "v",
        "SELECT r.country, p.kind, count(*) AS n FROM orders o JOIN region r ON r.id = o.customer_id "
        "JOIN payment p ON p.pay_id = o.id WHERE r.country IS NOT NULL GROUP BY r.country, p.kind",
        batch_rows=1,
    )
    shop.put("region", (1, "t", "A"), (2, "t", "C"))
    shop.put("payment", (1, None, "X", 1), (2, None, "Z", 1))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"))
    shop.run()
    shop.put("region", (1, "t", "B"))
    shop.put("payment", (1, None, "Y", 1))
    shop.run()
    assert shop.rows("v") == [("B", "Y", 1), ("C", "Z", 1)]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V66")
def test_groups_of_a_table_that_rows_are_only_appended_to(shop):
    shop.view(
        "v",
        "SELECT k.url, c.name, count(*) AS n FROM clicks k JOIN customer c ON c.id = k.user_id "
        "WHERE c.name IS NOT NULL GROUP BY k.url, c.name",
    )
    shop.put("customer", (1, "x", None), (2, "y", None), (3, "z", None))
    shop.put("clicks", ("p", 1), ("p", 1), ("p", 2), ("q", 1), ("q", 3))
    shop.run()
    assert shop.rows("v") == [("p", "x", 2), ("p", "y", 1), ("q", "x", 1), ("q", "z", 1)]

    shop.put("clicks", ("p", 1), ("p", None), ("q", 9))
    assert shop.keys() == 1
    shop.put("customer", (1, "y", None))  # x goes, and y has the clicks of both
    assert shop.keys() == 2 + 2
    assert shop.rows("v") == [("p", "y", 4), ("q", "y", 1), ("q", "z", 1)]
    shop.drop("customer", 3)
    assert shop.keys() == 1
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V67")
def test_a_group_of_what_may_be_missing_is_right_after_a_run_with_a_limit(shop):
    shop.view(
        "v",
        "SELECT coalesce(r.country, 'none') AS country, count(*) AS n, min(o.id) AS first FROM orders o "
        "LEFT JOIN region r ON r.id = o.customer_id GROUP BY coalesce(r.country, 'none')",
    )
    shop.put("region", (1, "t", "A"), (2, "t", "B"))
    shop.put("orders", (1, 1, "a"), (2, 1, "b"), (3, 2, "c"), (4, None, "d"))
    shop.run()
    assert shop.rows("v") == [("A", 2, 1), ("B", 1, 3), ("none", 1, 4)]

    shop.drop("region", 1)
    assert shop.run(limit=1).steps["v"].keys == 1  # of the groups 'A' and 'none' one waits
    shop.put("region", (1, "back", "C"))
    shop.run()
    assert shop.rows("v") == [("B", 1, 3), ("C", 2, 1), ("none", 1, 4)]
    shop.assert_equal()
    shop.assert_settled()


def test_a_group_of_null_is_a_group_where_the_key_says_so(shop):
    """The key column has a value for it, so its rows are found again by NULL itself, also from the joined side."""
    for name, column in (("v", "o.note"), ("w", "c.name")):
        shop.view(
            name,
            f"SELECT coalesce({column}, 'none') AS k, count(*) AS n FROM orders o "
            f"JOIN customer c ON c.id = o.customer_id GROUP BY {column}",
            key="k",
        )
    shop.put("customer", (1, None, 1), (2, "y", 1))
    shop.put("orders", (1, 1, None), (2, 1, "a"), (3, 2, None), (4, 1, "a"))
    shop.run()
    assert (shop.rows("v"), shop.rows("w")) == ([("a", 2), ("none", 2)], [("none", 3), ("y", 1)])
    shop.put("orders", (1, 2, "a"))
    shop.run()
    assert (shop.rows("v"), shop.rows("w")) == ([("a", 3), ("none", 1)], [("none", 2), ("y", 2)])
    shop.put("customer", (1, "y", 1))
    shop.drop("orders", 3)
    shop.run()
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V70")
@pytest.mark.parametrize("refresh", ["full", "auto"])
def test_what_has_no_unit_is_computed_as_a_whole_and_only_what_differs_is_written(shop, refresh, count_jobs):
    shop.view("v", "SELECT o.id, rank() OVER (ORDER BY o.note) AS place FROM orders o", key="id", refresh=refresh)
    shop.put("orders", (1, 1, "a"), (2, 1, "b"), (3, 1, "c"))
    shop.run()
    shop.put("orders", (4, 1, "c"), (2, 2, "b"))
    assert shop.run().steps["v"].rows_out == 1
    shop.put("orders", (1, 1, "z"))
    report = shop.run().steps["v"]
    assert (report.keys, report.corrected) == (1, 4)
    shop.assert_equal()
    with count_jobs() as counted:
        assert not shop.run().did_something
    assert counted.jobs == 0


@pytest.mark.scenario("V70")
@pytest.mark.parametrize(
    ("select", "key", "why"),
    [
        (
            "SELECT o.id, o.note FROM orders o ORDER BY o.id LIMIT 2",
            "id",
            "LIMIT: which rows are in depends on all others",
        ),
        ("SELECT k.url, k.user_id FROM clicks k", "url", "'clicks' is append-only"),
        ("SELECT t.note FROM (SELECT note FROM orders WHERE note <> 'hidden') t", "note", "'orders.id', by which"),
    ],
    ids=["no unit", "no key", "out of reach"],
)
def test_plan_says_why_a_view_is_computed_as_a_whole(shop, select, key, why):
    view = shop.view("v", select, key=key, refresh="auto")
    assert view.unit == "all rows"
    paths = {one.path for one in view.plan().inputs}
    assert len(paths) == 1
    assert paths.pop().startswith(f"all rows ({why}")
    shop.put("orders", (1, 1, "a"), (2, 1, "b"))
    shop.put("clicks", ("p", 1), ("q", 2))
    shop.run()
    shop.put("orders", (1, 1, "z"), (3, 1, "c"))
    shop.put("clicks", ("r", 1))
    shop.run()
    shop.assert_equal()
    shop.assert_settled()
    shop.view("v", f"{select} -- again", key=key, refresh="auto")
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings


def test_a_column_that_is_null_in_one_part_is_kept_in_the_type_of_the_other(shop):
    shop.view(
        "v",
        "SELECT o.id, o.note, NULL AS region FROM orders o "
        "UNION ALL SELECT c.id + 100 AS id, NULL AS note, c.region_id AS region FROM customer c",
        key="id",
    )
    shop.put("orders", (1, 1, "a"), (2, 1, None))
    shop.put("customer", (1, "x", 7), (2, "y", None))
    shop.run()
    assert shop.rows("v") == [(1, "a", None), (101, None, 7), (102, None, None), (2, None, None)]
    shop.put("orders", (1, 1, "b"))
    shop.put("customer", (2, "y", 8))
    assert shop.keys() == 2
    shop.assert_equal()
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings


# --- several rows -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V36")
def test_an_order_has_as_many_rows_as_payments(shop):
    shop.view(
        "v",
        "SELECT o.id, p.pay_id, o.note, p.amount FROM orders o JOIN payment p ON p.order_id = o.id",
        key=["id", "pay_id"],
    )
    shop.put("orders", (7, 1, "a"), (8, 1, "b"))
    shop.put("payment", (91, 7, "A", 1), (92, 7, "A", 2), (93, 8, "A", 3))
    shop.run()

    shop.put("payment", (94, 7, "A", 4), (91, 7, "A", 10))
    report = shop.run().steps["v"]
    assert (report.keys, report.appended, report.corrected) == (1, 1, 1)
    shop.put("orders", (7, 1, "all of its rows"))
    report = shop.run().steps["v"]
    assert (report.keys, report.corrected) == (1, 3)
    shop.drop("payment", 92)
    report = shop.run().steps["v"]
    assert (report.keys, report.retracted) == (1, 1)
    shop.drop("orders", 7)
    assert shop.run().steps["v"].retracted == 2
    assert shop.rows("v") == [(8, 93, "b", 3)]
    shop.assert_equal()
    shop.assert_settled()


def test_a_generator_gives_as_many_rows_as_it_finds(shop):
    shop.view("v", "SELECT o.id, posexplode(split(o.note, ',')) AS (place, tag) FROM orders o", key=["id", "place"])
    shop.put("orders", (1, 1, "a,b"), (2, 1, "c"), (3, 1, None))
    shop.run()
    shop.put("orders", (1, 1, "a,x,y"), (2, 1, None), (3, 1, "z"))
    assert shop.keys() == 3
    assert shop.rows("v") == [(1, 0, "a"), (1, 1, "x"), (1, 2, "y"), (3, 0, "z")]
    shop.assert_equal()
    shop.assert_settled()


# --- computed keys and parts ------------------------------------------------------------------------------------------


@pytest.mark.scenario("V32")
@pytest.mark.scenario("V33")
def test_two_parts_with_a_constant_each_and_a_computed_key(shop):
    shop.view(
        "v",
        "SELECT o.id, 1 AS source, o.note AS t FROM orders o "
        "UNION ALL SELECT c.id, 2 AS source, c.name AS t FROM customer c",
        key=["id", "source"],
    )
    shop.view("w", "SELECT concat('o-', o.id) AS k, o.note FROM orders o", key="k")
    shop.put("orders", (5, 1, "order"), (6, 1, "other"))
    shop.put("customer", (5, "customer", None))
    shop.run()
    assert shop.rows("v") == [(5, 1, "order"), (5, 2, "customer"), (6, 1, "other")]

    shop.put("orders", (5, 1, "changed"))
    report = shop.run()
    assert [(step.keys, step.corrected, step.rows_out) for step in report.steps.values()] == [(1, 1, 1), (1, 1, 1)]
    assert shop.rows("w") == [("o-5", "changed"), ("o-6", "other")]
    shop.drop("orders", 5)
    report = shop.run()
    assert [(step.keys, step.retracted, step.rows_out) for step in report.steps.values()] == [(1, 1, 1), (1, 1, 1)]
    assert (shop.rows("v"), shop.rows("w")) == ([(5, 2, "customer"), (6, 1, "other")], [("o-6", "other")])

    shop.put("orders", (5, 1, "back"))
    shop.drop("customer", 5)
    assert shop.run().steps["v"].keys == 2
    shop.assert_equal()
    shop.assert_settled()


def test_three_parts_with_units_of_different_types_and_numbers(shop):
    """A part's own unit stands in the hidden columns as text, NULL in those that it does not need."""
    shop.add_table("day", "day date, note string", key="day")
    shop.view(
        "v",
        "SELECT concat('order ', o.id) AS k, c.name AS t, 1L AS n FROM orders o "
        "LEFT JOIN customer c ON c.id = o.customer_id "
        "UNION ALL SELECT concat('day ', d.day) AS k, d.note AS t, 1L AS n FROM day d "
        "UNION ALL SELECT concat('pays ', p.kind, coalesce(p.amount, -1)) AS k, min(o.note) AS t, count(*) AS n "
        "FROM payment p LEFT JOIN orders o ON o.id = p.order_id GROUP BY p.kind, p.amount",
        key="k",
    )
    shop.put("customer", (1, "x", None))
    shop.put("orders", (1, 1, "a"), (2, None, "b"), (-3, 1, "c"))
    shop.put("day", (date(2026, 2, 28), "cold"), (date(1969, 12, 31), "older"))
    shop.put("payment", (91, 1, "A", 5), (92, 2, "A", 5), (93, 9, "A", None), (94, 2, "B\nC", -7))
    shop.run()
    shop.assert_equal()

    shop.put("customer", (1, "y", None))
    assert shop.keys() == 2
    shop.put("orders", (2, None, "changed"))
    assert shop.keys() == 2  # the groups of what was paid for it: its own row shows no note
    shop.put("payment", (91, 1, "A", None))
    assert shop.keys() == 2
    shop.drop("payment", 93, 94)
    shop.drop("day", date(1969, 12, 31))
    assert shop.keys() == 3
    shop.drop("orders", -3)
    assert shop.keys() == 1
    shop.assert_equal()
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings
