"""Views over queries inside them: CTEs, grouped joins, EXISTS and windows, and which changes lead through them."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    return ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))


def paths(shop: ViewWorld, name: str = "v") -> dict[str, str]:
    """The kind of path from each table of a view, as `plan` shows it."""
    return {entry.table: entry.path for entry in shop.store.plan(name)[name].inputs}


# --- queries in FROM --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V59")
def test_a_customer_leads_to_his_orders_through_ctes_that_rename(shop):
    shop.view(
        "v",
        "WITH src AS (SELECT * FROM orders), renamed AS (SELECT id AS order_id, customer_id AS buyer, note AS remark "
        "FROM src WHERE note <> 'draft'), named AS (WITH c AS (SELECT id AS c, name AS n FROM customer) "
        "SELECT c AS buyer, upper(n) AS shouted FROM c) "
        "SELECT r.order_id, r.remark, n.shouted FROM renamed r LEFT JOIN named n ON n.buyer = r.buyer",
    )
    shop.put("customer", (1, "x", None), (2, "y", None))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"), (3, 2, "c"), (4, 2, "draft"), (5, None, "e"))
    shop.run()
    assert paths(shop) == {"orders": "sync", "customer": "grab"}
    assert shop.rows("v") == [(1, "a", "X"), (2, "b", "Y"), (3, "c", "Y"), (5, "e", None)]

    shop.put("customer", (2, "z", None))
    assert shop.keys() == 2  # the draft is no order here
    shop.put("orders", (4, 2, "done"), (1, 1, "draft"))
    assert shop.keys() == 2
    assert [row[0] for row in shop.rows("v")] == [2, 3, 4, 5]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V60")
def test_a_payment_that_moves_refreshes_two_orders_without_reading_a_hop(shop):
    shop.view(
        "v",
        "SELECT o.id, p.paid FROM orders o LEFT JOIN (SELECT order_id, sum(amount) AS paid FROM payment "
        "WHERE kind <> 'void' GROUP BY order_id) p ON p.order_id = o.id AND p.paid > 0",
    )
    shop.put("orders", (7, 1, "a"), (8, 1, "b"), (9, 1, "c"))
    shop.put("payment", (91, 7, "A", 5), (92, 7, "A", 6), (93, 8, "A", 1), (94, 9, "A", -1))
    shop.run()
    assert paths(shop)["payment"] == "transform"
    assert shop.rows("v") == [(7, 11), (8, 1), (9, None)]

    shop.put("payment", (92, 8, "A", 6))
    assert shop.keys() == 2
    assert shop.rows("v") == [(7, 5), (8, 7), (9, None)]
    shop.put("payment", (95, 7, "void", 3))
    assert shop.keys() == 0
    shop.drop("payment", 91)
    shop.put("payment", (94, 9, "A", 2))
    assert shop.keys() == 2
    assert shop.rows("v") == [(7, None), (8, 7), (9, 2)]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V61")
def test_what_a_left_joined_query_computes_is_null_where_it_has_no_row(shop):
    shop.view(
        "v",
        "SELECT o.id, c.n FROM orders o "
        "LEFT JOIN (SELECT id, coalesce(name, 'none') AS n FROM customer) c ON c.id = o.customer_id",
    )
    shop.view(
        "w",
        "SELECT coalesce(c.n, 'nobody') AS k, count(*) AS orders FROM orders o "
        "LEFT JOIN (SELECT id, coalesce(name, 'none') AS n FROM customer) c ON c.id = o.customer_id GROUP BY c.n",
        key="k",
    )
    shop.put("customer", (1, None, None), (2, "y", None))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, None, "d"))
    shop.run()
    assert shop.rows("v") == [(1, "none"), (2, "y"), (3, None), (4, None)]
    assert shop.rows("w") == [("nobody", 2), ("none", 1), ("y", 1)]

    shop.drop("customer", 1)
    shop.put("customer", (3, None, None))
    report = shop.run().steps
    assert (report["v"].keys, report["w"].keys) == (2, 2)
    assert shop.rows("v") == [(1, None), (2, "y"), (3, "none"), (4, None)]
    shop.assert_equal()
    shop.assert_settled()


def test_columns_that_a_query_inside_names_and_nobody_selects_are_there_for_spark_and_change_nothing(shop):
    """They are not read: but Spark gets the text as it was written, and must find every name in it."""
    shop.view(
        "v",
        "WITH o AS (SELECT id, customer_id, note, concat(note, '!') AS loud FROM orders), "
        "c AS (SELECT * EXCEPT (region_id), upper(name) AS shouted FROM customer) "
        "SELECT o.id, c.name FROM o JOIN c ON c.id = o.customer_id",
    )
    shop.view(
        "g",
        "SELECT c.region_id, count(*) AS n FROM (SELECT * FROM orders) o "
        "JOIN (SELECT * FROM customer) c ON c.id = o.customer_id WHERE c.region_id IS NOT NULL GROUP BY c.region_id",
    )
    shop.put("customer", (1, "x", 10), (2, "y", 20))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"))
    shop.run()
    assert (shop.rows("v"), shop.rows("g")) == ([(1, "x"), (2, "y")], [(10, 1), (20, 1)])

    shop.put("orders", (1, 1, "changed"))
    assert {step.keys for step in shop.run().steps.values()} == {0}
    shop.put("customer", (1, "z", 20))
    assert [step.keys for step in shop.run().steps.values()] == [1, 2]
    assert (shop.rows("v"), shop.rows("g")) == ([(1, "z"), (2, "y")], [(20, 2)])
    shop.assert_equal()
    shop.assert_settled()


def test_a_generator_inside_counts_even_where_nobody_selects_what_it_gives(shop):
    shop.view(
        "v",
        "SELECT t.id, count(*) AS tags FROM (SELECT id, explode(split(note, ',')) AS tag FROM orders) t GROUP BY t.id",
    )
    shop.put("orders", (1, 1, "a,b"), (2, 2, "c"))
    shop.run()
    shop.put("orders", (1, 1, "a,b,c"), (2, 2, None))
    assert shop.keys() == 2
    assert shop.rows("v") == [(1, 3)]
    shop.assert_equal()
    shop.assert_settled()


# --- queries in conditions --------------------------------------------------------------------------------------------


@pytest.mark.scenario("V62")
def test_rows_come_and_go_with_payments_and_only_the_orders_concerned_are_computed(shop):
    of_kind_a = "SELECT {} FROM payment p WHERE p.kind = 'A'"
    one = "p.order_id = o.id"
    with_some = [
        f"SELECT o.id FROM orders o WHERE EXISTS ({of_kind_a.format(1)} AND {one})",
        f"SELECT o.id FROM orders o WHERE o.id IN ({of_kind_a.format('p.order_id')})",
        f"SELECT o.id FROM orders o LEFT SEMI JOIN payment p ON {one} AND p.kind = 'A'",
    ]
    without_any = [
        f"SELECT o.id FROM orders o WHERE NOT EXISTS ({of_kind_a.format(1)} AND {one})",
        f"SELECT o.id FROM orders o LEFT ANTI JOIN payment p ON {one} AND p.kind = 'A'",
    ]
    for number, select in enumerate([*with_some, *without_any]):
        shop.view(f"v{number}", select)
    shop.put("orders", (7, 1, "a"), (8, 1, "b"), (9, 1, "c"), (10, 1, "d"))
    shop.put("payment", (91, 7, "A", 1), (92, 7, "A", 1), (93, 8, "B", 1), (94, None, "A", 1))
    shop.run()

    def after(change) -> tuple[set[int], list[int]]:
        """How many keys each view computed, and the orders with a payment of kind 'A'."""
        change()
        computed = {step.keys for step in shop.run().steps.values()}
        rows = [sorted(key for (key,) in shop.rows(f"v{number}")) for number in range(5)]
        assert rows[0] == rows[1] == rows[2]
        assert rows[3] == rows[4] == sorted({7, 8, 9, 10} - {*rows[0]})
        return computed, rows[0]

    assert after(lambda: shop.put("payment", (93, 9, "A", 1), (95, 10, "B", 1))) == ({1}, [7, 9])
    assert after(lambda: shop.put("payment", (93, 8, "A", 1))) == ({2}, [7, 8])
    shop.drop("payment", 91)
    assert after(lambda: shop.put("payment", (92, 7, "B", 1), (94, 10, "A", 1))) == ({2}, [8, 10])
    shop.assert_equal()
    shop.assert_settled()


def test_exists_with_two_correlations_and_a_scalar_query_lead_to_the_orders_that_agree_in_both(shop):
    shop.view(
        "v",
        "SELECT o.id, (SELECT max(q.amount) FROM payment q WHERE q.order_id = o.id AND q.kind = o.note) AS most "
        "FROM orders o WHERE EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.customer_id AND p.kind = o.note)",
    )
    shop.put("orders", (1, 1, "A"), (2, 1, "B"), (3, 2, "A"), (4, None, "A"), (5, 2, None))
    shop.put("payment", (91, 1, "A", 5), (92, 2, "B", 6))
    shop.run()
    assert shop.rows("v") == [(1, 5)]
    shop.put("payment", (93, 2, "A", 7))
    assert shop.keys() == 1 + 1  # order 3 of customer 2, and order 2 as one that it may be of
    shop.put("payment", (92, 1, "B", 8))
    shop.run()
    shop.assert_equal()
    shop.put("payment", (94, 2, "B", 9))
    shop.drop("payment", 91)
    shop.run()
    shop.assert_equal()
    shop.assert_settled()


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V65")
def test_an_order_that_moves_refreshes_the_rows_of_two_customers(shop):
    shop.view(
        "v",
        "SELECT * FROM (SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY id DESC) AS n FROM orders o) "
        "WHERE n = 1",
        key="id",
    )
    shop.put("orders", (1, 1, "a"), (2, 1, "b"), (3, 2, "c"), (4, 3, "d"), (5, None, "e"))
    shop.run()
    assert [row[:2] for row in shop.rows("v")] == [(2, 1), (3, 2), (4, 3), (5, None)]

    shop.put("orders", (2, 2, "b"))
    assert shop.keys() == 2
    assert [row[:2] for row in shop.rows("v")] == [(1, 1), (3, 2), (4, 3), (5, None)]
    shop.put("orders", (4, None, "d"))  # to those of no customer: the last of them stays
    assert shop.keys() == 2
    shop.drop("orders", 3, 5)
    assert shop.keys() == 2
    assert [row[:2] for row in shop.rows("v")] == [(1, 1), (2, 2), (4, None)]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V65")
def test_the_unit_of_two_windows_is_the_partition_that_both_have(shop):
    shop.view(
        "v",
        "SELECT o.id, rank() OVER (PARTITION BY c.region_id, o.note ORDER BY o.id) AS among_notes, "
        "sum(o.id) OVER w AS until FROM orders o JOIN customer c ON c.id = o.customer_id "
        "WINDOW w AS (PARTITION BY c.region_id ORDER BY o.id)",
        key="id",
    )
    shop.put("customer", (1, "x", 10), (2, "y", 20), (3, "z", None))
    shop.put("orders", (1, 1, "a"), (2, 1, "b"), (3, 2, "a"), (4, 2, "a"), (5, 3, "a"))
    shop.run()
    assert shop.rows("v") == [(1, 1, 1), (2, 1, 3), (3, 1, 3), (4, 2, 7), (5, 1, 5)]
    shop.put("orders", (2, 1, "a"))
    assert shop.keys() == 1  # the region, whatever the note
    shop.put("customer", (1, "x", 20))
    assert shop.keys() == 2
    shop.put("customer", (3, "z", 10))
    assert shop.keys() == 2
    assert shop.rows("v") == [(1, 1, 1), (2, 2, 3), (3, 3, 6), (4, 4, 10), (5, 1, 5)]
    shop.assert_equal()
    shop.assert_settled()
