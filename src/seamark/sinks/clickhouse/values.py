"""Looking for values that ClickHouse would not hold as they are, before a block is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.errors import UnfitValue
from seamark.sinks.layout import Layout
from seamark.sinks.target import Carried
from seamark.tables.schema.table_schema import Column

Unit = Literal["D", "us"]

# What Date32 and DateTime64 hold in every version of ClickHouse, as days and as microseconds since 1970.
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2299, 12, 31)
_FIRST, _LAST = ((day - date(1970, 1, 1)).days for day in (FIRST_DAY, LAST_DAY))
_MICROS = 24 * 3600 * 1_000_000
_RANGES: dict[Unit, tuple[int, int]] = {"D": (_FIRST, _LAST), "us": (_FIRST * _MICROS, (_LAST + 1) * _MICROS - 1)}


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """Checks the slices of a table against what the target can hold. `nulls` is "refuse" or "empty".

    `ranges` are the whole numbers that columns of the target hold, where these are not all that ours may have.
    """

    carried: Carried
    where: str
    nulls: str
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, path: Path, sequence: int) -> None:
        """Nothing, or `UnfitValue` naming block, column and value; then nothing of the block was sent."""
        file = pq.ParquetFile(path)
        columns = [column for column in self.carried.schema.columns if column.name in file.schema_arrow.names]
        for column in columns:
            trouble = self._trouble(file, column)
            if trouble is not None:
                raise UnfitValue(
                    f"sink '{self.carried.sink}': block {sequence} of '{self.carried.table}' holds, in column "
                    f"'{column.name}', {trouble[0]}. Nothing of this block was sent to {self.where}, and the sink "
                    "stays before it.",
                    hint=trouble[1],
                )

    def _trouble(self, file: pq.ParquetFile, column: Column) -> tuple[str, str] | None:
        layout = self.carried.layout
        if column.name in layout.required and column.nullable and _holds_null(file, column):
            return "a NULL, and the target is ordered by this column", "fill it in, in a step before the sink."
        if column.name == layout.sign:
            return _sign_trouble(file, column, layout)
        if column.name in self.ranges:
            least, most = self.ranges[column.name]
            found = _beyond(file, column, least, most)
            if found is not None:
                return (
                    f"{found}, and that of the target holds {least} to {most}",
                    "carry it to a column of a wider type, or correct the values in a step before the sink.",
                )
        for unit in _units(column.type):
            outside = _outside(file, column, unit)
            if outside is not None:
                return (
                    f"{outside}, and ClickHouse holds {FIRST_DAY} to {LAST_DAY}",
                    "carry a table derived from this one, whose step changes such values or leaves them out.",
                )
        if self.nulls == "refuse" and pa.types.is_nested(column.type) and _loses_null(file, column):
            return (
                "a NULL where ClickHouse has none: an array or struct there is never NULL",
                'nulls="empty" sends an empty array, or a struct of NULLs, in its place.',
            )
        return None


# --- whole numbers ----------------------------------------------------------------------------------------------------


def _beyond(file: pq.ParquetFile, column: Column, least: int, most: int) -> int | None:
    """A whole number outside a range. As a rule the file's statistics show it."""
    statistics = _statistics(file, column, lambda _: True)
    if all(entry is not None and (entry.has_min_max or _is_all_null(entry)) for entry in statistics):
        ends = [value for entry in statistics if entry.has_min_max for value in (entry.min, entry.max)]
    else:
        ends = list(pc.min_max(_read(file, column)).as_py().values())
    return next((value for value in ends if value is not None and not least <= value <= most), None)


# --- dates and times --------------------------------------------------------------------------------------------------


def _units(arrow: pa.DataType) -> set[Unit]:
    """The units of the dates and moments inside a type."""
    if pa.types.is_list(arrow):
        return _units(arrow.value_type)
    if pa.types.is_struct(arrow):
        return {unit for field in arrow.fields for unit in _units(field.type)}
    return {"D"} if pa.types.is_date(arrow) else {"us"} if pa.types.is_timestamp(arrow) else set()


def _outside(file: pq.ParquetFile, column: Column, unit: Unit) -> str | None:
    """A date or moment that ClickHouse cannot hold. As a rule the file's statistics show it."""
    least, most = _RANGES[unit]
    for low, high in _bounds(file, column, unit):
        for value in (low, high):
            if not least <= value <= most:
                return _shown(value, unit)
    return None


def _shown(value: int, unit: Unit) -> str:
    """A date or moment as a person writes it, also one that Python's own types do not reach."""
    return str(np.datetime64(value, "D") if unit == "D" else np.datetime64(value, "us"))


def _bounds(file: pq.ParquetFile, column: Column, unit: Unit) -> Iterator[tuple[int, int]]:
    statistics = _statistics(file, column, lambda kind: kind == {"D": "DATE", "us": "TIMESTAMP"}[unit])
    if all(entry is not None and (entry.has_min_max or _is_all_null(entry)) for entry in statistics):
        yield from ((entry.min_raw, entry.max_raw) for entry in statistics if entry.has_min_max)
        return
    for leaf in _leaves(_read(file, column)):
        if _units(leaf.type) == {unit}:
            whole = leaf.cast(pa.timestamp("us")) if unit == "us" else leaf.cast(pa.int32())
            ends = pc.min_max(whole.cast(pa.int64()) if unit == "us" else whole).as_py()
            if ends["min"] is not None:
                yield ends["min"], ends["max"]


def _statistics(file: pq.ParquetFile, column: Column, wanted: Callable[[str], bool]) -> list[Any]:
    """The statistics of a column's leaves of some logical kinds, of every row group; None where there are none."""
    leaves = [
        number
        for number in range(file.metadata.num_columns)
        if file.schema.column(number).path.split(".")[0] == column.name
        and wanted(file.schema.column(number).logical_type.type)
    ]
    groups = range(file.metadata.num_row_groups)
    return [file.metadata.row_group(group).column(leaf).statistics for group in groups for leaf in leaves]


def _is_all_null(entry: Any) -> bool:
    return bool(entry.has_null_count and entry.num_values == 0)


# --- NULLs ------------------------------------------------------------------------------------------------------------


def _holds_null(file: pq.ParquetFile, column: Column) -> bool:
    return _has_nulls(file, column) and _read(file, column).null_count > 0


def _has_nulls(file: pq.ParquetFile, column: Column) -> bool:
    """Whether the statistics count a NULL anywhere in the column; an empty array counts too, so it is "perhaps"."""
    entries = _statistics(file, column, lambda _: True)
    return any(entry is None or not entry.has_null_count or entry.null_count > 0 for entry in entries)


def _loses_null(file: pq.ParquetFile, column: Column) -> bool:
    if not _has_nulls(file, column):
        return False
    return any(_is_lost(chunk) for chunk in _read(file, column).chunks)


def _is_lost(array: pa.Array) -> bool:
    """Whether an array, or one inside it, has a NULL in place of an array or a struct."""
    if pa.types.is_list(array.type):
        return array.null_count > 0 or _is_lost(array.flatten())
    if pa.types.is_struct(array.type):
        return array.null_count > 0 or any(_is_lost(part) for part in array.flatten())
    return False


# --- signs ------------------------------------------------------------------------------------------------------------


def _sign_trouble(file: pq.ParquetFile, column: Column, layout: Layout) -> tuple[str, str] | None:
    signs = pc.unique(_read(file, column)).to_pylist()
    wrong = sorted(sign for sign in signs if sign not in (-1, 1))
    if not wrong:
        return None
    return f"{wrong[0]}", f"'{layout.sign}' is +1 for a row that is added and -1 for one that is taken back."


def _read(file: pq.ParquetFile, column: Column) -> pa.ChunkedArray:
    return file.read(columns=[column.name], use_threads=False).column(0)


def _leaves(array: pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in array.chunks:
        yield from _leaves_of(chunk)


def _leaves_of(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_list(array.type):
        yield from _leaves_of(array.flatten())
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _leaves_of(part)
    else:
        yield array
