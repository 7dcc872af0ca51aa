"""Dictionaries: changes that wait for a pass, which takes them page by page while other runs go on."""

from __future__ import annotations

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm

ORDER_V = """
SELECT o.id, o.note, c.name, r.title FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
"""


@pytest.fixture
def shop(spark, tmp_path, clock) -> ViewWorld:
    return opened(spark, tmp_path, clock)


def opened(spark, tmp_path, clock, **options) -> ViewWorld:
    store = sm.DataStore(
        f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark, clock=clock, **options
    )
    return ViewWorld(store)


def filled(shop: ViewWorld, select: str = ORDER_V, key: str = "id", dictionaries=("region",), **options) -> ViewWorld:
    """Six orders of three customers in two regions, and a settled view over them."""
    shop.view("v", select, key=key, dictionaries=dictionaries, **options)
    shop.put("region", (1, "north", "A"), (2, "south", "A"))
    shop.put("customer", (1, "x", 1), (2, "y", 2), (3, "z", 2))
    shop.put("orders", *[(number, 1 + number % 3, "n") for number in range(1, 7)])
    shop.run()
    return shop


def titles(shop: ViewWorld) -> dict[int, str | None]:
    return {row[0]: row[3] for row in shop.rows("v")}


@pytest.mark.scenario("V26")
@pytest.mark.scenario("V88")
def test_a_change_of_a_dictionary_waits_in_its_log_until_a_pass_takes_it(shop):
    filled(shop)
    shop.put("region", (1, "NORTH", "A"), (3, "west", None))
    shop.drop("region", 2)
    shop.put("orders", (7, 1, "new"))
    assert shop.run().steps["v"].keys == 1

    assert titles(shop) == {1: "south", 2: "south", 3: "north", 4: "south", 5: "south", 6: "north", 7: "NORTH"}
    log = shop.store.mv_dictionary_log()
    assert [tuple(row) for row in log[["table", "key", "op", "fields", "views"]].itertuples(index=False)] == [
        ("region", '{"id":1}', 3, ("title",), ("v",)),
        ("region", '{"id":3}', 0, ("title",), ("v",)),
        ("region", '{"id":2}', 1, ("title", "country"), ("v",)),
    ]
    assert len(shop.store.mv_dictionary_log("customer")) == 0

    report = shop.store.view("v").run_dictionaries()
    assert (report.mode, report.keys, report.corrected) == ("dictionary", 6 + 1, 6)
    shop.assert_equal()
    shop.assert_settled()
    assert len(shop.store.mv_dictionary_log()) == 0
    assert shop.store.verify(replay=True).ok


@pytest.mark.scenario("V27")
def test_a_column_that_the_view_does_not_use_moves_the_position_only(shop):
    filled(shop)
    shop.put("region", (1, "north", "B"))
    report = shop.store.view("v").run_dictionaries()
    assert (report.keys, report.rows_out) == (0, 0)
    assert len(shop.store.mv_dictionary_log()) == 0
    shop.put("region", (1, "n", "B"))
    assert shop.store.view("v").run_dictionaries().keys == 2
    shop.assert_equal()


@pytest.mark.scenario("V30")
def test_two_dictionaries_change_together_one_of_them_joined_by_nothing_but_a_constant(shop):
    select = "SELECT o.id, r.title, s.value FROM orders o JOIN customer c ON c.id = o.customer_id " + (
        "LEFT JOIN region r ON r.id = c.region_id JOIN settings s ON s.code = 1"
    )
    shop.put("settings", (1, "v"))
    filled(shop, select, dictionaries=["region", "settings"])
    shop.put("region", (1, "NORTH", "A"))
    shop.put("settings", (1, "w"), (2, "other"))
    assert shop.run().steps["v"].keys == 0
    assert shop.run(dictionaries="now").steps["v"].keys == 6
    shop.assert_equal()
    shop.assert_settled()


@pytest.mark.scenario("V86")
def test_a_waiting_change_is_taken_when_it_has_waited_for_the_period(shop, clock):
    filled(shop)
    shop.put("region", (1, "NORTH", "A"))
    clock.advance(hours=7, minutes=59)
    assert shop.run().steps["v"].keys == 0
    assert shop.store.plan("v")["v"].is_settled
    clock.advance(minutes=1)
    assert shop.run(dictionaries="never").steps["v"].keys == 0
    plan = shop.store.plan("v")["v"]
    assert (plan.mode, plan.keys_are_estimated) == ("dictionary", True)
    assert shop.run().steps["v"].keys == 2
    shop.assert_equal()
    shop.assert_settled()

    shop.put("region", (1, "n", "A"))
    assert shop.run(dictionaries="now").steps["v"].keys == 2
    with pytest.raises(sm.SeamarkError, match="dictionaries='soon' is none of due, now, never"):
        shop.store.run(dictionaries="soon")


@pytest.mark.scenario("V87")
def test_an_order_that_changes_meanwhile_has_the_new_title_and_the_others_their_old_one(shop):
    filled(shop)
    shop.put("region", (1, "NORTH", "A"))
    shop.put("orders", (3, 1, "changed"))
    shop.run()
    assert (titles(shop)[3], titles(shop)[6]) == ("NORTH", "north")
    shop.store.view("v").run_dictionaries()
    assert (titles(shop)[3], titles(shop)[6]) == ("NORTH", "NORTH")
    shop.assert_equal()


@pytest.mark.scenario("V29")
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_dictionary_rows_come_go_and_change_their_join_column(shop, join):
    filled(shop, f"SELECT o.id, r.title FROM orders o {join} region r ON r.country = o.note", dictionaries=["region"])
    for change in (
        lambda: shop.put("region", (3, "new", "n")),
        lambda: shop.put("region", (3, "new", "m")),
        lambda: shop.put("orders", (1, 1, "m")),
        lambda: shop.drop("region", 3),
    ):
        change()
        shop.run(dictionaries="now")
        shop.assert_equal()
        shop.assert_settled()
    assert shop.store.verify(replay=True).ok


@pytest.mark.scenario("V43")
@pytest.mark.scenario("V50")
def test_runs_between_the_pages_of_a_pass_lose_nothing(spark, tmp_path, clock):
    shop = opened(spark, tmp_path, clock)
    filled(shop, batch_keys=2)
    view = shop.store.view("v")
    shop.put("region", (1, "NORTH", "A"), (2, "SOUTH", "A"))
    pages = []

    def between(report, left):
        pages.append(report.keys)
        if len(pages) == 1:
            shop.put("orders", (1, 3, "moved"), (9, 1, "new"))
            shop.drop("orders", 6)
            shop.put("customer", (2, "Y", 1))
            shop.run()

    view.run_dictionaries(on_batch=between)
    assert pages[0] == 2
    assert len(pages) >= 3
    shop.assert_equal()
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings


@pytest.mark.scenario("V31")
def test_a_pass_that_is_cut_off_goes_on_where_it_was(spark, tmp_path, clock):
    shop = opened(spark, tmp_path, clock)
    filled(shop, batch_keys=2)
    view = shop.store.view("v")
    shop.put("region", (1, "NORTH", "A"), (2, "SOUTH", "A"))
    before = shop.store.offset_table.get_record_offsets("v")

    def cut_off(report, left):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        view.run_dictionaries(on_batch=cut_off)
    assert shop.store.offset_table.get_record_offsets("v") == before
    shop.put("region", (1, "later", "A"))

    again = opened(spark, tmp_path, clock)
    again.view("v", ORDER_V, key="id", dictionaries=["region"], batch_keys=2)
    assert again.store.plan("v")["v"].mode == "dictionary"  # one that was begun is due
    report = again.run().steps["v"]
    assert report.corrected == 6 - 2  # the rows of the first page are not written again
    again.assert_equal()
    again.assert_settled()


@pytest.mark.parametrize(
    ("select", "key"),
    [
        (
            "SELECT r.country, count(*) AS n, max(r.title) AS t FROM orders o JOIN customer c ON c.id = o.customer_id "
            "JOIN region r ON r.id = c.region_id WHERE r.country IS NOT NULL GROUP BY r.country",
            "country",
        ),
        (
            "SELECT concat('o-', o.id) AS k, r.title FROM orders o JOIN region r ON r.id = o.customer_id "
            "UNION ALL SELECT concat('c-', c.id) AS k, r.title FROM customer c JOIN region r ON r.id = c.region_id",
            "k",
        ),
    ],
)
@pytest.mark.parametrize("at_once", [1, None])
def test_groups_and_unions_are_refreshed_page_by_page(spark, tmp_path, clock, select, key, at_once):
    shop = opened(spark, tmp_path, clock)
    filled(shop, select, key=key, batch_keys=at_once)
    shop.put("region", (1, "N", "B"), (2, "S", "C"))
    shop.put("region", (2, "S", "B"))
    shop.run()
    shop.run(dictionaries="now")
    shop.assert_equal()
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings


def test_a_handler_says_which_tables_are_dictionaries(shop):
    shop.store.load_views(f"""
        CREATE MATERIALIZED VIEW v PRIMARY KEY (id) AS {ORDER_V};
        CREATE ASYNC HANDLER h PROCESS v, INPUT orders CHANGEFEED log AS STREAM,
          INPUT customer CHANGEFEED log AS STREAM, INPUT region CHANGEFEED log AS BATCH;
    """)
    shop.queries["v"] = ORDER_V
    shop.put("region", (1, "north", "A"))
    shop.put("customer", (1, "x", 1))
    shop.put("orders", (1, 1, "n"))
    shop.run()
    shop.put("region", (1, "NORTH", "A"))
    assert shop.run().steps["v"].keys == 0
    (statistics,) = shop.store.offset_table.get_statistics("v", "region")
    assert (statistics["pending_records"], statistics["lag_seconds"]) == (2, 0.0)
    assert shop.run(dictionaries="now").steps["v"].corrected == 1
    shop.assert_equal()


SCALED = "SELECT upper(s.value) AS k, count(*) AS n FROM orders o CROSS JOIN settings s GROUP BY upper(s.value)"
PERIODS = "SELECT c.name AS k, count(*) AS n FROM customer c JOIN settings s ON s.code <= c.id GROUP BY c.name"
RANKED = "SELECT o.id AS k, count(*) OVER (PARTITION BY upper(s.value)) AS n FROM orders o CROSS JOIN settings s"
UNITED = f"{SCALED} UNION ALL SELECT concat('order ', o.id) AS k, 1 AS n FROM orders o"


@pytest.mark.parametrize("select", [SCALED, PERIODS, RANKED, UNITED], ids=["scaled", "periods", "ranked", "united"])
@pytest.mark.parametrize("taken", ["stream", "limit", "pass"])
def test_groups_that_are_gone_go_although_no_equality_leads_to_them(spark, tmp_path, clock, select, taken):
    """A change from which no equality leads on concerns every unit: those that are, and those that have rows."""
    shop = opened(spark, tmp_path, clock)
    shop.put("settings", (1, "a"))
    shop.put("customer", (1, "x", None), (2, "y", None))
    shop.put("orders", (1, 1, "n"), (2, 1, "m"))
    shop.view("v", select, key="k", dictionaries=["settings"] if taken == "pass" else (), batch_keys=1)
    shop.run()
    for change in (lambda: shop.put("settings", (1, "b")), lambda: shop.drop("settings", 1)):
        change()
        if taken == "limit":
            shop.run("v", limit=100)
        shop.run(dictionaries="now")
        shop.assert_equal()
        shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings
