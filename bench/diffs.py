"""Diffs: a million new chunks over a large state, and how that grows with the state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.blog import ran
from bench.measure import Figure, ratio, seconds, shown
from bench.stores import FEW_VISITS, MANY_VISITS, Bench
from bench.visits import CHUNKS, Visits


def taken(visits: Visits) -> float:
    """How long a run takes over a million new chunks; asked again, the same time."""
    if not visits.times:
        visits.feed()
        visits.times.append(seconds(lambda: ran(visits.ds, "visits")))
    return visits.times[0]


def growth_of_state(bench: Bench, folder: Path) -> Iterator[Figure]:
    """The same chunks over a state that is ten times as large."""
    small, large = taken(bench.few_visits), taken(bench.many_visits)
    work = f"diff: {shown(CHUNKS)} chunks of 4 logs over {shown(MANY_VISITS)} visits: over {shown(FEW_VISITS)}"
    yield ratio(work, large, small, 3.0)


def new_chunks(bench: Bench, folder: Path) -> Iterator[Figure]:
    """A run over new chunks, against plain joins of the same chunks with the same state."""
    ours = taken(bench.many_visits)
    theirs = seconds(lambda: bench.many_visits.plain_joins(folder))
    work = f"diff: {shown(CHUNKS)} chunks of 4 logs over {shown(MANY_VISITS)} visits: plain joins"
    yield ratio(work, ours, theirs, 1.5)
