"""ClickHouse on a folder, without a server: in a process that belongs to this one."""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seamark.errors import SinkError, SinkUnavailable
from seamark.sinks.clickhouse.connection import AS_BYTES, Row, chunks, engine_error, rows_of
from seamark.sinks.clickhouse.engine import Engine, EngineEnded, Session
from seamark.sinks.clickhouse.insert import Insert
from seamark.sinks.clickhouse.url import Folder

_engine = Engine()

# How long a folder may stay locked: a program that was killed leaves its engine to finish what it was about.
_PATIENCE_SECONDS = 3.0

# The engine works on one folder at a time in a process: who needs another one waits until this one is closed. The
# lock is one that its holder may take again, so that a query from within a run is answered.
_one_folder = threading.RLock()

# In these, `file()` would see a pattern or an archive instead of a plain path.
_NOT_PLAIN = re.compile(r"[*?{}]|::")

# The engine raises RuntimeError for everything: what kind of error it is can only be read in its text.
_NAME = re.compile(r"\(([A-Z][A-Z0-9_]{3,})\)")
_OTHER_FOLDER = re.compile(r"already initialized with path '([^']*)'")


class EmbeddedConnection:
    """A session of the engine."""

    def __init__(self, session: Session, who: str, where: str) -> None:
        self._session = session
        self._who = who
        self._where = where

    def query(self, sql: str) -> list[Row]:
        """The rows that a query gives."""
        self._run(f"SET {AS_BYTES} = 0")
        return rows_of(self._run(sql, "Arrow"))

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
        with self._in_our_words():
            self._session.insert(statement, "Parquet", data)

    def _run(self, sql: str, form: str = "Null") -> bytes:
        with self._in_our_words():
            return self._session.query(sql, form)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # the engine's own error is one
            raise self._error(error) from None
        except EngineEnded as error:
            raise SinkUnavailable(
                f"{self._who}: {self._where} gave no answer: {error}.", hint="run again; it continues where it was."
            ) from None

    def _error(self, error: RuntimeError) -> SinkError:
        text = str(error)
        return engine_error(self._who, self._where, text, _NAME.findall(text))


@contextmanager
def open_folder(folder: Folder, who: str) -> Iterator[EmbeddedConnection]:
    """A session on a folder, closed at the end, so that others may have the folder in between."""
    _need_package(who)
    with _one_folder:
        session = _session(folder, who)
        try:
            yield EmbeddedConnection(session, who, folder.shown)
        finally:
            session.close()


def _need_package(who: str) -> None:
    names = ("chdb", "chdb.session")
    # None in a module's place means that there is none.
    is_there = all(sys.modules.get(name, name) is not None for name in names) and importlib.util.find_spec(names[0])
    if not is_there:
        raise SinkUnavailable(
            f"{who} needs the package chdb, which is not installed. Nothing was sent.",
            hint="install Seamark with its extra: pip install '/path/to/seamark[clickhouse]'.",
        )


def _session(folder: Folder, who: str) -> Session:
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        return _patiently(folder.path)
    except OSError as error:
        raise SinkUnavailable(
            f"{who}: the folder {folder.path} cannot be made ({error.strerror}). Nothing was sent.",
            hint="choose one that you may write to in the sink's URL, chdb:///folder.",
        ) from None
    except RuntimeError as error:
        raise _cannot_open(folder, who, str(error)) from None
    except EngineEnded as error:
        raise SinkUnavailable(
            f"{who}: the folder {folder.path} cannot be opened: {error}. Nothing was sent.",
            hint="look at what ClickHouse printed on the standard error; then run again.",
        ) from None


def _patiently(path: Path) -> Session:
    """A session on a folder, once nobody else has it; or one in this process, if it is this one that has it open."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _engine.session(path)
        except RuntimeError:
            if not _is_locked(path / "status"):
                raise
            if time.monotonic() > until:
                raise
        if "chdb.session" in sys.modules and (shared := _session_here(path)) is not None:
            return shared
        time.sleep(0.1)


def _session_here(path: Path) -> Session | None:
    """A session in this process, if it is this one that has the folder open."""
    try:
        return _SessionHere(path)
    except RuntimeError:
        return None


class _SessionHere:
    """A session of the engine in this process: the only one that can share a folder that this process has open."""

    def __init__(self, path: Path) -> None:
        self._session: Any = importlib.import_module("chdb.session").Session(str(path))

    def query(self, sql: str, form: str) -> bytes:
        return bytes(self._session.query(sql, form).bytes())

    def insert(self, statement: str, form: str, data: bytes) -> None:
        stream = self._session.send_insert(statement, form)
        for piece in chunks(data):
            stream.append(piece)
        stream.finish()

    def close(self) -> None:
        self._session.close()


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
