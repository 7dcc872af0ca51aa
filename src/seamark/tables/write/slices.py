"""Writing records as slices: sorted, numbered, hashed Parquet files. Pure Arrow, so that it runs anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.clock import from_millis, to_millis
from seamark.ledger import Op
from seamark.ledger.logical_hash import LogicalHasher
from seamark.ledger.objects import PendingFile
from seamark.tables.row_bytes import bytes_of_rows
from seamark.tables.schema.table_schema import MILLIS_UTC, TableSchema
from seamark.tables.write.cuts import NO_LIMIT, CutPlan, SizeLimit, cut_table

if TYPE_CHECKING:
    from seamark.tables.write.cuts import Numbers

OP = "op"
_BUFFER = 1 << 20
# A reader holds one row group at a time, or READ_AT_ONCE of it in Spark. Spark's reader holds several copies of each
# value: in the unpacked page, in a vector that doubles as it grows, and in its NULL mask.
ROW_GROUP = SizeLimit(rows=128 * 1024, values=64 << 20)
READ_AT_ONCE = SizeLimit(rows=4_096, values=16 << 20)
_ONE_ARRAY = 1 << 30  # half of what an array of texts can hold


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """A written slice: its hashes, its offsets, and what else a block says of it."""

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
    """Records sorted by these columns; unchanged if there are none."""
    places = sorted_places(columns, records)
    return records if places is None else take_records(records, places)


def sorted_places(columns: Sequence[str], records: pa.Table) -> pa.Array | None:
    """The index of the record that sorts first by these columns, second, …; None if there is nothing to sort."""
    if not columns or records.num_rows < 2:
        return None
    looked_at = in_one_piece(records.select(list(columns)))
    return pc.sort_indices(looked_at, sort_keys=[(name, "ascending") for name in columns])


def in_one_piece(records: pa.Table) -> pa.Table:
    """The records with one array per column, if they fit into one: picking from it is several times faster."""
    return records.combine_chunks() if records.nbytes < _ONE_ARRAY else records


def take_records(records: pa.Table, places: pa.Array) -> pa.Table:
    """The records at these places, in this order, however many bytes they have in all."""
    if records.nbytes < _ONE_ARRAY:
        return in_one_piece(records).take(places)
    # An array of texts holds 2 GiB at most, and Arrow joins the pieces of a column into one before it picks from them.
    values = bytes_of_rows(records)[places.to_numpy()]
    most = SizeLimit(rows=NO_LIMIT, values=_ONE_ARRAY // 4)
    picked = []
    for begin, end in cut_table(np.zeros(len(values), np.int64), values, CutPlan(most)):
        picked.append(_take_some(records, places.slice(begin, end - begin)))
    return pa.concat_tables(picked)


def _take_some(records: pa.Table, places: pa.Array) -> pa.Table:
    """The same for a part that is small enough for one array, out of pieces that are not."""
    wanted = places.to_numpy()
    order = np.argsort(wanted, kind="stable")
    ascending, start, found = wanted[order], 0, []
    for batch in records.to_batches():
        first, last = np.searchsorted(ascending, [start, start + batch.num_rows])
        found.append(batch.take(pa.array(ascending[first:last] - start)))
        start += batch.num_rows
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.Table.from_batches(found, records.schema).combine_chunks().take(pa.array(back))


def doubled_among(schema: TableSchema, records: pa.Table) -> dict[str, object] | None:
    """A key that is in unsorted records twice, other than as the two images of a correction; None if there is none."""
    order = record_order(schema)
    return doubled_key(schema, sort_records(order, records.select(list(order)))) if order else None


def doubled_key(schema: TableSchema, records: pa.Table) -> dict[str, object] | None:
    """The same for records that are sorted."""
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
    options = {"compression": "snappy", "use_dictionary": _repeating(schema), "store_schema": False}
    pending = PendingFile(folder)
    try:
        with (
            pa.BufferedOutputStream(pa.PythonFile(pending, mode="w"), _BUFFER) as sink,
            pq.ParquetWriter(sink, table.schema, **options) as writer,
        ):
            for group in row_groups(table):
                writer.write_table(group, group.num_rows)
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


def row_groups(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.Table]:
    """The rows in pieces, each small enough to be one row group of a Parquet file."""
    whole = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    values = bytes_of_rows(whole)
    for begin, end in _pieces(values, ROW_GROUP):
        piece = values[begin:end]
        is_small = piece.sum() * READ_AT_ONCE.rows <= READ_AT_ONCE.values * len(piece)
        for first, last in [(0, len(piece))] if is_small else _pieces(piece, SizeLimit(values=READ_AT_ONCE.values)):
            yield whole.slice(begin + first, last - first)


def _pieces(values: Numbers, limit: SizeLimit) -> Iterator[tuple[int, int]]:
    return cut_table(np.zeros(len(values), np.int64), values, CutPlan(limit))


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
    """The event times in milliseconds; a row without one gets the time of the commit."""
    values = records.column(schema.event_time)
    if pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", tz=values.type.tz))
    return pc.fill_null(values.cast(pa.timestamp("ms")).cast(MILLIS_UTC), otherwise)


def _newest(schema: TableSchema, table: pa.Table) -> datetime | None:
    if schema.event_time is None:
        return None
    # Only real event times count: the commit time of a row without one would push the watermark ahead of the data.
    known = table.column("event_time").filter(table.column(schema.event_time).is_valid())
    return from_millis(pc.max(known).cast(pa.int64()).as_py()) if len(known) else None
