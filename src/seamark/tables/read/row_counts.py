"""How many rows tables have, without Spark: the count of the last fold, and the ops of the records after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from seamark.control import BaseVersion, BlockEntry, TableHead
from seamark.errors import LedgerError
from seamark.tables.context import TableContext
from seamark.tables.write.slices import OpCounts

MOST_RECORDS_READ = 5_000_000  # of a tail, to count rows exactly: well under a second


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows a table has: an upper bound, unless `is_exact`."""

    rows: int
    is_exact: bool


def count_rows(context: TableContext, head: TableHead, base: BaseVersion | None, *, keyed: bool) -> RowCount:
    """How many rows a table has at its head."""
    if head.last_offset is None:
        return RowCount(0, is_exact=True)
    if not keyed:
        return RowCount(head.last_offset + 1, is_exact=True)
    folded = base.row_count if base else 0
    after = base.last_offset if base else None
    waiting = head.last_offset - (-1 if after is None else after)
    if waiting <= MOST_RECORDS_READ:
        blocks = context.control.index.slices(head.table, after=after, upto=head.last_offset) if waiting else []
        counts = _ops(context, head.table, blocks)
        if counts is not None:
            return RowCount(folded + counts.appended - counts.retracted, is_exact=True)
    return RowCount(folded + waiting, is_exact=False)


def _ops(context: TableContext, table: str, blocks: Sequence[BlockEntry]) -> OpCounts | None:
    """The ops of some blocks; None if a slice cannot be read. Not an error here: `verify` reports it."""
    data, counts = context.files(table).data, OpCounts()
    for block in blocks:
        if block.slice_hash is None:
            continue
        try:
            counts += OpCounts.of(pq.read_table(data.intact(block.slice_hash), columns=["op"]).column("op"))
        except (OSError, pa.ArrowException, LedgerError):
            return None
    return counts
