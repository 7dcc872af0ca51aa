"""A table in ClickHouse that takes blocks, and remembers beside them how far it is."""

from __future__ import annotations

from pathlib import Path

from seamark.control import BlockEntry
from seamark.errors import SinkError, TargetMismatch
from seamark.sinks.clickhouse.connection import Connection
from seamark.sinks.clickhouse.ddl import (
    WINDOW,
    Standing,
    ask_columns,
    ask_defaults,
    ask_table,
    check_table,
    create_table,
    missing_columns,
    set_window,
    standing,
    window_of,
    window_to_set,
)
from seamark.sinks.clickhouse.insert import OPTIONAL_SETTINGS, Insert, insert_settings
from seamark.sinks.clickhouse.search import BlockSearch
from seamark.sinks.clickhouse.types import quoted, text
from seamark.sinks.clickhouse.values import SliceCheck
from seamark.sinks.target import Carried, Marker, Place

MARKERS = "seamark_sink_positions"

# One row a sink and target, the newest of which counts. An insert and its marker are two inserts, for ClickHouse has no
# transaction for both: so the marker is written before the insert as well, and names the block that may or may not be
# there. `inserts` is the number of the newest insert at that time: whether the table still remembers the block's token
# can be told by how many came since.
_MARKERS = """(
    sink String, table_name String, target String,
    sequence Int64, block_hash String, doubt_sequence Int64, doubt_hash String,
    inserts Int64, written UInt64, at DateTime64(3, 'UTC')
) ENGINE = ReplacingMergeTree(written) ORDER BY (sink, table_name, target)"""
_NONE = Place(-1, "")
_MOST_TOKENS = 3


class ClickHouseTarget:
    """An open table. `create` makes it, and its new columns, where they are not there yet."""

    def __init__(
        self, connection: Connection, database: str, table: str, carried: Carried, who: str, where: str, nulls: str
    ) -> None:
        self._connection = connection
        self._database = database
        self._name = table
        self._table = f"{quoted(database)}.{quoted(table)}"
        self._markers = f"{quoted(database)}.{quoted(MARKERS)}"
        self._carried = carried
        self._who = who
        self._where = where
        self._check = SliceCheck(carried, where, nulls)
        self._is_new = False
        self._window: tuple[int, int | None] = (WINDOW, None)
        self._is_replicated = False
        self._known_settings: tuple[str, ...] = ()
        self._written = 0
        self._doubt_inserts = 0  # the newest insert when the sending of the block in doubt began

    # --- making ready -------------------------------------------------------------------------------------------------

    def prepare(self, *, create: bool) -> None:
        """Make the table if it may be made, check it, and see to it that a block that comes twice is noticed."""
        table = self._standing()
        if table is None:
            table = self._made(create=create)
        elif create:
            table = self._grown(table)
        check_table(self._who, self._where, self._carried, table)
        self._set_window(table)
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {self._markers} {_MARKERS}")
        names = ", ".join(map(text, OPTIONAL_SETTINGS))
        known = self._connection.query(f"SELECT name FROM system.settings WHERE name IN ({names})")
        self._known_settings = tuple(row["name"] for row in known)

    def _standing(self) -> Standing | None:
        found = self._connection.query(ask_table(self._database, self._name))
        return standing(found, self._connection.query(ask_columns(self._database, self._name)) if found else [])

    def _made(self, *, create: bool) -> Standing:
        if not create:
            raise TargetMismatch(
                f"{self._who}: {self._where} is not there. Nothing was sent.",
                hint=f"create=True makes it; or make it: {create_table(self._table, self._carried)}",
            )
        # That nothing was sent is written down first: a marker of an earlier table must not be believed of this one.
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {self._markers} {_MARKERS}")
        self.marker()
        self.mark(None, None)
        self._connection.execute(create_table(self._table, self._carried))
        self._is_new = True
        made = self._standing()
        assert made is not None, "a table that was made is there"
        return made

    def _grown(self, table: Standing) -> Standing:
        """The table with the columns that its source has gained; only such as may be NULL come later."""
        missing = [column for column in missing_columns(self._carried, table) if self._may_come_later(column.name)]
        if not missing:
            return table
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {column.sql}" for column in missing)
        self._connection.execute(f"ALTER TABLE {self._table} {added}")
        return self._standing() or table

    def _may_come_later(self, name: str) -> bool:
        schema, required = self._carried.schema, self._carried.layout.required
        return name in schema.names and name not in required and schema.column(name).nullable

    def _set_window(self, table: Standing) -> None:
        """Without a window ClickHouse forgets an insert at once: then a block could be counted twice."""
        rows = self._connection.query(ask_defaults(replicated=table.is_replicated))
        defaults = {row["name"]: int(row["value"]) for row in rows}
        wanted = window_to_set(table, defaults)
        if wanted:
            try:
                self._connection.execute(set_window(self._table, wanted))
            except SinkError as error:
                raise TargetMismatch(
                    f"{self._who}: {self._where} remembers too few of its inserts to notice a block that comes twice, "
                    f"and that could not be changed: {error.message}. Nothing was sent.",
                    hint=f"let somebody who may run {set_window(self._table, wanted)}",
                ) from None
            table = self._standing() or table
        self._window = window_of(table, defaults)
        self._is_replicated = table.is_replicated

    # --- where it is --------------------------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether the table was made just now."""
        return self._is_new

    def is_empty(self) -> bool:
        """Whether the table holds no row."""
        return not self._connection.query(f"SELECT 1 AS one FROM {self._table} LIMIT 1")

    def marker(self) -> Marker | None:
        """What the table remembers of this sink, or None."""
        rows = self._connection.query(
            "SELECT sequence, block_hash, doubt_sequence, doubt_hash, inserts, written, "
            f"dateDiff('second', at, now64(3, 'UTC')) AS age, {self._newest_insert()} AS newest "
            f"FROM {self._markers} WHERE sink = {text(self._carried.sink)} "
            f"AND table_name = {text(self._carried.table)} AND target = {text(self._name)} "
            "ORDER BY written DESC, sequence DESC LIMIT 1"
        )
        if not rows:
            return None
        row = rows[0]
        self._written, self._doubt_inserts = row["written"], row["inserts"]
        most, seconds = self._window
        return Marker(
            done=_place(row["sequence"], row["block_hash"]),
            doubt=_place(row["doubt_sequence"], row["doubt_hash"]),
            is_covered=row["newest"] - row["inserts"] < most and (seconds is None or row["age"] < seconds),
        )

    def mark(self, done: Place | None, doubt: Place | None) -> None:
        """Let the target remember how far it is, and what is about to be sent."""
        done, doubt = done or _NONE, doubt or _NONE
        self._written += 1
        values = [text(self._carried.sink), text(self._carried.table), text(self._name)]
        values += [str(done.sequence), text(done.hash), str(doubt.sequence), text(doubt.hash)]
        values += [self._newest_insert(), str(self._written), "now64(3, 'UTC')"]
        self._connection.execute(f"INSERT INTO {self._markers} SETTINGS async_insert=0 SELECT {', '.join(values)}")

    def _newest_insert(self) -> str:
        return (
            "(SELECT toInt64(ifNull(max(max_block_number), 0)) FROM system.parts "
            f"WHERE database = {text(self._database)} AND table = {text(self._name)})"
        )

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, block: BlockEntry, slice_path: Path, *, in_doubt: bool) -> None:
        """Insert a block's records as one insert, whose token is the block's hash."""
        self._check(slice_path, block.sequence)
        self._insert(block.hash, slice_path)
        if in_doubt and not self._is_replicated:  # replicated tables get a token and its part in one step
            self._see_that_it_is_there(block, slice_path)

    def _insert(self, token: str, slice_path: Path) -> None:
        settings = insert_settings(token, self._known_settings)
        self._connection.insert_slice(Insert(self._table, self._carried, settings), slice_path)

    def _see_that_it_is_there(self, block: BlockEntry, slice_path: Path) -> None:
        """Send a block again under another token where its own has been swallowed and its rows are not there.

        ClickHouse writes a token down just before the part that it stands for appears. If the engine is killed between
        the two, it takes the block for one that it has.
        """
        search = BlockSearch(self._connection, self._database, self._name, self._carried, self._doubt_inserts)
        for attempt in range(1, _MOST_TOKENS + 1):
            if search.finds(block, slice_path):
                return
            self._insert(f"{block.hash}-{attempt}", slice_path)
        if not search.finds(block, slice_path):
            raise SinkError(
                f"{self._who}: {self._where} says that it has block {block.sequence} of '{self._carried.table}', but "
                "its rows are not there. The sink stays before it.",
                hint="drop the target's table, and everything is sent again.",
            )


def _place(sequence: int, block_hash: str) -> Place | None:
    return Place(sequence, block_hash) if sequence >= 0 else None
