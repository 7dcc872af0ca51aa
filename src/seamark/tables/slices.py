"""Writing records as slices: sorted, numbered, hashed Parquet files. Pure Arrow, so that it runs anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.clock import from_millis, to_millis
from seamark.ledger import Op
from seamark.ledger.logical_hash import LogicalHasher
from seamark.ledger.objects import PendingFile
from seamark.tables.schema import MILLIS_UTC, TableSchema

OP = "op"
_BUFFER = 1 << 20
_ROW_GROUP = 128 * 1024


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """A slice that was written: its hashes, its interval, and what a commit needs to know of it."""

    logical_hash: str
    physical_hash: str
    size: int
    first_offset: int
    last_offset: int
    newest_event_time: datetime | None


@dataclass(frozen=True, slots=True)
class OpCounts:
    """How many records of each kind a change has."""

    appended: int = 0
    corrected: int = 0
    retracted: int = 0

    @staticmethod
    def of(ops: pa.ChunkedArray | pa.Array) -> OpCounts:
        """The counts in a column of ops."""
        found = {entry["values"]: entry["counts"] for entry in pc.value_counts(ops).to_pylist()}
        return OpCounts(found.get(Op.APPEND, 0), found.get(Op.CORRECT_TO, 0), found.get(Op.RETRACT, 0))

    def __add__(self, other: OpCounts) -> OpCounts:
        return OpCounts(
            self.appended + other.appended, self.corrected + other.corrected, self.retracted + other.retracted
        )

    @property
    def records(self) -> int:
        """How many records these are in the log: a correction is two."""
        return self.appended + 2 * self.corrected + self.retracted


def record_order(schema: TableSchema) -> tuple[str, ...]:
    """The columns by which the records of a keyed table are sorted: its key, then `-C` before `+C`."""
    return (*schema.key, OP) if schema.key else ()


def sort_records(columns: Sequence[str], records: pa.Table) -> pa.Table:
    """Records sorted by these columns; as they are, if there are none."""
    if not columns or records.num_rows < 2:
        return records
    order = [(name, "ascending") for name in columns]
    whole = records.combine_chunks()  # picking from one piece is several times faster than from many
    return whole.take(pc.sort_indices(whole, sort_keys=order))


def doubled_key(schema: TableSchema, records: pa.Table) -> dict[str, object] | None:
    """A key that sorted records hold twice other than as the two images of a correction, or None."""
    if not schema.key or records.num_rows < 2:
        return None
    count = records.num_rows - 1
    same = pa.chunked_array([pa.repeat(True, count)])
    for name in schema.key:
        values = records.column(name)
        same = pc.and_(same, _equal(values.slice(0, count), values.slice(1)))
    ops = records.column(OP)
    pair = pc.and_(pc.equal(ops.slice(0, count), int(Op.CORRECT_FROM)), pc.equal(ops.slice(1), int(Op.CORRECT_TO)))
    place = pc.index(pc.and_(same, pc.invert(pair)), True).as_py()
    return None if place < 0 else {name: records.column(name)[place].as_py() for name in schema.key}


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    same = pc.equal(one, other)
    if pa.types.is_floating(one.type):  # to Spark, and so in a key, all NaN are one
        same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return same


def write_slice(
    folder: Path, schema: TableSchema, records: pa.Table, first_offset: int, system_time: datetime
) -> SliceInfo:
    """Write sorted records (`op` and the table's columns) as one slice into a folder of objects."""
    table = _slice_table(schema, records, first_offset, system_time)
    hasher = LogicalHasher(table.schema)
    for batch in table.to_batches():
        hasher.update(batch)
    pending = PendingFile(folder)
    try:
        with pa.BufferedOutputStream(pa.PythonFile(pending, mode="w"), _BUFFER) as sink:
            pq.write_table(
                table,
                sink,
                compression="snappy",
                row_group_size=_ROW_GROUP,
                use_dictionary=_repeating(schema),
                store_schema=False,
            )
        physical_hash = pending.finish()
    except BaseException:
        pending.discard()
        raise
    return SliceInfo(
        logical_hash=hasher.text(),
        physical_hash=physical_hash,
        size=pending.size,
        first_offset=first_offset,
        last_offset=first_offset + records.num_rows - 1,
        newest_event_time=_newest(schema, table),
    )


def _repeating(schema: TableSchema) -> list[str]:
    """The columns worth a dictionary. For numbers that hardly repeat, building one takes longer than all the rest."""
    texts = [c.name for c in schema.columns if pa.types.is_string(c.type) or pa.types.is_binary(c.type)]
    return [OP, "system_time", *([] if schema.event_time else ["event_time"]), *texts]


def _slice_table(schema: TableSchema, records: pa.Table, first_offset: int, system_time: datetime) -> pa.Table:
    count = records.num_rows
    moment = pa.scalar(to_millis(system_time), pa.int64()).cast(MILLIS_UTC)
    system_times = pa.repeat(moment, count)
    columns: list[pa.Array | pa.ChunkedArray] = [
        pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64)),
        records.column(OP).cast(pa.int32()),
        system_times,
        _event_times(schema, records, moment) if schema.event_time else system_times,
    ]
    for field in schema.slice.names[len(columns) :]:
        columns.append(records.column(field).cast(schema.slice.field(field).type))
    return pa.Table.from_arrays(columns, schema=schema.slice)


def _event_times(schema: TableSchema, records: pa.Table, otherwise: pa.Scalar) -> pa.ChunkedArray:
    """The column that holds the event time, cut to milliseconds; a row without one happened when it was written."""
    values = records.column(schema.event_time)
    if pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", tz=values.type.tz))
    return pc.fill_null(values.cast(pa.timestamp("ms")).cast(MILLIS_UTC), otherwise)


def _newest(schema: TableSchema, table: pa.Table) -> datetime | None:
    if schema.event_time is None:
        return None
    # A row whose own time is not known says nothing about how far the others have come.
    known = table.column("event_time").filter(table.column(schema.event_time).is_valid())
    return from_millis(pc.max(known).cast(pa.int64()).as_py()) if len(known) else None
