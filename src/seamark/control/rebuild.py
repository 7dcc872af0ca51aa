"""Writing what chains say into an empty or outdated control database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, text, update

from seamark.control.commit import block_row, head_row, position_row, save_failed_key
from seamark.control.engine.database import Database
from seamark.control.model import BaseVersion, BlockEntry, FailedKey, Position, TableHead
from seamark.control.schema import base, block, mv_scans, table_head, transform_input_offset, transform_meta
from seamark.errors import StoreError

_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Restored:
    """All that can be read off one table's chain and its base."""

    head: TableHead
    blocks: tuple[BlockEntry, ...]
    bases: tuple[BaseVersion, ...] = ()


def restore(
    database: Database,
    tables: Iterable[Restored],
    positions: Iterable[Position],
    failed: Iterable[FailedKey],
    *,
    heads_before: Mapping[str, str],
    check: Callable[[], None],
) -> None:
    """Replace heads, index, bases, positions and failed keys by what the chains say, in one transaction.

    Scans of views begin again: where the chains are older than the database, a cursor is past pages that they lack.

    `heads_before` are the database's heads as they were before the chains were read; if one has moved, or `check`
    raises, nothing is replaced: somebody has committed meanwhile.
    """

    def replace_all(connection: Connection) -> None:
        if not database.is_sqlite:
            connection.execute(text("LOCK TABLE table_head IN EXCLUSIVE MODE"))  # nobody commits until we are through
        rows = connection.execute(select(table_head.c.table_name, table_head.c.head_hash))
        moved = {row.table_name: row.head_hash for row in rows}.items() ^ heads_before.items()
        if moved:
            raise meanwhile_moved(min(name for name, _ in moved))
        check()
        distrusted = connection.execute(select(base).where(base.c.distrusted_at.is_not(None))).all()
        for emptied in (table_head, block, base, transform_input_offset, transform_meta, mv_scans):
            connection.execute(delete(emptied))
        for table in tables:
            _restore_table(connection, table)
        for row in distrusted:  # what was found wrong once is not to be trusted because Delta's log still has it
            same = (base.c.table_name == row.table_name) & (base.c.delta_version == row.delta_version)
            connection.execute(update(base).where(same).values(distrusted_at=row.distrusted_at))
        for position in positions:
            connection.execute(insert(transform_input_offset).values(**position_row(position)))
        for key in failed:
            save_failed_key(database, connection, key)

    database.write_retrying(replace_all)


def meanwhile_moved(table: str) -> StoreError:
    """What to say when a table's head is no longer what it was when its chain was read."""
    return StoreError(
        f"table '{table}' moved while the chains were read: somebody writes to it. Nothing was changed.",
        hint="stop what is writing, then try again.",
    )


def _restore_table(connection: Connection, table: Restored) -> None:
    connection.execute(insert(table_head).values(**head_row(table.head)))
    rows = [block_row(table.head.table, entry) for entry in table.blocks]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        connection.execute(insert(block), rows[start : start + _ROWS_AT_ONCE])
    for version in table.bases:
        row = {"table_name": version.table, "delta_version": version.delta_version, "sequence": version.sequence}
        connection.execute(insert(base).values(**row, last_offset=version.last_offset, row_count=version.row_count))
