"""`python -m bench`: run everything and print the table; `python -m bench first-run idle` runs only what it names."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import seamark as sm
from bench import diffs, foundation, sinks, transforms
from bench.measure import Figure, name_of

PARTS = (foundation, transforms, diffs, sinks)


def main(wanted: Sequence[str]) -> None:
    known = [name_of(figure) for part in PARTS for figure in part.FIGURES]
    unknown = [name for name in wanted if name.replace("_", "-") not in known]
    if unknown:
        sys.exit(f"no figure is named {', '.join(unknown)}; there are: {', '.join(known)}.")
    begun = time.perf_counter()
    spark = sm.spark_session()
    folder = Path(tempfile.mkdtemp(prefix="seamark-bench-"))
    console = Console(width=120)
    figures = []
    try:
        for part in PARTS:
            for figure in part.run(spark, folder, wanted):
                console.print(f"{figure.work}: {shown(figure)}", highlight=False)
                figures.append(figure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table_of(figures))
    console.print(f"{time.perf_counter() - begun:.0f} s in all")


def shown(figure: Figure) -> str:
    reach = f"reach {figure.bound} {figure.reach:g}"
    return f"{figure.value:.2f} {figure.unit} ({reach}){'' if figure.is_met else ', not reached'}"


def table_of(figures: list[Figure]) -> Table:
    table = Table("work", "ours", "compared with", "figure", "reach")
    for figure in figures:
        value = f"{figure.value:.2f} {figure.unit}"
        table.add_row(figure.work, figure.ours, figure.theirs, value, f"{figure.bound} {figure.reach:g}")
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
