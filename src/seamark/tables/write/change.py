"""From rows to a change: the records that each verb makes from the new rows and the current ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from seamark.errors import NOTHING_WRITTEN, ComputeFailed
from seamark.ledger import Op
from seamark.spark.causes import SPARK_ERRORS, Fault, explained, fault_of
from seamark.tables import small
from seamark.tables.frame import CheckedFrame
from seamark.tables.frames import bad_value
from seamark.tables.read.choice import EVERYTHING, KeyChoice, choose_keys, choose_values
from seamark.tables.read.few_rows import read_few
from seamark.tables.read.rows import rows_of, versions_of
from seamark.tables.read.snapshot import Snapshot, snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import collect_small
from seamark.tables.schema.convert import misfit_in
from seamark.tables.small import fits_on_driver, small_rows
from seamark.tables.write import compare, compare_local
from seamark.tables.write.slices import OP
from seamark.tables.write.stage import (
    SliceTarget,
    StagedChange,
    refuse_doubled_key,
    stage_frame,
    stage_local,
    stage_nothing,
)

VERSIONS_PER_ROW = 4  # so many times as many versions as rows may be read by the driver


@dataclass(frozen=True, slots=True)
class LocalChange:
    """Records in memory: `op` and the table's columns. `order` names the columns to sort an append-only table by."""

    records: pa.Table
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameChange:
    """Records that Spark will compute; `order` as above."""

    records: DataFrame
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoRecords:
    """A change without records: only the watermark or the source's state may move."""


Change: TypeAlias = LocalChange | FrameChange | NoRecords


def append_change(source: TableSource, rows: CheckedFrame) -> Change:
    """The change that appends all rows."""
    if (local := rows.in_memory) is None:
        return FrameChange(compare.appended(source.schema, rows.to_spark(source.context.session)))
    return LocalChange(appended_rows(local)) if local.num_rows else NoRecords()


def appended_rows(rows: pa.Table) -> pa.Table:
    """Rows in memory as records of new rows."""
    ops = pa.repeat(pa.scalar(int(Op.APPEND), pa.int32()), rows.num_rows)
    return rows.add_column(0, pa.field(OP, pa.int32(), nullable=False), ops)


def upsert_change(source: TableSource, rows: CheckedFrame, last: int | None) -> Change:
    """The change that appends new rows and corrects those that differ from the rows after the record `last`."""
    if last is None or rows.is_known_empty:
        return append_change(source, rows)
    snapshot = snapshot_at(source, last)
    if (few := small_rows(rows)) is not None:
        known = _standing_rows(snapshot, few)
        if known is not None:
            return LocalChange(compare_local.upserted(source.schema, few, known))
    choice = choose_keys(source, rows) if rows.in_memory is not None else EVERYTHING
    standing = rows_of(snapshot, choice)
    return FrameChange(compare.upserted(source.schema, _to_spark(source, rows), standing))


def replace_change(source: TableSource, rows: CheckedFrame, last: int | None) -> Change:
    """The same, which also retracts current rows that are not among the new ones."""
    if last is None:
        return append_change(source, rows)
    snapshot = snapshot_at(source, last)
    if (few := small_rows(rows)) is not None and fits_on_driver(snapshot.rows_at_most()):
        known = _standing_rows(snapshot, None)
        if known is not None:
            return LocalChange(compare_local.replaced(source.schema, few, known))
    standing = rows_of(snapshot)
    if rows.is_known_empty:
        return FrameChange(compare.retracted(source.schema, standing))
    return FrameChange(compare.replaced(source.schema, _to_spark(source, rows), standing))


def delete_change(source: TableSource, keys: CheckedFrame, last: int | None) -> Change:
    """The change that retracts the rows with these keys."""
    if last is None or keys.is_known_empty:
        return NoRecords()
    snapshot = snapshot_at(source, last)
    if (few := small_rows(keys)) is not None:
        known = _standing_rows(snapshot, few)
        if known is not None:
            return LocalChange(compare_local.retracted(source.schema, known))
    standing = rows_of(snapshot, checked_choice(source, keys))
    return FrameChange(compare.retracted(source.schema, standing))


def _standing_rows(snapshot: Snapshot, keys: pa.Table | None) -> compare_local.StandingRows | None:
    """The rows with these keys, or all rows, on the driver, in one Spark job at most; None if they are too large."""
    source = snapshot.source
    values = None if keys is None else keys.select(list(source.schema.key))
    few = read_few(snapshot, values, source.schema.names)
    if few is not None:
        return compare_local.StandingRows.from_rows(source.schema, few)
    choice = EVERYTHING if values is None else choose_values(source, values)
    at_most = snapshot.versions_at_most(None if values is None else values.num_rows)
    columns = {"offset": pa.int64(), "op": pa.int32(), **{c.name: c.type for c in source.schema.columns}}
    hint = f"`seamark verify {source.name}` says whether a file is missing or damaged."
    with spark_errors_explained(source, "read the current rows", hint):
        frame = versions_of(snapshot, choice)
        # A key has one version per commit that touched it, and only the last is kept: more versions than rows are fine.
        versions = collect_small(frame, columns, at_most, most_rows=VERSIONS_PER_ROW * small.SMALL_RECORDS)
    return None if versions is None else compare_local.StandingRows.from_versions(source.schema, versions)


def _to_spark(source: TableSource, rows: CheckedFrame) -> DataFrame:
    frame = rows.to_spark(source.context.session, source.schema.spark())
    # Rows in memory were checked for doubled keys when they came in.
    return frame if rows.in_memory is not None else compare.refuse_doubled(source.schema, frame)


def checked_choice(source: TableSource, keys: CheckedFrame) -> KeyChoice:
    """How to read the rows with these keys. Runs a small job on a frame of keys, to see whether they are few."""
    with spark_errors_explained(source):
        return choose_keys(source, keys)


_WHERE_TO_LOOK = (
    "no row is to blame: look at memory, disk space and files. A worker that vanishes was most often killed because "
    "memory ran out; `seamark verify` says whether a file is missing or damaged."
)


@contextmanager
def spark_errors_explained(
    source: TableSource,
    doing: str = "computed the frame",
    hint: str = "the cause is below; the frame fails in the same way with `df.count()`.",
) -> Iterator[None]:
    """Turn an error from Spark into ours: a doubled key, a value that does not fit, or what Spark could not do."""
    try:
        yield
    except SPARK_ERRORS as error:
        refuse_doubled_key(source.name, compare.doubled_in(error))
        misfit = misfit_in(error)
        if misfit is not None:
            column, value = misfit
            raise bad_value(source.name, source.schema.column(column), value) from None
        raise ComputeFailed(
            f"table '{source.name}': Spark failed while it {doing}: {explained(error)}",
            outcome=NOTHING_WRITTEN,
            hint=_WHERE_TO_LOOK if fault_of(error) is Fault.SURROUNDINGS else hint,
        ) from error


def stage_change(source: TableSource, target: SliceTarget, change: Change) -> StagedChange:
    """Write the slices of a change to the run's folder."""
    if isinstance(change, NoRecords):
        return stage_nothing(target)
    ordered = replace(target, order=change.order)
    if isinstance(change, LocalChange):
        return stage_local(ordered, change.records)
    with spark_errors_explained(source):
        return stage_frame(source.context, ordered, change.records)
