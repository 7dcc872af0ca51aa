"""Large changes: sorted runs on the executors, cut into slices by records and bytes, whatever the partitioning.

Every Spark task writes what it computed, sorted, as one Arrow file: a run. The driver then finds, by looking at a few
keys of each run, where a slice is full in the sorted whole; each slice is a stretch of every run, merged. So the input
is computed once, nothing is shuffled a second time, and the slices do not depend on how the input was partitioned.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from seamark.tables.ordering import Key, ordered
from seamark.tables.row_bytes import bytes_of_rows
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.cuts import CutPlan, cut_in_order, cut_sorted
from seamark.tables.write.slices import OP, OpCounts

# In a run, the bytes of values up to and including each record. No column of a table has a space in its name.
_VALUES_UPTO = "values upto"


@dataclass(frozen=True, slots=True)
class Run:
    """A file of records as one task computed them, sorted if the table has an order, else as they came."""

    path: str
    order: int
    rows: int
    values: int  # how many bytes of values the records hold
    counts: OpCounts
    nulls: dict[str, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records number `start` to `stop` of a run, the latter not included."""

    path: str
    start: int
    stop: int


def write_run(batches: Iterator[pa.RecordBatch], folder: str, schema: TableSchema, order: int) -> Run | None:
    """Write what a task computed as one run, or nothing if it computed nothing."""
    path: Path | None = None
    writer: pa.RecordBatchFileWriter | None = None
    rows, values, counts, nulls = 0, 0, OpCounts(), dict.fromkeys(schema.required, 0)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        batch = _in_table_types(batch, schema)
        upto = values + np.cumsum(bytes_of_rows(batch.select(list(schema.names))))
        batch, values = batch.append_column(_VALUES_UPTO, pa.array(upto)), int(upto[-1])
        if writer is None:
            path = Path(folder) / f"{uuid.uuid4().hex}.arrow"
            writer = pa.ipc.new_file(str(path), batch.schema)
        writer.write_batch(batch)
        rows += batch.num_rows
        counts += OpCounts.of(batch.column(OP))
        for name in nulls:
            nulls[name] += batch.column(name).null_count
    if writer is None or path is None:
        return None
    writer.close()
    return Run(str(path), order, rows, values, counts, nulls)


def _in_table_types(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The batch with the table's types: timestamps in keys must be UTC, not in the session's zone."""
    wanted = {column.name: column.type for column in schema.columns}
    if all(field.type == wanted.get(field.name, field.type) for field in batch.schema):
        return batch
    fields = [field.with_type(wanted.get(field.name, field.type)) for field in batch.schema]
    arrays = [values.cast(field.type) for values, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class RunReader:
    """An opened run, which gives the keys of single records and reads stretches."""

    def __init__(self, path: str, key: Sequence[str]) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(path))
        self._key = key
        self._batches = [self._file.get_batch(number) for number in range(self._file.num_record_batches)]
        self._starts = [0]
        for batch in self._batches:
            self._starts.append(self._starts[-1] + batch.num_rows)
        self.rows = self._starts[-1]

    def key(self, number: int) -> Key:
        """The key of a record, in a form that sorts as Spark and Arrow sort."""
        batch, place = self._find(number)
        return tuple(ordered(batch.column(name)[place].as_py()) for name in self._key)

    def values_before(self, number: int) -> int:
        """How many bytes of values the records before one hold."""
        if number == 0:
            return 0
        batch, place = self._find(number - 1)
        return int(batch.column(_VALUES_UPTO)[place].as_py())

    def _find(self, number: int) -> tuple[pa.RecordBatch, int]:
        which = bisect_right(self._starts, number) - 1
        return self._batches[which], number - self._starts[which]

    def stretch(self, start: int, stop: int) -> pa.Table:
        """Records `start` to `stop`, the latter not included."""
        records = pa.Table.from_batches(self._batches, self._file.schema).drop_columns([_VALUES_UPTO])
        return records.slice(start, stop - start)


def read_stretches(stretches: Sequence[Stretch]) -> pa.Table:
    """The records of several stretches, one after another."""
    return pa.concat_tables([RunReader(s.path, ()).stretch(s.start, s.stop) for s in stretches])


def cut_runs(runs: Sequence[Run], sorted_by: Sequence[str], plan: CutPlan) -> list[list[Stretch]]:
    """The stretches that make up each slice.

    `sorted_by` is the key that the runs are sorted by; without one they follow one another as they are.
    """
    readers = [RunReader(run.path, sorted_by) for run in runs]
    rows, values = [reader.rows for reader in readers], [reader.values_before for reader in readers]
    if sorted_by:
        bounds = cut_sorted(rows, [reader.key for reader in readers], values, plan)
    else:
        bounds = cut_in_order(rows, values, plan)
    slices = []
    for begin, end in pairwise(bounds):
        spans = zip(runs, begin, end, strict=True)
        slices.append([Stretch(run.path, start, stop) for run, start, stop in spans if stop > start])
    return slices
