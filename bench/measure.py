"""Measuring: nearly every figure is a ratio of two times taken in one run, in one Spark session."""

from __future__ import annotations

import operator
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_BOUNDS = {"≤": operator.le, "≥": operator.ge, "=": operator.eq}

# BENCH_SCALE=100 makes everything a hundred times smaller: to try the bench itself, not to quote a figure.
SCALE = int(os.environ.get("BENCH_SCALE", "1"))


def scaled(rows: int, least: int = 10_000) -> int:
    """A number of rows, made smaller as the scale says, but not so small that a figure loses its sense."""
    return max(rows // SCALE, min(rows, least))


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was done, ours and theirs, and what we mean to reach."""

    work: str
    ours: str
    theirs: str
    value: float
    reach: float | None  # None for a figure without a goal
    unit: str = "×"
    bound: Literal["≤", "≥", "="] = "≤"

    @property
    def is_met(self) -> bool:
        """Whether the figure is within reach."""
        return self.reach is None or _BOUNDS[self.bound](self.value, self.reach)

    @property
    def shown_reach(self) -> str:
        """What we mean to reach, for people."""
        return "" if self.reach is None else f"{self.bound} {self.reach:g}{'' if self.is_met else ', not reached'}"


def name_of(figure: Callable[..., object]) -> str:
    """What a figure is asked for by: `first-run`."""
    return figure.__name__.replace("_", "-")


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def median_seconds(work: Callable[[], object], times: int = 3) -> float:
    """The median of several goes."""
    return statistics.median(seconds(work) for _ in range(times))


def best_of(rounds: Iterable[tuple[float, ...]]) -> list[float]:
    """The least time of each column, of several rounds in which each was measured once."""
    return [min(times) for times in zip(*rounds, strict=True)]


def ratio(work: str, ours: float, theirs: float, reach: float) -> Figure:
    """A figure that compares two times."""
    return Figure(work, f"{ours:.2f} s", f"{theirs:.2f} s", ours / theirs, reach)


def rate(work: str, ours: float, theirs: float, reach: float) -> Figure:
    """A figure that compares two rates."""
    return Figure(work, f"{ours:,.0f} rows/s", f"{theirs:,.0f} rows/s", ours / theirs, reach, bound="≥")


def shown(rows: int) -> str:
    """A number of rows for people: 10 M, 100 k, 1 000."""
    if rows >= 1_000_000:
        return f"{rows / 1_000_000:g} M"
    return f"{rows // 1_000} k" if rows >= 10_000 else f"{rows:,}".replace(",", " ")


class PeakMemory:
    """How much private memory this process takes at the most while the block runs, above what it began with.

    Mapped files are left out: they are the machine's page cache, which it takes back when it needs it.
    """

    def __enter__(self) -> PeakMemory:
        self._done = threading.Event()
        self.begun_with = self.peak = _resident()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.peak = max(self.peak, _resident())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        """How much it grew at the most."""
        return self.peak - self.begun_with


def _resident() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024
