"""The control database itself: connections, transactions, its clock and its schema version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from sqlalchemy import Connection, Table, insert, inspect, select, text
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from seamark.control.engine.postgres import check_schema, lock_schema, open_engine
from seamark.control.engine.refusals import READ_ONLY_FILE, hint_for, is_lock_timeout, is_outside_trouble
from seamark.control.engine.sqlite import (
    WRITING,
    database_file,
    empty_engine,
    is_read_only,
    make_folder,
    refuse_occupied,
    sqlite_engine,
)
from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema
from seamark.control.versions.older import READING_VERSION, hold_version, keep_readers_off, read_older_versions
from seamark.control.versions.upgrade import upgrade
from seamark.errors import ConfigError, ControlUnavailable, InvalidControlUrl, SchemaTooNew

T = TypeVar("T")

# Waiting for a lock and idling inside a transaction must end before a lease does, whatever its term: else a run could
# hold a lock that it no longer has the right to hold.
LOCK_TIMEOUT_SECONDS = 15


class Database:
    """A control database on SQLite or PostgreSQL.

    Opening one and reading it writes nothing, and needs no right to. Its tables are made, or upgraded from an older
    version, by the first transaction that writes: others may keep using an older Seamark while somebody only looks.

    `schema` is the schema of a PostgreSQL database for the tables, created if needed; without it, the first one that
    the connection finds.
    """

    def __init__(self, url: str, lease_seconds: float = 30.0, schema: str | None = None) -> None:
        self._url = _parse(url)
        self._schema = schema
        limit = min(LOCK_TIMEOUT_SECONDS, lease_seconds / 2)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        if schema is not None:
            self._check_schema(schema)
        self._file = database_file(self._url) if self.is_sqlite else None
        self.is_read_only = is_read_only(self._file)  # a file, or its folder, without the right to write there
        engine = sqlite_engine(self._url, limit) if self.is_sqlite else open_engine(self._url, schema, limit)
        self._engine = read_older_versions(engine)
        self._nothing = empty_engine()
        self._is_ready = False  # the tables are known to be there, in this version
        try:
            self._version_on_disk()
        except DBAPIError as error:
            raise self._unavailable(error) from error

    @property
    def shown_url(self) -> str:
        """The URL as it may be shown: without the password."""
        hidden = {name: value if name in _SHOWN_OPTIONS else "***" for name, value in self._url.query.items()}
        shown = self._url.set(query=hidden).render_as_string(hide_password=True).replace("%2A%2A%2A", "***")
        return shown if self._schema is None else f"{shown}, schema '{self._schema}'"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that changes nothing; each statement in it may see a later state than the one before."""
        with self._reachable(), self._reading() as connection:
            yield connection

    @contextmanager
    def read_at_once(self) -> Iterator[Connection]:
        """The same where several statements must see one state."""
        with self._reachable(), self._reading("REPEATABLE READ") as connection:
            yield connection

    @contextmanager
    def _reading(self, isolation: str | None = None) -> Iterator[Connection]:
        found = self._version_on_disk()
        with (self._nothing if found is None else self._engine).connect() as connection:
            if isolation is not None and connection.dialect.name != "sqlite":  # there, each transaction sees one state
                connection = connection.execution_options(isolation_level=isolation)
            if found is not None and found < SCHEMA_VERSION:
                hold_version(connection)
                found = self._version(connection)  # somebody may have upgraded it since
                if found is not None and found < SCHEMA_VERSION:
                    connection = connection.execution_options(**{READING_VERSION: found})
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is alone (SQLite) or locks what it selects `FOR UPDATE` (PostgreSQL)."""
        with self._reachable():
            self._make_ready()
            with self._writing() as connection:
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect() as plain:
            connection = plain.execution_options(**{WRITING: True})
            with connection.begin():
                yield connection

    def write_retrying(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a write transaction; a lock that was waited for in vain is waited for three times."""

        def attempt() -> T:
            with self._writing() as connection:
                return work(connection)

        with self._reachable():
            self._make_ready()
            return self._retrying(attempt)

    def now(self, connection: Connection) -> float:
        """The database's own time, in seconds since 1970: the one clock that all its users share."""
        return float(connection.execute(text(_NOW[connection.dialect.name])).scalar_one())

    def insert(self, table: Table) -> Insert:
        """An INSERT that can say what to do on conflict; SQLite and PostgreSQL have the same syntax for it."""
        return cast(Insert, sqlite_insert(table)) if self.is_sqlite else postgres_insert(table)

    def insert_if_absent(self, connection: Connection, table: Table, row: dict[str, object]) -> bool:
        """Insert a row unless one with its key exists; whether it was inserted."""
        statement = self.insert(table).values(**row).on_conflict_do_nothing()
        # without the option SQLAlchemy does not keep the row count of an INSERT on PostgreSQL, and says -1
        return connection.execute(statement.execution_options(preserve_rowcount=True)).rowcount == 1

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()
        self._nothing.dispose()

    def version(self) -> int | None:
        """The version of the tables on disk, which the first write upgrades to this one; None while there are none."""
        with self._reachable():
            return self._version_on_disk()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if not is_outside_trouble(error):
                raise
            raise self._unavailable(error) from error

    def _unavailable(self, error: DBAPIError) -> ControlUnavailable:
        said = str(error.orig).strip()
        return self._refused(said.splitlines()[0] if said else type(error.orig).__name__, hint_for(error))

    def _refused(self, reason: str, hint: str) -> ControlUnavailable:
        return ControlUnavailable(
            f"the control database {self.shown_url} cannot be used: {reason}. Nothing was changed.",
            hint=hint,
        )

    def _retrying(self, work: Callable[[], T]) -> T:
        for attempts_left in (2, 1, 0):
            try:
                return work()
            except OperationalError as error:
                if attempts_left == 0 or not is_lock_timeout(error):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _version_on_disk(self) -> int | None:
        """The version of the tables that exist, None while there are none; nothing is written to find out."""
        if self._is_ready:
            return SCHEMA_VERSION
        if self._file is not None and not self._file.exists():  # looking into it would make the file
            refuse_occupied(self._file)
            return None
        found = self._retrying(self._look)
        self._is_ready = found == SCHEMA_VERSION
        return found

    def _look(self) -> int | None:
        with self._engine.connect() as connection:
            return self._version(connection)

    def _make_ready(self) -> None:
        """Make the tables, or upgrade them, before anything is written."""
        if self.is_read_only:  # what is read may be a copy in memory, which would take it
            raise self._refused("attempt to write a readonly database", READ_ONLY_FILE)
        if self._version_on_disk() == SCHEMA_VERSION:
            return
        if self._file is not None:
            make_folder(self._file)

        def upgrade_tables() -> None:
            with self._writing() as connection:
                self._upgrade(connection)

        try:
            self._retrying(upgrade_tables)
        except DBAPIError as error:  # also what a user may not do
            raise self._unavailable(error) from error
        self._is_ready = True

    def _upgrade(self, connection: Connection) -> None:
        if connection.dialect.name != "sqlite":  # two processes may do so at once
            lock_schema(connection)
        found = self._version(connection)
        if found is None:
            metadata.create_all(connection)
            connection.execute(insert(seamark_schema).values(version=SCHEMA_VERSION))
        elif found < SCHEMA_VERSION:
            keep_readers_off(connection)
            upgrade(connection, found)

    def _check_schema(self, schema: str) -> None:
        if self.is_sqlite:
            raise ConfigError(
                f"control_schema is '{schema}', and the control database {self._url} is SQLite, which has no schemas. "
                "Nothing was opened.",
                hint="leave control_schema out: on SQLite each project has a file of its own, in `control`.",
            )
        check_schema(schema)

    def _version(self, connection: Connection) -> int | None:
        """The version of the schema in the database; None if there is none yet, `SchemaTooNew` if it is ahead of us."""
        if not inspect(connection).has_table(seamark_schema.name):
            return None
        versions = connection.execute(select(seamark_schema.c.version)).scalars().all()
        if len(versions) != 1 or not isinstance(versions[0], int):
            shown = ", ".join(str(version) for version in versions) or "none"
            raise ControlUnavailable(
                f"the control database {self.shown_url} does not say which schema it has: versions {shown}. "
                "Nothing was changed.",
                hint="restore it from a copy, or build a new one from the chains with `seamark doctor --rebuild`.",
            )
        found = int(versions[0])
        if found > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"the control database {self.shown_url} has schema version {found}; "
                f"this Seamark knows versions up to {SCHEMA_VERSION}. Nothing was changed.",
                hint="install the Seamark that made it, or a newer one.",
            )
        return found


_NOW = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
# Options of a URL that hold no secret; of any other, which may be a password that went astray, the value is not shown.
_SHOWN_OPTIONS = frozenset(
    ("application_name", "connect_timeout", "dbname", "host", "keepalives", "port", "sslmode", "target_session_attrs")
)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.host and "@" in parsed.host:
            raise ValueError("an @ in the password must be written %40")
    except (ArgumentError, ValueError):  # ValueError: the port is no number
        raise InvalidControlUrl(
            "the control database's URL cannot be read.",
            hint="write it like sqlite:///seamark.db or postgresql://user@host/database, "
            "with %40 for an @ in the password.",
        ) from None  # the original error repeats the URL, password and all
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite":
        if parsed.host:
            raise InvalidControlUrl(
                f"the control database's URL sqlite://{parsed.host} names a host, and SQLite has files.",
                hint=f"write three slashes before a file: sqlite:///{parsed.host} (four before an absolute path).",
            )
        return parsed
    raise InvalidControlUrl(
        f"the control database is on '{parsed.get_backend_name()}', which Seamark does not speak.",
        hint="use sqlite:///file or postgresql://user@host/database.",
    )
