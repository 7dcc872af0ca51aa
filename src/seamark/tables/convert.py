"""Which values fit which column: conversions that lose nothing, in Arrow and in Spark alike.

A value may change its type on the way into a table (pandas has 1.0 where the column is a long) but not its meaning:
what cannot be converted and back is refused, with the value.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.tables.ddl import UTC_MICROS
from seamark.tables.types import spark_name

BAD_VALUE = "seamark: value does not fit "
_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}
_DIGITS = {"int8": 3, "int16": 5, "int32": 10, "int64": 19}


class ValueDoesNotFit(Exception):
    """A value that its column cannot hold; the text is the value."""


def convertible(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type may be meant for a column of another."""
    t = pa.types
    if found == wanted or t.is_null(found):
        return True
    if t.is_dictionary(found):
        return convertible(found.value_type, wanted)
    if _is_number(wanted):
        return _is_number(found)
    if t.is_timestamp(wanted):
        naive_only = wanted.tz is None
        return t.is_date(found) or (t.is_timestamp(found) and (not naive_only or found.tz is None))
    if t.is_date(wanted):
        return t.is_date(found) or t.is_timestamp(found)
    if t.is_string(wanted):
        return t.is_large_string(found) or t.is_string_view(found)
    if t.is_binary(wanted):
        return t.is_large_binary(found) or t.is_binary_view(found) or t.is_fixed_size_binary(found)
    if t.is_list(wanted):
        is_list = t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)
        return is_list and convertible(found.value_type, wanted.value_type)
    if t.is_struct(wanted) and t.is_struct(found):
        same_names = [f.name for f in found.fields] == [f.name for f in wanted.fields]
        return same_names and all(convertible(f.type, w.type) for f, w in zip(found.fields, wanted.fields, strict=True))
    return False


def convertible_in_spark(found: pa.DataType, wanted: pa.DataType) -> bool:
    """The same for a frame that Spark computes, where what is inside an array or struct can only be widened."""
    return convertible(found, wanted) and (not pa.types.is_nested(wanted) or _always_fits(found, wanted))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def convert_array(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values in the wanted type, or `ValueDoesNotFit` with the first that has none there."""
    try:
        return _exactly(values, wanted)
    except pa.ArrowInvalid:
        raise ValueDoesNotFit(_shown(_first_misfit(values, wanted))) from None


def _exactly(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    found = values.type
    if found == wanted:
        return values
    if pa.types.is_dictionary(found):
        return _exactly(values.cast(found.value_type), wanted)
    if pa.types.is_float16(found):  # Arrow computes with the others only
        return _exactly(values.cast(pa.float32()), wanted)
    if pa.types.is_nested(found):
        return _nested_exactly(values, wanted)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted) and found.tz is None and wanted.tz is not None:
        return _exactly(values.cast(pa.timestamp(found.unit)).cast(pa.timestamp(found.unit, tz="UTC")), wanted)
    if pa.types.is_decimal(wanted) and not pa.types.is_decimal(found) and _is_number(found):
        converted = values.cast(
            pa.decimal128(38, wanted.scale) if pa.types.is_floating(found) else pa.decimal128(38, 0)
        )
        converted = converted.cast(wanted)
    elif pa.types.is_date(found) and pa.types.is_timestamp(wanted):
        converted = values.cast(pa.date32()).cast(pa.timestamp("us")).cast(wanted)
    elif pa.types.is_timestamp(found) and pa.types.is_date(wanted):
        converted = values.cast(pa.timestamp(found.unit)).cast(pa.date32())
    elif pa.types.is_integer(found) and pa.types.is_floating(wanted):
        converted = values.cast(wanted, safe=False)  # Arrow would refuse all beyond 2^53, also what fits exactly
    else:
        converted = values.cast(wanted)
    if _may_lose(found, wanted) and not _same(values, converted):
        raise pa.ArrowInvalid("the conversion loses something")
    return converted


def _nested_exactly(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Lists and structs by what is inside them: Arrow's own cast of a whole list lets a loss inside it pass."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_nested_exactly(chunk, wanted) for chunk in values.chunks], wanted)
    if pa.types.is_struct(wanted):
        children = [_exactly(child, field.type) for child, field in zip(values.flatten(), wanted.fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted.fields), mask=values.is_null())
    plain = values.cast(pa.list_(values.type.value_type))
    lengths = pc.fill_null(pc.list_value_length(plain), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    items = _exactly(plain.flatten(), wanted.value_type)
    return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=plain.is_null())


def _may_lose(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's own checks let a loss pass: between floating point and anything else, and to whole days."""
    floating = pa.types.is_floating(found) or pa.types.is_floating(wanted)
    return (floating and found != wanted) or (pa.types.is_date(wanted) and pa.types.is_timestamp(found))


def _same(before: pa.Array | pa.ChunkedArray, after: pa.Array | pa.ChunkedArray) -> bool:
    # From floating point the way back must be safe: 2^63 is no integer, but would be cut to one.
    back = after.cast(before.type, safe=pa.types.is_integer(before.type))
    same = pc.equal(before, back)
    if pa.types.is_floating(before.type):  # a NaN equals nothing, but it is the same
        same = pc.or_kleene(same, pc.and_(pc.is_nan(before), pc.is_nan(back)))
    return pc.all(pc.fill_null(same, True)).as_py() is not False


def _first_misfit(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Scalar:
    """The first value that does not fit, found by halving."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        values = half if not _fits(half, wanted) else values.slice(len(values) // 2)
    return values[0]


def _fits(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> bool:
    try:
        _exactly(values, wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):  # Python has no such moment: the number tells more than nothing
        return str(value.value)


def convert_spark(column: Column, name: str, found: pa.DataType, wanted: pa.DataType) -> Column:
    """The column in the wanted type; Spark raises an error that `misfit_in` understands where a value does not fit."""
    if found == wanted:
        return column
    target = spark_name(wanted)
    if _always_fits(found, wanted):
        return column.cast(target)
    converted = column.try_cast(target)
    lost = ~converted.try_cast(spark_name(found)).eqNullSafe(column)
    if pa.int64() in (found, wanted) and (pa.types.is_floating(found) or pa.types.is_floating(wanted)):
        # Spark takes 2^63 for the greatest integer, and back again.
        lost = lost | ((column if pa.types.is_floating(found) else converted) >= F.lit(2.0**63))
    told = F.to_json(F.struct(F.lit(name).alias("column"), column.cast("string").alias("value")))
    complaint = F.concat(F.lit(BAD_VALUE), told)
    return F.when(column.isNotNull() & lost, F.raise_error(complaint).cast(target)).otherwise(converted)


def _always_fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if found == wanted or t.is_null(found):
        return True
    if t.is_list(wanted):
        return _always_fits(found.value_type, wanted.value_type)
    if t.is_struct(wanted):
        return all(_always_fits(f.type, w.type) for f, w in zip(found.fields, wanted.fields, strict=True))
    if str(found) in _WIDTHS:
        if str(wanted) in _WIDTHS:
            return _WIDTHS[str(found)] <= _WIDTHS[str(wanted)]
        if t.is_decimal(wanted):
            return _DIGITS[str(found)] <= wanted.precision - wanted.scale
        return wanted == pa.float64() and str(found) != "int64"
    if t.is_decimal(found) and t.is_decimal(wanted):
        return found.scale <= wanted.scale and found.precision - found.scale <= wanted.precision - wanted.scale
    if found == pa.float32():
        return wanted == pa.float64()
    return wanted == UTC_MICROS or (t.is_timestamp(wanted) and t.is_date(found))


def misfit_in(text: str) -> tuple[str, str] | None:
    """Column and value, if an error of Spark's tells of a value that did not fit."""
    _, found, rest = text.partition(BAD_VALUE)
    if not found:
        return None
    told = json.JSONDecoder().raw_decode(rest)[0]
    return told["column"], told["value"]
