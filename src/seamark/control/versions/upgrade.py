"""Bringing a control database of an older version up to this one, step by step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sqlalchemy import Connection, text, update

from seamark.control.schema import SCHEMA_VERSION, seamark_schema


def upgrade(connection: Connection, found: int) -> None:
    """Take a database from version `found` to this one, inside the caller's transaction."""
    for version in range(found + 1, SCHEMA_VERSION + 1):
        _STEPS[version](connection)
    connection.execute(update(seamark_schema).values(version=SCHEMA_VERSION))


def _to_2(connection: Connection) -> None:
    """Runs at work, bases that verification found wrong, the target of a sink's position, keys of any length."""
    for statement in _VERSION_2:
        connection.execute(text(statement))
    _shorten_long_keys(connection)


# Written out instead of taken from the present schema: that keeps changing, and what version 2 was does not.
_VERSION_2 = (
    """
    CREATE TABLE live_run (
        run_id TEXT NOT NULL PRIMARY KEY, step TEXT NOT NULL, lease_name TEXT NOT NULL, epoch BIGINT NOT NULL,
        place TEXT NOT NULL, mode TEXT NOT NULL, started DOUBLE PRECISION NOT NULL, pins TEXT NOT NULL,
        batch INTEGER NOT NULL, batches INTEGER NOT NULL
    )
    """,
    "CREATE INDEX live_run_by_lease ON live_run (lease_name)",
    "ALTER TABLE base ADD COLUMN distrusted_at DOUBLE PRECISION",
    "ALTER TABLE sink_position ADD COLUMN target TEXT",
    # Positions and keys belong to the outputs that they were made with; of existing ones these are not known.
    "ALTER TABLE transform_input_offset RENAME TO transform_input_offset_1",
    """
    CREATE TABLE transform_input_offset (
        transformation_id TEXT NOT NULL, outputs TEXT NOT NULL, input_table_name TEXT NOT NULL,
        update_ts_offset DOUBLE PRECISION, record_offset BIGINT, block_sequence BIGINT, block_hash TEXT,
        generation BIGINT NOT NULL,
        PRIMARY KEY (transformation_id, outputs, input_table_name)
    )
    """,
    """
    INSERT INTO transform_input_offset
    SELECT transformation_id, '', input_table_name, update_ts_offset, record_offset, block_sequence, block_hash,
        generation
    FROM transform_input_offset_1
    """,
    "DROP TABLE transform_input_offset_1",
    "ALTER TABLE transform_meta RENAME TO transform_meta_1",
    """
    CREATE TABLE transform_meta (
        transformation_id TEXT NOT NULL, outputs TEXT NOT NULL, key TEXT NOT NULL, process_ts DOUBLE PRECISION NOT NULL,
        is_success BOOLEAN NOT NULL, error TEXT, attempts INTEGER NOT NULL, retry_after DOUBLE PRECISION, read_at TEXT,
        whole_key TEXT,
        PRIMARY KEY (transformation_id, outputs, key)
    )
    """,
    """
    INSERT INTO transform_meta
    SELECT transformation_id, '', key, process_ts, is_success, error, attempts, retry_after, read_at, NULL
    FROM transform_meta_1
    """,
    "DROP TABLE transform_meta_1",
    "ALTER TABLE run ADD COLUMN outputs TEXT",
)


def _shorten_long_keys(connection: Connection) -> None:
    """Keys of any length: PostgreSQL indexes no text of more than a few kilobytes."""
    long = text("SELECT transformation_id, key FROM transform_meta WHERE length(key) > :most")
    shorten = text(
        "UPDATE transform_meta SET key = :short, whole_key = :whole WHERE transformation_id = :step AND key = :whole"
    )
    for step, key in connection.execute(long, {"most": 400}).all():
        digest = hashlib.sha256(key.encode()).hexdigest()
        connection.execute(shorten, {"short": f"{key[:300]}… sha256 {digest}", "whole": key, "step": step})


def _to_3(connection: Connection) -> None:
    """Materialized views: which are paused, what was analysed, and how far their scans have come."""
    for statement in _VERSION_3:
        connection.execute(text(statement))


_VERSION_3 = (
    """
    CREATE TABLE mv_views (
        view_name TEXT NOT NULL PRIMARY KEY, analysed_digest TEXT, analysed_types TEXT, paused_since DOUBLE PRECISION
    )
    """,
    """
    CREATE TABLE mv_scans (
        job_name TEXT NOT NULL, target_name TEXT NOT NULL, part TEXT NOT NULL, kind TEXT NOT NULL,
        "filter" TEXT NOT NULL, key_position TEXT, "interval" TEXT, rows_done BIGINT NOT NULL, rate DOUBLE PRECISION,
        started_at DOUBLE PRECISION NOT NULL, done_at DOUBLE PRECISION,
        PRIMARY KEY (job_name, target_name, part, kind, "filter")
    )
    """,
)

_STEPS: dict[int, Callable[[Connection], None]] = {2: _to_2, 3: _to_3}
