"""A ClickHouse server, over HTTP."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seamark.errors import SinkError, SinkUnavailable
from seamark.sinks.clickhouse.connection import AS_BYTES, Row, engine_error, rows_of
from seamark.sinks.clickhouse.insert import Insert
from seamark.sinks.clickhouse.url import Server


class ServerConnection:
    """A client of a server."""

    def __init__(self, client: Any, errors: type[Exception], server: Server, who: str) -> None:
        self._client = client
        self._errors = errors
        self._server = server
        self._who = who

    def query(self, sql: str) -> list[Row]:
        """The rows that a query gives."""
        try:
            return rows_of(self._client.raw_query(sql, settings={AS_BYTES: 0}, fmt="Arrow"))
        except self._errors as error:
            raise self._error(error) from None

    def execute(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        self._command(sql)

    def insert_slice(self, insert: Insert, path: Path) -> None:
        """Insert a slice as one block: its rows go as one Parquet file in the body of one request."""
        self.insert_parquet(insert.statement(), insert.parquet(path))

    def insert_parquet(self, statement: str, data: bytes) -> None:
        """Insert the rows of a Parquet file in memory, as one block."""
        self._command(f"{statement} FORMAT Parquet", data)

    def _command(self, sql: str, data: bytes | None = None) -> None:
        try:
            self._client.command(sql, data=data)
        except self._errors as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> SinkError:
        return _explained(error, self._server, self._who)


@contextmanager
def open_server(server: Server, who: str) -> Iterator[ServerConnection]:
    """A client of a server, closed at the end."""
    package = _package(who)
    errors = importlib.import_module("clickhouse_connect.driver.exceptions").ClickHouseError
    try:
        client = package.get_client(
            host=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            database=server.database,
            secure=server.secure,
            autogenerate_session_id=False,  # nothing is kept between requests
            connect_timeout=10,
            send_receive_timeout=600,
        )
    except errors as error:
        raise _explained(error, server, who) from None
    try:
        yield ServerConnection(client, errors, server, who)
    finally:
        client.close()


def _package(who: str) -> Any:
    try:
        return importlib.import_module("clickhouse_connect")
    except ImportError:
        raise SinkUnavailable(
            f"{who} needs the package clickhouse-connect, which is not installed. Nothing was sent.",
            hint="install Seamark with its extra: pip install '/path/to/seamark[clickhouse]'.",
        ) from None


def _explained(error: Exception, server: Server, who: str) -> SinkError:
    if getattr(error, "code", None) is None:  # it has one if it comes from ClickHouse, and not from the way there
        reason = type(error.__cause__ or error).__name__
        return SinkUnavailable(
            f"{who}: {server.shown} cannot be reached ({reason}). Nothing was sent.",
            hint="check host and port in the sink's URL (it is the HTTP port, 8123 or 8443), and that the server runs.",
        )
    name = getattr(error, "name", None)
    return engine_error(who, server.shown, str(error), [name] if name else [], secret=server.password)
