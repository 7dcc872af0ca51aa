"""PostgreSQL as a control database: its connections, and the schema of the tables."""

from __future__ import annotations

import re

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL

from seamark.errors import ConfigError

_SCHEMA_LOCK = 7326170  # an arbitrary number, the same for every Seamark, for PostgreSQL's advisory lock
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def check_schema(schema: str) -> None:
    """Nothing, or `ConfigError` if no schema can have this name."""
    if not _PLAIN_NAME.fullmatch(schema) or schema.lower().startswith("pg_"):
        raise ConfigError(
            f"control_schema is '{schema}', which cannot be a schema's name. Nothing was opened.",
            hint="use letters, digits and _, at most 63 of them, not beginning with a digit or pg_.",
        )


def open_engine(url: URL, schema: str | None, lock_seconds: float) -> Engine:
    """Connections whose tables are in a schema, if one is given; what the URL says in `options` counts as well."""
    limit = f"{int(lock_seconds * 1000)}ms"
    given = url.query.get("options", ())
    options = [given] if isinstance(given, str) else [*given]
    if schema is not None:
        # nothing beside it: tables of the same names in another schema must not be taken for ours
        options.append(f'-c search_path="{schema}"')
    options.append(f"-c lock_timeout={limit} -c idle_in_transaction_session_timeout={limit}")
    return create_engine(
        url.difference_update_query(["options"]),
        pool_pre_ping=True,  # a connection that died while idle is replaced without anybody noticing
        max_overflow=20,
        connect_args={"options": " ".join(options), "application_name": "seamark", "connect_timeout": 10},
    )


def lock_schema(connection: Connection) -> None:
    """Keep others from making or upgrading the tables of this schema until the transaction ends; make the schema.

    Other schemas of the database are other projects: they do not wait for each other.
    """
    first = "trim(both ' \"' from split_part(current_setting('search_path'), ',', 1))"  # current_schema() must exist
    schema = str(connection.execute(text(f"SELECT coalesce(current_schema(), {first})")).scalar_one())
    connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK}, hashtext(:schema))"), {"schema": schema})
    stands = connection.execute(text("SELECT current_schema()")).scalar_one() is not None
    if not stands and _PLAIN_NAME.fullmatch(schema):
        connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
