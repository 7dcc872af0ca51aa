"""Control databases in SQLite files: made when they are first written to, and read where nothing may be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, insert
from sqlalchemy.engine import URL
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema
from seamark.errors import ControlUnavailable

WRITING = "seamark_writing"  # the option of a connection whose transaction is going to write


def database_file(url: URL) -> Path | None:
    """The file that a URL of SQLite names; None for a database in memory."""
    return Path(url.database) if url.database and url.database != ":memory:" else None


def is_read_only(file: Path | None) -> bool:
    """Whether a database is there that this process may not write to. SQLite writes beside the file as well."""
    return file is not None and file.exists() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def sqlite_engine(url: URL, lock_seconds: float) -> Engine:
    """Connections to a database file, which is made by the first of them; to one that is read-only, to look at it."""
    file = database_file(url)
    if file is not None and is_read_only(file):
        return _reading_engine(url, file)
    engine = create_engine(url, connect_args={"timeout": lock_seconds})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # a commit that was acknowledged survives a power cut

    return _with_transactions(engine)


def _with_transactions(engine: Engine) -> Engine:
    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A transaction that first reads and then writes could find that somebody wrote in between; one that is going to
        # write takes the lock at once.
        writing = connection.get_execution_options().get(WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def make_folder(file: Path) -> None:
    """Make the folder of a database that is about to be written for the first time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(file, error.strerror) from error


def refuse_occupied(file: Path) -> None:
    """Refuse a database whose folder can never be made, because a file is in the way."""
    nearest = next(place for place in file.absolute().parents if place.exists())
    if not nearest.is_dir():
        raise _no_folder(file, f"{nearest} is a file")


def _no_folder(file: Path, reason: str | None) -> ControlUnavailable:
    return ControlUnavailable(
        f"the control database cannot be used: its folder {file.parent} cannot be made ({reason}).",
        hint="write the URL like sqlite:///seamark.db, with a folder that you may write to.",
    )


# --- where nothing was written yet ------------------------------------------------------------------------------------


def empty_engine() -> Engine:
    """A database in memory with all tables and no rows: what is read before anybody has written anything."""
    engine = create_engine("sqlite://")

    @event.listens_for(engine, "engine_connect")
    def _on_connect(connection: Connection) -> None:
        metadata.create_all(connection)
        connection.execute(insert(seamark_schema).values(version=SCHEMA_VERSION))

    return engine


# --- where nothing may be written -------------------------------------------------------------------------------------


def _reading_engine(url: URL, file: Path) -> Engine:
    """Connections to a file that may not be written. None is used twice: some see only what was there at first."""

    def connect() -> sqlite3.Connection:
        try:
            connection = _connected(file)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the files, not before
            return connection
        except sqlite3.OperationalError:
            if not _beside(file, "-wal").exists():
                raise
            return _copied_by_files(file)

    engine = create_engine(url, creator=connect, poolclass=NullPool)
    return _with_transactions(engine)


def _connected(file: Path) -> sqlite3.Connection:
    # Changes that are not in the file yet are in a second one, which needs a third to be read. Without it, and with
    # no right to make the third, SQLite must know that nobody changes the file meanwhile.
    still = "" if _beside(file, "-wal").exists() else "&immutable=1"
    address = f"file:{quote(str(file.absolute()))}?mode=ro{still}"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)


def _copied(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.backup(copy)
    connection.close()
    return copy


def _copied_by_files(file: Path) -> sqlite3.Connection:
    """A copy of a database that was left in the middle of things, with the changes that are not in its file yet."""
    with tempfile.TemporaryDirectory(prefix="seamark-") as folder:
        copy = Path(folder) / "control.db"
        shutil.copyfile(file, copy)
        shutil.copyfile(_beside(file, "-wal"), _beside(copy, "-wal"))
        return _copied(sqlite3.connect(copy))


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)
