"""How many bytes of values a row holds: counted in Arrow, for cutting slices, and in a query, before rows are fetched.

A text counts by its bytes and everything else by the width of its type. So the number depends on the values alone, not
on how they are chunked, encoded or compressed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import Column

    Sizes = np.ndarray[Any, np.dtype[np.int64]]


def fixed_width(kind: pa.DataType) -> int | None:
    """The bytes of every value of a type; None if they differ from value to value."""
    if pa.types.is_struct(kind):
        widths = [fixed_width(field.type) for field in kind.fields]
        return None if None in widths else sum(width or 0 for width in widths)
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return 1
    return kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else None


# --- in Arrow ---------------------------------------------------------------------------------------------------------


def bytes_of_rows(rows: pa.Table | pa.RecordBatch) -> Sizes:
    """The bytes of values of each row."""
    counted: Sizes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        counted += _bytes_of_values(column)
    return counted


def _bytes_of_values(values: pa.Array | pa.ChunkedArray) -> Sizes:
    if isinstance(values, pa.ChunkedArray):
        return np.concatenate([_bytes_of_values(chunk) for chunk in values.chunks] or [np.zeros(0, np.int64)])
    width = fixed_width(values.type)
    if width is not None:
        return np.full(len(values), width, np.int64)
    if pa.types.is_struct(values.type):  # flatten: what is below a NULL is NULL too
        return sum((_bytes_of_values(child) for child in values.flatten()), np.zeros(len(values), np.int64))
    if pa.types.is_map(values.type):
        entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
        return _bytes_of_lists(pa.ListArray.from_arrays(values.offsets, entries))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _bytes_of_lists(values)
    return _numbers(pc.binary_length(values))


def _bytes_of_lists(lists: pa.ListArray) -> Sizes:
    """The bytes of the items of each list, which are one list after another; those of a NULL list do not count."""
    lengths = _numbers(pc.list_value_length(lists))
    totals = np.concatenate([[0], np.cumsum(_bytes_of_values(pc.list_flatten(lists)))])
    ends = np.cumsum(lengths)
    return np.asarray(totals[ends] - totals[ends - lengths], dtype=np.int64)


def _numbers(values: pa.Array) -> Sizes:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


# --- in a query -------------------------------------------------------------------------------------------------------


def bytes_in_spark(columns: Mapping[str, pa.DataType]) -> int | Column:
    """The bytes of values of a row of a frame with these columns: a number if all rows have the same, else a column."""
    from pyspark.sql import functions as F

    from seamark.tables.frame import quoted

    widths = {name: fixed_width(kind) for name, kind in columns.items()}
    same = sum(width for width in widths.values() if width is not None)
    others = [_value_in_spark(F.col(quoted(name)), kind) for name, kind in columns.items() if widths[name] is None]
    return reduce(lambda one, other: one + other, others, F.lit(same).cast("long")) if others else same


def _value_in_spark(value: Column, kind: pa.DataType) -> Column:
    from pyspark.sql import functions as F

    width = fixed_width(kind)
    if width is not None:
        return F.lit(width).cast("long")
    none = F.lit(0).cast("long")
    if pa.types.is_struct(kind):
        parts: Sequence[Column] = [_value_in_spark(value.getField(field.name), field.type) for field in kind.fields]
        return reduce(lambda one, other: one + other, parts, none)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = fixed_width(kind.value_type)
        if item is not None:
            return F.coalesce(F.array_size(value) * item, none).cast("long")
        summed = F.aggregate(value, none, lambda total, entry: total + _value_in_spark(entry, kind.value_type))
        return F.coalesce(summed, none)
    return F.coalesce(F.octet_length(value), none).cast("long")
