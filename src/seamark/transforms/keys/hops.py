"""One hop from rows to other rows by equal values, with the first and the last record that led to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, its, quoted
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import BROADCAST_KEYS, all_of
from seamark.transforms.declare.shape import is_exact_number
from seamark.transforms.keying import FIRST, LAST


def led_to(columns: Sequence[str], rows: CheckedFrame, values: CheckedFrame, session: Session) -> CheckedFrame:
    """Some columns of the rows that agree with one of the values, each tuple once with its first and last record.

    Rows in memory must all agree with one.
    """
    mine, theirs = rows.in_memory, values.in_memory
    if mine is not None and theirs is not None:
        return LocalFrame(_joined_in_memory(columns, mine, theirs))
    wanted = values.to_spark(session)
    if theirs is not None and theirs.num_rows <= BROADCAST_KEYS and rows.in_memory is None:
        wanted = F.broadcast(wanted)
    return SparkFrame(_joined(columns, rows.to_spark(session), wanted))


def grouped(records: CheckedFrame, columns: Sequence[str], session: Session) -> CheckedFrame:
    """Each key once, with the first and the last record that lead to it."""
    rows = records.in_memory
    return (
        LocalFrame(_grouped_rows(rows, columns))
        if rows is not None
        else SparkFrame(_grouped_frame(records, columns, session))
    )


def _grouped_frame(records: CheckedFrame, columns: Sequence[str], session: Session) -> DataFrame:
    frame, first = records.to_spark(session), FIRST if FIRST in records.names else LAST
    return frame.groupBy(*map(quoted, columns)).agg(F.min(first).alias(FIRST), F.max(LAST).alias(LAST))


def _grouped_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    names = list(columns)
    if FIRST not in rows.column_names:
        rows = rows.append_column(FIRST, rows.column(LAST))
    if not names:
        return rows.select([FIRST, LAST]).sort_by([(LAST, "descending")]).slice(0, 1)
    # Columns are renamed to numbers: Arrow calls its results `<column>_max`, which may be the name of another column.
    numbered = rows.select([*names, FIRST, LAST]).rename_columns([str(place) for place in range(len(names) + 2)])
    *keys, first, last = numbered.column_names
    grouped = numbered.group_by(keys).aggregate([(first, "min"), (last, "max")])
    return grouped.select([*keys, f"{first}_min", f"{last}_max"]).rename_columns([*names, FIRST, LAST])


def _joined_in_memory(columns: Sequence[str], rows: pa.Table, values: pa.Table) -> pa.Table:
    names = [name for name in values.column_names if name not in (FIRST, LAST)]
    places = {key: place for place, key in enumerate(comparable(values.select(names)))}
    mine = pa.array([places[key] for key in comparable(rows.select(names))], pa.int64())
    keys = rows.select(list(columns))
    for name in (FIRST, LAST):
        keys = keys.append_column(name, values.column(name).take(mine))
    return _grouped_rows(keys, columns)


def _joined(columns: Sequence[str], rows: DataFrame, values: DataFrame) -> DataFrame:
    names = [name for name in values.columns if name not in (FIRST, LAST)]
    renamed = values.select(*[F.col(quoted(n)).alias(its(n)) for n in names], F.col(FIRST), F.col(LAST))
    same = [rows[quoted(name)] == renamed[quoted(its(name))] for name in names]
    joined = rows.join(renamed, all_of(same))
    by = [quoted(name) for name in columns]
    return joined.groupBy(*by).agg(F.min(FIRST).alias(FIRST), F.max(LAST).alias(LAST))


def fitting(values: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The values cast to these types, without those that a type cannot hold: they equal nothing there."""
    for name, wanted in types.items():
        place, column = values.column_names.index(name), values.column(name)
        if column.type == wanted:
            continue
        try:
            converted = column.cast(wanted)
        except pa.ArrowInvalid:  # some do not fit; or Arrow refuses all, as it does whole numbers for short decimals
            each = [_fitted(value, wanted) for value in column]
            values = values.filter(pa.array([one is not None for one in each], pa.bool_()))
            converted = pa.chunked_array([pa.array([one.as_py() for one in each if one is not None], wanted)])
        values = values.set_column(place, pa.field(name, wanted), converted)
    return values


def _fitted(value: pa.Scalar, wanted: pa.DataType) -> pa.Scalar | None:
    """The same value in another type; None if that cannot hold it."""
    try:
        if is_exact_number(value.type) and is_exact_number(wanted):
            number = Decimal(value.as_py())
            if pa.types.is_decimal(wanted):
                return pa.scalar(number, wanted)
            return pa.scalar(int(number), wanted) if number == number.to_integral_value() else None
        return value.cast(wanted)
    except (pa.ArrowInvalid, OverflowError):
        return None
