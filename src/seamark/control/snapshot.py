"""What the control database holds, row by row as it is there, so that it can be compared with the chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Column, Connection, Table, select

from seamark.control.engine.database import Database
from seamark.control.schema import base, block, sink_position, table_head, transform_input_offset, transform_meta

Row: TypeAlias = Mapping[str, Any]
"""A row as the database has it: times are numbers, and nothing was converted that could fail."""

_ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of one moment: heads, bases, positions, keys of steps, positions of sinks.

    `indexed` are the tables that have rows in the index of blocks.
    """

    heads: tuple[Row, ...]
    bases: tuple[Row, ...]
    positions: tuple[Row, ...]
    keys: tuple[Row, ...]
    sinks: tuple[Row, ...]
    indexed: frozenset[str]


class Snapshots:
    """Reads the control database as it is, so that it can be compared."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> Snapshot:
        """All rows but those of the index, as they were together at one moment."""
        with self._database.read_at_once() as connection:
            return Snapshot(
                heads=_rows(connection, table_head),
                bases=_rows(connection, base),
                positions=_rows(connection, transform_input_offset),
                keys=_rows(connection, transform_meta),
                sinks=_rows(connection, sink_position),
                indexed=frozenset(connection.execute(select(block.c.table_name).distinct()).scalars()),
            )

    def index(self, table: str) -> Iterator[Row]:
        """The index of a table's blocks, oldest first, a few thousand rows at a time."""
        last: int | None = None
        while True:
            wanted = select(block).where(block.c.table_name == table).order_by(block.c.sequence).limit(_ROWS_AT_ONCE)
            if last is not None:
                wanted = wanted.where(block.c.sequence > last)
            with self._database.read() as connection:
                rows = [dict(row._mapping) for row in connection.execute(wanted)]
            yield from rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            last = rows[-1]["sequence"]

    def head_sequence(self, table: str) -> int | None:
        """The number of a table's newest block now, or None."""
        return self._of_head(table_head.c.sequence, table)

    def head_hash(self, table: str) -> str | None:
        """The hash of a table's newest block now, or None."""
        return self._of_head(table_head.c.head_hash, table)

    def _of_head(self, column: Column[Any], table: str) -> Any:
        wanted = select(column).where(table_head.c.table_name == table)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar_one_or_none()


def _rows(connection: Connection, table: Table) -> tuple[Row, ...]:
    return tuple(dict(row._mapping) for row in connection.execute(select(table)))
