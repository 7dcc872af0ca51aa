"""What stands in a view can be proven: readers see rows of recorded positions, and replay computes them all again."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm
from seamark.steps.past.history import past_commits, read_at_commit

ORDER_V = """
SELECT o.id, o.note, c.name, r.title FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
"""
PAYMENTS_V = (
    "SELECT p.order_id, count(*) AS n, max(o.note) AS note FROM payment p JOIN orders o ON o.id = p.order_id "
    + ("GROUP BY p.order_id")
)


@pytest.fixture
def shop(spark, tmp_path, clock) -> ViewWorld:
    return opened(spark, tmp_path, clock)


def opened(spark, tmp_path, clock) -> ViewWorld:
    store = sm.DataStore(f"sqlite:///{tmp_path}/control.db", warehouse=tmp_path / "warehouse", spark=spark, clock=clock)
    return ViewWorld(store, random.Random(45))


def written_and_right(shop: ViewWorld, name: str) -> Iterator[tuple[set[tuple], set[tuple]]]:
    """For each commit of a view the rows that it wrote, and what the query gives at the positions that it recorded."""
    view = shop.store.table(name)
    for commit in past_commits(shop.store._context, name):
        offsets = [block.last_offset for block in commit.blocks if block.last_offset is not None]
        if not offsets:
            continue
        for table, upto in read_at_commit(commit.checkpoint).items():
            source = shop.store.table(table)
            rows = source.rows().limit(0) if upto is None else source.rows(as_of=upto)
            rows.createOrReplaceTempView(table)
        changes = view.changes(after=commit.last_before, upto=max(offsets)).where("op IN (0, 3)")
        query = shop.store.spark.sql(shop.queries[name])
        yield set(map(tuple, changes.select(*query.columns).collect())), set(map(tuple, query.collect()))


@pytest.mark.scenario("V45")
def test_a_reader_finds_each_row_as_the_query_gives_it_at_one_set_of_positions(shop):
    shop.view("v", ORDER_V, key="id", dictionaries=["region"], batch_rows=2)
    shop.view("g", PAYMENTS_V)
    seen: dict[str, set[tuple]] = {"v": set(), "g": set()}

    def read(*_: object) -> None:
        for name, rows in seen.items():
            rows.update(shop.rows(name))

    def meanwhile(*_: object) -> None:
        """Somebody reads while a run is on its way, and somebody else writes what its next batch would find."""
        read()
        number = shop.random.randrange(1000)
        shop.put("customer", (0, f"x{number}", 0), (1, f"y{number}", 1))
        shop.put("orders", (number % 4, 1, f"n{number}"))

    shop.put("region", (0, "t", None), (1, "t", None))
    shop.put("customer", (0, "x", 0), (1, "y", 1))
    shop.put("orders", *[(number, number % 2, "a") for number in range(5)])
    shop.put("payment", *[(number, number % 4, "A", number) for number in range(4)])
    for limit in (None, 2, None):
        for number in range(4):
            shop.put("orders", (number, shop.random.randrange(2), "b"))
        shop.change()
        shop.run(limit=limit, on_batch=meanwhile)
    shop.run(dictionaries="now", on_batch=read)
    read()

    for name, rows in seen.items():
        commits = list(written_and_right(shop, name))
        assert len(commits) >= 2
        assert all(written <= right for written, right in commits), name
        assert rows <= set().union(*(written for written, _ in commits)), name
    shop.assert_equal()


@pytest.mark.scenario("V92")
def test_replay_gives_the_same_after_a_scan_a_pass_that_was_cut_off_a_limited_run_and_a_failed_key(
    spark, tmp_path, clock, shop
):
    def declare(world: ViewWorld) -> None:
        world.view("v", ORDER_V, key="id", dictionaries=["region"], batch_keys=2)
        world.view("k", f"SELECT t.note AS k, t.title FROM ({ORDER_V}) t", key="k", dictionaries=["region"])

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    declare(shop)
    shop.put("region", (1, "north", "A"), (2, "south", "A"))
    shop.put("customer", (1, "x", 1), (2, "y", 2), (3, "z", 2))
    shop.put("orders", *[(number, 1 + number % 3, f"n{number}") for number in range(1, 6)])
    for name in ("v", "k"):
        assert shop.store.view(name).scan(where="customer_id = 1 OR note = 'n4'").keys == 2
    assert shop.run(limit=2).steps["v"].keys == 2
    shop.put("orders", (7, 1, "n2"), (8, 2, None))  # 7 claims the key of 2, and 8 has none
    shop.put("customer", (3, "Z", 1))
    assert shop.run().steps["k"].failed == 2

    shop.put("region", (1, "NORTH", "A"), (2, "SOUTH", "A"))
    with pytest.raises(KeyboardInterrupt):
        shop.store.view("v").run_dictionaries(on_batch=cut_off)
    shop.drop("orders", 1)
    shop.put("orders", (2, 2, "moved"), (3, 77, "to nobody"))
    shop.put("region", (2, "later", "A"))
    assert shop.run(limit=1).steps["v"].keys == 1

    again = opened(spark, tmp_path, clock)
    declare(again)
    again.run(dictionaries="now")
    again.put("orders", (8, 2, "n8"))
    again.run(dictionaries="now")
    again.assert_equal()
    again.assert_settled()

    found = again.store.verify(replay=True)
    assert found.ok, found.findings
    assert found.not_replayable == 0
    modes = {str(commit.checkpoint.mode) for commit in past_commits(again.store._context, "v")}
    assert {"scan", "changes", "dictionary"} <= modes
