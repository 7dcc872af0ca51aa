"""What a run gave: records for the diff, changes of its tables, visits that failed, and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.diffs.ageing.moments import as_moment
from seamark.diffs.compute.result import FAILED, MARKS, OLDEST, RECORDS, applied_schema
from seamark.diffs.compute.visit_columns import LATE, Applying, level_names
from seamark.diffs.declare.spec import DiffSpec
from seamark.ledger import Op
from seamark.spark.frames import arrow_rows, spark_frame
from seamark.steps.rows.keys import key_texts
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.write.change import Change, FrameChange, LocalChange, NoRecords, appended_rows

PLACE = "its place"  # among the records of its visit


@dataclass(frozen=True)
class Outcome:
    """The visits of a run with what its records made of them: at hand if they are few, else in files."""

    spec: DiffSpec
    rows: CheckedFrame

    @staticmethod
    def nothing(spec: DiffSpec, how: Applying) -> Outcome:
        """The outcome of a run that reads no record."""
        return Outcome(spec, LocalFrame(applied_schema(spec, how).empty_table()))

    @cached_property
    def _numbers(self) -> tuple[int, int, datetime | None]:
        if isinstance(self.rows, LocalFrame):
            table = self.rows.rows
            late = pc.sum(table.column(LATE)).as_py() or 0
            oldest = as_moment(pc.min(table.column(OLDEST))) if self.spec.ttl else None
            return table.num_rows, late, oldest
        told = [F.count(F.lit(1)).alias("visits"), F.sum(quoted(LATE)).alias("late")]
        if self.spec.ttl:
            told.append(F.min(quoted(OLDEST)).alias("oldest"))
        found = arrow_rows(self.rows.frame.agg(*told))
        oldest = as_moment(found.column("oldest")[0]) if self.spec.ttl else None
        return found.column("visits")[0].as_py(), found.column("late")[0].as_py() or 0, oldest

    @property
    def visits(self) -> int:
        """How many visits the records were about."""
        return self._numbers[0]

    @property
    def late_rows(self) -> int:
        """How many records came too late for their visit."""
        return self._numbers[1]

    @property
    def oldest(self) -> datetime | None:
        """The time of the oldest of these visits that is in the state now."""
        return self._numbers[2]

    def failures(self, most: int) -> list[tuple[str, str]]:
        """The keys of visits that failed, as text, and why: at most so many of them."""
        names = [*self.spec.key_names, FAILED]
        if isinstance(self.rows, LocalFrame):
            table = self.rows.rows.select(names)
            table = table.filter(table.column(FAILED).is_valid()).slice(0, most)
        else:
            failed = self.rows.frame.where(F.col(quoted(FAILED)).isNotNull())
            table = arrow_rows(failed.select(*map(quoted, names)).limit(most))
        keys = key_texts(table.select(list(self.spec.key_names)))
        return sorted(zip(keys, table.column(FAILED).to_pylist(), strict=True))

    @property
    def touched(self) -> CheckedFrame:
        """The keys of the visits that did not fail."""
        if isinstance(self.rows, SparkFrame):
            return self._keys(SparkFrame(self.rows.frame.where(F.col(quoted(FAILED)).isNull())))
        table = self.rows.rows
        return self._keys(LocalFrame(table.filter(table.column(FAILED).is_null())))

    @property
    def times(self) -> CheckedFrame:
        """The visits that are in the state now and have a time, by that time: whether it has changed or not."""
        assert self.spec.ttl is not None
        names = self.spec.key_names
        if isinstance(self.rows, SparkFrame):
            time = F.col(quoted(OLDEST))
            there = self.rows.frame.where(time.isNotNull())
            return SparkFrame(there.select(time.alias(self.spec.ttl.column), *map(quoted, names)))
        there = self.rows.rows.filter(self.rows.rows.column(OLDEST).is_valid())
        return LocalFrame(there.select([OLDEST, *names]).rename_columns([self.spec.ttl.column, *names]))

    @property
    def marked(self) -> CheckedFrame:
        """The keys of the visits that leave a mark."""
        if isinstance(self.rows, SparkFrame):
            return self._keys(SparkFrame(self.rows.frame.where(F.size(quoted(MARKS)) > 0)))
        table = self.rows.rows
        return self._keys(LocalFrame(table.filter(pc.greater(pc.list_value_length(table.column(MARKS)), 0))))

    def _keys(self, rows: CheckedFrame) -> CheckedFrame:
        names = self.spec.key_names
        if isinstance(rows, SparkFrame):
            return SparkFrame(rows.frame.select(*map(quoted, names)))
        return LocalFrame(rows.rows.select(list(names)))


def records_of(spec: DiffSpec, outcome: Outcome) -> Change:
    """The records of the diff: by visit, and within one in the order in which they were made."""
    order = (*spec.key_names, PLACE)
    if isinstance(outcome.rows, SparkFrame):
        keys = [F.col(quoted(name)) for name in spec.key_names]
        placed = outcome.rows.frame.select(*keys, F.posexplode(quoted(RECORDS)).alias(PLACE, "its record"))
        op = F.lit(int(Op.APPEND)).cast("int").alias("op")
        return FrameChange(placed.select(op, *keys, "`its record`.*", quoted(PLACE)), order)
    table = outcome.rows.rows
    records, parents, places = _exploded(table.column(RECORDS))
    if len(records) == 0:
        return NoRecords()
    columns = {name: table.column(name).take(parents) for name in spec.key_names}
    columns |= {field.name: pc.struct_field(records, [field.name]) for field in records.type}
    columns[PLACE] = places
    return LocalChange(appended_rows(pa.table(columns)), order)


def _exploded(lists: pa.ChunkedArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The entries of some lists, the list that each stands in, and its place there."""
    whole = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    parents = pc.list_parent_indices(whole)
    entries = pc.list_flatten(whole)
    numbers = np.arange(len(parents), dtype=np.int32)
    owners = parents.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(owners) else np.array([], dtype=np.int64)
    lengths = np.diff(np.r_[starts, len(owners)])
    places = numbers - np.repeat(starts, lengths)
    return entries, parents, pa.array(places, pa.int32())


# --- changes of keyed tables ------------------------------------------------------------------------------------------


def changes_of(spec: DiffSpec, column: str, parts: Sequence[CheckedFrame]) -> Change:
    """What changes in one of the diff's tables: the records that a column holds, in the parts of a run that have it."""
    frames = [part.frame for part in parts if isinstance(part, SparkFrame) and column in part.frame.columns]
    tables = [_entries(part.rows, column) for part in parts if isinstance(part, LocalFrame)]
    local = [table for table in tables if table is not None and table.num_rows]
    if not frames:
        return LocalChange(pa.concat_tables(local)) if local else NoRecords()
    session = spec.state.context.session()
    pieces = [frame.select(F.inline(quoted(column))) for frame in frames]
    pieces += [spark_frame(session, table) for table in local]
    return FrameChange(reduce(DataFrame.unionByName, pieces))


def _entries(rows: pa.Table, column: str) -> pa.Table | None:
    """The records that a column of some rows holds; None if the rows do not have it."""
    if column not in rows.column_names:
        return None
    entries, _, _ = _exploded(rows.column(column))
    return pa.table({field.name: pc.struct_field(entries, [field.name]) for field in entries.type})


# --- levels -----------------------------------------------------------------------------------------------------------


def levels_of(spec: DiffSpec, outcome: Outcome) -> Sequence[CheckedFrame]:
    """The rows of the intermediate tables: the old states, then what is known after each log, and what is new of it."""
    return [_level(spec, outcome.rows, name) for name in level_names(spec)]


def _level(spec: DiffSpec, rows: CheckedFrame, name: str) -> CheckedFrame:
    if isinstance(rows, SparkFrame):
        there = rows.frame.where(F.col(quoted(name)).isNotNull())
        return SparkFrame(there.select(f"{quoted(name)}.*"))
    column = rows.rows.column(name).combine_chunks()
    there = column.filter(column.is_valid())
    fields = {field.name: pc.struct_field(there, [field.name]) for field in there.type}
    return LocalFrame(pa.table(fields).cast(spec.state_schema.arrow))
