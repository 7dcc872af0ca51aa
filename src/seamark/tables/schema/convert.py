"""Which values fit which column: conversions that lose nothing, in Arrow and in Spark alike.

A value may change its type on the way into a table (pandas has 1.0 where the column is a long) but not its meaning:
what cannot be converted and back is refused, with the value.
"""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.spark.causes import mark, raised_text
from seamark.tables.schema.ddl import UTC_MICROS
from seamark.tables.schema.types import spark_type

BAD_VALUE = mark("value does not fit")
# How Spark writes moments into JSON: as they are, not as the session's clocks show them.
IN_UTC = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX"}
_DAY = 86_400_000_000  # microseconds
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
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
    if pa.types.is_null(found):
        return _nulls(values, wanted)
    if pa.types.is_dictionary(found):
        return _exactly(values.cast(found.value_type), wanted)
    if pa.types.is_float16(found):  # Arrow computes with the others only
        return _exactly(values.cast(pa.float32()), wanted)
    if pa.types.is_nested(found):
        return _nested_exactly(values, wanted)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted) and found.tz is None and wanted.tz is not None:
        return _exactly(values.cast(pa.timestamp(found.unit)).cast(pa.timestamp(found.unit, tz="UTC")), wanted)
    if pa.types.is_decimal(wanted) and pa.types.is_floating(found):
        converted = _by_digits(_by_digits(values, pa.decimal128(38, wanted.scale)), wanted)
    elif pa.types.is_decimal(found) and pa.types.is_floating(wanted):
        converted = _by_digits(values, wanted)
    elif pa.types.is_decimal(wanted) and pa.types.is_integer(found):
        converted = values.cast(pa.decimal128(38, 0)).cast(wanted)
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


def _nulls(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """As many NULLs of another type. Arrow's own cast ends the process at a slice of them that is to become structs."""
    made = pa.nulls(len(values), wanted)
    return pa.chunked_array([made]) if isinstance(values, pa.ChunkedArray) else made


def _by_digits(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Floats as decimals and back, by their digits as people and Spark see them.

    Arrow's own cast goes by the number behind them: of the decimal 121.32 it makes 121.32000000000001.
    """
    return values.cast(pa.string()).cast(wanted)


def _nested_exactly(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Lists and structs by what is inside them: Arrow's own cast of a whole list lets a loss inside it pass."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_nested_exactly(chunk, wanted) for chunk in values.chunks], wanted)
    if pa.types.is_struct(wanted):
        children = [_exactly(child, field.type) for child, field in zip(values.flatten(), wanted.fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted.fields), mask=values.is_null())
    if not len(values):
        return pa.nulls(0, wanted)
    plain = values if pa.types.is_list(values.type) else values.cast(pa.list_(values.type.value_type))
    lengths = pc.fill_null(pc.list_value_length(plain), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    items = _exactly(_items(plain, ends[-1].as_py()), wanted.value_type)
    return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=plain.is_null())


def _items(lists: pa.ListArray, count: int) -> pa.Array:
    """What lists hold. Of a slice with nothing but NULLs inside Arrow gives too few, or ends the process."""
    return pa.nulls(count) if pa.types.is_null(lists.type.value_type) else lists.flatten()


def _may_lose(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's own checks let a loss pass: between floating point and anything else, and to whole days."""
    floating = pa.types.is_floating(found) or pa.types.is_floating(wanted)
    return (floating and found != wanted) or (pa.types.is_date(wanted) and pa.types.is_timestamp(found))


def _same(before: pa.Array | pa.ChunkedArray, after: pa.Array | pa.ChunkedArray) -> bool:
    if pa.types.is_decimal(before.type) or pa.types.is_decimal(after.type):
        back = _by_digits(after, before.type)  # a float that is much too large has become just any decimal
    else:
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
    except (OverflowError, ValueError):  # Python has no such moment: the number says more than nothing
        return str(value.value)


def far_day(values: pa.ChunkedArray) -> str | None:
    """A day or moment of a column before the year 1 or after 9999; None if there is none.

    Spark and Parquet can hold it, Python cannot: as a key nothing could read it, or remove it, ever after.
    """
    if not _has_days(values.type):
        return None
    units = 1 if pa.types.is_date(values.type) else _DAY
    span = pc.min_max(values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())).as_py()
    days = [number // units for number in span.values() if number is not None]
    far = next((day for day in days if not _FIRST_DAY <= day <= _LAST_DAY), None)
    return None if far is None else f"day {far} since 1970 (about the year {1970 + int(far / 365.2425)})"


def without_far_days(column: Column, name: str, kind: pa.DataType) -> Column:
    """The same in Spark, which raises an error that `misfit_in` understands where there is one."""
    if not _has_days(kind):
        return column
    if kind == UTC_MICROS:
        is_far = ~F.unix_micros(column).between(_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)
    else:
        is_far = ~F.year(column).between(1, 9999)
    complaint = F.raise_error(_complaint(column, name, kind)).cast(spark_type(kind))
    return F.when(is_far, complaint).otherwise(column)


def _has_days(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def convert_spark(column: Column, name: str, found: pa.DataType, wanted: pa.DataType) -> Column:
    """The column in the wanted type; Spark raises an error that `misfit_in` understands where a value does not fit.

    The session's time zone makes no difference: a date or a moment without a zone is one in UTC, as it is in Arrow.
    """
    if found == wanted:
        return column
    target = spark_type(wanted, nullable=True)
    if pa.types.is_nested(wanted) and _has_moments_to_move(found, wanted):
        return _nested_in_spark(column, name, found, wanted)
    if pa.types.is_null(found) or (_always_fits(found, wanted) and wanted != UTC_MICROS):
        return column.cast(target)
    converted, lost = _converted_in_spark(column, found, wanted)
    return F.when(column.isNotNull() & lost, F.raise_error(_complaint(column, name, found)).cast(target)).otherwise(
        converted
    )


def _converted_in_spark(column: Column, found: pa.DataType, wanted: pa.DataType) -> tuple[Column, Column]:
    """The column in the wanted type, and where that has lost something."""
    target, source = spark_type(wanted), spark_type(found)
    if wanted == UTC_MICROS:
        moment = _moment_in_utc(column, found)
        return moment, moment.isNull()
    if found == UTC_MICROS:  # to a day
        return _day_in_utc(column), F.pmod(F.unix_micros(column), F.lit(_DAY)) != 0
    if pa.types.is_decimal(wanted) and pa.types.is_floating(found):
        converted = column.cast("string").try_cast(target)  # by its digits: the same as in Arrow
        return converted, ~converted.cast("string").try_cast(source).eqNullSafe(column)
    if pa.types.is_decimal(found) and pa.types.is_floating(wanted):
        converted = column.cast("string").try_cast(target)
        return converted, ~converted.cast("string").try_cast(source).eqNullSafe(column)
    converted = column.try_cast(target)
    lost = ~converted.try_cast(source).eqNullSafe(column)
    if pa.int64() in (found, wanted) and (pa.types.is_floating(found) or pa.types.is_floating(wanted)):
        # Spark takes 2^63 for the greatest integer, and back again.
        lost = lost | ((column if pa.types.is_floating(found) else converted) >= F.lit(2.0**63))
    return converted, lost


def _moment_in_utc(column: Column, found: pa.DataType) -> Column:
    """A date or a wall clock as the moment that it is in UTC; NULL where a timestamp does not reach that far.

    Spark's own cast would take it for one in the session's time zone.
    """
    micros = F.try_multiply(F.unix_date(column.cast("date")).cast("long"), F.lit(_DAY))
    if pa.types.is_timestamp(found):
        seconds = (F.hour(column) * 3600 + F.minute(column) * 60).cast("long") * 1_000_000
        micros = micros + seconds + (F.extract(F.lit("SECOND"), column) * 1_000_000).cast("long")
    return F.timestamp_micros(micros)


def _day_in_utc(column: Column) -> Column:
    return F.date_from_unix_date(F.floor(F.unix_seconds(column) / 86_400).cast("int"))


def _has_moments_to_move(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether there are dates or wall clocks, however deep inside a type, that are to become moments."""
    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return _has_moments_to_move(found.value_type, wanted.value_type)
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        pairs = zip(found.fields, wanted.fields, strict=True)
        return any(_has_moments_to_move(f.type, w.type) for f, w in pairs)
    return bool(wanted == UTC_MICROS and found != UTC_MICROS)


def _nested_in_spark(column: Column, name: str, found: pa.DataType, wanted: pa.DataType) -> Column:
    """A list or struct, converted by what is inside it."""
    if pa.types.is_list(wanted):
        return F.transform(column, lambda item: convert_spark(item, name, found.value_type, wanted.value_type))
    fields = [
        convert_spark(column.getField(f.name), name, f.type, w.type).alias(w.name)
        for f, w in zip(found.fields, wanted.fields, strict=True)
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def _complaint(column: Column, name: str, found: pa.DataType) -> Column:
    value = column if found == UTC_MICROS else column.cast("string")
    told = F.struct(F.lit(name).alias("column"), value.alias("value"))
    return F.concat(F.lit(BAD_VALUE), F.to_json(told, IN_UTC))


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


def misfit_in(error: BaseException) -> tuple[str, str] | None:
    """Column and value, if an error of Spark's is about a value that did not fit."""
    found = raised_text(error, BAD_VALUE)
    if found is None:
        return None
    told = json.loads(found)
    return told["column"], told["value"]
