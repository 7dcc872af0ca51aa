"""What `show` shows: a table's schema and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from seamark.facts.tables import kind_of
from seamark.facts.values import key_types, key_values
from seamark.facts.versions import table_meant
from seamark.spark.frames import arrow_rows, in_utc
from seamark.store import DataStore
from seamark.tables import Table
from seamark.tables.far_times import python_rows
from seamark.tables.frame import quoted
from seamark.tables.frames import check_wanted_keys
from seamark.tables.read.choice import EVERYTHING, choose_values
from seamark.tables.read.few_rows import read_few, read_first
from seamark.tables.read.rows import rows_of
from seamark.tables.read.snapshot import Snapshot, check_as_of, snapshot_at
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
    """Schema, key and the first rows of a table, by key, or the row with one key; few rows need no Spark.

    By the name of a diff, its state is meant.
    """
    table = table_meant(store, name)
    wanted = _key_row(table, key) if key else None
    last = table.head.offset
    upto = last if as_of is None else check_as_of(table.source, as_of, last)
    rows = _first_rows(snapshot_at(table.source.visible, upto), limit + 1, wanted)
    return TableRows(
        table=table.name,
        kind=kind_of(store.control.index.head(table.name)),
        key=table.key,
        event_time=table.schema.event_time,
        columns=tuple(ColumnLine(c.name, spark_name(c.type), c.nullable) for c in table.schema.columns),
        as_of=upto,
        rows=tuple(rows[:limit]),
        more=len(rows) > limit,
    )


def _key_row(table: Table, given: Sequence[str]) -> pa.Table:
    """A key as the command line gives it: `post_id=1`, or `1` where the key is one column."""
    values = key_values(given, key_types(table, "leave --key out."), f"table '{table.name}'")
    return check_wanted_keys(table.name, table.schema, [dict(values)]).to_arrow()


def _first_rows(snapshot: Snapshot, count: int, wanted: pa.Table | None) -> list[dict[str, object]]:
    names = list(snapshot.source.schema.names)
    few = read_first(snapshot, count) if wanted is None else read_few(snapshot, wanted, names)
    found = few.select(names) if few is not None else _first_in_spark(snapshot, count, wanted)
    return python_rows(in_utc(found).slice(0, count))


def _first_in_spark(snapshot: Snapshot, count: int, wanted: pa.Table | None) -> pa.Table:
    source = snapshot.source
    rows = rows_of(snapshot, EVERYTHING if wanted is None else choose_values(source, wanted))
    key = [quoted(column) for column in source.schema.key]
    return arrow_rows((rows.orderBy(*key) if key else rows).limit(count))
