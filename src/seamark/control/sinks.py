"""How far each sink has carried each table: the control database's own record of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from seamark.control.commit import require_lease
from seamark.control.database import Database
from seamark.control.model import Lease
from seamark.control.schema import block, sink_position


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """The block up to which a sink has carried a table."""

    sink: str
    table: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SinkBacklog:
    """The last block that a sink is done with, and what waits behind it: blocks with data, and their records."""

    position: int | None
    blocks: int
    records: int
    oldest_at: float | None  # when the oldest of them was committed


class Sinks:
    """The positions of sinks. They answer "is there anything to send?" without a look at the target.

    What was really sent, the target knows: a position here may be behind it after a crash, and is gone after a rebuild
    from the chains, which know nothing of sinks.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def position(self, sink: str, table: str) -> int | None:
        """The sequence of the last block that a sink is done with, or None if it has sent nothing yet."""
        ours = (sink_position.c.sink == sink) & (sink_position.c.table_name == table)
        with self._database.read() as connection:
            return connection.execute(select(sink_position.c.sequence).where(ours)).scalar_one_or_none()

    def all(self) -> list[SinkPosition]:
        """The positions of all sinks, by name, in one query."""
        wanted = select(sink_position).order_by(sink_position.c.sink, sink_position.c.table_name)
        with self._database.read() as connection:
            return [SinkPosition(row.sink, row.table_name, row.sequence) for row in connection.execute(wanted)]

    def backlog(self, sink: str, table: str) -> SinkBacklog:
        """What waits for a sink on a table."""
        position = self.position(sink, table)
        waits = (block.c.table_name == table) & block.c.last_offset.is_not(None)
        if position is not None:
            waits &= block.c.sequence > position
        records = func.coalesce(func.sum(block.c.last_offset - block.c.first_offset + 1), 0)
        wanted = select(func.count(), records, func.min(block.c.system_time)).where(waits)
        with self._database.read() as connection:
            blocks, waiting, oldest = connection.execute(wanted).one()
        return SinkBacklog(position, blocks, int(waiting), None if oldest is None else oldest / 1000)

    def keep(self, lease: Lease, sink: str, table: str, sequence: int) -> None:
        """Move a position forward, never back; `LeaseLost` if the sink is no longer ours to run."""
        statement = self._database.insert(sink_position).values(sink=sink, table_name=table, sequence=sequence)
        forward = statement.on_conflict_do_update(
            index_elements=[sink_position.c.sink, sink_position.c.table_name],
            set_={"sequence": statement.excluded.sequence},
            where=sink_position.c.sequence < statement.excluded.sequence,
        )

        def move(connection: Connection) -> None:
            require_lease(connection, lease, self._database.now(connection))
            connection.execute(forward)

        self._database.write_retrying(move)

    def forget(self, lease: Lease, sink: str, table: str) -> None:
        """Take a position back to nothing, because the target is a new one and is filled from the beginning."""
        gone = delete(sink_position).where(sink_position.c.sink == sink, sink_position.c.table_name == table)

        def drop(connection: Connection) -> None:
            require_lease(connection, lease, self._database.now(connection))
            connection.execute(gone)

        self._database.write_retrying(drop)
