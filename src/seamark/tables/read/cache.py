"""Bases kept in Spark's cache by a long-lived process, within a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seamark.control import BaseVersion


# Table, Delta version, block, and columns.
_Place: TypeAlias = tuple[str, int, int, tuple[str, ...]]


class BaseCache:
    """At most `max_rows` rows of bases, the least recently used go first. A base never changes, so none can be stale:
    a fold makes a new version, and the older ones of that table are let go.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._kept: OrderedDict[_Place, tuple[DataFrame, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """How many rows are kept now."""
        return sum(count for _, count in self._kept.values())

    def get(self, version: BaseVersion, columns: tuple[str, ...], read: Callable[[], DataFrame]) -> DataFrame:
        """The base as a frame with these columns, from the cache if it fits in there."""
        if version.row_count > self._max_rows:
            return read()
        # With the block it stands for: if rows/ was removed by hand, Delta counts its versions from 0 again.
        # With its columns: programs that declared the table before and after it grew may share this cache.
        place = (version.table, version.delta_version, version.sequence, columns)
        with self._lock:
            if place not in self._kept:
                self._let_go(lambda key: key[0] == version.table)
                while self.rows + version.row_count > self._max_rows:
                    self._kept.popitem(last=False)[1][0].unpersist()
                self._kept[place] = (read().cache(), version.row_count)
            self._kept.move_to_end(place)
            kept = self._kept[place][0]
            # Under fresh column ids: two readers of one frame could not be told apart in a join, as they can when each
            # reads the files for itself.
            return kept.toDF(*kept.columns)

    def holds(self, version: BaseVersion, columns: tuple[str, ...]) -> bool:
        """Whether a base with these columns is kept now."""
        with self._lock:
            return (version.table, version.delta_version, version.sequence, columns) in self._kept

    def drop(self, table: str) -> None:
        """Let go of a table's bases."""
        with self._lock:
            self._let_go(lambda key: key[0] == table)

    def _let_go(self, which: Callable[[_Place], bool]) -> None:
        for key in [key for key in self._kept if which(key)]:
            self._kept.pop(key)[0].unpersist()
