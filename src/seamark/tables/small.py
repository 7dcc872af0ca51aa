"""What is small enough for the driver: one decision, by rows and by bytes, for everything that might come there."""

from __future__ import annotations

import pyarrow as pa

from seamark.tables.frame import CheckedFrame

# What is this small is finished on the driver: a Spark job for it would take longer than the work itself.
SMALL_RECORDS = 50_000
SMALL_BYTES = 32 << 20


def fits_on_driver(rows: int, values: int = 0) -> bool:
    """Whether so many rows, with so many bytes of values in them, may be held by the driver."""
    return rows <= SMALL_RECORDS and values <= SMALL_BYTES


def small_rows(rows: CheckedFrame) -> pa.Table | None:
    """The rows, if they are in memory and small enough to be compared there."""
    local = rows.in_memory
    return local if local is not None and fits_on_driver(local.num_rows, local.nbytes) else None
