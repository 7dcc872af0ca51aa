"""Short ways with frames that finding and gathering share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.transforms.keying import FIRST, LAST


def named(rows: CheckedFrame, columns: Sequence[str], names: Sequence[str]) -> CheckedFrame:
    """Some columns, one of them perhaps twice, under other names; the offsets of records stay beside them."""
    offsets = [name for name in (FIRST, LAST) if name in rows.names and name not in names]
    local = rows.in_memory
    if local is not None:
        arrays = [local.column(name) for name in (*columns, *offsets)]
        return LocalFrame(pa.Table.from_arrays(arrays, names=[*names, *offsets]))
    assert isinstance(rows, SparkFrame)
    shown = [F.col(quoted(column)).alias(name) for column, name in zip(columns, names, strict=True)]
    return SparkFrame(rows.frame.select(*shown, *map(quoted, offsets)))
