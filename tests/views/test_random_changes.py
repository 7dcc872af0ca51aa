"""Views over tables that change at random: after each run every view equals its own text over all rows."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm

VIEWS = {
    "joined": (
        "SELECT o.id, c.name, r.title, x.memo FROM orders o JOIN customer c ON c.id = o.customer_id "
        "LEFT JOIN region r ON r.id = c.region_id LEFT JOIN order_ext x ON x.order_id = o.id",
        "id",
    ),
    "several_rows": (
        "SELECT o.id, p.pay_id, p.kind FROM orders o JOIN payment p ON p.order_id = o.id AND p.kind <> 'C'",
        ["id", "pay_id"],
    ),
    "computed_key": ("SELECT concat('o-', o.id) AS k, o.note FROM orders o WHERE o.note IS NOT NULL", "k"),
    "grouped": (
        "SELECT c.region_id, count(*) AS n, sum(o.id) AS s FROM orders o JOIN customer c ON c.id = o.customer_id "
        "WHERE c.region_id IS NOT NULL GROUP BY c.region_id",
        "region_id",
    ),
    "grouped_by_what_may_be_missing": (
        "SELECT coalesce(r.country, 'none') AS country, count(*) AS n FROM orders o "
        "LEFT JOIN customer c ON c.id = o.customer_id LEFT JOIN region r ON r.id = c.region_id "
        "GROUP BY coalesce(r.country, 'none')",
        "country",
    ),
    "united": (
        "SELECT o.id, 1 AS source, o.note AS t FROM orders o "
        "UNION ALL SELECT c.id, 2 AS source, c.name AS t FROM customer c",
        ["id", "source"],
    ),
    "newest": (
        "SELECT * FROM (SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY id DESC) AS n FROM orders o "
        "WHERE customer_id IS NOT NULL) WHERE n = 1",
        "customer_id",
    ),
    "paid": (
        "SELECT o.id, q.paid FROM orders o LEFT JOIN (SELECT order_id, sum(amount) AS paid FROM payment "
        "GROUP BY order_id) q ON q.order_id = o.id",
        "id",
    ),
    "with_some": (
        "SELECT o.id, o.note FROM orders o WHERE EXISTS "
        "(SELECT 1 FROM payment p WHERE p.order_id = o.id AND p.kind = 'A')",
        "id",
    ),
    "without_any": ("SELECT o.id, o.note FROM orders o LEFT ANTI JOIN payment p ON p.order_id = o.id", "id"),
    "with_the_greatest": ("SELECT o.id, (SELECT max(code) FROM settings) AS code FROM orders o", "id"),
    "clicked": (
        "SELECT k.url, c.name, count(*) AS n FROM clicks k JOIN customer c ON c.id = k.user_id "
        "WHERE c.name IS NOT NULL GROUP BY k.url, c.name",
        ["url", "name"],
    ),
    "counted_first": (
        "SELECT t.customer_id, t.n, c.name FROM (SELECT customer_id, count(*) AS n FROM orders "
        "WHERE customer_id IS NOT NULL GROUP BY customer_id) t LEFT JOIN customer c ON c.id = t.customer_id",
        "customer_id",
    ),
    "distinct_ones": (
        "SELECT DISTINCT c.region_id, o.note FROM orders o JOIN customer c ON c.id = o.customer_id "
        "WHERE c.region_id IS NOT NULL AND o.note IS NOT NULL",
        ["region_id", "note"],
    ),
    "all_at_once": ("SELECT count(*) AS n, 1 AS k FROM orders", "k"),
    "over_a_view": ("SELECT j.title, count(*) AS n FROM joined j WHERE j.title IS NOT NULL GROUP BY j.title", "title"),
}


WITH_DICTIONARIES = {
    "joined": ["region"],
    "grouped_by_what_may_be_missing": ["region", "customer"],
    "paid": ["payment"],
}


def world(spark, folder, seed: int) -> ViewWorld:
    made = ViewWorld(opened(spark, folder), random.Random(seed))
    made.put("orders", (1, 1, "a"))  # what is one result of all rows is made for the first time when there is a row
    declare(made)
    return made


def opened(spark, folder) -> sm.DataStore:
    return sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse", spark=spark)


def declare(made: ViewWorld, dictionaries: Mapping[str, list[str]] | None = None) -> None:
    for name, (select, key) in VIEWS.items():
        refresh = "full" if name == "all_at_once" else "incremental"
        made.view(name, select, key=key, refresh=refresh, dictionaries=(dictionaries or {}).get(name, ()))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
@pytest.mark.timeout(1500)
def test_views_equal_their_queries_after_every_run(spark, tmp_path, seed):
    shop = world(spark, tmp_path, seed)
    for _ in range(8):
        for _ in range(shop.random.choice([1, 2, 6])):
            shop.change()
        shop.run()
        shop.assert_equal()
        shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert found.ok, found.findings
    assert found.not_replayable == 0


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
@pytest.mark.timeout(1500)
def test_whatever_is_done_between_changes_views_equal_their_queries_when_all_is_taken(spark, tmp_path, seed):
    """Limited runs, scans, passes, resets, folds and reopened stores, in any order, with dictionaries that wait."""
    shop = ViewWorld(opened(spark, tmp_path), random.Random(seed))
    shop.put("orders", (1, 1, "a"))
    declare(shop, WITH_DICTIONARIES)
    for _ in range(2):
        for _ in range(6):
            shop.change()
            do_something(shop)
        if shop.random.random() < 0.5:
            again = ViewWorld(opened(spark, tmp_path), shop.random)
            declare(again, WITH_DICTIONARIES)
            shop = again
        shop.run(dictionaries="now")
        shop.assert_equal()
        shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert found.ok, found.findings
    assert found.not_replayable == 0


def do_something(shop: ViewWorld) -> None:
    name = shop.random.choice(list(VIEWS))
    view = shop.store.view(name)
    match shop.random.choice(["nothing", "run", "run", "one", "limit", "scan", "part", "pass", "reset", "fold"]):
        case "run":
            shop.run()
        case "one":
            shop.run(name)
        case "limit" if view.transform_keys:
            shop.run(name, limit=1)
        case "scan":
            view.scan()
        case "part" if view.transform_keys:
            leftmost = view.spec.keying.leftmost_table(view.spec.keying.units.parts[0]).schema.names[0]
            view.scan(where=f"{leftmost} IS NOT NULL", part=view.target.parts[0].alias)
        case "pass":
            view.run_dictionaries()
        case "reset":
            shop.store.offset_table.reset_offset(name)
        case "fold":
            shop.store.fold()
        case _:
            pass
