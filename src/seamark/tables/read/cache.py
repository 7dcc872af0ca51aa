"""Bases kept in Spark's cache by a long-lived process, within a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seamark.control import BaseVersion


# Table, Delta version, sequence of the last block folded, and columns.
_CacheKey: TypeAlias = tuple[str, int, int, tuple[str, ...]]


class BaseCache:
    """Keeps at most `max_rows` rows of bases and evicts the least recently used. A base never changes, so no entry is
    stale: a fold makes a new version, and the older ones of that table are evicted.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._kept: OrderedDict[_CacheKey, tuple[DataFrame, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """How many rows are kept now."""
        return sum(count for _, count in self._kept.values())

    def get(self, version: BaseVersion, columns: tuple[str, ...], read: Callable[[], DataFrame]) -> DataFrame:
        """The base as a frame with these columns, from the cache if it fits in there."""
        if version.row_count > self._max_rows:
            return read()
        # The key has the sequence: if rows/ was removed by hand, Delta counts its versions from 0 again.
        # And the columns: programs that declared the table before and after it grew may share this cache.
        place = (version.table, version.delta_version, version.sequence, columns)
        with self._lock:
            if place not in self._kept:
                self._evict(lambda key: key[0] == version.table)
                while self.rows + version.row_count > self._max_rows:
                    self._kept.popitem(last=False)[1][0].unpersist()
                self._kept[place] = (read().cache(), version.row_count)
            self._kept.move_to_end(place)
            kept = self._kept[place][0]
            # With new column ids: Spark could not tell two uses of one frame apart in a join, as it can when each use
            # reads the files itself.
            return kept.toDF(*kept.columns)

    def holds(self, version: BaseVersion, columns: tuple[str, ...]) -> bool:
        """Whether a base with these columns is kept now."""
        with self._lock:
            return (version.table, version.delta_version, version.sequence, columns) in self._kept

    def drop(self, table: str) -> None:
        """Evict the bases of a table."""
        with self._lock:
            self._evict(lambda key: key[0] == table)

    def _evict(self, which: Callable[[_CacheKey], bool]) -> None:
        for key in [key for key in self._kept if which(key)]:
            self._kept.pop(key)[0].unpersist()
