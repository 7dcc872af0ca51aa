"""ChangeList: keys that changed, by table, and how far inputs were covered; what one step hands to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from seamark.errors import InvalidStep, did_you_mean
from seamark.spark.frames import spark_frame
from seamark.steps.rows.joined_rows import in_type, joined_rows
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.tables.frame import quoted
from seamark.tables.frames import is_spark, to_arrow
from seamark.tables.schema.convert import convert_spark, convertible
from seamark.tables.schema.ddl import UTC_MICROS
from seamark.tables.schema.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets: TypeAlias = dict[Any, float]


class KeyFrames(Mapping[str, Any]):
    """Frames of keys by table. A frame may be a recipe, followed on first access: most are never read."""

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self._frames = dict(frames)

    def __getitem__(self, table: str) -> Any:
        found = self._frames[table]
        if isinstance(found, Recipe):
            found = self._frames[table] = found.make()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"KeyFrames({', '.join(self._frames)})"


@dataclass(frozen=True)
class Recipe:
    """How to make a frame of keys."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class ChangeList:
    """Keys that changed, one frame per table, and the offsets covered, by (step, input table)."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=dict)

    def extend(self, other: ChangeList) -> ChangeList:
        """Both together: the keys joined, and of each offset the greater one."""
        offsets = dict(self.offsets)
        for name, offset in other.offsets.items():
            offsets[name] = max(offsets[name], offset) if name in offsets else offset
        tables = [*self.changes, *(table for table in other.changes if table not in self.changes)]
        return ChangeList(KeyFrames({table: _both(self.changes, other.changes, table) for table in tables}), offsets)

    @property
    def is_empty(self) -> bool:
        """Whether it names no table."""
        return not self.changes

    @property
    def has_no_rows(self) -> bool:
        """Whether every frame is known to be empty without a Spark job."""
        return all(is_known_empty(frame) for frame in self.changes.values())

    def of(self, tables: Collection[str]) -> ChangeList:
        """The part that is about some tables."""
        mine = {table: Recipe(partial(self.changes.__getitem__, table)) for table in self.changes if table in tables}
        return ChangeList(KeyFrames(mine), self.offsets)


def is_known_empty(frame: Any) -> bool:
    """Whether a frame is known to have no rows without a Spark job."""
    return not is_spark(frame) and len(frame) == 0


def not_read(table: str, why: str, inputs: Sequence[str]) -> InvalidStep:
    """The refusal of a change list with a table that leads nowhere."""
    return InvalidStep(
        f"the change list has keys of table '{table}', and {why}. Nothing was run.",
        hint=did_you_mean(table, list(inputs), "Inputs"),
    )


def _both(one: Mapping[str, Any], other: Mapping[str, Any], table: str) -> Any:
    if table not in one:
        return Recipe(lambda: other[table])
    if table not in other:
        return Recipe(lambda: one[table])
    return Recipe(lambda: join_frames(one[table], other[table]))


def join_frames(one: Any, other: Any) -> Any:
    """The distinct keys of two frames, as a frame of their kind; a Spark frame if one of them is."""
    if is_known_empty(one) or is_known_empty(other):
        return other if is_known_empty(one) else one
    if is_spark(one) or is_spark(other):
        frame, rest = (one, other) if is_spark(one) else (other, one)
        beside = rest if is_spark(rest) else _spark_frame_beside(frame, rest)
        return _fitting(frame, beside).unionByName(_fitting(beside, frame)).distinct()
    joined = joined_rows(one, other)
    are_arrow = all(isinstance(frame, pa.Table | pa.RecordBatch) for frame in (one, other))
    return joined if are_arrow else to_pandas(joined)


def _spark_frame_beside(frame: DataFrame, rows: Any) -> DataFrame:
    """Rows as a Spark frame, in the types of another one where they fit."""
    found = to_arrow("the change list", rows)
    for column in frame.schema.fields:
        wanted = arrow_type(column.dataType)
        if wanted is not None and column.name in found.column_names:
            place = found.column_names.index(column.name)
            found = found.set_column(place, column.name, in_type(column.name, found.column(place), wanted))
    return spark_frame(frame.sparkSession, found)


def _fitting(frame: DataFrame, other: DataFrame) -> DataFrame:
    """A frame in which columns have the types of the other frame, where Spark would change values to join the two.

    Left to itself Spark takes dates and wall clocks for moments in the session's time zone, and makes floats of whole
    numbers.
    """
    types = {entry.name: arrow_type(entry.dataType) for entry in other.schema.fields}
    for entry in frame.schema.fields:
        mine, theirs = arrow_type(entry.dataType), types.get(entry.name)
        if mine is not None and theirs is not None and _would_change(mine, theirs):
            frame = frame.withColumn(entry.name, convert_spark(frame[quoted(entry.name)], entry.name, mine, theirs))
    return frame


def _would_change(mine: pa.DataType, theirs: pa.DataType) -> bool:
    exact = pa.types.is_integer(theirs) or pa.types.is_decimal(theirs)
    return (theirs == UTC_MICROS and convertible(mine, theirs)) or (pa.types.is_floating(mine) and exact)
