"""Frames that are written to a table: Spark, pandas or Arrow, checked and converted to the table's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamark.errors import NOTHING_WRITTEN, BadValue, FrameMismatch, NullKey, TableError
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.schema.convert import (
    ValueDoesNotFit,
    convert_array,
    convert_spark,
    convertible,
    convertible_in_spark,
    far_day,
    without_far_days,
)
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.tables.schema.types import arrow_type, spark_name, spark_type

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    Frame: TypeAlias = DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]


class OtherKinds(FrameMismatch):
    """The columns are there, but values in them are of another kind than the table's: some of them, or all.

    Frames in memory have their types from their values: a text in one row of a pandas column of numbers makes it a
    mixed one, and if that row is alone, one of texts.
    """


def check_frame(
    table: str, schema: TableSchema, frame: Frame, *, only_key: bool = False, with_nulls: bool = False
) -> CheckedFrame:
    """The frame with the table's columns (or only those of its key), or an error that names all that is wrong.

    Where keys are given, an empty list is none of them; rows without columns are refused. `with_nulls` lets NULLs pass
    where the table needs a value: for code that looks at them later.
    """
    columns = [column for column in schema.columns if not only_key or column.name in schema.key]
    pointed = [c for c in columns if c.name in schema.key and pa.types.is_floating(c.type)]
    dated = [c for c in columns if c.name in schema.key and (pa.types.is_date(c.type) or pa.types.is_timestamp(c.type))]
    if is_spark(frame):
        computed = _check_spark(table, columns, frame, only_key=only_key)  # type: ignore[arg-type]
        # In a key 0.0 and -0.0 are one, and files are searched by bytes: adding 0.0 makes the first of both.
        for column in pointed:
            name = quoted(column.name)
            computed = computed.withColumn(column.name, (computed[name] + 0.0).cast(spark_type(column.type)))
        for column in dated:
            near = without_far_days(computed[quoted(column.name)], column.name, column.type)
            computed = computed.withColumn(column.name, near)
        return SparkFrame(computed)
    if only_key and _is_nothing(frame):
        return LocalFrame(
            pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns]).empty_table()
        )
    local = _check_local(table, columns, to_arrow(table, frame), only_key=only_key)
    for column in pointed:
        place, field = local.column_names.index(column.name), local.schema.field(column.name)
        local = local.set_column(place, field, pc.add(local.column(place), pa.scalar(0.0, column.type)))
    for column in dated:
        if (far := far_day(local.column(column.name))) is not None:
            raise bad_value(table, column, far)
    if not with_nulls:
        _refuse_nulls(table, [column.name for column in columns if not column.nullable], local)
    return LocalFrame(local)


def check_wanted_keys(table: str, schema: TableSchema, keys: Frame) -> CheckedFrame:
    """The keys of rows that are to be read, checked as keys are that are to be written."""
    try:
        return check_frame(table, schema, keys, only_key=True)
    except TableError as error:
        raise error.without_outcome() from None


def check_returned_frame(table: str, schema: TableSchema, frame: Frame, *, with_nulls: bool = False) -> CheckedFrame:
    """The same for a frame that a step's function returned, where nothing at all is no rows: neither column nor row.

    `pd.DataFrame([…])` of no rows is such a frame, and so is an empty list. A write to a table must name its
    columns: a replace by an empty frame takes every row away.
    """
    if not is_spark(frame) and _is_nothing(frame):
        return LocalFrame(schema.arrow.empty_table())
    return check_frame(table, schema, frame, with_nulls=with_nulls)


def _is_nothing(frame: object) -> bool:
    if isinstance(frame, list | tuple):
        return not frame
    return getattr(frame, "shape", None) == (0, 0)


def is_spark(frame: object) -> bool:
    """Whether a frame is one that Spark computes."""
    return type(frame).__module__.startswith("pyspark.") and hasattr(frame, "mapInArrow")


def to_arrow(table: str, frame: object) -> pa.Table:
    """A frame that is not Spark's as an Arrow table, in the types that it has."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if type(frame).__module__.startswith("pandas.") and hasattr(frame, "columns"):
        return _from_pandas(table, frame)  # type: ignore[arg-type]
    if isinstance(frame, list | tuple) and not frame:
        raise FrameMismatch(
            f"table '{table}' was given an empty list, which has no columns.",
            outcome=NOTHING_WRITTEN,
            hint="give an empty frame that has the table's columns, if you really mean no rows.",
        )
    if isinstance(frame, list | tuple) and all(isinstance(row, Mapping) for row in frame):
        names = dict.fromkeys(name for row in frame for name in row)
        return _from_columns(
            table, [(str(name), [row.get(name) for row in frame]) for name in names], from_pandas=False
        )
    raise FrameMismatch(
        f"table '{table}' was given a {type(frame).__name__}.",
        outcome=NOTHING_WRITTEN,
        hint="give a Spark, pandas or Arrow frame, or a list of dicts.",
    )


def _from_pandas(table: str, frame: pd.DataFrame) -> pa.Table:
    """An Arrow table of the columns, without the index. A NaN is how pandas says NULL."""
    columns = [(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    return _from_columns(table, columns, from_pandas=True)


def _from_columns(table: str, columns: Sequence[tuple[str, Any]], *, from_pandas: bool) -> pa.Table:
    arrays, names, issues = [], [], []
    for name, values in columns:
        try:
            array = _array(values, from_pandas=from_pandas)
            # pandas gives a column without values any type: floats for a map that found nothing.
            arrays.append(pa.nulls(len(array)) if from_pandas and array.null_count == len(array) else array)
            names.append(name)
        except (ValueError, TypeError, NotImplementedError, OverflowError) as error:  # Arrow's own are among these
            issues.append(f"column '{name}' has values of mixed or unknown types ({str(error).splitlines()[0]})")
    if issues:
        mismatch = _mismatch(table, issues)
        raise OtherKinds(mismatch.what, outcome=NOTHING_WRITTEN, hint=mismatch.hint)
    return pa.Table.from_arrays([_whole(array) for array in arrays], names=names)


def _array(values: Any, *, from_pandas: bool) -> pa.Array | pa.ChunkedArray:
    """Values as Arrow has them. Left to itself it makes a day of a moment among days."""
    if str(getattr(values, "dtype", "object")) != "object":
        return pa.array(values, from_pandas=from_pandas)
    try:
        array = pa.array(values, from_pandas=from_pandas)
    except pa.ArrowTypeError:
        if not _has_days_and_moments(values):
            raise
        return pa.array([_as_moment(value) for value in values], from_pandas=from_pandas)
    if _has_days(array.type) and _has_days_and_moments(values):
        return pa.array([_as_moment(value) for value in values], from_pandas=from_pandas)
    if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) > 0 for value in values):
        return pa.array(values, pa.timestamp("ns", tz=array.type.tz), from_pandas=from_pandas)  # to be refused, not cut
    return array


def _has_days(kind: pa.DataType) -> bool:
    inside = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_date(kind) or any(map(_has_days, inside))


def _has_days_and_moments(values: Any) -> bool:
    kinds: set[type] = set()
    _add_kinds(values, kinds)
    times = {kind for kind in kinds if issubclass(kind, date) and kind.__name__ != "NaTType"}
    return len({issubclass(kind, datetime) for kind in times}) == 2


def _add_kinds(values: Any, kinds: set[type]) -> None:
    """The types of all values, also of those inside lists and dicts."""
    mine = set(map(type, values))
    kinds |= mine
    if any(issubclass(kind, list | tuple | dict) for kind in mine):
        for value in values:
            if isinstance(value, list | tuple | dict):
                _add_kinds(value.values() if isinstance(value, dict) else value, kinds)


def _as_moment(value: Any) -> Any:
    """A day as its midnight; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_as_moment(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_moment(item) for name, item in value.items()}
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, time()) if is_day else value


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _check_local(table: str, columns: list[Column], frame: pa.Table, *, only_key: bool) -> pa.Table:
    names = list(frame.column_names)
    issues, wrong = _name_issues(columns, names, only_key=only_key), []
    for column in columns:
        if names.count(column.name) == 1 and not convertible(frame.schema.field(column.name).type, column.type):
            found = frame.schema.field(column.name).type
            issues.append(f"column '{column.name}' is {_type_shown(found)}, expected {spark_name(column.type)}")
            wrong.append(column)
    if issues:
        mismatch = _mismatch(table, issues, wrong)
        if len(wrong) == len(issues):
            raise OtherKinds(mismatch.what, outcome=NOTHING_WRITTEN, hint=mismatch.hint)
        raise mismatch
    arrays = [_converted(table, column, frame.column(column.name)) for column in columns]
    schema = pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
    return pa.Table.from_arrays(arrays, schema=schema)


def _converted(table: str, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return convert_array(values, column.type)
    except ValueDoesNotFit as misfit:
        raise bad_value(table, column, str(misfit)) from None


def bad_value(table: str, column: Column, value: str) -> BadValue:
    """The error for a value that its column cannot hold."""
    hint, kind = "convert or round the value first.", column.type
    if pa.types.is_decimal(kind):
        room = f"{kind.precision - kind.scale} digits before the point and {kind.scale} after it"
        hint = f"round it, or give a `decimal.Decimal`; the column has room for {room}."
    return BadValue(
        f"table '{table}': the value {value} does not fit column '{column.name}', which is {spark_name(kind)}.",
        outcome=NOTHING_WRITTEN,
        hint=hint,
    )


def _refuse_nulls(table: str, required: list[str], rows: pa.Table) -> None:
    refuse_nulls(table, {name: rows.column(name).null_count for name in required})


def refuse_nulls(table: str, nulls: Mapping[str, int]) -> None:
    """Refuse NULL where the table needs a value, naming the columns and how many rows."""
    found = {name: count for name, count in nulls.items() if count}
    if found:
        listed = ", ".join(
            f"column '{name}' is NULL in {count} row{'s' * (count != 1)}" for name, count in found.items()
        )
        raise NullKey(
            f"table '{table}': {listed}.",
            outcome=NOTHING_WRITTEN,
            hint="key columns and columns declared NOT NULL need a value in every row.",
        )


def _check_spark(table: str, columns: list[Column], frame: DataFrame, *, only_key: bool) -> DataFrame:
    types = {field.name: arrow_type(field.dataType) for field in frame.schema.fields}
    shown = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    void = {name for name, text in shown.items() if text == "void"}
    issues, wrong = _name_issues(columns, frame.columns, only_key=only_key), []
    for column in columns:
        if column.name not in types or column.name in void:
            continue
        found = types[column.name]
        if found is None or not convertible_in_spark(found, column.type):
            issues.append(f"column '{column.name}' is {shown[column.name]}, expected {spark_name(column.type)}")
            wrong.append(column)
    if issues:
        raise _mismatch(table, issues, wrong)
    picked = []
    for column in columns:
        found = pa.null() if column.name in void else types[column.name]
        source = frame[quoted(column.name)]
        picked.append(convert_spark(source, column.name, found or pa.null(), column.type).alias(column.name))
    return frame.select(*picked)


def as_it_stands(path: str) -> str:
    """A path as Spark reads it whatever signs it has: Spark takes a path for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _name_issues(columns: list[Column], names: Sequence[str], *, only_key: bool) -> list[str]:
    issues = []
    wanted = [column.name for column in columns]
    for column in columns:
        if names.count(column.name) > 1:
            issues.append(f"column '{column.name}' is there {names.count(column.name)} times")
        elif column.name not in names:
            what = "key column" if only_key else "column"
            issues.append(f"{what} '{column.name}' {spark_name(column.type)} is missing")
    if not only_key:
        issues += [f"column '{name}' is not one of the table's" for name in dict.fromkeys(names) if name not in wanted]
    return issues


def _type_shown(found: pa.DataType) -> str:
    try:
        return spark_name(found)
    except KeyError:
        return str(found)


def _mismatch(table: str, issues: list[str], wrong: Sequence[Column] = ()) -> FrameMismatch:
    """The error for a frame that does not fit; `wrong` are the columns that have another type than they can have."""
    hint = "the frame needs the table's columns, in any order, and no others."
    if wrong and len(wrong) == len(issues):
        hint = f"convert it first, for example with {_conversion(wrong[0])}."
    return FrameMismatch(
        f"the frame does not fit table '{table}': {'; '.join(issues)}.",
        outcome=NOTHING_WRITTEN,
        hint=hint,
    )


def _conversion(column: Column) -> str:
    """How a column of another type becomes one of this type, in pandas and in Spark."""
    name, kind = column.name, column.type
    in_spark = f"cast({name} AS {spark_name(kind)}) in Spark"
    if pa.types.is_date(kind):
        return f"pd.to_datetime(frame['{name}']).dt.date, or {in_spark}"
    if pa.types.is_timestamp(kind):
        return f"pd.to_datetime(frame['{name}'], utc={kind.tz is not None}), or {in_spark}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return f"pd.to_numeric(frame['{name}']), or {in_spark}"
    if pa.types.is_string(kind):
        return f"frame['{name}'].astype(str), or {in_spark}"
    return in_spark
