"""ClickHouse inside this process, on a folder."""

from __future__ import annotations

import fcntl
import importlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seamark.errors import SinkError, SinkUnavailable
from seamark.sinks.clickhouse.connection import AS_BYTES, Row, chunks, engine_error, rows_of
from seamark.sinks.clickhouse.insert import Insert
from seamark.sinks.clickhouse.url import Folder

# The engine works on one folder at a time in a process: who needs another one waits until this one is closed. The
# lock is one that its holder may take again, so that a query from within a run is answered.
_one_folder = threading.RLock()

# In these, `file()` would see a pattern or an archive instead of a plain path.
_NOT_PLAIN = re.compile(r"[*?{}]|::")

# The engine raises RuntimeError for everything: what kind of error it is can only be read in its text.
_NAME = re.compile(r"\(([A-Z][A-Z0-9_]{3,})\)")
_OTHER_FOLDER = re.compile(r"already initialized with path '([^']*)'")


class EmbeddedConnection:
    """A session of the engine inside this process."""

    def __init__(self, session: Any, who: str, where: str) -> None:
        self._session = session
        self._who = who
        self._where = where

    def query(self, sql: str) -> list[Row]:
        """The rows that a query gives."""
        self._run(f"SET {AS_BYTES} = 0")
        return rows_of(self._run(sql, "Arrow").bytes())

    def execute(self, sql: str) -> None:
        """Run a statement that gives no rows."""
        self._run(sql)

    def insert_slice(self, insert: Insert, path: Path) -> None:
        """Insert a slice as one block, read by the engine itself."""
        if _NOT_PLAIN.search(str(path)):
            self.insert_parquet(insert.statement(), insert.parquet(path))
        else:
            self._run(insert.from_file(path))

    def insert_parquet(self, statement: str, data: bytes) -> None:
        """Insert the rows of a Parquet file in memory, as one block."""
        try:
            stream = self._session.send_insert(statement, "Parquet")
            for piece in chunks(data):
                stream.append(piece)
            stream.finish()
        except RuntimeError as error:
            raise self._error(error) from None

    def _run(self, sql: str, form: str = "Null") -> Any:
        try:
            return self._session.query(sql, form)
        except RuntimeError as error:  # the engine's own error is one
            raise self._error(error) from None

    def _error(self, error: RuntimeError) -> SinkError:
        text = str(error)
        return engine_error(self._who, self._where, text, _NAME.findall(text))


@contextmanager
def open_folder(folder: Folder, who: str) -> Iterator[EmbeddedConnection]:
    """A session on a folder, closed at the end, so that others may have the folder in between."""
    sessions = _package(who)
    with _one_folder:
        session = _session(sessions, folder, who)
        try:
            yield EmbeddedConnection(session, who, folder.shown)
        finally:
            session.close()


def _package(who: str) -> Any:
    try:
        return importlib.import_module("chdb.session")
    except ImportError:
        raise SinkUnavailable(
            f"{who} needs the package chdb, which is not installed. Nothing was sent.",
            hint="install Seamark with its extra: pip install '/path/to/seamark[clickhouse]'.",
        ) from None


def _session(sessions: Any, folder: Folder, who: str) -> Any:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        return sessions.Session(str(folder.path))
    except OSError as error:
        raise SinkUnavailable(
            f"{who}: the folder {folder.path} cannot be made ({error.strerror}). Nothing was sent.",
            hint="choose one that you may write to in the sink's URL, chdb:///folder.",
        ) from None
    except RuntimeError as error:
        raise _cannot_open(folder, who, str(error)) from None


def _cannot_open(folder: Folder, who: str, text: str) -> SinkUnavailable:
    other = _OTHER_FOLDER.search(text)
    if other is not None:
        return SinkUnavailable(
            f"{who}: the engine in this process works on {other[1]}, and has room for one folder at a time, so "
            f"{folder.path} cannot be opened. Nothing was sent.",
            hint="close the session on that folder first; Seamark closes its own when a run is over.",
        )
    if _is_locked(folder.path / "status"):
        return SinkUnavailable(
            f"{who}: the folder {folder.path} is open in another process, and only one at a time may have it. "
            "Nothing was sent.",
            hint="wait until that process closes it, or end it; then run again.",
        )
    said = " ".join(text.split(", Stack trace")[0].split())[:300]
    return SinkUnavailable(
        f"{who}: the folder {folder.path} cannot be opened: {said}. Nothing was sent.",
        hint="the folder must be one of ClickHouse's, or empty, and you must be allowed to write to it.",
    )


def _is_locked(file: Path) -> bool:
    """Whether another process holds the lock by which the engine guards its folder."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
