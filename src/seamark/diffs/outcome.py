"""What a run gave: records for the diff, changes of its tables, visits that failed, and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.diffs.ageing.moments import as_moment
from seamark.diffs.compute.result import FAILED, MARKS, OLDEST, RECORDS, applied_schema
from seamark.diffs.compute.visit_columns import LATE, Applying, intermediate_columns
from seamark.diffs.declare.spec import DiffSpec
from seamark.ledger import Op
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.keys import key_texts
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, quoted, union_of
from seamark.tables.write.change import Change, FrameChange, LocalChange, NoRecords, appended_rows

PLACE = "its place"  # among the records of its visit


@dataclass(frozen=True)
class Outcome:
    """The visits of a run with what its records made of them: in memory if they are few, else in files."""

    spec: DiffSpec
    rows: CheckedFrame

    @staticmethod
    def nothing(spec: DiffSpec, how: Applying) -> Outcome:
        """The outcome of a run that reads no record."""
        return Outcome(spec, LocalFrame(applied_schema(spec, how).empty_table()))

    @cached_property
    def _numbers(self) -> tuple[int, int, datetime | None]:
        table = self.rows.in_memory
        if table is not None:
            late = pc.sum(table.column(LATE)).as_py() or 0
            oldest = as_moment(pc.min(table.column(OLDEST))) if self.spec.ttl else None
            return table.num_rows, late, oldest
        numbers = [F.count(F.lit(1)).alias("visits"), F.sum(quoted(LATE)).alias("late")]
        if self.spec.ttl:
            numbers.append(F.min(quoted(OLDEST)).alias("oldest"))
        found = arrow_rows(self._frame.agg(*numbers))
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
        failed = self.rows.where_null(FAILED, is_null=False).select([*self.spec.key_names, FAILED])
        table = failed.first(most).to_arrow()
        keys = key_texts(table.select(list(self.spec.key_names)))
        return sorted(zip(keys, table.column(FAILED).to_pylist(), strict=True))

    @property
    def touched(self) -> CheckedFrame:
        """The keys of the visits that did not fail."""
        return self.rows.where_null(FAILED).select(self.spec.key_names)

    @property
    def times(self) -> CheckedFrame:
        """The visits that are in the state now and have a time, by that time: whether it has changed or not."""
        assert self.spec.ttl is not None
        there = self.rows.where_null(OLDEST, is_null=False).select([OLDEST, *self.spec.key_names])
        return there.renamed({OLDEST: self.spec.ttl.column})

    @property
    def marked(self) -> CheckedFrame:
        """The keys of the visits that leave a mark."""
        table = self.rows.in_memory
        if table is not None:
            leaves_one = pc.greater(pc.list_value_length(table.column(MARKS)), 0)
            return LocalFrame(table.filter(leaves_one)).select(self.spec.key_names)
        return SparkFrame(self._frame.where(F.size(quoted(MARKS)) > 0)).select(self.spec.key_names)

    @property
    def _frame(self) -> DataFrame:
        return self.rows.to_spark(self.spec.state.context.session)


def records_of(spec: DiffSpec, outcome: Outcome) -> Change:
    """The records of the diff: by visit, and within one in the order in which they were made."""
    order = (*spec.key_names, PLACE)
    table = outcome.rows.in_memory
    if table is None:
        keys = [F.col(quoted(name)) for name in spec.key_names]
        placed = outcome.rows.to_spark(spec.state.context.session).select(
            *keys, F.posexplode(quoted(RECORDS)).alias(PLACE, "its record")
        )
        op = F.lit(int(Op.APPEND)).cast("int").alias("op")
        return FrameChange(placed.select(op, *keys, "`its record`.*", quoted(PLACE)), order)
    records, parents, places = _exploded(table.column(RECORDS))
    if len(records) == 0:
        return NoRecords()
    columns = {name: table.column(name).take(parents) for name in spec.key_names}
    columns |= {field.name: pc.struct_field(records, [field.name]) for field in records.type}
    columns[PLACE] = places
    return LocalChange(appended_rows(pa.table(columns)), order)


def _exploded(lists: pa.ChunkedArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The entries of some lists, the list that each is in, and its place there."""
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
    session = spec.state.context.session
    pieces = [_entries(part, column, session) for part in parts if column in part.names]
    there = [piece for piece in pieces if not piece.is_known_empty]
    if not there:
        return NoRecords()
    records = union_of(there, session)
    return LocalChange(records.in_memory) if records.in_memory is not None else FrameChange(records.to_spark(session))


def _entries(rows: CheckedFrame, column: str, session: Session) -> CheckedFrame:
    """The records that a column of some rows holds."""
    if rows.in_memory is None:
        return SparkFrame(rows.to_spark(session).select(F.inline(quoted(column))))
    entries, _, _ = _exploded(rows.in_memory.column(column))
    return LocalFrame(pa.table({field.name: pc.struct_field(entries, [field.name]) for field in entries.type}))


# --- levels -----------------------------------------------------------------------------------------------------------


def intermediate_frames(spec: DiffSpec, outcome: Outcome) -> Sequence[CheckedFrame]:
    """The rows of the intermediate tables: the old states, then what is known after each log, and what is new of it."""
    return [_intermediate(spec, outcome.rows, name) for name in intermediate_columns(spec)]


def _intermediate(spec: DiffSpec, rows: CheckedFrame, name: str) -> CheckedFrame:
    there = rows.where_null(name, is_null=False).select([name])
    if there.in_memory is None:
        return SparkFrame(there.to_spark(spec.state.context.session).select(f"{quoted(name)}.*"))
    column = there.in_memory.column(name).combine_chunks()
    fields = {field.name: pc.struct_field(column, [field.name]) for field in column.type}
    return LocalFrame(pa.table(fields).cast(spec.state_schema.arrow))
