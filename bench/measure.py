"""Measuring: nearly every figure is a ratio of two times taken in one run, in one Spark session."""

from __future__ import annotations

import operator
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

_BOUNDS = {"≤": operator.le, "≥": operator.ge, "=": operator.eq}

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was done, ours and theirs, and what we mean to reach."""

    work: str
    ours: str
    theirs: str
    value: float
    reach: float
    unit: str = "×"
    bound: Literal["≤", "≥", "="] = "≤"

    @property
    def is_met(self) -> bool:
        """Whether the figure is within reach."""
        return _BOUNDS[self.bound](self.value, self.reach)


def name_of(figure: Callable[..., object]) -> str:
    """What a figure is asked for by: `first-run`."""
    return figure.__name__.replace("_", "-")


def chosen(figures: Iterable[F], wanted: Sequence[str]) -> list[F]:
    """The wanted figures in their order, or all of them."""
    names = {name.replace("_", "-") for name in wanted}
    return [figure for figure in figures if not names or name_of(figure) in names]


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
