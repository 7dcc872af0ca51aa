"""Views as steps of a store: declared, loaded, loaded again, explained, failed and settled."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.errors import DefinitionChanged, SchemaChangeRefused, UnknownView, ViewError
from seamark.ledger.verify import VerifyReport

ORDER_V = "SELECT o.id, c.name, o.note FROM orders o JOIN customer c ON c.id = o.customer_id"
TWO_VIEWS = f"""
CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS {ORDER_V};
CREATE MATERIALIZED VIEW b AS SELECT o.nope FROM orders o;
"""


@pytest.fixture
def shop(spark, tmp_path) -> ViewWorld:
    return reopened(spark, tmp_path)


def reopened(spark, tmp_path) -> ViewWorld:
    return ViewWorld(sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark))


def replayed(shop: ViewWorld) -> VerifyReport:
    found = shop.store.verify(replay=True)
    assert found.ok, found.findings
    assert found.not_replayable == 0
    return found


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V74")
def test_a_doubled_key_fails_its_order_alone_and_is_right_again_when_it_is_gone(shop):
    shop.view("v", "SELECT o.id, p.kind FROM orders o JOIN payment p ON p.order_id = o.id", key="id")
    shop.put("orders", (7, 1, "a"), (8, 1, "b"))
    shop.put("payment", (90, 7, "A", 1), (91, 8, "A", 1))
    shop.run()

    shop.put("payment", (92, 7, "A", 1), (91, 8, "B", 1))
    report = shop.run()

    (failure,) = shop.store.view("v").failed_keys()
    assert (failure.key, failure.error) == ('{"id":7}', "2 rows have the key id=7")
    assert report.steps["v"].failed == 1
    assert shop.rows("v") == [(7, "A"), (8, "B")]  # what it had stays, others go on

    shop.drop("payment", 90)
    shop.run()
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V75")
def test_a_null_in_the_key_fails_its_unit_and_names_the_column(shop):
    shop.view("v", "SELECT o.note AS k, o.id FROM orders o", key="k")
    shop.put("orders", (1, 1, None), (2, 1, "b"))
    shop.run()
    (failure,) = shop.store.view("v").failed_keys()
    assert failure.error == "column 'k' is NULL, and its key has no NULL"
    assert shop.rows("v") == [("b", 2)]

    shop.put("orders", (1, 1, "a"))
    shop.run()
    shop.assert_equal()


@pytest.mark.scenario("V76")
@pytest.mark.parametrize("taker", [1, 2])
def test_a_key_that_moves_from_one_order_to_another_is_no_doubled_one(shop, taker):
    shop.view("v", "SELECT o.note AS k, o.id FROM orders o WHERE o.note IS NOT NULL", key="k", batch_rows=1)
    giver = 3 - taker
    shop.put("orders", (giver, 1, "key"), (taker, 1, None))
    shop.run()
    shop.put("orders", (taker, 1, "key"))
    shop.put("orders", (giver, 1, None))
    shop.run()
    assert shop.rows("v") == [("key", taker)]
    shop.assert_equal()
    shop.assert_settled()
    replayed(shop)


@pytest.mark.scenario("V34")
def test_a_key_that_depends_on_another_column_moves_with_it(shop):
    shop.view("v", "SELECT concat(o.id, o.note) AS k, o.customer_id FROM orders o", key="k")
    shop.put("orders", (1, 5, "a"))
    shop.run()
    shop.put("orders", (1, 5, "b"))
    assert shop.run().steps["v"].keys == 1
    assert shop.rows("v") == [("1b", 5)]
    replayed(shop)


def test_of_two_units_that_claim_a_key_the_one_that_has_it_keeps_it(shop):
    shop.view("v", "SELECT o.note AS k, o.id FROM orders o", key="k")
    shop.put("orders", (2, 1, "a"))
    shop.run()
    shop.put("orders", (1, 1, "a"))
    shop.run()
    assert shop.rows("v") == [("a", 2)]
    (failure,) = shop.store.view("v").failed_keys()
    assert failure.error == "the key k=a is given by id=2 as well"

    shop.put("orders", (2, 1, "b"))  # tried again with the next batch, whatever its pause
    shop.run()
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V77")
def test_hidden_columns_are_seen_by_nobody(shop):
    shop.view("v", "SELECT concat('o-', o.id) AS k, o.note FROM orders o", key="k")
    shop.view("w", "SELECT * FROM v", key="k")
    shop.put("orders", (1, 1, "a"))
    shop.run()
    table = shop.store.table("v")
    assert table.rows().columns == ["k", "note"]
    assert table.get_data([{"k": "o-1"}]).columns == ["k", "note"]
    assert shop.store.table("w").rows().columns == ["k", "note"]
    assert {"_part", "_owner"} <= set(table.changes().columns)


# --- where a row comes from -------------------------------------------------------------------------------------------


@pytest.mark.scenario("V91")
def test_why_names_the_rows_that_made_a_row_and_no_others(shop):
    shop.view(
        "v",
        "SELECT o.id, p.pay_id, c.name FROM orders o JOIN customer c ON c.id = o.customer_id "
        "JOIN payment p ON p.order_id = o.id",
        key=["id", "pay_id"],
    )
    shop.put("customer", (1, "x", None), (2, "y", None))
    shop.put("orders", (7, 1, "a"), (8, 2, "b"))
    shop.put("payment", (91, 7, "A", 1), (92, 7, "A", 1), (93, 8, "A", 1))
    shop.run()
    behind = shop.store.why("v", {"id": 7, "pay_id": 91}).inputs
    assert {(one.table, *one.key.values()) for one in behind} == {("orders", 7), ("customer", 1), ("payment", 91)}


@pytest.mark.scenario("V91")
def test_why_goes_through_rows_with_hidden_columns(shop):
    shop.view("entry", "SELECT concat('o', o.id) AS entry, o.customer_id FROM orders o", key="entry")
    shop.view(
        "balance", "SELECT e.customer_id, count(*) AS n FROM entry e WHERE e.customer_id > 0 GROUP BY e.customer_id"
    )

    @shop.store.transform(
        inputs=[shop.store.table("balance")],
        outputs=[shop.store.table("d", "customer_id long, m long", key="customer_id")],
    )
    def doubled(balance):
        return balance.selectExpr("customer_id", "n * 2 AS m")

    shop.put("orders", (1, 7, "a"), (2, 8, "b"))
    shop.run()
    for table in ("balance", "d"):
        behind = [(one.table, *one.key.values()) for one in shop.store.why(table, {"customer_id": 7}).walk()]
        assert behind[-2:] == [("entry", "o1"), ("orders", 1)]


def test_a_key_that_cannot_be_null_is_not_warned_of(shop):
    text = """
        CREATE MATERIALIZED VIEW a PRIMARY KEY (customer_id) AS
        SELECT o.customer_id, count(*) AS n FROM orders o WHERE o.customer_id IS NOT NULL GROUP BY o.customer_id;
        CREATE MATERIALIZED VIEW b PRIMARY KEY (customer_id) AS SELECT a.customer_id, a.n FROM a;
    """
    assert shop.store.check_views(text) == []
    assert [issue.kind for issue in shop.store.check_views(text.replace("IS NOT NULL", "IS NULL"))] == ["NullableKey"]


def test_a_view_whose_table_has_rows_is_not_said_to_lack_it(shop):
    text = "CREATE ASYNC MATERIALIZED VIEW v AS SELECT o.id AS id FROM orders AS o;"
    assert {issue.kind for issue in shop.store.load_views(text)} == {"MissingTargetTable", "UselessView"}
    shop.put("orders", (1, 1, "n"))
    shop.run()
    assert {issue.kind for issue in shop.store.check_views(text)} == {"UselessView"}
    assert shop.store.view("v").query.split() == ["SELECT", "o.id", "AS", "id", "FROM", "orders", "AS", "o"]


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("V82")
def test_a_view_is_a_step_and_a_table_of_its_name(shop):
    view = shop.view("order_v", ORDER_V, key="id")
    assert shop.store.step("order_v") is shop.store.view("order_v") is view
    assert shop.store.table("order_v").schema.names == ("id", "name", "note")
    with pytest.raises(UnknownView, match="there is no view 'order_w'"):
        shop.store.view("order_w")


@pytest.mark.scenario("V8")
def test_an_error_loads_nothing_and_says_all_of_them(shop):
    with pytest.raises(ViewError, match=r"o\.nope") as raised:
        shop.store.load_views(TWO_VIEWS)
    assert [issue.kind for issue in raised.value.issues if issue.is_error] == ["IllegalOutputReference"]
    assert shop.store.step_names() == []


@pytest.mark.scenario("V78")
def test_what_has_no_error_is_loaded_where_that_is_asked_for(shop):
    found = shop.store.load_views(TWO_VIEWS, strict=False)
    assert (found.ok, found.loaded, found.left_out) == (False, ("a",), ("b",))
    mended = shop.store.load_views(TWO_VIEWS.replace("o.nope", "o.id"), strict=False)
    assert (mended.ok, mended.loaded, mended.left_out) == (True, ("a", "b"), ())


@pytest.mark.scenario("V79")
def test_a_source_that_is_loaded_again_replaces_what_it_gave(shop, tmp_path):
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "a.sql").write_text(f"CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS {ORDER_V}")
    shop.store.load_views(folder)
    shop.put("orders", (1, 1, "n"))
    shop.put("customer", (1, "x", None))
    shop.run()

    (folder / "a.sql").rename(folder / "a.off")
    (folder / "b.sql").write_text("CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS SELECT o.id FROM orders o")
    assert shop.store.load_views(folder).stopped == ("a",)
    shop.put("orders", (2, 1, "m"))
    shop.run()
    assert shop.rows("a") == [(1, "x", "n")]  # it stands still
    assert shop.store.why("a", {"id": 1}).step == "a"

    (folder / "a.off").rename(folder / "a.sql")
    shop.store.load_views(folder)
    shop.run()
    assert shop.rows("a") == [(1, "x", "n"), (2, "x", "m")]


@pytest.mark.scenario("V79")
@pytest.mark.parametrize(
    ("first", "place"),
    [("file", "a.sql:1:26"), ("text", "texts:1:26"), ("unnamed", "another text:1:26"), ("view", "ds.view")],
)
def test_a_view_that_another_source_defines_is_left_out_and_both_places_are_named(shop, tmp_path, first, place):
    select = "SELECT o.id, o.note FROM orders o"
    text = f"CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS {select}"
    if first == "view":
        shop.store.view("a", select)
    elif first == "file":
        (tmp_path / "a.sql").write_text(text)
        shop.store.load_views(tmp_path / "a.sql")
    else:
        shop.store.load_views(text, name="texts" if first == "text" else None)
    before = shop.store.view("a")

    again = f"CREATE MATERIALIZED VIEW b AS {select};\n{text.replace('VIEW a', 'VIEW A')}"
    with pytest.raises(ViewError) as raised:
        shop.store.load_views(again, name="more")
    (issue,) = raised.value.issues
    assert (issue.kind, issue.phase, issue.line, issue.column) == ("DuplicateView", "parse", 2, 26)
    assert "is defined already, " in issue.message
    assert place in issue.message
    found = shop.store.load_views(again, name="more", strict=False)
    assert (found.loaded, found.left_out) == (("b",), ("A",))
    assert shop.store.view("a") is before
    with pytest.raises(ViewError, match="DuplicateView") if first != "view" else nullcontext():
        shop.store.view("a", select)
    assert shop.store.load_views(again.replace("VIEW A", "VIEW c"), name="more").loaded == ("b", "c")


@pytest.mark.scenario("V58")
@pytest.mark.scenario("V90")
def test_a_star_that_stands_for_other_columns_says_which(shop):
    star = "SELECT o.* FROM (SELECT * EXCEPT (note) FROM orders) o"
    shop.view("v", star, key="id")
    shop.put("orders", (1, 5, "a"))
    shop.run()
    shop.add_table("orders", "id long, customer_id long, note string, place string", key="id")
    shop.put("orders", (2, 5, "b", "p"))
    shop.run()
    assert shop.rows("v") == [(1, 5), (2, 5)]

    shop.view("v", star, key="id")
    error = shop.store.run().steps["v"].error
    assert isinstance(error, DefinitionChanged)
    assert "-  -- o.* is id, customer_id\n" in str(error)
    assert "+  -- o.* is id, customer_id, place\n" in str(error)
    assert "+  -- * EXCEPT (note) is id, customer_id, place\n" in str(error)
    shop.store.run("v", on_change="recompute")
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V90")
def test_a_column_more_grows_the_table_and_one_less_reads_null(spark, tmp_path, shop):
    shop.view("v", "SELECT o.id, o.note FROM orders o", key="id")
    shop.put("orders", (1, 5, "a"))
    shop.run()

    shop.store.view("v", "SELECT o.id, o.note, o.customer_id FROM orders o", key="id", on_change="recompute")
    shop.run()
    assert shop.rows("v") == [(1, "a", 5)]
    shop.store.view("v", "SELECT o.id, o.customer_id FROM orders o", key="id", on_change="recompute")
    shop.run()
    assert shop.rows("v") == [(1, None, 5)]
    with pytest.raises(SchemaChangeRefused, match="its key is"):
        shop.store.view("v", "SELECT o.id, o.customer_id FROM orders o", key="customer_id")
    assert shop.store.view("v").spec.keying.keys == ("id",)  # the view is as it was
    replayed(shop)


@pytest.mark.scenario("V90")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ORDER_V, f"{ORDER_V} UNION ALL SELECT c.id + 100 AS id, c.name, c.name AS note FROM customer c"),
        ("SELECT concat('o-', o.id) AS id FROM orders o", "SELECT concat('o-', c.id) AS id FROM customer c"),
        ("SELECT o.id FROM orders o", "SELECT abs(o.id) AS id FROM orders o"),
    ],
    ids=["a part more", "another left-most table", "a key that is computed"],
)
def test_rows_whose_units_are_others_now_are_recomputed_and_never_kept(shop, before, after):
    shop.view("v", before, key="id")
    shop.put("customer", (1, "x", None), (2, "y", None))
    shop.put("orders", (1, 1, "a"), (2, 2, "b"), (3, 1, "c"))
    shop.run()

    shop.store.view("v", after, key="id", on_change="keep")
    error = shop.store.run().steps["v"].error
    assert isinstance(error, DefinitionChanged)
    assert "its rows cannot be kept: the units that its rows belong to are others now" in str(error)
    shop.view("v", after, key="id", on_change="recompute")
    shop.run()
    shop.assert_equal()
    shop.drop("orders", 1)
    shop.put("customer", (2, "yy", None))
    shop.run()
    shop.assert_equal()
    replayed(shop)


@pytest.mark.scenario("V90")
def test_rows_of_the_same_units_may_be_kept(shop):
    shop.view("v", "SELECT concat('o-', o.id) AS k, o.note FROM orders o", key="k")
    shop.put("orders", (1, 1, "a"), (2, 2, "b"))
    shop.run()
    changed = "SELECT concat('o-', ord.id) AS k, upper(ord.note) AS note FROM orders ord"
    shop.store.view("v", changed, key="k", on_change="keep")
    shop.put("orders", (2, 2, "c"))
    shop.run()
    assert shop.rows("v") == [("o-1", "a"), ("o-2", "C")]


def test_a_program_that_is_started_again_goes_on_where_the_other_ended(spark, tmp_path, shop):
    for each in (shop, reopened(spark, tmp_path)):
        each.view("v", "SELECT concat('o-', o.id) AS k, o.note FROM orders o", key="k")
        each.put("orders", (1, 1, "a"))
        each.run()
    each.assert_equal()
    each.assert_settled()
    assert [step.keys for step in each.run().steps.values()] == [0]


# --- failures ---------------------------------------------------------------------------------------------------------


def test_an_expression_that_fails_on_a_row_fails_its_order_alone(shop):
    shop.view("v", "SELECT o.id, 1 / (o.customer_id - 3) AS x FROM orders o", key="id")
    shop.put("orders", *[(number, number, "n") for number in range(1, 6)])
    shop.run()
    (failure,) = shop.store.view("v").failed_keys()
    assert failure.key == '{"id":3}'
    assert [row[0] for row in shop.rows("v")] == [1, 2, 4, 5]
    replayed(shop)


def test_a_condition_that_fails_on_a_row_fails_its_order_alone(shop):
    shop.view("v", "SELECT o.id, o.note FROM orders o WHERE cast(o.note AS int) > 0", key="id")
    shop.put("orders", (1, 1, "5"), (2, 1, "no number"), (3, 1, "-1"))
    shop.run()
    shop.put("orders", (4, 1, "neither"), (3, 1, "7"))
    shop.run()
    assert sorted(failure.key for failure in shop.store.view("v").failed_keys()) == ['{"id":2}', '{"id":4}']
    assert shop.rows("v") == [(1, "5"), (3, "7")]
