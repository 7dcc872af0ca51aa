"""Which rows to read, in the form that is cheapest for Spark: literals, a broadcast, or a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.spark.frames import spark_frame
from seamark.tables.frame import CheckedFrame, as_its, quoted, same_as_its
from seamark.tables.frames import refuse_nulls
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import collect_small
from seamark.tables.schema.ddl import UTC_MICROS
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.schema.types import spark_type
from seamark.tables.small import fits_on_driver

# Up to LITERAL_KEYS keys are literals of the query, so that file statistics and page indexes skip the rest; up to
# BROADCAST_KEYS they are sent to every task; how more are joined is left to Spark.
LITERAL_KEYS = 100
LITERAL_BYTES = 1 << 20
LITERAL_NUMBERS = 1_000  # whole numbers are passed as one text, much faster than passing as many values one by one
BROADCAST_KEYS = 200_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_DAYS_FROM, _NO_DAYS_UPTO = date(1582, 10, 4), date(1582, 10, 15)  # the first and last have a calendar each
_ZONES_AGREE_FROM = datetime(1900, 1, 2, tzinfo=UTC)  # of Java's old time zones and its new ones


@dataclass(frozen=True)
class KeyChoice:
    """The rows to read: those for which a predicate holds and, if there is a frame of values, whose columns are in it.

    `columns` are the columns that both use. With `null_safe`, NULL equals NULL.
    """

    columns: tuple[str, ...] = ()
    predicate: Column | None = None
    keys: DataFrame | None = None
    null_safe: bool = False

    def of(self, frame: DataFrame) -> DataFrame:
        """The chosen rows of a frame."""
        return self.matched(self.narrowed(frame))

    def narrowed(self, frame: DataFrame) -> DataFrame:
        """The rows that satisfy the predicate, which is pushed down to the files; may still hold rows of other keys."""
        return frame if self.predicate is None else frame.where(self.predicate)

    def matched(self, frame: DataFrame) -> DataFrame:
        """Of rows from `narrowed`, those whose key is in the frame of keys."""
        if self.keys is None:
            return frame
        if not self.null_safe:
            return frame.join(self.keys, list(self.columns), "left_semi")
        wanted = as_its(self.keys, self.columns)
        return frame.join(wanted, same_as_its(frame, wanted, self.columns), "left_semi")

    def is_by_key(self, schema: TableSchema) -> bool:
        """Whether all versions of a row are chosen or none, so that rows may be filtered before the newest is found.

        Other columns change: an older version may match where the newest does not, so find the newest first.
        """
        return not schema.key or set(self.columns) <= set(schema.key)


EVERYTHING = KeyChoice()


def choose_keys(source: TableSource, keys: CheckedFrame) -> KeyChoice:
    """The cheapest way to read the rows with these keys."""
    names, local = source.schema.key, keys.in_memory
    if local is not None:
        return choose_values(source, local.select(list(names)))
    columns, more = {name: source.schema.column(name).type for name in names}, LITERAL_KEYS + 1
    frame = keys.to_spark(source.context.session)
    few = collect_small(frame.limit(more), columns, more, most_rows=more)
    if few is not None:
        refuse_nulls(source.name, {name: few.column(name).null_count for name in names})
    if few is None or few.num_rows == more:
        return KeyChoice(names, keys=frame.distinct())
    return choose_values(source, few)


def choose_values(source: TableSource, values: pa.Table) -> KeyChoice:
    """The cheapest way to read the rows whose columns, those of the values, hold one of the given tuples."""
    source.context.session()  # expressions can only be built while Spark runs
    names = values.column_names
    distinct = values.group_by(names).aggregate([]).select(names)
    if 0 < distinct.num_rows <= LITERAL_NUMBERS and _is_one_number(distinct):
        numbers = ",".join(str(value) for value in distinct.column(0).to_pylist())
        return KeyChoice(tuple(names), F.expr(f"{quoted(names[0])} IN ({numbers})"))
    if distinct.num_rows <= LITERAL_KEYS and distinct.nbytes <= LITERAL_BYTES:
        return KeyChoice(tuple(names), _any_of(source, distinct))
    has_nulls = any(column.null_count for column in distinct.columns)
    types = {name: source.schema.column(name).type for name in names}
    frame = spark_frame(source.context.session(), distinct.cast(pa.schema(list(types.items()))))
    if distinct.num_rows <= BROADCAST_KEYS and fits_on_driver(0, distinct.nbytes):
        frame = F.broadcast(frame)
    return KeyChoice(tuple(names), None if has_nulls else _value_bounds(source, distinct), frame, has_nulls)


def _is_one_number(values: pa.Table) -> bool:
    return values.num_columns == 1 and pa.types.is_integer(values.column(0).type) and not values.column(0).null_count


def _any_of(source: TableSource, values: pa.Table) -> Column:
    names = values.column_names
    if values.num_rows == 0:
        return F.lit(False)
    if len(names) == 1 and values.column(0).null_count == 0:
        column, wanted = compared(source, names[0], values.column(0).to_pylist())
        return column.isin(wanted)
    each = [all_of([_equals(source, name, row[name]) for name in names]) for row in values.to_pylist()]
    return reduce(lambda one, other: one | other, each)


def _equals(source: TableSource, name: str, value: Any) -> Column:
    if value is None:
        return F.col(quoted(name)).isNull()
    column, [wanted] = compared(source, name, [value])
    return column == wanted


def all_of(conditions: Sequence[Column]) -> Column:
    """A condition that holds if all of these do; true if there is none."""
    return reduce(lambda one, other: one & other, conditions) if conditions else F.lit(True)


def _value_bounds(source: TableSource, keys: pa.Table) -> Column:
    """A predicate by which files and pages are skipped: the least and greatest value of each key column."""
    bounds = []
    for name in keys.column_names:
        values = keys.column(name)
        if pa.types.is_boolean(values.type) or pa.types.is_binary(values.type):
            continue
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            continue  # to Arrow NaN is neither the least nor the greatest, so the bounds would leave it out
        span = pc.min_max(values).as_py()
        column, [low, high] = compared(source, name, [span["min"], span["max"]])
        bounds.append(column.between(low, high))
    return all_of(bounds)


def compared(source: TableSource, name: str, values: Sequence[Any]) -> tuple[Column, list[Column]]:
    """A column and some values of it, none of them NULL, as a query may compare them."""
    return typed_compared(F.col(quoted(name)), source.schema.column(name).type, values)


def typed_compared(column: Column, kind: pa.DataType, values: Sequence[Any]) -> tuple[Column, list[Column]]:
    """A column of a type and some values, as a query may compare them: as they are, or both as numbers.

    What is compared with a constant, Spark lets the reader of files skip by. In a session that is not ours it hands the
    constant over as an object of Java's calendar from before 1582 and of its time zones: 10 October 1582, which that
    calendar does not have, arrives as another day, and the rows of the right one are skipped. Numbers are not handed
    over at all.
    """
    if pa.types.is_date(kind) and any(_NO_DAYS_FROM <= value <= _NO_DAYS_UPTO for value in values):
        return F.unix_date(column), [F.lit((value - _EPOCH.date()).days) for value in values]
    if kind == UTC_MICROS:
        moments = [_in_utc(value) for value in values]
        if min(moments, default=_ZONES_AGREE_FROM) < _ZONES_AGREE_FROM:
            return F.unix_micros(column), [F.lit((m - _EPOCH) // timedelta(microseconds=1)) for m in moments]
    return column, [typed_literal(value, kind) for value in values]


def literal(source: TableSource, name: str, value: Any) -> Column:
    """A value of a column as a literal."""
    return typed_literal(value, source.schema.column(name).type)


def typed_literal(value: Any, kind: pa.DataType) -> Column:
    """A value as a literal of this type."""
    return F.lit(_text_of(value, kind) if isinstance(value, date) else value).cast(spark_type(kind))


def _text_of(value: date, kind: pa.DataType) -> str:
    """A date or timestamp as text: as an object it would pass through Java's calendar, which differs before 1582.

    A timestamp names its zone: without one Spark would read the text in the session's.
    """
    return _in_utc(value).isoformat() if kind == UTC_MICROS else value.isoformat()


def _in_utc(value: date) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
