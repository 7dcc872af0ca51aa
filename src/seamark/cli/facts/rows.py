"""What `show` tells: a table's schema and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seamark.cli.facts.tables import check_names, kind_of
from seamark.store import DataStore
from seamark.tables.frames import quoted
from seamark.tables.types import spark_name


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A column: its type as it would be declared, and whether it may be NULL."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table as it stood after the record `as_of`. `more` says that it has more rows than are shown."""

    table: str
    kind: str | None
    key: tuple[str, ...]
    event_time: str | None
    columns: tuple[ColumnLine, ...]
    as_of: int | None
    rows: tuple[Mapping[str, object], ...]
    more: bool


def read_rows(store: DataStore, name: str, *, limit: int, as_of: int | None) -> TableRows:
    """Schema, key and the first rows of a table, by key; an empty table is shown without Spark."""
    check_names(store, [name])
    table = store.table(name)
    last = table.head.offset
    is_empty = last is None and as_of is None
    rows = [] if is_empty else _first_rows(store, name, limit + 1, as_of)
    return TableRows(
        table=name,
        kind=kind_of(store.control.index.head(name)),
        key=table.key,
        event_time=table.schema.event_time,
        columns=tuple(ColumnLine(c.name, spark_name(c.type), c.nullable) for c in table.schema.columns),
        as_of=last if as_of is None else as_of,
        rows=tuple(rows[:limit]),
        more=len(rows) > limit,
    )


def _first_rows(store: DataStore, name: str, count: int, as_of: int | None) -> list[dict[str, object]]:
    table = store.table(name)
    rows = table.rows(as_of)
    ordered = rows.orderBy(*[quoted(column) for column in table.key]) if table.key else rows
    found: list[dict[str, object]] = ordered.limit(count).toArrow().to_pylist()
    return found
