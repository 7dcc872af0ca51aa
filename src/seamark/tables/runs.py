"""Large changes: sorted runs on the executors, cut into slices by row number, whatever the partitioning.

Every Spark task writes what it computed, sorted, as one Arrow file: a run. The driver then finds, by looking at a few
keys of each run, where the records with numbers `block_rows`, 2 × `block_rows`, … stand in the sorted whole; each
slice is a stretch of every run, merged. So the input is computed once, nothing is shuffled a second time, and the
slices do not depend on how the input was partitioned.
"""

from __future__ import annotations

import math
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from seamark.tables.schema import TableSchema
from seamark.tables.slices import OP, OpCounts

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A file of records as one task computed them, sorted if the table has an order, else as they came."""

    path: str
    order: int
    rows: int
    size: int
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
    rows, counts, nulls = 0, OpCounts(), dict.fromkeys(schema.required, 0)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        batch = _in_the_tables_types(batch, schema)
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
    return Run(str(path), order, rows, path.stat().st_size, counts, nulls)


def _in_the_tables_types(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The batch with the table's types: keys that are moments must be told in UTC, not as a session's clocks show."""
    wanted = {column.name: column.type for column in schema.columns}
    if all(field.type == wanted.get(field.name, field.type) for field in batch.schema):
        return batch
    fields = [field.with_type(wanted.get(field.name, field.type)) for field in batch.schema]
    arrays = [values.cast(field.type) for values, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class RunReader:
    """A run, opened for looking at single records and for reading stretches."""

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

    def _find(self, number: int) -> tuple[pa.RecordBatch, int]:
        which = bisect_right(self._starts, number) - 1
        return self._batches[which], number - self._starts[which]

    def stretch(self, start: int, stop: int) -> pa.Table:
        """Records `start` to `stop`, the latter not included."""
        return pa.Table.from_batches(self._batches, self._file.schema).slice(start, stop - start)


def ordered(value: Any) -> Any:
    """A value in a form that compares as Spark compares it."""
    if isinstance(value, float):  # NaN is the greatest number, and 0.0 and -0.0 are one
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def read_stretches(stretches: Sequence[Stretch]) -> pa.Table:
    """The records of several stretches, one after another."""
    return pa.concat_tables([RunReader(s.path, ()).stretch(s.start, s.stop) for s in stretches])


def cut_runs(runs: Sequence[Run], sorted_by: Sequence[str], block_rows: int) -> list[list[Stretch]]:
    """The stretches that make up each slice: `block_rows` records, one less where that would part a correction.

    `sorted_by` is the key that the runs are sorted by; without one they follow one another as they are.
    """
    readers = [RunReader(run.path, sorted_by) for run in runs]
    cut = cut_sorted if sorted_by else cut_in_order
    bounds = cut([reader.rows for reader in readers], [reader.key for reader in readers], block_rows)
    slices = []
    for begin, end in pairwise(bounds):
        spans = zip(runs, begin, end, strict=True)
        slices.append([Stretch(run.path, start, stop) for run, start, stop in spans if stop > start])
    return slices


def cut_in_order(rows: list[int], _keys: object, block_rows: int) -> list[list[int]]:
    """Where each slice begins in every run, when the runs simply follow one another."""
    total = sum(rows)
    bounds = []
    for target in [*range(0, total, block_rows), total]:
        left, places = target, []
        for count in rows:
            places.append(min(count, left))
            left -= places[-1]
        bounds.append(places)
    return bounds


def cut_sorted(rows: list[int], keys: list[Callable[[int], Key]], block_rows: int) -> list[list[int]]:
    """Where each slice begins in every run, when the runs are sorted and are to be merged; the last entry is the end.

    A cut falls between two keys, never inside one, so the two records of a correction stay together.
    """
    places = [0] * len(rows)
    bounds = [places]
    while sum(rows) - sum(places) > block_rows:
        first_left_out = _key_of_rank(rows, keys, places, sum(places) + block_rows)
        cut = [_lower(keys[r], first_left_out, places[r], rows[r]) for r in range(len(rows))]
        if (
            cut == places
        ):  # one key has more records than a slice holds: only a doubled key does, and it is refused later
            cut = [_upper(keys[r], first_left_out, places[r], rows[r]) for r in range(len(rows))]
        places = cut
        bounds.append(places)
    return [*bounds, list(rows)]


def _key_of_rank(rows: list[int], keys: list[Callable[[int], Key]], low: list[int], rank: int) -> Key:
    """The key of the record that has this number in the merged whole."""
    ahead = rank - sum(low) + 1
    high = [min(count, start + ahead) for count, start in zip(rows, low, strict=True)]
    while True:
        widest = max(range(len(rows)), key=lambda r: high[r] - low[r])
        pivot = keys[widest]((low[widest] + high[widest]) // 2)
        below = [_lower(keys[r], pivot, low[r], high[r]) for r in range(len(rows))]
        upto = [_upper(keys[r], pivot, below[r], high[r]) for r in range(len(rows))]
        if rank < sum(below):
            high = below
        elif rank >= sum(upto):
            low = upto
        else:
            return pivot


def _lower(key: Callable[[int], Key], wanted: Key, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if key(middle) < wanted else (low, middle)
    return low


def _upper(key: Callable[[int], Key], wanted: Key, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wanted < key(middle) else (middle + 1, high)
    return low
