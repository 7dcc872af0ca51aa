"""What a fold gave: records for the diff, changes of the state, visits that failed, and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.diffs import news
from seamark.diffs.declare import DiffSpec
from seamark.diffs.level import Folding, level_names
from seamark.diffs.result import CHANGES, FAILED, OLDEST, RECORDS, folded_schema
from seamark.ledger import Op
from seamark.spark.frames import spark_frame
from seamark.tables.change import Change, FrameChange, LocalChange, NoRecords, appended_rows
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.transforms.keys import key_texts

if TYPE_CHECKING:
    from seamark.diffs.expire import Expiry

PLACE = "its place"  # among the records of its visit


@dataclass(frozen=True)
class Outcome:
    """The visits of a run, folded: at hand if they are few, else in files."""

    spec: DiffSpec
    how: Folding
    rows: CheckedFrame

    @staticmethod
    def nothing(spec: DiffSpec, how: Folding) -> Outcome:
        """The outcome of a run that reads no record."""
        return Outcome(spec, how, LocalFrame(folded_schema(spec, how).empty_table()))

    @cached_property
    def _numbers(self) -> tuple[int, int, Any]:
        if isinstance(self.rows, LocalFrame):
            table = self.rows.rows
            late = pc.sum(table.column(news.LATE_ROWS)).as_py() or 0
            oldest = pc.min(table.column(OLDEST)).as_py() if self.spec.ttl else None
            return table.num_rows, late, oldest
        told = [F.count(F.lit(1)).alias("visits"), F.sum(quoted(news.LATE_ROWS)).alias("late")]
        if self.spec.ttl:
            told.append(F.min(quoted(OLDEST)).alias("oldest"))
        row = self.rows.frame.agg(*told).toArrow().to_pylist()[0]
        return row["visits"], row["late"] or 0, row.get("oldest")

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
        return as_moment(self._numbers[2])

    def failures(self, most: int) -> list[tuple[str, str]]:
        """The keys of visits that failed, as text, and why: at most so many of them."""
        names = [*self.spec.key_names, FAILED]
        if isinstance(self.rows, LocalFrame):
            table = self.rows.rows.select(names)
            table = table.filter(table.column(FAILED).is_valid()).slice(0, most)
        else:
            failed = self.rows.frame.where(F.col(quoted(FAILED)).isNotNull())
            table = failed.select(*map(quoted, names)).limit(most).toArrow()
        keys = key_texts(table.select(list(self.spec.key_names)))
        return sorted(zip(keys, table.column(FAILED).to_pylist(), strict=True))

    def touched(self) -> DataFrame | None:
        """The keys of the visits that did not fail; None if there are none."""
        if isinstance(self.rows, SparkFrame):
            taken = self.rows.frame.where(F.col(quoted(FAILED)).isNull())
            return taken.select(*map(quoted, self.spec.key_names))
        table = self.rows.rows
        table = table.filter(table.column(FAILED).is_null()).select(list(self.spec.key_names))
        if table.num_rows == 0:
            return None
        return F.broadcast(spark_frame(self.spec.state.context.session(), table))


def as_moment(value: date | datetime | None) -> datetime | None:
    """A value of a time column as a moment."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


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


def state_changes(spec: DiffSpec, outcome: Outcome, expiry: Expiry) -> Change:
    """What changes in the state: visits that are new, have changed, are gone, or are too old for it."""
    leaving = expiry.leaving(outcome)
    if isinstance(outcome.rows, SparkFrame):
        changed = outcome.rows.frame.select(F.inline(quoted(CHANGES)))
        return FrameChange(changed if leaving is None else changed.unionByName(leaving))
    entries, _, _ = _exploded(outcome.rows.rows.column(CHANGES))
    table = pa.table({field.name: pc.struct_field(entries, [field.name]) for field in entries.type})
    if leaving is None:
        return LocalChange(table) if table.num_rows else NoRecords()
    if table.num_rows == 0:
        return FrameChange(leaving)
    ours = spark_frame(spec.state.context.session(), table)
    return FrameChange(ours.unionByName(leaving))


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
