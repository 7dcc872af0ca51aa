"""How far each sink has carried each table: the control database's own record of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from seamark.control.engine.database import Database
from seamark.control.leases import require_lease
from seamark.control.model import Lease
from seamark.control.schema import block, sink_position


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """The block up to which a sink has carried a table, and where to; None if that was not written down."""

    sink: str
    table: str
    sequence: int
    target: str | None = None

    def is_in(self, target: str) -> bool:
        """Whether it is a position in this target, as far as is known."""
        return self.target in (None, target)


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

    def find(self, sink: str, table: str) -> SinkPosition | None:
        """A sink's position, whatever the target, or None if it has sent nothing yet."""
        ours = (sink_position.c.sink == sink) & (sink_position.c.table_name == table)
        with self._database.read() as connection:
            row = connection.execute(select(sink_position).where(ours)).one_or_none()
        return None if row is None else SinkPosition(row.sink, row.table_name, row.sequence, row.target)

    def position(self, sink: str, table: str, target: str | None = None) -> int | None:
        """The sequence of the last block that a sink is done with, or None if it has sent nothing there yet."""
        found = self.find(sink, table)
        return None if found is None or (target is not None and not found.is_in(target)) else found.sequence

    def all(self) -> list[SinkPosition]:
        """The positions of all sinks, by name, in one query."""
        wanted = select(sink_position).order_by(sink_position.c.sink, sink_position.c.table_name)
        with self._database.read() as connection:
            rows = connection.execute(wanted)
            return [SinkPosition(row.sink, row.table_name, row.sequence, row.target) for row in rows]

    def backlog(self, sink: str, table: str, target: str | None = None) -> SinkBacklog:
        """What waits for a sink on a table; everything, where its position is one in another target."""
        position = self.position(sink, table, target)
        waits = (block.c.table_name == table) & block.c.last_offset.is_not(None)
        if position is not None:
            waits &= block.c.sequence > position
        records = func.coalesce(func.sum(block.c.last_offset - block.c.first_offset + 1), 0)
        wanted = select(func.count(), records, func.min(block.c.system_time)).where(waits)
        with self._database.read() as connection:
            blocks, waiting, oldest = connection.execute(wanted).one()
        return SinkBacklog(position, blocks, int(waiting), None if oldest is None else oldest / 1000)

    def keep(self, lease: Lease, sink: str, table: str, sequence: int, target: str | None = None) -> None:
        """Move a position forward, never back within a target; `LeaseLost` if the sink is no longer ours to run."""
        new = {"sequence": sequence, "target": target}
        statement = self._database.insert(sink_position).values(sink=sink, table_name=table, **new)
        sent = statement.excluded
        forward = statement.on_conflict_do_update(
            index_elements=[sink_position.c.sink, sink_position.c.table_name],
            set_={"sequence": sent.sequence, "target": sent.target},
            where=(sink_position.c.sequence < sent.sequence) | sink_position.c.target.is_distinct_from(sent.target),
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
