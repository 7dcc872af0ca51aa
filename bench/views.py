"""Views: few changes of large tables against computing a view again, what a run without news costs, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import functions as F

import seamark as sm
from bench.baselines import HandWrittenOrders
from bench.blog import ran
from bench.jobs import JobCounter
from bench.measure import Figure, best_of, ratio, scaled, seconds, shown
from bench.people import store
from bench.shop import BY_CUSTOMER, NEWEST, ORDER_V, ORDER_V_TABLES, TABLES, WITH_STATUS, Shop
from bench.stores import FEW_ORDERS, MANY_ORDERS, Bench

GROUPS = scaled(100_000, 1_000)
CHECKED_VIEWS = 500
IDLE_VIEWS = 20
OPENED_VIEWS = 50
ROUNDS = 2


def five_table_view(bench: Bench, folder: Path) -> Iterator[Figure]:
    """1 000 changes spread over five tables of 10 M orders, against computing the view again, and against the same view
    kept by hand with change feeds and MERGE; and its Spark jobs. Then the same in the language of jobs, and on 1 M.
    """
    shop, small = bench.shop, bench.small_shop
    shop.view("order_v", ORDER_V, "id")
    shop.view_in_the_language("order_l")
    small.view("order_v", ORDER_V, "id")
    recomputed = shop.recomputed(ORDER_V, folder / "recomputed")
    by_hand = HandWrittenOrders(
        bench.spark, folder / "by_hand", {name: shop.tables[name].rows() for name in ORDER_V_TABLES}, ORDER_V
    )
    times, jobs = [], []
    for _ in range(ROUNDS + 1):
        changed = shop.edit_all()
        for name, rows in changed.items():
            by_hand.upsert(name, TABLES[name][1], bench.spark.createDataFrame(rows))
        small.edit_all()
        with JobCounter(bench.spark) as counter:
            ours, keys = timed_run(shop, "order_v")
        jobs.append(counter.jobs)
        language, _ = timed_run(shop, "order_l")
        few, _ = timed_run(small, "order_v")
        times.append((ours, language, few, seconds(by_hand.run)))
    _refuse_differing(shop, by_hand)
    ours, language, few, merged = best_of(times)
    work = f"view of 5 tables over {shown(MANY_ORDERS)} orders, 1 000 changes, {keys} orders"
    yield ratio(f"{work}: computed again", ours, recomputed, 0.1)
    yield ratio(f"{work}: change feeds and MERGE", ours, merged, 0.5)
    yield Figure(f"{work}: jobs", f"{min(jobs)} jobs", "", min(jobs), 6, "jobs")
    yield ratio(f"{work}: the same over {shown(FEW_ORDERS)}", ours, few, 3)
    yield ratio(f"{work}: in the language of jobs", ours, language, 1.1)


def timed_run(shop: Shop, view: str) -> tuple[float, int]:
    """How long a run of a view takes, and how many keys it computes."""
    keys = []
    return seconds(lambda: keys.append(ran(shop.ds, view).steps[view].keys)), keys[0]


def _refuse_differing(shop: Shop, by_hand: HandWrittenOrders) -> None:
    """Refuse figures of two pipelines that did not come to the same rows."""
    mine, other = shop.ds.table("order_v").rows(), by_hand.rows()
    if mine.exceptAll(other.select(*mine.columns)).limit(1).count():
        raise RuntimeError("Seamark and the view kept by hand differ in what they made.")


def dictionary_entry(bench: Bench, folder: Path) -> Iterator[Figure]:
    """One renamed status that 1 % of 10 M orders have, taken by a pass, against computing the view again."""
    shop = bench.shop
    shop.view("with_status", WITH_STATUS, "id", dictionaries=["status"])
    recomputed = shop.recomputed(WITH_STATUS, folder / "recomputed")
    times, reports = [], []
    for _ in range(ROUNDS):
        shop.edit("status", "title", 1)
        times.append(seconds(lambda: reports.append(shop.ds.view("with_status").run_dictionaries())))
    work = f"one dictionary entry used by {shown(reports[-1].keys)} of {shown(MANY_ORDERS)} orders"
    yield ratio(f"{work}: computed again", min(times), recomputed, 0.3)


def scan_of_all(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A scan of 10 M rows without a rate, against the view's first run."""
    shop = bench.shop
    first = shop.view(
        "scanned", "SELECT o.id, o.note, c.name FROM orders o JOIN customer c ON c.id = o.customer_id", "id"
    )
    took = seconds(lambda: shop.ds.view("scanned").scan())
    yield ratio(f"scan of {shown(MANY_ORDERS)} rows: the first run", took, first, 1.5)


def opened_views(bench: Bench, folder: Path) -> Iterator[Figure]:
    """Opening a project of 50 views that ran before: the store, its tables and the script, without Spark."""
    text = ";\n".join(f"CREATE MATERIALIZED VIEW v{n} PRIMARY KEY (id) AS {ORDER_V}" for n in range(OPENED_VIEWS))
    ds = store(folder, bench.spark)
    for name, (columns, key) in TABLES.items():
        ds.table(name, columns, key=key)
    ds.load_views(text)
    ran(ds)

    def opened() -> None:
        again = sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse")  # no session is given
        for name, (columns, key) in TABLES.items():
            again.table(name, columns, key=key)
        if again.load_views(text).skipped != ("analysis",):
            raise RuntimeError("Spark was asked about views that ran before.")
        again.close()

    (took,) = best_of((seconds(opened),) for _ in range(5))
    yield Figure(f"open a project of {OPENED_VIEWS} views that ran before", f"{took:.2f} s", "", took, 0.5, "s")


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
