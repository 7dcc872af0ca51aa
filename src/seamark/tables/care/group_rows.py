"""How many rows a row group of a Parquet file may have, so that a reader that takes thousands has room for them.

Parquet's writer ends a group when it has many bytes as they are stored, packed and with each text once. A reader has
them written out: two thousand documents of a megabyte can be one small group, and more than a process has room for.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

from seamark.ledger.verify.footer import group_sizes
from seamark.ledger.verify.pages import BrokenPages


def rows_that_fit(paths: Iterable[Path], room: int) -> int | None:
    """How many rows of some files have at most `room` bytes of values, whichever rows they are; None if all of them do.

    The rows of a group count as if they were all of the same size. It is at least one.
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
        return  # missing, empty or damaged: a reader of its rows stops there, and says so
