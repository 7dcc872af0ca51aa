"""What a connection to ClickHouse can do, embedded or not, and what its errors mean."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from seamark.errors import SinkError, SinkUnavailable
from seamark.sinks.clickhouse.insert import Insert

Row = dict[str, Any]

# Set to 0: texts come as bytes, because ClickHouse's String may hold any; what is a text is made one again below.
AS_BYTES = "output_format_arrow_string_as_string"

_WRONG_PASSWORD = {"AUTHENTICATION_FAILED", "WRONG_PASSWORD", "REQUIRED_PASSWORD", "UNKNOWN_USER"}


class Connection(Protocol):
    """An open connection to a ClickHouse."""

    def query(self, sql: str) -> list[Row]:
        """The rows that a query gives."""

    def execute(self, sql: str) -> None:
        """Run a statement that gives no rows."""

    def insert_slice(self, insert: Insert, path: Path) -> None:
        """Insert a slice as one block."""

    def insert_parquet(self, statement: str, data: bytes) -> None:
        """Insert the rows of a Parquet file in memory, as one block."""


def rows_of(data: bytes) -> list[Row]:
    """The rows of an answer in Arrow's file format; a text that is not UTF-8 stays bytes."""
    if not data:
        return []
    table = pa.ipc.open_file(io.BytesIO(data)).read_all()
    return [{name: _text(value) for name, value in row.items()} for row in table.to_pylist()]


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {name: _text(item) for name, item in value.items()}
    return value


def engine_error(who: str, where: str, text: str, names: Collection[str], *, secret: str = "") -> SinkError:
    """What ClickHouse said, as an error of ours that names the sink and the next step, without a secret.

    `names` are ClickHouse's own names of the error, such as UNKNOWN_DATABASE: they decide, not the text.
    """
    if _WRONG_PASSWORD.intersection(names):
        return SinkUnavailable(
            f"{who}: {where} does not let us in: the user or the password is wrong. Nothing was sent.",
            hint="check both in the sink's URL; signs such as @ : / in a password are written %40 %3A %2F.",
        )
    if "UNKNOWN_DATABASE" in names:
        return SinkUnavailable(
            f"{who}: {where} names a database that does not exist. Nothing was sent.",
            hint="create it with CREATE DATABASE, or correct the sink's URL.",
        )
    said = _first_sentence(text, secret)
    return SinkError(f"{who}: {where} refused: {said}", hint="fix that and run again; it continues where it was.")


def _first_sentence(text: str, secret: str) -> str:
    """The message of an error of ClickHouse, without stack trace, version and secret."""
    shown = text.replace(secret, "***") if secret else text
    shown = re.split(r",? ?Stack trace|\(version ", shown)[0]
    return " ".join(shown.split())[:600]


def chunks(data: bytes, size: int = 1 << 24) -> Iterator[bytes]:
    """Bytes in pieces."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
