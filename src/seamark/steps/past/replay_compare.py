"""Comparing what a commit wrote with what it gives when it is made again: record by record, not only by hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from seamark.ledger import DataSlice
from seamark.ledger.objects import Objects
from seamark.ledger.verify import NotReplayable
from seamark.ledger.verify.files import look
from seamark.ledger.verify.same import places_of_nulls
from seamark.steps.past.history import PastCommit
from seamark.tables.far_times import python_rows
from seamark.tables.write.slices import SliceInfo

# How many records of each side a finding shows, and how many are looked through for them.
SHOWN = 5
MOST_RECORDS = 1_000_000
_SYSTEM = ["offset", "system_time", "event_time"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first slice of a commit that is made in another way: its place, both hashes, and some records of each."""

    place: int
    recorded: str
    computed: str
    shown: str


def first_difference(
    data: Objects, recorded: Sequence[DataSlice], folder: Path, computed: Sequence[SliceInfo]
) -> Difference | None:
    """Where the slices that a commit wrote differ from those that it gives again, in a folder; None if nowhere."""
    for place, (one, other) in enumerate(zip_longest(recorded, computed)):
        wrote = data.path(one.physical_hash) if one is not None else None
        again = folder / other.physical_hash if other is not None else None
        if one is None or other is None or one.logical_hash != other.logical_hash:
            hashes = [piece.logical_hash if piece is not None else "no records" for piece in (one, other)]
            return Difference(place, hashes[0], hashes[1], _shown(wrote, again))
        if one.physical_hash != other.physical_hash and not _same_nulls(wrote, again):
            said = "the records that its inputs give", "others with the same logical hash: a NULL is in another place"
            return Difference(place, *said, _shown(wrote, again))
    return None


def _same_nulls(wrote: Path | None, again: Path | None) -> bool:
    """Whether two slices with one logical hash hold the same records. One that is not there was found without this."""
    if wrote is None or again is None or look(wrote).instead is not None:
        return True
    return places_of_nulls(wrote) == places_of_nulls(again)


def _shown(wrote: Path | None, again: Path | None) -> str:
    try:
        recorded, computed = _records(wrote), _records(again)
    except Exception as error:
        return f"The records of both cannot be shown: {type(error).__name__}: {error}"
    return f"Recorded: {_only(recorded, computed)}. Computed now: {_only(computed, recorded)}."


def _records(path: Path | None) -> list[dict[str, Any]]:
    return [] if path is None else list(_first_records(path))


def _first_records(path: Path) -> Iterator[dict[str, Any]]:
    opened, left = pq.ParquetFile(path), MOST_RECORDS
    for batch in opened.iter_batches(10_000):
        rows = pa.Table.from_batches([batch])
        yield from python_rows(rows.drop_columns([name for name in _SYSTEM if name in rows.column_names]))
        left -= batch.num_rows
        if left <= 0:
            return


def _only(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    """The records that the other side does not have, a few of them."""
    there = Counter(repr(row) for row in others)
    there.subtract(repr(row) for row in rows)
    only = [text for text in dict.fromkeys(repr(row) for row in rows) if there[text] < 0]
    if not only:
        return "nothing else"
    return "; ".join(only[:SHOWN]) + (f"; and {len(only) - SHOWN} more" if len(only) > SHOWN else "")


@dataclass(slots=True)
class Skipped:
    """Commits of a table that were not made again, counted by the reason."""

    table: str
    _found: dict[str, list[PastCommit]] = field(default_factory=dict)

    def add(self, commit: PastCommit, reason: str) -> None:
        """Count a commit."""
        self._found.setdefault(reason, []).append(commit)

    @property
    def blocks(self) -> int:
        """How many blocks these are."""
        return sum(len(commit.blocks) for commits in self._found.values() for commit in commits)

    def reasons(self) -> tuple[NotReplayable, ...]:
        """Each reason with the first block that it holds for, and how many there are."""
        return tuple(
            NotReplayable(self.table, commits[0].blocks[0].hash, sum(len(c.blocks) for c in commits), reason)
            for reason, commits in self._found.items()
        )
