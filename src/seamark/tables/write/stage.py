"""Staging a change: from a frame of records to slices on disk, in few Spark jobs, past the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.clock import from_millis, to_millis
from seamark.errors import NOTHING_WRITTEN, DuplicateKey
from seamark.spark.causes import OWN_TROUBLE
from seamark.tables.context import TableContext
from seamark.tables.frame import quoted
from seamark.tables.frames import refuse_nulls
from seamark.tables.row_bytes import bytes_of_rows
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.small import fits_on_driver
from seamark.tables.write.cuts import CutPlan, cut_table
from seamark.tables.write.slices import (
    OP,
    OpCounts,
    SliceInfo,
    doubled_key,
    in_one_piece,
    record_order,
    sort_records,
    sorted_places,
    take_records,
    write_slice,
)
from seamark.tables.write.sorted_runs import Run, Stretch, cut_runs, read_stretches, write_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUN_COLUMNS = (
    "path string, place int, rows long, values long, appended long, corrected long, retracted long, nulls string"
)
_SLICE_COLUMNS = (
    "place int, logical_hash string, physical_hash string, size long, first_offset long, last_offset long, "
    "newest_event_time long, doubled string"
)


@dataclass(frozen=True, slots=True)
class StagedChange:
    """The slices of a change, in order, how many records of each kind they hold, and their commit time."""

    slices: tuple[SliceInfo, ...]
    counts: OpCounts
    system_time: datetime


@dataclass(frozen=True, slots=True)
class SliceTarget:
    """Where a change goes: the table, the folder its slices are staged in, its first offset, and its commit time.

    `commit_time` is called as late as possible, after the records are computed, not when the run starts.
    Records of a keyed table are in the order of its key. For an append-only one `order` names the columns to sort by,
    which must be unique together, and need not be the table's. Without it records keep their order.
    """

    table: str
    schema: TableSchema
    folder: Path
    first_offset: int
    commit_time: Callable[[], datetime]
    cut: CutPlan
    order: tuple[str, ...] = ()

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The columns by which records are sorted, or none."""
        return record_order(self.schema) or self.order


def stage_local(target: SliceTarget, records: pa.Table) -> StagedChange:
    """Stage records that are in memory."""
    records = in_one_piece(records)
    places = sorted_places(target.sorted_by, records)
    if places is not None:
        keys = take_records(records.select(list(target.sorted_by)), places)
        refuse_doubled_key(target.table, doubled_key(target.schema, keys))
    # Records are picked slice by slice, after counting bytes: sorting all of them at once would be a second copy.
    ops, values = records.column(OP).to_numpy(), bytes_of_rows(records.select(list(target.schema.names)))
    if places is not None:
        ops, values = ops[places.to_numpy()], values[places.to_numpy()]
    slices, moment = [], target.commit_time()
    for begin, end in cut_table(ops, values, target.cut):
        count = end - begin
        part = records.slice(begin, count) if places is None else take_records(records, places.slice(begin, count))
        slices.append(write_slice(target.folder, target.schema, part, target.first_offset + begin, moment))
    return StagedChange(tuple(slices), OpCounts.of(records.column(OP)), moment)


def stage_frame(context: TableContext, target: SliceTarget, records: DataFrame) -> StagedChange:
    """Stage records that Spark computes, once."""
    runs = _write_runs(target, records)
    _refuse_nulls(target, runs)
    counts = sum((run.counts for run in runs), OpCounts())
    total = sum(run.rows for run in runs)
    if total == 0:
        return stage_nothing(target)
    if fits_on_driver(total, sum(run.values for run in runs)):
        return stage_local(target, read_stretches([Stretch(run.path, 0, run.rows) for run in runs]))
    pieces, moment = cut_runs(runs, target.schema.key or target.order, target.cut), target.commit_time()
    return StagedChange(tuple(_write_slices(context, target, pieces, moment)), counts, moment)


def stage_nothing(target: SliceTarget) -> StagedChange:
    """A change without records."""
    return StagedChange((), OpCounts(), target.commit_time())


def _write_runs(target: SliceTarget, records: DataFrame) -> list[Run]:
    """Let every task write what it computed as a sorted run."""
    schema, folder = target.schema, str(target.folder / "runs")
    # Created here, not by the tasks: a task that outlives its failed job must not create the removed folder again.
    Path(folder).mkdir(parents=True, exist_ok=True)
    if target.sorted_by:
        records = records.sortWithinPartitions(*[quoted(name) for name in target.sorted_by])

    own_trouble = OWN_TROUBLE

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        with own_trouble.marking():
            run = write_run(batches, folder, schema, task.partitionId() if task else 0)
        if run is not None:
            ops = run.counts
            row = [run.path, run.order, run.rows, run.values, ops.appended, ops.corrected, ops.retracted]
            yield _one_row(_RUN_COLUMNS, [*row, json.dumps(run.nulls)])

    found = records.mapInArrow(write, _RUN_COLUMNS).collect()
    runs = [
        Run(r.path, r.place, r.rows, r.values, OpCounts(r.appended, r.corrected, r.retracted), json.loads(r.nulls))
        for r in found
    ]
    return sorted(runs, key=lambda run: run.order)


def _refuse_nulls(target: SliceTarget, runs: Sequence[Run]) -> None:
    refuse_nulls(target.table, {name: sum(run.nulls[name] for run in runs) for name in target.schema.required})


def _write_slices(
    context: TableContext, target: SliceTarget, pieces: list[list[Stretch]], moment: datetime
) -> list[SliceInfo]:
    """Write the slices in Spark, one task per slice, each merged from its stretches of the runs."""
    schema, folder, sorted_by = target.schema, target.folder, target.sorted_by
    starts = [target.first_offset]
    for piece in pieces:
        starts.append(starts[-1] + sum(stretch.stop - stretch.start for stretch in piece))

    own_trouble = OWN_TROUBLE

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                with own_trouble.marking():
                    done = _write_one(schema, sorted_by, folder, pieces[place], starts[place], moment, place)
                yield done

    places = context.session().range(0, len(pieces), 1, len(pieces))
    found = sorted(places.mapInArrow(write, _SLICE_COLUMNS).collect(), key=lambda row: row.place)
    for row in found:
        refuse_doubled_key(target.table, row.doubled)
    return [
        SliceInfo(
            row.logical_hash,
            row.physical_hash,
            row.size,
            row.first_offset,
            row.last_offset,
            None if row.newest_event_time is None else from_millis(row.newest_event_time),
        )
        for row in found
    ]


def _write_one(
    schema: TableSchema,
    sorted_by: Sequence[str],
    folder: Path,
    piece: list[Stretch],
    first_offset: int,
    moment: datetime,
    place: int,
) -> pa.RecordBatch:
    records = sort_records(sorted_by, read_stretches(piece))
    doubled = doubled_key(schema, records)
    if doubled is not None:
        return _one_row(_SLICE_COLUMNS, [place, "", "", 0, 0, 0, None, str(doubled)])
    info = write_slice(folder, schema, records, first_offset, moment)
    newest = None if info.newest_event_time is None else to_millis(info.newest_event_time)
    hashes = [info.logical_hash, info.physical_hash]
    return _one_row(_SLICE_COLUMNS, [place, *hashes, info.size, info.first_offset, info.last_offset, newest, None])


_ARROW = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}


def _one_row(columns: str, values: list[object]) -> pa.RecordBatch:
    fields = [column.split() for column in columns.split(", ")]
    arrays = [pa.array([value], _ARROW[kind]) for value, (_, kind) in zip(values, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


def refuse_doubled_key(table: str, key: object) -> None:
    """Raise `DuplicateKey` for the key that a change has twice, if there is one."""
    if key is not None:
        raise DuplicateKey(
            f"table '{table}': the key {_shown(key)} is in the frame more than once.",
            outcome=NOTHING_WRITTEN,
            hint="keep one row per key, for instance with dropDuplicates or a window function.",
        )


def _shown(key: object) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items()) if isinstance(key, dict) else str(key)
