"""Reading a control database of an older version as it will be after the upgrade, without changing it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Table,
    TableClause,
    Text,
    case,
    cast,
    column,
    event,
    false,
    func,
    literal,
    null,
    select,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import HasCTE
from sqlalchemy.sql.visitors import iterate

from seamark.control.model import UNKNOWN_OUTPUTS
from seamark.control.schema import (
    base,
    live_run,
    mv_scans,
    mv_views,
    run,
    seamark_schema,
    sink_position,
    transform_input_offset,
    transform_meta,
)

READING_VERSION = "seamark_reading_version"  # the option of a connection that reads tables of an older version

Value: TypeAlias = Callable[[TableClause], ColumnElement[Any]]
"""What a column of this version has, from the table that exists."""


def read_older_versions(engine: Engine) -> Engine:
    """Let the connections of an engine read tables of an older version, where their option says which it is.

    A table is read through a common table expression of its own name, which has the columns of this version. So reading
    needs no more rights, and holds no more locks, than a SELECT from the tables as they are.
    """

    @event.listens_for(engine, "before_execute", retval=True)
    def _on_execute(
        connection: Connection, statement: Executable, multiparams: Any, params: Any, _options: Any
    ) -> tuple[Executable, Any, Any]:
        version = connection.get_execution_options().get(READING_VERSION)
        if version is not None and isinstance(statement, HasCTE):
            statement = _with_this_versions_tables(statement, version, connection.dialect.name)
        return statement, multiparams, params

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _entry: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.create_function("seamark_sha256", 1, _sha256, deterministic=True)

    return engine


def hold_version(connection: Connection) -> None:
    """Keep others from bringing the tables up until the transaction ends, which must just have begun.

    On PostgreSQL this is the lock that each SELECT takes, and `keep_readers_off` waits for it. On SQLite a transaction
    sees one state of the whole database anyway.
    """
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"LOCK TABLE {seamark_schema.name} IN ACCESS SHARE MODE")


def keep_readers_off(connection: Connection) -> None:
    """Wait for those who read tables of an older version, and let nobody begin to until the transaction ends."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"LOCK TABLE {seamark_schema.name} IN ACCESS EXCLUSIVE MODE")


# --- what the columns have --------------------------------------------------------------------------------------------


class sha256_hex(FunctionElement[str]):  # noqa: N801  (a function of SQL)
    """The SHA-256 of a text, in hexadecimal digits."""

    type = Text()
    inherit_cache = True


@compiles(sha256_hex, "postgresql")
def _on_postgresql(element: sha256_hex, compiler: SQLCompiler, **options: Any) -> str:
    return f"encode(sha256(convert_to({compiler.process(element.clauses, **options)}, 'UTF8')), 'hex')"


@compiles(sha256_hex, "sqlite")
def _on_sqlite(element: sha256_hex, compiler: SQLCompiler, **options: Any) -> str:
    return f"seamark_sha256({compiler.process(element.clauses, **options)})"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _nothing(_table: TableClause) -> ColumnElement[Any]:
    return null()


def _not_known(_table: TableClause) -> ColumnElement[Any]:
    return literal(UNKNOWN_OUTPUTS)


def _short_key(found: TableClause) -> ColumnElement[Any]:
    key = found.c.key
    return case((func.length(key) > 400, func.substr(key, 1, 300) + "… sha256 " + sha256_hex(key)), else_=key)


def _whole_key(found: TableClause) -> ColumnElement[Any]:
    return case((func.length(found.c.key) > 400, found.c.key), else_=null())


# The columns that each version added or changed; a table without any was new. As `upgrade` makes them, row by row.
_CHANGED: Mapping[int, Mapping[Table, Mapping[str, Value]]] = {
    2: {
        base: {"distrusted_at": _nothing},
        sink_position: {"target": _nothing},
        transform_input_offset: {"outputs": _not_known},
        transform_meta: {"outputs": _not_known, "key": _short_key, "whole_key": _whole_key},
        run: {"outputs": _nothing},
        live_run: {},
    },
    3: {mv_views: {}, mv_scans: {}},
}


# --- the tables of this version ---------------------------------------------------------------------------------------


def _with_this_versions_tables(statement: Any, version: int, dialect: str) -> Any:
    read = {part for part in iterate(statement) if isinstance(part, Table)}
    brought_up = [_brought_up(now, version, dialect) for now in sorted(read, key=lambda now: now.name)]
    return statement.add_cte(*(rows for rows in brought_up if rows is not None))


def _brought_up(now: Table, version: int, dialect: str) -> CTE | None:
    """The rows of a table as they will be; None if nothing about it changes."""
    later = [tables[now] for since, tables in _CHANGED.items() if since > version and now in tables]
    if not later:
        return None
    if {} in later:
        return select(*[cast(null(), it.type).label(it.name) for it in now.c]).where(false()).cte(now.name)
    values = {name: value for changed in later for name, value in changed.items()}
    schema = "main" if dialect == "sqlite" else None  # SQLite takes the bare name for the expression itself
    found = table(now.name, *[column(it.name, it.type) for it in now.c], schema=schema)
    columns = [cast(values[it.name](found), it.type).label(it.name) if it.name in values else it for it in found.c]
    return select(*columns).select_from(found).cte(now.name)
