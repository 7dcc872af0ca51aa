"""What a change does to a view's rows: they come, go and change with it, and only those it concerns are computed."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import ViewError

ORDER_V = """
SELECT o.id, o.note, c.name, r.title, x.memo FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id LEFT JOIN order_ext x ON x.order_id = o.id
"""


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    return ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))


@pytest.fixture
def order_v(shop) -> ViewWorld:
    """Three orders of two customers in two regions, one of them with a memo, and the settled view over them."""
    shop.view("v", ORDER_V + "WHERE o.note <> 'hidden'", key="id")
    shop.put("region", (1, "north", "A"), (2, "south", "A"))
    shop.put("customer", (1, "x", 1), (2, "y", 2))
    shop.put("orders", (6, 1, "a"), (7, 2, "b"), (8, 2, "c"))
    shop.put("order_ext", (7, "memo"))
    shop.run()
    return shop


def head(shop: ViewWorld) -> int | None:
    """The newest record of the view's table."""
    found = shop.store.control.index.head("v")
    return None if found is None else found.last_offset


# --- the left-most table ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("V16")
def test_orders_come_change_and_go_and_each_is_computed_once_per_run(order_v):
    shop = order_v
    for note in "pqrs":
        shop.put("orders", (8, 2, note))
    shop.put("orders", (9, 1, "new"), (8, 1, "t"))
    assert shop.keys() == 2
    assert shop.rows("v")[2:] == [(8, "t", "x", "north", None), (9, "new", "x", "north", None)]
    shop.assert_equal()

    shop.drop("orders", 6, 9)
    assert shop.keys() == 2
    assert [row[0] for row in shop.rows("v")] == [7, 8]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V18")
@pytest.mark.scenario("V24")
def test_a_row_goes_when_where_turns_false_and_a_change_that_leaves_it_equal_writes_nothing(order_v):
    """D1 of the original: a key that reads nothing was not deleted."""
    shop = order_v
    shop.put("orders", (7, 2, "hidden"))
    report = shop.run().steps["v"]
    assert (report.keys, report.retracted) == (1, 1)
    assert [row[0] for row in shop.rows("v")] == [6, 8]

    shop.put("orders", (7, 2, "b"))
    assert shop.run().steps["v"].appended == 1
    shop.assert_equal()

    before = head(shop)
    shop.put("customer", (3, "y", 2))
    shop.put("orders", (8, 3, "c"))  # another customer, of the same name and region
    report = shop.run().steps["v"]
    assert (report.keys, report.rows_out, head(shop)) == (1, 0, before)
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V23")
def test_an_order_that_is_deleted_and_comes_again_is_there(order_v):
    shop = order_v
    before = head(shop)
    shop.drop("orders", 7)
    shop.put("orders", (7, 2, "b"))
    assert shop.keys() == 1
    assert head(shop) == before  # its row has not changed
    shop.assert_equal()

    shop.drop("orders", 7)
    shop.run()
    assert [row[0] for row in shop.rows("v")] == [6, 8]
    shop.put("orders", (7, 1, "again"))
    shop.run()
    assert shop.rows("v")[1] == (7, "again", "x", "north", "memo")
    shop.assert_equal()
    shop.assert_settled()


# --- joined tables ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V17")
@pytest.mark.scenario("V19")
def test_an_order_without_its_customer_has_no_row(shop):
    """D1 and D2 of the original: rows stood on when their INNER partner was lost or deleted."""
    shop.view("v", ORDER_V, key="id")
    shop.put("orders", (1, 5, "a"), (2, None, "b"))
    shop.run()
    assert shop.rows("v") == []

    shop.put("customer", (5, "x", None))
    assert shop.keys() == 1
    assert shop.rows("v") == [(1, "a", "x", None, None)]

    shop.drop("customer", 5)
    assert shop.keys() == 1
    assert shop.rows("v") == []

    shop.put("customer", (5, "back", None))
    shop.put("orders", (2, 5, "b"))
    shop.run()
    assert [row[2] for row in shop.rows("v")] == ["back", "back"]
    shop.put("orders", (2, 77, "b"))  # to a customer who does not exist
    assert shop.keys() == 1
    assert [row[0] for row in shop.rows("v")] == [1]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V20")
def test_what_a_left_joined_row_gave_is_null_once_it_is_deleted(order_v):
    """D2 of the original: a changed row had to be there still, so a delete was lost."""
    shop = order_v
    shop.drop("order_ext", 7)
    assert shop.keys() == 1
    shop.drop("region", 2)
    assert shop.keys() == 2
    assert shop.rows("v") == [(6, "a", "x", "north", None), (7, "b", "y", None, None), (8, "c", "y", None, None)]
    shop.put("region", (2, "again", "B"), (9, "of nobody", None))
    assert shop.keys() == 2
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V21")
@pytest.mark.scenario("V22")
def test_a_payment_that_moves_concerns_both_orders_and_one_of_another_kind_none(shop):
    """D3 and D4 of the original: the order before was not refreshed, and a delete of kind 'B' deleted the row."""
    shop.view(
        "v",
        "SELECT o.id, p.pay_id, p.amount FROM orders o JOIN payment p ON p.order_id = o.id AND p.kind = 'A'",
        key=["id", "pay_id"],
    )
    shop.put("orders", (7, 1, "a"), (8, 1, "b"), (9, 1, "c"))
    shop.put("payment", (91, 7, "A", 5), (92, 7, "B", 6))
    shop.run()

    shop.drop("payment", 92)
    assert shop.keys() == 0
    assert shop.rows("v") == [(7, 91, 5)]

    shop.put("payment", (91, 8, "A", 5))
    assert shop.keys() == 2
    assert shop.rows("v") == [(8, 91, 5)]

    shop.put("payment", (91, 9, "B", 5))  # it moves and is of another kind: only the order before is concerned
    assert shop.keys() == 1
    assert shop.rows("v") == []
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V38")
def test_a_renamed_manager_refreshes_his_reports_only(shop):
    shop.add_table("employee", "id long, name string, manager_id long", key="id")
    shop.view(
        "v",
        "SELECT e.id, e.name, m.name AS manager FROM employee e LEFT JOIN employee m ON m.id = e.manager_id",
        key="id",
    )
    shop.put("employee", (1, "Ann", None), (2, "Bob", 1), (3, "Cid", 1), (4, "Dan", 2), (5, "Eve", 5))
    shop.run()
    shop.put("employee", (2, "Bert", 1))
    assert shop.keys() == 2  # himself, and Dan
    shop.put("employee", (5, "Eva", 5))  # her own manager
    assert shop.keys() == 1
    shop.drop("employee", 1)
    assert shop.keys() == 3
    assert shop.rows("v") == [(2, "Bert", None), (3, "Cid", None), (4, "Dan", "Bert"), (5, "Eva", "Eva")]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V13")
def test_keys_of_several_columns_stay_pairs(shop):
    """Were the columns taken by themselves, (1, 1) and (2, 2) would be found for (1, 2) and (2, 1) as well."""
    shop.add_table("line", "order_id long, no int, store_id long, sku string, n long", key=["order_id", "no"])
    shop.add_table("stock", "store_id long, sku string, place string", key=["store_id", "sku"])
    shop.add_table("packing", "pack_id long, order_id long, no int, box string", key="pack_id")
    shop.view(
        "v",
        "SELECT l.order_id, l.no, s.place, p.box FROM line l "
        "LEFT JOIN stock s ON s.store_id = l.store_id AND s.sku = l.sku "
        "LEFT JOIN packing p ON p.order_id = l.order_id AND p.no = l.no",
        key=["order_id", "no"],
    )
    shop.put("line", (1, 1, 1, "a", 1), (1, 2, 1, "b", 1), (2, 1, 2, "a", 1), (2, 2, 2, "b", 1), (3, 1, None, "b", 1))
    shop.put("stock", (1, "a", "p1a"), (1, "b", "p1b"), (2, "a", "p2a"), (2, "b", "p2b"))
    shop.run()
    shop.put("stock", (1, "b", "P1B"), (2, "a", "P2A"))
    assert shop.keys() == 2
    shop.put("packing", (91, 1, 2, "red"), (92, 2, 1, "blue"), (93, 3, 2, "of no line"), (94, 1, None, "nor this"))
    assert shop.keys() == 2 + 1  # 3/2 is asked for as well: what it is not can only be known by reading
    assert shop.rows("v") == [
        (1, 1, "p1a", None),
        (1, 2, "P1B", "red"),
        (2, 1, "P2A", "blue"),
        (2, 2, "p2b", None),
        (3, 1, None, None),
    ]
    shop.drop("line", (1, 2))
    shop.drop("stock", (1, "b"), (2, "b"))
    shop.run()
    shop.assert_equal()
    shop.assert_settled()


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V25")
def test_a_column_of_the_view_s_table_that_it_does_not_produce_is_null_or_an_error_where_it_must_not_be(shop):
    shop.add_table("v", "id long, note string, extra string", key="id")
    shop.view("v", "SELECT o.id, o.note FROM orders o", key="id")
    shop.put("orders", (1, 5, "a"))
    shop.run()
    assert shop.rows("v") == [(1, "a", None)]

    shop.add_table("w", "id long, note string not null", key="id")
    with pytest.raises(ViewError, match=r"needs a value in 'note'") as raised:
        shop.store.view("w", "SELECT o.id FROM orders o", key="id")
    assert [issue.kind for issue in raised.value.issues if issue.is_error] == ["RequiredColumnMissing"]
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V25")
@pytest.mark.scenario("V55")
def test_columns_more_in_the_view_s_table_read_null_and_in_a_source_table_they_are_seen_at_once(shop):
    shop.add_table("v", "id long, note string, extra string", key="id")
    view = shop.view("v", "SELECT o.id, o.note FROM orders o", key="id")
    shop.put("orders", (1, 5, "a"))
    shop.run()
    assert shop.rows("v") == [(1, "a", None)]

    shop.add_table("orders", "id long, customer_id long, note string, place string", key="id")
    shop.put("orders", (1, 5, "b", "p"), (2, 5, "c", "q"))
    assert shop.keys() == 2
    assert shop.store.view("v") is view
    shop.put("orders", (1, 5, "b", "of no use to the view"))
    assert shop.run().steps["v"].rows_out == 0
    shop.assert_equal()

    shop.view("v", "SELECT o.id, o.note, o.place AS extra FROM orders o", key="id", on_change="recompute")
    shop.run()
    assert shop.rows("v") == [(1, "b", "of no use to the view"), (2, "c", "q")]
    shop.assert_equal()
    shop.assert_settled()
