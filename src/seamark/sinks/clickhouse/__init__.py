"""ClickHouse as a sink: on a folder, without a server, or a server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import pyarrow as pa

from seamark.errors import InvalidSink, did_you_mean
from seamark.sinks.clickhouse.connection import Connection, Row
from seamark.sinks.clickhouse.embedded import open_folder
from seamark.sinks.clickhouse.insert import OPTIONAL_SETTINGS, insert_settings, insert_statement, parquet_bytes
from seamark.sinks.clickhouse.server import open_server
from seamark.sinks.clickhouse.target import ClickHouseTarget
from seamark.sinks.clickhouse.url import Folder, parse_url
from seamark.sinks.layout import Layout, RowKind
from seamark.sinks.target import Asked, Carried
from seamark.systems.clickhouse import quoted, text


class ClickHouseSink:
    """A table in ClickHouse, to carry a table's changes to with `ds.sink(table, ClickHouseSink(…))`.

    `url` is `chdb:///folder` (the engine without a server; four slashes for an absolute folder) or
    `clickhouse://user:password@host:8123/database` (`clickhouses://` for TLS). `create` makes the table where there is
    none, and the columns that its source has gained. `collapse_by` says that the records of an append-only table with
    the columns `Sign` and `Version` cancel each other by this key. `nulls` says what becomes of an array or struct that
    is NULL, for which ClickHouse has no word: "refuse" stops before such a block, "empty" sends an empty array, or a
    struct of NULLs.
    """

    kind = "clickhouse"

    def __init__(
        self,
        url: str,
        table: str,
        *,
        create: bool = True,
        collapse_by: str | Sequence[str] | None = None,
        sign: str = "Sign",
        version: str = "Version",
        nulls: Literal["refuse", "empty"] = "refuse",
    ) -> None:
        self._place = parse_url(url)
        if not isinstance(table, str) or not table or "\0" in table:
            raise InvalidSink(f"a ClickHouse sink cannot lead to the table {table!r}. Nothing was declared.")
        if nulls not in ("refuse", "empty"):
            raise InvalidSink(
                f'a ClickHouse sink was given nulls="{nulls}". Nothing was declared.',
                hint='it is "refuse" or "empty".',
            )
        self.table = table
        self.create = create
        self.nulls = nulls
        self._collapse_by = (collapse_by,) if isinstance(collapse_by, str) else tuple(collapse_by or ())
        self._sign = sign
        self._version = version

    def __repr__(self) -> str:
        return f"ClickHouseSink({self._place.shown!r}, table={self.table!r})"

    @property
    def where(self) -> str:
        """The target as it may be shown, without secrets."""
        return f"table '{self.table}' of {self._place.shown}"

    @property
    def label(self) -> str:
        """What distinguishes this target from others: the name of its table."""
        return self.table

    # --- for people ---------------------------------------------------------------------------------------------------

    def query(self, sql: str) -> list[Row]:
        """The rows that a query gives, each a dict; a text that is not UTF-8 is bytes."""
        with self._connection(repr(self)) as connection:
            return connection.query(sql)

    def insert(self, rows: pa.Table) -> None:
        """Insert your own rows beside the sink's, as one block.

        It always counts: a table that notices a block that comes twice would otherwise swallow an insert that is equal
        to an earlier one.
        """
        with self._connection(repr(self)) as connection:
            names = ", ".join(map(text, OPTIONAL_SETTINGS))
            known = connection.query(f"SELECT name FROM system.settings WHERE name IN ({names})")
            settings = insert_settings(str(uuid.uuid4()), [row["name"] for row in known])
            target = f"{quoted(self._place.database)}.{quoted(self.table)}"
            connection.insert_parquet(insert_statement(target, rows.column_names, settings), parquet_bytes(rows))

    # --- for the run --------------------------------------------------------------------------------------------------

    def layout_for(self, asked: Asked) -> Layout:
        """The layout of a table's copy, or `InvalidSink` if the table cannot be carried there."""
        table, schema = asked.table, asked.schema
        is_log = not schema.key and self._sign in schema.names and self._version in schema.names
        key = self._collapse_by or (
            asked.collapsing_key if is_log else ()
        )  # what makes a log may make other tables too
        if not key:
            return Layout.keyed(schema.key) if schema.key else Layout.append()
        if schema.key:
            raise InvalidSink(
                f"table '{table}' has a key, {', '.join(schema.key)}, so its records do not cancel each other by Sign. "
                "The sink was not added.",
                hint="leave collapse_by out: a keyed table becomes a ReplacingMergeTree.",
            )
        if is_log and asked.collapsing_key:
            self._refuse_another_key(asked)
        for name in (*key, self._sign, self._version):
            if name not in schema.names:
                raise InvalidSink(
                    f"the records of table '{table}' are to cancel each other by ({', '.join(key)}), {self._sign} and "
                    f"{self._version}, but it has no column '{name}'. The sink was not added.",
                    hint=did_you_mean(name, list(schema.names), f"Columns of '{table}'"),
                )
        for name in (self._sign, self._version):
            if not pa.types.is_integer(schema.column(name).type):
                raise InvalidSink(
                    f"table '{table}': column '{name}' is {schema.column(name).shown}. The sink was not added.",
                    hint=f"{self._sign} and {self._version} are whole numbers.",
                )
        return Layout.diff(tuple(key), self._sign, self._version, asked.constant)

    def _refuse_another_key(self, asked: Asked) -> None:
        """Refuse a `collapse_by` under which records of one key of a diff might never meet."""
        own, given = asked.collapsing_key, self._collapse_by or asked.collapsing_key
        left_out = [name for name in own if name not in given]
        added = [name for name in given if name not in (*own, *asked.constant)]
        if left_out or added:
            what = f"leaves out {', '.join(left_out)}" if left_out else f"adds {', '.join(added)}"
            raise InvalidSink(
                f"the records of table '{asked.table}' cancel each other by ({', '.join(own)}), and collapse_by "
                f"{what}. The sink was not added.",
                hint="leave collapse_by out; the diff knows its key."
                if left_out
                else f"leave it out, or declare the diff with constant={added!r} if no visit ever changes it.",
            )

    @contextmanager
    def open(self, carried: Carried) -> Iterator[ClickHouseTarget]:
        """The target, made ready to take blocks."""
        who = f"sink '{carried.sink}'"
        # The empty state of a diff has no arrays: they are empty there, whatever is said of other tables.
        nulls = "empty" if carried.layout.kind is RowKind.DIFF else self.nulls
        with self._connection(who) as connection:
            target = ClickHouseTarget(connection, self._place.database, self.table, carried, who, self.where, nulls)
            target.prepare(create=self.create)
            yield target

    def _connection(self, who: str) -> AbstractContextManager[Connection]:
        if isinstance(self._place, Folder):
            return open_folder(self._place, who)
        return open_server(self._place, who)
