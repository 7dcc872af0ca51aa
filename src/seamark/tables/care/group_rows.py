"""How many rows a row group of a Parquet file may have, so that a reader has memory for a batch of them.

Parquet's writer ends a group by its compressed bytes, where a text that repeats counts once. A reader unpacks it: two
thousand documents of a megabyte can be one small group, and more than a process has memory for.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

from seamark.ledger.verify.footer import group_sizes
from seamark.ledger.verify.pages import BrokenPages


def rows_that_fit(paths: Iterable[Path], room: int) -> int | None:
    """How many rows of some files have at most `room` bytes of values, whichever rows they are; None if all of them do.

    Rows of one group are assumed to have the same size. The result is at least 1.
    """
    groups = [(rows, size) for path in paths for rows, size in _groups_of(path) if rows]
    fit = 0
    for rows, size in sorted(groups, key=lambda group: group[1] / group[0], reverse=True):  # the largest rows first
        if size > room:
            return max(1, fit + room * rows // size)
        fit, room = fit + rows, room - size
    return None


def _groups_of(path: Path) -> Iterator[tuple[int, int]]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from group_sizes(data)
    except (OSError, ValueError, BrokenPages):
        return  # missing, empty or damaged: reading its rows raises the error that says so
