"""ChangeList: keys that changed, by table, and how far inputs were covered; what one step hands to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa

from seamark.spark.frames import spark_frame

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
        return frame.unionByName(other_frame).distinct()
    return join_frames(_to_pandas(one), _to_pandas(other))


def _to_pandas(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return frame.to_pandas()
    return frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(frame)


def _to_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    return pa.Table.from_pandas(_to_pandas(frame), preserve_index=False)
