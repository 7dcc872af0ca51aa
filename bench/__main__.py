"""`python -m bench`: measure everything and print the table; `python -m bench first-run idle` measures only these."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import algorithms, cold, diffs, foundation, sinks, transforms, views
from bench.measure import Figure, name_of
from bench.stores import Bench

Measure = Callable[[Bench, Path], Iterator[Figure]]

# Cheap ones first; those that share a store stand together. Visits come last: their stores are the largest.
FIGURES: tuple[Measure, ...] = (
    cold.cold_import,
    foundation.open_two_hundred_tables,
    foundation.verify_a_thousand_slices,
    sinks.embedded_sink,
    cold.first_diff_runs,
    transforms.failures,
    foundation.append_to_a_long_chain,
    foundation.replace_five_million,
    foundation.upsert_a_thousand,
    foundation.fold_fresh,
    foundation.ten_keys_of_ten_million,
    foundation.driver_memory,
    transforms.first_run,
    transforms.small_batch_jobs,
    transforms.first_run_joined,
    transforms.one_profile,
    transforms.changed_posts_jobs,
    transforms.growth,
    transforms.changed_posts,
    cold.cold_show,
    transforms.idle,
    algorithms.algorithms,
    transforms.filtered_join,
    views.checked_views,
    views.opened_views,
    views.idle_views,
    views.five_table_view,
    views.grouped_view,
    views.newest_view,
    views.dictionary_entry,
    views.scan_of_all,
    diffs.growth_of_state,
    diffs.new_chunks,
)


def main(wanted: Sequence[str]) -> int:
    names = {name.replace("_", "-") for name in wanted}
    known = [name_of(figure) for figure in FIGURES]
    if unknown := sorted(names - set(known)):
        sys.exit(f"no figure is named {', '.join(unknown)}; there are: {', '.join(known)}.")
    folder = Path(tempfile.mkdtemp(prefix="seamark-bench-"))
    try:
        session = Session(Bench(folder))
        for figure in FIGURES:
            if not names or name_of(figure) in names:
                session.measure(figure)
        session.summarise()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if session.failed else 0


class Session:
    """What was measured so far, printed as it comes."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.begun = time.perf_counter()
        self.console = Console(width=160, highlight=False)
        self.lines = Table("python -m bench", "work", "ours", "compared with", "figure", "reach")
        self.times: dict[str, float] = {}  # of each figure, without the making of what figures share
        self.failed: list[str] = []

    def measure(self, figure: Measure) -> None:
        """Measure one figure; one that fails is reported and keeps nobody from the others."""
        name, folder = name_of(figure), self.bench.folder / figure.__name__
        begun, made = time.perf_counter(), sum(self.bench.made.values())
        try:
            for line in figure(self.bench, folder):
                self._add(name, line)
        except Exception:
            self.failed.append(name)
            self.console.print(f"python -m bench {name}: failed\n{traceback.format_exc()}", markup=False)
        shutil.rmtree(folder, ignore_errors=True)
        shared = sum(self.bench.made.values()) - made
        self.times[name] = time.perf_counter() - begun - shared
        beside = f" and {shared:.0f} s for what others use too" if shared else ""
        self.console.print(f"python -m bench {name}: took {self.times[name]:.0f} s{beside}, {self.total:.0f} s so far")

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.begun

    def _add(self, name: str, line: Figure) -> None:
        value = f"{line.value:.2f} {line.unit}"
        self.lines.add_row(name, line.work, line.ours, line.theirs, value, line.shown_reach)
        reach = f" (reach {line.shown_reach})" if line.shown_reach else ""
        self.console.print(f"python -m bench {name}: {line.work}: {value}{reach}", markup=False)

    def summarise(self) -> None:
        """Print the table, and where the time went."""
        self.console.print(self.lines)
        times = Table("made for several, or measured", "seconds")
        for what, took in (self.bench.made | self.times).items():
            times.add_row(what, f"{took:.0f}")
        self.console.print(times)
        failed = f"; failed: {', '.join(self.failed)}" if self.failed else ""
        self.console.print(f"{self.total:.0f} s in all{failed}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
