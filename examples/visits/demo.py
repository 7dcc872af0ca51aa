"""The tour: a fast supplier writes versions to ClickHouse, a slow one corrects them, each visit nets to one row."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

import seamark as sm

HERE = Path(__file__).parent
console = Console(highlight=False)
history: dict[int, list[int]] = {}  # of each visit, the signed versions that either supplier has written, in order


def main() -> None:
    os.chdir(HERE)
    shutil.rmtree(".seamark", ignore_errors=True)
    from pipeline import clickhouse, ds, joined_conversions, joined_costs, joined_visits, visits, visits_wide

    for sink in ds.sinks().values():
        sink.prepare()  # the fast supplier writes to the same table, and is there first
    fast = sm.FastSupplier(clickhouse.insert, key="VisitID", fast_version="y_VisitVersion")

    def publish(*versions: tuple[int, int, int]) -> None:
        """The fast supplier writes versions of visits, and what it alone knows of them is set aside."""
        rows = [dict(zip(("VisitID", "y_VisitVersion", "pages"), version, strict=True)) for version in versions]
        for row in rows:
            history.setdefault(row["VisitID"], []).extend(fast.publish([row]))
        visits_wide.upsert(rows)

    chapter("The fast supplier", "Version after version goes straight to ClickHouse, each taking back the one before.")
    publish((41, 1, 3), (42, 1, 1), (42, 2, 4), (43, 1, 2))
    show_history(42)

    chapter("The slow supplier", "Its first run takes back what the fast one wrote, and writes versions of its own.")
    joined_visits.append(news((41, 1), (42, 2), (43, 1), title=["Home", "Shop", "News"]))
    run(ds, visits)
    show_history(42)

    chapter("A conversion, as the fast supplier continues", "Visit 42 is at version 3 by now, visit 41 at version 2.")
    publish((42, 3, 9), (41, 2, 5))
    joined_conversions.append(news((42, 3), (41, 2), goals=[1, 2], revenue=[Decimal("19.90"), Decimal("5.00")]))
    run(ds, visits)
    show_history(42)

    chapter("Costs, one of them late", "The cost of visit 42 knows version 2 only: it is merged at version 3.")
    joined_costs.append(news((42, 2), (43, 1), cost=[Decimal("0.35"), Decimal("0.10")]))
    run(ds, visits)
    show_history(42)

    chapter("In ClickHouse", "FINAL gives one row per visit; sum(Sign * x) gives the same sums without it.")
    show_visits(clickhouse)
    check(clickhouse, visits)

    chapter("Proof", "Every run of the diff is made again from the records and the state that it read.")
    report = ds.verify(replay=True)
    console.print(
        f"  [green]✔[/] {report.blocks} blocks, {len(report.findings)} findings, {report.replayed} made again"
    )
    command = "cd examples/visits && ../../.venv/bin/seamark show visits --key 42 --versions"
    console.print(f"\n[bold]Look around yourself:[/]  {command}\n")


def news(*visits: tuple[int, int], **columns: list[object]) -> list[dict[str, object]]:
    """Records of a log: visits with their version, and a value of each column."""
    rows = [{"VisitID": visit, "y_VisitVersion": version} for visit, version in visits]
    return [row | {name: values[place] for name, values in columns.items()} for place, row in enumerate(rows)]


def run(ds: sm.DataStore, visits: sm.Diff) -> None:
    """Run everything, and remember what the slow supplier wrote."""
    before = visits.visit_log_slow.head.offset
    report = ds.run(fail_fast=True)
    for record in visits.visit_log_slow.changes(after=before).collect():
        history.setdefault(record.VisitID, []).append(record.Sign * record.Version)
    step, (sink,) = report.steps["visits"], report.sinks.values()
    console.print(
        f"  [bold]visits[/]: {step.rows_in} records of {step.keys} visits → "
        f"{sink.records} records to ClickHouse in {sink.blocks} block  [dim]{step.seconds + sink.seconds:.1f} s[/]"
    )


def show_history(visit: int) -> None:
    """The history of a visit, as one line of signed versions."""
    told = " ".join(f"[{'green' if v > 0 else 'red'}]{v:+d}[/]" for v in history[visit])
    console.print(f"  visit {visit}: {told} = [bold]{' '.join(f'{v:+d}' for v in standing(history[visit]))}[/]")


def standing(versions: list[int]) -> list[int]:
    """What is left when +v and -v cancel each other."""
    left: list[int] = []
    for version in versions:
        if -version in left:
            left.remove(-version)
        else:
            left.append(version)
    return left


def show_visits(clickhouse: sm.ClickHouseSink) -> None:
    rows = clickhouse.query(
        "SELECT VisitID, Version, title, pages, goals, revenue, cost FROM visits FINAL ORDER BY VisitID"
    )
    grid = Grid(*rows[0])
    for row in rows:
        grid.add_row(*["" if value is None else str(value) for value in row.values()])
    console.print(grid)


def check(clickhouse: sm.ClickHouseSink, visits: sm.Diff) -> None:
    """Every visit nets to one row: its newest version counts once, every other one not at all."""
    nets = clickhouse.query(
        "SELECT VisitID, Version, sum(Sign) AS net FROM visits GROUP BY VisitID, Version HAVING net != 0"
    )
    state = {row.VisitID: 1000 * row.SlowVersion + row.y_VisitVersion for row in visits.state.rows().collect()}
    assert {row["VisitID"]: (row["Version"], row["net"]) for row in nets} == {key: (v, 1) for key, v in state.items()}
    assert len(nets) == len(state)
    sums = clickhouse.query("SELECT sum(Sign * revenue) AS revenue, sum(Sign * pages) AS pages FROM visits")[0]
    final = clickhouse.query("SELECT sum(revenue) AS revenue, sum(pages) AS pages FROM visits FINAL")[0]
    assert sums == final, (sums, final)
    told = f"revenue {sums['revenue']}, pages {sums['pages']}"
    console.print(f"  [green]✔[/] {len(nets)} visits, each nets to its newest version; {told}")


def chapter(title: str, text: str = "") -> None:
    console.print(f"\n[bold blue]{title}[/]")
    if text:
        console.print(f"[dim]{text}[/]")


if __name__ == "__main__":
    main()
