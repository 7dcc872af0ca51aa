"""The tour: a day in a shop, whose views are compared with their queries after every change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from pyspark.sql import DataFrame, Row
from rich.console import Console
from rich.table import Table as Grid
from rich.tree import Tree

import seamark as sm

HERE = Path(__file__).parent
console = Console(highlight=False)
in_spark: dict[str, int] = {}  # the last record of each table whose rows Spark has by the table's name

REGIONS = ["North", "South", "East", "West", "Islands"]
STATUSES = {"new": "New", "sent": "Sent", "done": "Delivered", "cancelled": "Cancelled"}
FIRST = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gail", "Hugo"]
LAST = ["Archer", "Brook", "Carter", "Dale", "Ellis"]


def main() -> None:
    os.chdir(HERE)
    shutil.rmtree(".seamark", ignore_errors=True)
    from pipeline import customers, ds, orders, payments, regions, statuses

    chapter("Morning", "Five tables are filled. The first run computes all keys, each view after those that it reads.")
    tell(regions.upsert([region(number) for number in range(1, 6)]))
    tell(statuses.upsert([{"code": code, "title": title} for code, title in STATUSES.items()]))
    tell(customers.upsert([customer(number) for number in range(1, 41)]))
    tell(orders.upsert([order(number) for number in range(1, 301)]))
    tell(payments.upsert([payment(number) for number in range(1, 201)]))
    ds.load_project_views()  # those that seamark.toml names
    run(ds)

    chapter("Orders and payments come in", "Only the keys that they lead to are computed.")
    tell(orders.upsert([order(number) for number in range(301, 304)]))
    tell(payments.upsert([payment(number) for number in range(201, 203)]))
    run(ds)

    chapter(
        "Customer 21 moves to the Islands",
        "It leads to the orders of this customer, and through them to the sales of two regions.",
    )
    tell(customers.upsert([customer(21) | {"region_id": 5}]))
    run(ds)

    chapter("'Sent' becomes 'On its way'", "The statuses are a dictionary of 'order_wide': changes wait in their log …")
    before = statuses.head.offset
    tell(statuses.upsert([{"code": "sent", "title": "On its way"}]))
    run(ds, as_of={"statuses": before})
    show_waiting(ds)
    console.print("[dim]… until a pass takes them: when they are eight hours old, or now.[/]")
    run(ds, dictionaries="now")

    chapter("Payment 74 is withdrawn", "The customer who made it owes more than 150 again.")
    tell(payments.delete([{"payment_id": 74}]))
    run(ds)

    chapter("Order 57 is deleted", "Its entries go too, also that of its payment, and the customer owes less than 150.")
    tell(orders.delete([{"order_id": 57}]))
    run(ds)

    chapter("The largest orders that have left the shop", "The first 100 rows of a filtered, sorted query over a view.")
    wide = ds.view("order_wide").table.rows()
    left = wide.where("status IN ('On its way', 'Delivered') AND amount >= 50")
    show_rows(left.orderBy("amount", "order_id", ascending=[False, True]).limit(100).collect())

    chapter(
        "Why does order 8 look like this?",
        "The records behind a row; `seamark why order_wide order_id=8` shows them too.",
    )
    show_origin(ds.why("order_wide", {"order_id": 8}))

    chapter(
        "Proof", "Every byte is read again and compared with the chain, and all commits of views are computed again."
    )
    report = ds.verify(replay=True)
    assert report.ok, report.findings
    told = f"{report.blocks} blocks, {len(report.findings)} findings, {report.replayed} blocks of views computed again"
    console.print(f"  [green]✔[/] {told}")

    console.print("\n[bold]Look around yourself:[/]  cd examples/shop && ../../.venv/bin/seamark view ls\n")


# --- the rows of the shop ---------------------------------------------------------------------------------------------


def region(number: int) -> dict[str, Any]:
    return {"region_id": number, "title": REGIONS[number - 1]}


def customer(number: int) -> dict[str, Any]:
    name = f"{FIRST[number % 8]} {LAST[number % 5]}"
    return {"customer_id": number, "name": name, "region_id": 1 + mixed("region", number) % 5}


def order(number: int) -> dict[str, Any]:
    return {
        "order_id": number,
        "customer_id": 1 + mixed("customer", number) % 40,
        "status": "new" if number > 280 else ["done", "done", "done", "sent", "cancelled"][mixed("status", number) % 5],
        "placed": date(2026, 3, 1) + timedelta(days=number // 5),
        "amount": Decimal(500 + mixed("amount", number) % 12000) / 100,
    }


def payment(number: int) -> dict[str, Any]:
    """The amount of one order after the other, if it is not cancelled; every fourth pays half of it."""
    paid = [each for each in map(order, range(1, 304)) if each["status"] != "cancelled"][number - 1]
    return {
        "payment_id": number,
        "order_id": paid["order_id"],
        "method": ["card", "transfer", "cash"][number % 3],
        "amount": round(paid["amount"] / (2 if number % 4 == 0 else 1), 2),
    }


def mixed(what: str, number: int) -> int:
    """A number that looks like chance, and is the same every day."""
    return crc32(f"{what} {number}".encode())


# --- runs, and what must hold after each ------------------------------------------------------------------------------


def run(ds: sm.DataStore, dictionaries: Literal["due", "now"] = "due", as_of: Mapping[str, int] | None = None) -> None:
    """Run everything, say what was done, and compare every view with its query."""
    report = ds.run(dictionaries=dictionaries, fail_fast=True)
    assert report.ok, report
    tell_run(report)
    check(ds, as_of or {})


def check(ds: sm.DataStore, as_of: Mapping[str, int]) -> None:
    """Every view has the rows that its query gives, run by Spark over all rows of its tables.

    `as_of` is the last record that counts of a table whose changes wait.
    """
    for name, table in ds.tables().items():
        last = as_of.get(name, table.head.offset)
        if in_spark.get(name) != last:  # rows of a table without new records are those of the check before
            table.rows(as_of=as_of.get(name)).cache().createOrReplaceTempView(name)
            in_spark[name] = last
    rows = 0
    for name, view in ds.views().items():
        wanted = ds.spark.sql(" UNION ALL ".join(part.text.text for part in view.target.parts))
        kept = in_order(ds.spark.table(name).select(wanted.columns))
        assert kept == in_order(wanted), f"'{name}' is not what its query gives"
        rows += len(kept)
    console.print(f"  [green]✔[/] all {len(ds.views())} views equal their queries, run from scratch: {rows} rows")


def in_order(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


# --- the screen -------------------------------------------------------------------------------------------------------


def chapter(title: str, text: str = "") -> None:
    console.print(f"\n[bold blue]{title}[/]")
    if text:
        console.print(f"[dim]{text}[/]")


def tell(commit: sm.Commit | None) -> None:
    assert commit is not None
    console.print(f"  [bold]{commit.table}[/]: {counts(commit)}")


def tell_run(report: sm.RunReport) -> None:
    """One line per view: how it found its keys, how many it computed, and which rows it wrote."""
    grid = Grid.grid(padding=(0, 3, 0, 0), pad_edge=False)
    working = {name: step for name, step in report.steps.items() if step.did_something}
    for name, step in working.items():
        keys = f"{step.keys} key{'' if step.keys == 1 else 's'}"
        grid.add_row(f"  [bold]{name}[/]", str(step.mode), keys, f"→ {counts(step)}", f"[dim]{step.seconds:.1f} s[/]")
    if working:
        console.print(grid)
    if idle := [name for name in report.steps if name not in working]:
        console.print(f"  [dim]nothing to do: {', '.join(idle)}[/]")


def counts(done: sm.Commit | sm.StepReport) -> str:
    parts = [f"{done.appended} new", f"{done.corrected} corrected", f"{done.retracted} retracted"]
    return ", ".join(part for part in parts if not part.startswith("0 ")) or "nothing differs"


def show_waiting(ds: sm.DataStore) -> None:
    for change in ds.mv_dictionary_log().itertuples():
        fields, views = ", ".join(change.fields), ", ".join(change.views)
        console.print(f"  waiting: '{fields}' of {change.table} {change.key}, for a pass over {views}")


def show_rows(rows: list[Row]) -> None:
    grid = Grid(*rows[0].asDict())
    for row in rows[:10]:
        grid.add_row(*map(str, row))
    console.print(grid)
    console.print(f"  [dim]10 of these {len(rows)} rows[/]")


def show_origin(row: sm.Provenance, tree: Tree | None = None) -> None:
    key = ", ".join(f"{name}={value}" for name, value in row.key.items())
    values = ", ".join(str(value) for name, value in (row.row or {}).items() if name not in row.key)
    told = f"[bold]{row.table}[/] {key}: {values}  [dim]record {row.offset}[/]"
    branch = tree.add(told) if tree else Tree(told, guide_style="dim")
    for behind in row.inputs:
        show_origin(behind, branch)
    if tree is None:
        console.print(branch)


if __name__ == "__main__":
    main()
