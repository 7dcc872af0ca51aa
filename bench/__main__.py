"""`python -m bench`: run everything and print the table."""

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
from bench import foundation
from bench.measure import Figure


def main(wanted: Sequence[str]) -> None:
    begun = time.perf_counter()
    spark = sm.spark_session()
    folder = Path(tempfile.mkdtemp(prefix="seamark-bench-"))
    console = Console(width=120)
    figures = []
    try:
        for figure in foundation.run(spark, folder, wanted):
            console.print(f"{figure.work}: {shown(figure)}", highlight=False)
            figures.append(figure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table_of(figures))
    console.print(f"{time.perf_counter() - begun:.0f} s in all")


def shown(figure: Figure) -> str:
    return f"{figure.value:.2f} {figure.unit} (reach {figure.reach:g}){'' if figure.is_met else ', not reached'}"


def table_of(figures: list[Figure]) -> Table:
    table = Table("work", "ours", "compared with", "figure", "reach")
    for figure in figures:
        value = f"{figure.value:.2f} {figure.unit}"
        table.add_row(figure.work, figure.ours, figure.theirs, value, f"≤ {figure.reach:g}")
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
