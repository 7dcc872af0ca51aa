"""Verifying a store that refuses to be opened, because its database and its warehouse do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seamark.clock import SystemClock
from seamark.config import Config
from seamark.control import Control
from seamark.ledger.verify import OnBlock, VerifyReport
from seamark.spark import spark_session
from seamark.tables.context import TableContext
from seamark.tables.read.cache import BaseCache
from seamark.tables.verify.store import verify_tables


def verify_unopened(
    config: Config,
    table: str | None = None,
    *,
    rows: bool = False,
    expect: Mapping[str, str] | None = None,
    on_block: OnBlock | None = None,
) -> VerifyReport:
    """Compare files, chains and control database as `DataStore.verify` does, without opening the store first."""
    control = Control(config.control, schema=config.control_schema)
    context = TableContext(
        control=control,
        warehouse=Path(config.warehouse),
        clock=SystemClock(),
        session=lambda: spark_session(config.spark),
        cache=BaseCache(0),
    )
    try:
        return verify_tables(context, table, rows=rows, expect=expect, on_block=on_block)
    finally:
        control.close()
