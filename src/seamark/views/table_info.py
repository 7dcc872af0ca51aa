"""What a view's checks know of a table: columns, key and changefeeds, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from seamark.errors import UnfitKey
from seamark.tables.schema.table_schema import Column, TableSchema

LOG_FEED = "log"  # every table's own changefeed


class Tables(Protocol):
    """Where metadata comes from: the tables of a project by their names."""

    def find(self, name: str) -> MvTableInfo | None:
        """What is known of the table of this name, or None."""

    def names(self) -> tuple[str, ...]:
        """The names of all tables."""


@dataclass(frozen=True)
class MvTableInfo:
    """A table's metadata. A table without key is append-only. `changefeeds` names the consumers of each."""

    name: str
    schema: TableSchema
    changefeeds: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {LOG_FEED: ()})

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.casefold(): column for column in self.schema.columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return self.schema.names

    @property
    def key(self) -> MvKeyInfo:
        """The table's primary key."""
        return MvKeyInfo(self, self.schema.key)

    def column(self, name: str) -> Column | None:
        """The column of this name, in any case, as Spark finds it; or None."""
        return self._by_name.get(name.casefold())


@dataclass(frozen=True)
class MvKeyInfo:
    """A table's primary key: its columns, with the table that it is of. An append-only table's has no columns."""

    table: MvTableInfo
    columns: tuple[str, ...]

    def prefix(self, *values: object) -> MvKeyPrefix:
        """The values of the first columns of the key."""
        return MvKeyPrefix(self, values)

    def key(self, *values: object) -> MvKey:
        """The values of all columns of the key."""
        return MvKey(self, values)

    def starts_with(self, columns: Iterable[str]) -> bool:
        """Whether these columns, in any order, are the key's first ones."""
        wanted = {name.casefold() for name in columns}
        return bool(wanted) and wanted == {name.casefold() for name in self.columns[: len(wanted)]}


@dataclass(frozen=True)
class MvKeyPrefix:
    """The values of the first columns of a table's primary key."""

    info: MvKeyInfo
    values: tuple[object, ...]

    def __post_init__(self) -> None:
        if not self._fits(len(self.values), len(self.info.columns)):
            listed = ", ".join(self.info.columns) or "no columns"
            raise UnfitKey(
                f"table '{self.info.table.name}': {len(self.values)} values were given for its key ({listed}). "
                "Nothing was looked up.",
                hint="give one value for each column of the key; a prefix has those of the first columns.",
            )

    @staticmethod
    def _fits(values: int, columns: int) -> bool:
        return values <= columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have a value."""
        return self.info.columns[: len(self.values)]


@dataclass(frozen=True)
class MvKey(MvKeyPrefix):
    """The values of a table's whole primary key: one row."""

    @staticmethod
    def _fits(values: int, columns: int) -> bool:
        return values == columns


@dataclass(frozen=True)
class KnownTables:
    """The tables that are given, by their names."""

    infos: Mapping[str, MvTableInfo]

    @staticmethod
    def of(*infos: MvTableInfo) -> KnownTables:
        """These tables."""
        return KnownTables({info.name: info for info in infos})

    def find(self, name: str) -> MvTableInfo | None:
        """What is known of the table of this name, or None."""
        return self.infos.get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all tables."""
        return tuple(self.infos)
