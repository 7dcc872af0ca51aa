"""ChangeList: keys that changed, by table, and how far inputs were covered; what one step hands to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import pyarrow as pa

from seamark.errors import InvalidStep, did_you_mean
from seamark.spark.frames import spark_frame
from seamark.tables.convert import convert_spark, convertible
from seamark.tables.ddl import UTC_MICROS
from seamark.tables.frames import quoted
from seamark.tables.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets: TypeAlias = dict[Any, float]


class KeyFrames(Mapping[str, Any]):
    """Frames of keys by table. One may be a recipe, followed when somebody looks: most are never looked at."""

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
    """Keys that changed, a frame by table, and offsets that were covered, by (step, input table)."""

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
        """Whether it is known, without asking Spark, that no frame holds a row."""
        return all(is_known_empty(frame) for frame in self.changes.values())

    def of(self, tables: Collection[str]) -> ChangeList:
        """The part that is about some tables."""
        mine = {table: Recipe(partial(self.changes.__getitem__, table)) for table in self.changes if table in tables}
        return ChangeList(KeyFrames(mine), self.offsets)


def is_known_empty(frame: Any) -> bool:
    """Whether a frame has no rows, as far as can be told without asking Spark."""
    return not hasattr(frame, "mapInArrow") and len(frame) == 0


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
    """The keys of two frames, each once: of the kind of the frames, or Spark's if one of them is."""
    if isinstance(one, pd.DataFrame) and isinstance(other, pd.DataFrame):
        return pd.concat([one, other], ignore_index=True).drop_duplicates(ignore_index=True)
    if hasattr(one, "mapInArrow") or hasattr(other, "mapInArrow"):
        frame, rest = (one, other) if hasattr(one, "mapInArrow") else (other, one)
        other_frame = rest if hasattr(rest, "mapInArrow") else spark_frame(frame.sparkSession, _to_arrow(rest))
        return _with_moments(frame, other_frame).unionByName(_with_moments(other_frame, frame)).distinct()
    return join_frames(_to_pandas(one), _to_pandas(other))


def _with_moments(frame: DataFrame, other: DataFrame) -> DataFrame:
    """A frame whose dates and wall clocks are moments in UTC where the other frame has moments.

    Left to itself Spark would take them for moments in the session's time zone.
    """
    moments = [entry.name for entry in other.schema.fields if arrow_type(entry.dataType) == UTC_MICROS]
    for entry in frame.schema.fields:
        mine = arrow_type(entry.dataType)
        if entry.name in moments and mine is not None and convertible(mine, UTC_MICROS):
            moment = convert_spark(frame[quoted(entry.name)], entry.name, mine, UTC_MICROS)
            frame = frame.withColumn(entry.name, moment)
    return frame


def _to_pandas(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return frame.to_pandas()
    return frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(frame)


def _to_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    return pa.Table.from_pandas(_to_pandas(frame), preserve_index=False)
