"""How values compare, in memory as in Spark: NULL first, NaN last, 0.0 and -0.0 equal, moments in UTC."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamark.spark.frames import in_utc
from seamark.tables.far_times import python_values

Key: TypeAlias = tuple[Any, ...]


def ordered(value: Any) -> Any:
    """A value in a form that compares as Spark compares it."""
    if isinstance(value, float):  # NaN is the greatest number, and 0.0 and -0.0 are one
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def sortable(value: Any) -> Any:
    """A value that compares as Spark compares it, NULL before all others."""
    return (0,) if value is None else (1, ordered(value))


def comparable(keys: pa.Table) -> list[Key]:
    """The keys of a table in a form that compares as Spark compares; NULL comes first, as in Spark's order."""
    columns = [[sortable(value) for value in python_values(column)] for column in in_utc(keys).columns]
    return list(zip(*columns, strict=True)) if columns else [()] * keys.num_rows


def distinct(keys: pa.Table) -> pa.Table:
    """Each key once."""
    names = keys.column_names
    if not names:
        return keys.slice(0, min(1, keys.num_rows))
    if any(pa.types.is_nested(field.type) for field in keys.schema):  # which Arrow does not group by
        places = {repr(key): place for place, key in reversed(list(enumerate(comparable(keys))))}
        return keys.take(pa.array(sorted(places.values()), pa.int64()))
    for place, field in enumerate(keys.schema):
        if pa.types.is_floating(field.type):  # 0.0 and -0.0 are one, and adding 0.0 makes the first of both
            keys = keys.set_column(place, field, pc.add(keys.column(place), pa.scalar(0.0, field.type)))
    return keys.group_by(names).aggregate([]).select(names)


def in_order(keys: pa.Table) -> pa.Table:
    """The rows in Spark's order."""
    order = sorted(enumerate(comparable(keys)), key=lambda entry: entry[1])
    return keys.take(pa.array([place for place, _ in order], pa.int64()))
