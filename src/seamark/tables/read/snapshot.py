"""A snapshot: the rows of a table at a pin, as a value. It names the files that hold them; nothing is read yet.

All rows are read through a snapshot, so that base and tail always fit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seamark.control import BaseVersion, BlockEntry
from seamark.errors import NotACommit
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.records import count_records
from seamark.tables.read.source import TableSource


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a table after the record `upto`: those of a base, and what the blocks of the tail changed in them.

    `upto` is None before the first record, `base` where nothing was folded yet.
    """

    source: TableSource
    upto: int | None
    base: BaseVersion | None
    tail: tuple[BlockEntry, ...]

    @property
    def base_rows(self) -> int:
        """How many rows the base has."""
        return self.base.row_count if self.base else 0

    @property
    def tail_records(self) -> int:
        """How many records the tail has."""
        return count_records(self.tail)

    @property
    def tail_commits(self) -> int:
        """How many commits the tail has."""
        return len({block.system_time for block in self.tail})

    @property
    def row_count(self) -> int | None:
        """How many rows there are, if there is only a base or only one commit; None if they must be counted."""
        if self.base is None and self.tail_commits > 1:
            return None
        if self.base is not None and self.tail:
            return None
        return self.base_rows + self.tail_records

    def rows_at_most(self, keys: int | None = None) -> int:
        """An upper bound of the rows, of all keys or of so many."""
        bound = self.base_rows + self.tail_records
        return bound if keys is None else min(bound, keys)

    def versions_at_most(self, keys: int | None = None) -> int:
        """An upper bound of the rows of the base and records of the tail, of all keys or of so many."""
        if keys is None:
            return self.base_rows + self.tail_records
        # A commit has one new version of a key; its old image does not count.
        return min(self.base_rows, keys) + min(self.tail_records, keys * self.tail_commits)

    def base_files(self) -> tuple[Path, ...]:
        """The files of the base."""
        return DeltaLog(Path(self.source.base_folder)).files(self.base.delta_version) if self.base else ()

    def stored_bytes(self) -> int:
        """How many bytes the files of the base and the slices of the tail have together."""
        folded = sum(path.stat().st_size for path in self.base_files())
        return folded + sum(block.slice_size or 0 for block in self.tail)


def snapshot_at(source: TableSource, upto: int | None) -> Snapshot:
    """The rows of a table after the record `upto` (None: before the first)."""
    if upto is None:
        return Snapshot(source, None, None, ())
    base = _newest_base(source, upto)
    # The base is chosen first: the tail begins where it ends, whatever is folded meanwhile.
    tail = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    return Snapshot(source, upto, base, tuple(tail))


def _newest_base(source: TableSource, upto: int) -> BaseVersion | None:
    """The newest base that holds no record after this one, and whose Delta version is still on disk."""
    for version in source.context.control.index.bases(source.name):
        if version.last_offset <= upto and base_exists(source, version.delta_version):
            return version
    return None


def base_exists(source: TableSource, delta_version: int) -> bool:
    """Whether a Delta version is still on disk: somebody may have removed the folder."""
    return DeltaLog(Path(source.base_folder)).has(delta_version)


def check_as_of(source: TableSource, as_of: int, last_offset: int | None) -> int:
    """The offset, if it is the end of a commit; `NotACommit` naming what there is otherwise."""
    if last_offset is None or not 0 <= as_of <= last_offset:
        raise NotACommit(
            f"table '{source.name}' has no record {as_of}: its last offset is "
            f"{'none, it is empty' if last_offset is None else last_offset}.",
            hint=f"`seamark log {source.name}` lists the offsets of each commit.",
        )
    blocks = source.context.control.index.commit_holding(source.name, as_of)
    first, last = blocks[0].first_offset, blocks[-1].last_offset
    if as_of != last:
        raise NotACommit(
            f"table '{source.name}': record {as_of} is inside a commit that goes from {first} to {last}.",
            hint=f"a table can be read only at the end of a commit: use {last}{f' or {first - 1}' if first else ''}.",
        )
    return as_of
