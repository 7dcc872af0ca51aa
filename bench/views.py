"""Views: few changes of large tables against computing a view again, what a run without news costs, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import functions as F

from bench.blog import ran
from bench.jobs import JobCounter
from bench.measure import Figure, best_of, ratio, scaled, seconds, shown
from bench.people import store
from bench.shop import BY_CUSTOMER, NEWEST, ORDER_V, TABLES
from bench.stores import MANY_ORDERS, Bench

GROUPS = scaled(100_000, 1_000)
CHECKED_VIEWS = 500
IDLE_VIEWS = 20
ROUNDS = 2


def five_table_view(bench: Bench, folder: Path) -> Iterator[Figure]:
    """1 000 changes spread over five tables of 10 M orders, against computing the view again; and its Spark jobs."""
    shop = bench.shop
    shop.view("order_v", ORDER_V, "id")
    recomputed = shop.recomputed(ORDER_V, folder / "recomputed")
    times, jobs, keys = [], [], []
    for _ in range(ROUNDS):
        for table, column, count in (
            ("orders", "note", 500),
            ("customer", "name", 200),
            ("region", "title", 10),
            ("order_ext", "memo", 150),
            ("payment", "kind", 140),
        ):
            shop.edit(table, column, count)
        with JobCounter(bench.spark) as counter:
            times.append(seconds(lambda: keys.append(ran(shop.ds, "order_v").steps["order_v"].keys)))
        jobs.append(counter.jobs)
    work = f"view of 5 tables over {shown(MANY_ORDERS)} orders, 1 000 changes, {max(keys)} orders"
    yield ratio(f"{work}: computed again", min(times), recomputed, 0.1)
    yield Figure(f"{work}: jobs", f"{min(jobs)} jobs", "", min(jobs), 6, "jobs")


def grouped_view(bench: Bench, folder: Path) -> Iterator[Figure]:
    """1 000 changed orders of 10 M in 100 000 groups, against computing all groups again."""
    select = BY_CUSTOMER.format(groups=GROUPS)
    yield from _changed_orders(bench, folder, "by_customer", select, "part", f"{shown(GROUPS)} groups", 4)


def newest_view(bench: Bench, folder: Path) -> Iterator[Figure]:
    """The newest order of each customer, with 1 000 changed orders of 10 M, against computing all again."""
    yield from _changed_orders(bench, folder, "newest", NEWEST, "customer_id", "newest by customer", None)


def _changed_orders(
    bench: Bench, folder: Path, name: str, select: str, key: str, what: str, jobs: int | None
) -> Iterator[Figure]:
    shop = bench.shop
    shop.view(name, select, key)
    recomputed = shop.recomputed(select, folder / "recomputed")
    times, counts = [], []
    for number in range(ROUNDS):
        apart = shop.orders_count // 1_000
        some = shop.tables["orders"].rows().where(f"id % {apart} = {number}")
        changed = some.withColumn("amount", F.col("amount") + 1).withColumn(
            "note", F.concat("note", F.lit(", changed"))
        )
        shop.tables["orders"].upsert(changed.toArrow())
        with JobCounter(bench.spark) as counter:
            times.append(seconds(lambda: ran(shop.ds, name)))
        counts.append(counter.jobs)
    work = f"view with {what} over {shown(MANY_ORDERS)} orders, 1 000 changed"
    yield ratio(f"{work}: computed again", min(times), recomputed, 0.2)
    if jobs is not None:
        yield Figure(f"{work}: jobs", f"{min(counts)} jobs", "", min(counts), jobs, "jobs")


def checked_views(bench: Bench, folder: Path) -> Iterator[Figure]:
    """Reading and checking 500 views, without asking Spark."""
    ds = store(folder, bench.spark)
    for name, (columns, key) in TABLES.items():
        ds.table(name, columns, key=key)
    text = ";\n".join(
        f"CREATE MATERIALIZED VIEW v{number} PRIMARY KEY (id) AS {ORDER_V}" for number in range(CHECKED_VIEWS)
    )
    took = min(seconds(lambda: ds.check_views(text, analyse=False)) for _ in range(ROUNDS))
    yield Figure(f"read and check {CHECKED_VIEWS} views without Spark", f"{took:.2f} s", "", took, 5, "s")


def idle_views(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A run of 20 settled views: its time for each, and its Spark jobs."""
    ds = store(folder, bench.spark)
    orders = ds.table("orders", TABLES["orders"][0], key="id")
    orders.upsert([{"id": 1, "customer_id": 1, "note": "n", "amount": 1}])
    for number in range(IDLE_VIEWS):
        ds.view(f"v{number}", "SELECT o.id, o.note FROM orders o", key="id")
    ran(ds)
    ran(ds)
    with JobCounter(bench.spark) as counter:
        ran(ds)
    (took,) = best_of((seconds(lambda: ran(ds)) * 1000 / IDLE_VIEWS,) for _ in range(10))
    yield Figure(f"idle run of {IDLE_VIEWS} views, per view", f"{took:.2f} ms", "", took, 10, "ms")
    yield Figure(f"idle run of {IDLE_VIEWS} views, jobs", f"{counter.jobs} jobs", "", counter.jobs, 0, "jobs")
