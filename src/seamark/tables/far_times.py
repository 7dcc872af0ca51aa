"""Days and moments that Spark and Arrow have and Python does not: those before the year 1 and after 9999."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import total_ordering
from typing import Any

import pyarrow as pa


@total_ordering
@dataclass(frozen=True, slots=True)
class FarTime:
    """Such a day or moment: its text, and its number since 1970 in the unit of its column. It compares with others."""

    text: str
    number: int

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def __lt__(self, other: object) -> bool:
        if isinstance(other, FarTime):
            return self.number < other.number
        return self.number < 0 if isinstance(other, date) else NotImplemented


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as Python has them, and `FarTime` where it has none. Lists and structs may hold some too."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        return [_python_value(value) for value in values]
    return found


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """The same of whole rows."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_value(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _python_value(value[name]) for name in value.type.names}
    if isinstance(value, pa.ListScalar):
        return [_python_value(item) for item in value.values]
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        wall = value.cast(pa.timestamp(value.type.unit)) if pa.types.is_timestamp(value.type) else value
        return FarTime(wall.cast(pa.string()).as_py(), value.value)
