"""Rows of two frames as one, in types that hold the values of both: no value is changed to fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from seamark.errors import FrameMismatch
from seamark.tables.far_times import python_rows
from seamark.tables.frames import to_arrow
from seamark.tables.schema.convert import ValueDoesNotFit, convert_array, convertible

_PLACE = "its place"  # no column of a table has a space in its name


def joined_rows(one: Any, other: Any) -> pa.Table:
    """The rows of two frames that are not Spark's, each once, in the order in which they come."""
    first, second = (to_arrow("the change list", frame) for frame in (one, other))
    names = list(dict.fromkeys([*first.column_names, *second.column_names]))
    columns = []
    for name in names:
        mine, theirs = (_column(rows, name) for rows in (first, second))
        kind = _common_type(name, mine, theirs)
        chunks = [*convert_array(mine, kind).chunks, *convert_array(theirs, kind).chunks]
        columns.append(pa.chunked_array(chunks, kind))
    return _each_once(pa.Table.from_arrays(columns, names=names))


def in_type(name: str, values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The values in a type, or as they are if it is a narrower kind of whole number; `FrameMismatch` otherwise."""
    if fits(values, wanted):
        return convert_array(values, wanted)
    if pa.types.is_integer(values.type) and pa.types.is_integer(wanted):
        return values
    raise _mismatch(name, values.type, wanted)


def fits(values: pa.ChunkedArray, wanted: pa.DataType) -> bool:
    """Whether a type can hold each of the values exactly."""
    try:
        return convertible(values.type, wanted) and convert_array(values, wanted) is not None
    except ValueDoesNotFit:
        return False


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in rows.column_names:
        return pa.chunked_array([pa.nulls(rows.num_rows)])
    values = rows.column(name)
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _common_type(name: str, one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.DataType:
    """The type of one of two columns that holds the values of both."""
    kinds = [kind for kind in (one.type, other.type) if not pa.types.is_null(kind)] or [pa.null()]
    kinds.sort(key=pa.types.is_floating)  # whole numbers and decimals rather than floats
    kind = next((kind for kind in kinds if fits(one, kind) and fits(other, kind)), None)
    if kind is None:
        raise _mismatch(name, one.type, other.type)
    return kind


def _mismatch(name: str, one: pa.DataType, other: pa.DataType) -> FrameMismatch:
    return FrameMismatch(
        f"change lists cannot be joined: column '{name}' is {one} in one of them and {other} in the other, and neither "
        "holds the values of both. Nothing was run.",
        hint="give the keys in the types that the table has.",
    )


def _each_once(rows: pa.Table) -> pa.Table:
    if not rows.num_columns:
        return rows
    if any(pa.types.is_nested(field.type) for field in rows.schema):  # Arrow does not compare these
        places = list({repr(row): place for place, row in reversed(list(enumerate(python_rows(rows))))}.values())
    else:
        numbered = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
        groups = numbered.group_by(rows.column_names, use_threads=False).aggregate([(_PLACE, "min")])
        places = groups.column(f"{_PLACE}_min").to_pylist()
    return rows.take(pa.array(sorted(places), pa.int64()))
