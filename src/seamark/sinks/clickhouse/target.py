"""A table in ClickHouse that takes blocks, and remembers beside them how far it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seamark.control import BlockEntry
from seamark.errors import SinkError, TargetMismatch
from seamark.sinks.clickhouse.connection import Connection
from seamark.sinks.clickhouse.ddl import (
    WINDOW,
    WINDOW_SECONDS,
    ExistingTable,
    ask_columns,
    ask_defaults,
    ask_table,
    check_table,
    create_table,
    defaults_of,
    existing_table,
    memory_to_set,
    missing_columns,
    narrow_columns,
    set_memory,
    window_of,
)
from seamark.sinks.clickhouse.insert import OPTIONAL_SETTINGS, Insert, insert_settings
from seamark.sinks.clickhouse.markers import Markers
from seamark.sinks.clickhouse.search import BlockSearch
from seamark.sinks.clickhouse.values import SliceCheck
from seamark.sinks.target import Carried, Marker, Place, Trace
from seamark.systems.clickhouse import quoted, text

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
        self._markers = Markers(connection, database, carried.sink, carried.table, table)
        self._carried = carried
        self._who = who
        self._where = where
        self._nulls = nulls
        self._check = SliceCheck(carried, where, nulls)
        self._is_new = False
        self._window: tuple[int, int | None] = (WINDOW, None)
        self._is_replicated = False
        self._to_set: dict[str, int] = {}  # settings without which the table may have forgotten a block in doubt
        self._known_settings: tuple[str, ...] = ()

    # --- making ready -------------------------------------------------------------------------------------------------

    def prepare(self, *, create: bool) -> None:
        """Make the table if it may be made, check it, and see to it that a block that comes twice is noticed."""
        table = self._existing()
        if table is None:
            table = self._made(create=create)
        elif create:
            table = self._grown(table)
        check_table(self._who, self._where, self._carried, table)
        self._check = SliceCheck(self._carried, self._where, self._nulls, narrow_columns(self._carried, table))
        self._markers.prepare()
        self._see_that_it_remembers(table)
        names = ", ".join(map(text, OPTIONAL_SETTINGS))
        known = self._connection.query(f"SELECT name FROM system.settings WHERE name IN ({names})")
        self._known_settings = tuple(row["name"] for row in known)

    def _existing(self) -> ExistingTable | None:
        found = self._connection.query(ask_table(self._database, self._name))
        return existing_table(found, self._connection.query(ask_columns(self._database, self._name)) if found else [])

    def _made(self, *, create: bool) -> ExistingTable:
        if not create:
            raise TargetMismatch(
                f"{self._who}: {self._where} is not there. Nothing was sent.",
                hint=f"create=True makes it; or make it: {create_table(self._table, self._carried)}",
            )
        # That nothing was sent is written down first: a marker of an earlier table must not be believed of this one.
        self._markers.prepare()
        self._markers.void()
        self._connection.execute(create_table(self._table, self._carried))
        self._is_new = True
        made = self._existing()
        assert made is not None, "a table that was made is there"
        return made

    def _grown(self, table: ExistingTable) -> ExistingTable:
        """The table with the columns that its source has gained; only such as may be NULL come later.

        A table that would not do with them either is left as it is: it may well be somebody else's.
        """
        missing = [column for column in missing_columns(self._carried, table) if self._may_come_later(column.name)]
        if not missing:
            return table
        grown = replace(table, columns=table.columns | {column.name: column.type for column in missing})
        check_table(self._who, self._where, self._carried, grown)
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {column.sql}" for column in missing)
        self._connection.execute(f"ALTER TABLE {self._table} {added}")
        return self._existing() or table

    def _may_come_later(self, name: str) -> bool:
        schema, required = self._carried.schema, self._carried.layout.required
        return name in schema.names and name not in required and schema.column(name).nullable

    def _see_that_it_remembers(self, table: ExistingTable) -> None:
        """Set what makes a table remember its inserts: without it a block could be counted twice.

        Not while a block is in doubt: the table may have forgotten just that one, and must not look as if it had not.
        """
        defaults = defaults_of(self._connection.query(ask_defaults(replicated=table.is_replicated)))
        self._is_replicated = table.is_replicated
        self._window = window_of(table, defaults)
        self._to_set = memory_to_set(self._carried, table, defaults)
        if self._to_set and (self._carried.layout.is_idempotent or not self._is_in_doubt()):
            self._set_memory()

    def _is_in_doubt(self) -> bool:
        return any(marker.doubt is not None for marker in self.markers().values())

    def _set_memory(self) -> None:
        statement = set_memory(self._table, self._to_set)
        try:
            self._connection.execute(statement)
        except SinkError as error:
            raise TargetMismatch(
                f"{self._who}: {self._where} remembers too few of its inserts to notice a block that comes twice, "
                f"and that could not be changed: {error.message}. Nothing was sent.",
                hint=f"let somebody who may run {statement}",
            ) from None
        self._to_set = {}
        self._window = (WINDOW, WINDOW_SECONDS if self._is_replicated else None)

    # --- where it is --------------------------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether the table was made just now."""
        return self._is_new

    def is_empty(self) -> bool:
        """Whether the table holds no row."""
        return not self._connection.query(f"SELECT 1 AS one FROM {self._table} LIMIT 1")

    def markers(self) -> dict[str, Marker]:
        """What is remembered here of each sink that has carried this table to this target, by name."""
        found = self._markers.read(replicated=self._is_replicated, window=self._window)
        if not self._to_set:
            return found
        return {sink: replace(marker, is_covered=False) for sink, marker in found.items()}

    def strangers(self) -> list[Trace]:
        """What is remembered of sinks that have carried other tables here, as of the last look at the markers."""
        return self._markers.strangers()

    def elsewhere(self) -> list[Trace]:
        """What is remembered of sinks that have carried a table of this name to other tables of this database."""
        return self._markers.elsewhere()

    def mark(self, done: Place | None, doubt: Place | None, *, afresh: bool = False) -> None:
        """Let the target remember how far it is, and what is about to be sent; `afresh`: under tokens it never had."""
        if self._to_set:
            self._set_memory()
        self._markers.write(done, doubt, replicated=self._is_replicated, afresh=afresh)

    def void(self) -> None:
        """Let the target, which holds no row, remember that it has nothing of any sink."""
        self._markers.void()

    def adopt(self, sink: str, *, afresh: bool = False) -> None:
        """Continue in another sink's place, from where it was; `afresh`: under tokens that the table never had."""
        self._markers.adopt(sink, afresh=afresh)

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, block: BlockEntry, slice_path: Path, *, in_doubt: bool) -> None:
        """Insert a block's records as one insert, whose token is made of the block's hash."""
        self._check(slice_path, block.sequence)
        self._insert(self._markers.token(block.hash), slice_path)
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
        search = BlockSearch(self._connection, self._database, self._name, self._carried, self._markers.doubt_inserts)
        for attempt in range(1, _MOST_TOKENS + 1):
            if search.finds(block, slice_path):
                return
            self._insert(f"{self._markers.token(block.hash)}-{attempt}", slice_path)
        if not search.finds(block, slice_path):
            raise SinkError(
                f"{self._who}: {self._where} says that it has block {block.sequence} of '{self._carried.table}', but "
                "its rows are not there. The sink stays before it.",
                hint=f"look whether they are: if so, ds.sinks()[{self._carried.sink!r}].go_on_after({block.sequence}) "
                "says so to the sink; if not, the same with the block before it sends them under a token of their own.",
            )
