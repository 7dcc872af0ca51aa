"""The control database itself: connections, transactions, its clock and its schema version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, inspect, select, text
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema
from seamark.control.upgrade import upgrade
from seamark.errors import ControlUnavailable, SchemaTooNew

T = TypeVar("T")

# Waiting for a lock and idling inside a transaction must end before a lease does, whatever its term: else a run could
# hold a lock that it no longer has the right to hold.
LOCK_TIMEOUT_SECONDS = 15
_WRITING = "seamark_writing"
_SCHEMA_LOCK = 7326170  # an arbitrary number, the same for every Seamark, for PostgreSQL's advisory lock


class Database:
    """A control database on SQLite or PostgreSQL, its tables made if they are not there yet."""

    def __init__(self, url: str, lease_seconds: float = 30.0) -> None:
        self._url = _parse(url)
        limit = min(LOCK_TIMEOUT_SECONDS, lease_seconds / 2)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(self._url, limit) if self.is_sqlite else _postgres_engine(self._url, limit)
        try:
            self._retrying(self._prepare_schema)
        except DBAPIError as error:
            raise self._unavailable(error) from error

    @property
    def shown_url(self) -> str:
        """The URL as it may be shown: without the password."""
        hidden = {name: "***" if "password" in name.lower() else value for name, value in self._url.query.items()}
        return self._url.set(query=hidden).render_as_string(hide_password=True).replace("%2A%2A%2A", "***")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        with self._reachable(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is alone (SQLite) or locks what it selects `FOR UPDATE` (PostgreSQL)."""
        with self._reachable(), self._engine.connect() as connection:
            connection = connection.execution_options(**{_WRITING: True})
            with connection.begin():
                yield connection

    def write_retrying(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a write transaction; a lock that was waited for in vain is waited for three times."""

        def attempt() -> T:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**{_WRITING: True})
                with connection.begin():
                    return work(connection)

        with self._reachable():
            return self._retrying(attempt)

    def now(self, connection: Connection) -> float:
        """The database's own time, in seconds since 1970: the one clock that all its users share."""
        asked = "SELECT (julianday('now') - 2440587.5) * 86400.0" if self.is_sqlite else _POSTGRES_NOW
        return float(connection.execute(text(asked)).scalar_one())

    def insert(self, table: Table) -> Insert:
        """An INSERT that can be told what to do on conflict; SQLite and PostgreSQL say it with the same words."""
        return cast(Insert, sqlite_insert(table)) if self.is_sqlite else postgres_insert(table)

    def insert_if_absent(self, connection: Connection, table: Table, row: dict[str, object]) -> bool:
        """Insert a row unless one with its key stands; whether it was inserted."""
        statement = self.insert(table).values(**row).on_conflict_do_nothing()
        # without the option SQLAlchemy does not keep the row count of an INSERT on PostgreSQL, and says -1
        return connection.execute(statement.execution_options(preserve_rowcount=True)).rowcount == 1

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            # SQLite says of a file that is none of its own just DatabaseError; the kinds below it are other matters
            if isinstance(error, OperationalError) or type(error) is DatabaseError:
                raise self._unavailable(error) from error
            raise

    def _unavailable(self, error: DBAPIError) -> ControlUnavailable:
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        return ControlUnavailable(
            f"the control database {self.shown_url} cannot be used: {reason}. Nothing was changed.",
            hint="check that it runs and that the URL, user and password are right; `seamark doctor` tries it.",
        )

    def _retrying(self, work: Callable[[], T]) -> T:
        for attempts_left in (2, 1, 0):
            try:
                return work()
            except OperationalError as error:
                if attempts_left == 0 or not _is_lock_timeout(error):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _prepare_schema(self) -> None:
        with self._engine.connect() as plain:
            if self._version(plain) == SCHEMA_VERSION:
                return
        with self._engine.connect() as plain:
            connection = plain.execution_options(**{_WRITING: True})
            with connection.begin():
                if not self.is_sqlite:  # two processes may open an empty or older database at once
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"))
                found = self._version(connection)
                if found is None:
                    metadata.create_all(connection)
                    connection.execute(insert(seamark_schema).values(version=SCHEMA_VERSION))
                elif found < SCHEMA_VERSION:
                    upgrade(connection, found)

    def _version(self, connection: Connection) -> int | None:
        """The version of the schema that stands; None if there is none yet, `SchemaTooNew` if it is ahead of us."""
        if not inspect(connection).has_table(seamark_schema.name):
            return None
        found = int(connection.execute(select(seamark_schema.c.version)).scalar_one())
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"the control database {self.shown_url} has schema version {found}; "
                f"this Seamark knows versions up to {SCHEMA_VERSION}. Nothing was changed.",
                hint="install the Seamark that made it, or a newer one.",
            )
        return found


_POSTGRES_NOW = "SELECT extract(epoch FROM clock_timestamp())"


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.host and "@" in parsed.host:
            raise ValueError("an @ in the password must be written %40")
    except (ArgumentError, ValueError):  # ValueError: the port is no number
        raise ControlUnavailable(
            "the control database's URL cannot be read.",
            hint="write it like sqlite:///seamark.db or postgresql://user:password@host/database, "
            "with %40 for an @ in the password.",
        ) from None  # the original error repeats the URL, password and all
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite":
        return parsed
    raise ControlUnavailable(
        f"the control database is on '{parsed.get_backend_name()}', which Seamark does not speak.",
        hint="use sqlite:///file or postgresql://user:password@host/database.",
    )


def _sqlite_engine(url: URL, lock_seconds: float) -> Engine:
    if url.database and url.database != ":memory:":
        _make_folder(Path(url.database).parent)
    engine = create_engine(url, connect_args={"timeout": lock_seconds})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: object, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # transactions are begun below, not by the driver
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # a commit that was acknowledged survives a power cut
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A transaction that first reads and then writes could find that somebody wrote in between; one that is going to
        # write takes the lock at once.
        writing = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ControlUnavailable(
            f"the control database cannot be used: its folder {folder} cannot be made ({error.strerror}).",
            hint="write the URL like sqlite:///seamark.db, with a folder that you may write to.",
        ) from error


def _postgres_engine(url: URL, lock_seconds: float) -> Engine:
    limit = f"{int(lock_seconds * 1000)}ms"
    options = f"-c lock_timeout={limit} -c idle_in_transaction_session_timeout={limit}"
    return create_engine(
        url,
        pool_pre_ping=True,  # a connection that died while idle is replaced without anybody noticing
        max_overflow=20,
        connect_args={"options": options, "application_name": "seamark", "connect_timeout": 10},
    )


def _is_lock_timeout(error: OperationalError) -> bool:
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate in ("55P03", "40P01") or "database is locked" in str(error.orig)
