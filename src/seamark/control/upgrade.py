"""Bringing a control database of an older version up to this one, step by step."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text, update

from seamark.control.schema import SCHEMA_VERSION, seamark_schema


def upgrade(connection: Connection, found: int) -> None:
    """Take a database from version `found` to this one, inside the caller's transaction."""
    for version in range(found + 1, SCHEMA_VERSION + 1):
        _STEPS[version](connection)
    connection.execute(update(seamark_schema).values(version=SCHEMA_VERSION))


def _to_2(connection: Connection) -> None:
    """Runs at work are known."""
    for statement in _LIVE_RUNS:
        connection.execute(text(statement))


# Written out instead of taken from the present schema: that goes on changing, and what version 2 was does not.
_LIVE_RUNS = (
    """
    CREATE TABLE live_run (
        run_id TEXT NOT NULL PRIMARY KEY, step TEXT NOT NULL, lease_name TEXT NOT NULL, epoch BIGINT NOT NULL,
        place TEXT NOT NULL, mode TEXT NOT NULL, started DOUBLE PRECISION NOT NULL, pins TEXT NOT NULL,
        batch INTEGER NOT NULL, batches INTEGER NOT NULL
    )
    """,
    "CREATE INDEX live_run_by_lease ON live_run (lease_name)",
)

_STEPS: dict[int, Callable[[Connection], None]] = {2: _to_2}
