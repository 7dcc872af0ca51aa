"""What `show` tells: a table's schema and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.errors import UsedWrongly
from seamark.facts.tables import check_names, kind_of
from seamark.facts.values import key_values
from seamark.facts.versions import diff_named
from seamark.spark.frames import arrow_rows
from seamark.store import DataStore
from seamark.tables import Table
from seamark.tables.frame import quoted
from seamark.tables.schema.types import spark_name


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


def read_rows(store: DataStore, name: str, *, limit: int, as_of: int | None, key: Sequence[str] = ()) -> TableRows:
    """Schema, key and the first rows of a table, by key, or the row with one key; an empty table needs no Spark.

    By the name of a diff, its state is meant.
    """
    diff = diff_named(store, name)
    if diff is not None and name == diff.name:
        name = diff.state.name
    check_names(store, [name])
    table = store.table(name)
    wanted = _key_values(table, key) if key else None
    last = table.head.offset
    is_empty = last is None and as_of is None
    rows = [] if is_empty else _first_rows(table, limit + 1, as_of, wanted)
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


def _key_values(table: Table, given: Sequence[str]) -> dict[str, object]:
    """A key as the command line gives it: `post_id=1`, or `1` where the key is one column."""
    if not table.key:
        raise UsedWrongly(
            f"table '{table.name}' is append-only: its records have no key to ask by.", hint="leave --key out."
        )
    values = key_values(given, {c: table.schema.column(c).type for c in table.key}, f"table '{table.name}'")
    return dict(values)


def _first_rows(
    table: Table, count: int, as_of: int | None, key: Mapping[str, object] | None
) -> list[dict[str, object]]:
    rows = table.rows(as_of) if key is None else table.get_data([key])
    ordered = rows.orderBy(*[quoted(column) for column in table.key]) if table.key else rows
    found: list[dict[str, object]] = arrow_rows(ordered.limit(count)).to_pylist()
    return found
