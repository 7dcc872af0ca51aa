"""What a write changes, found in Spark: the records that lead from the current rows to the wanted ones.

Every function returns a frame of `op` and the table's columns, with real differences only. Values are compared
NULL-safely: NULL equals NULL, NaN equals NaN, and 0.0 equals -0.0.
"""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from seamark.ledger import Op
from seamark.spark.causes import mark, raised_text
from seamark.tables.frame import quoted
from seamark.tables.schema.convert import IN_UTC
from seamark.tables.schema.table_schema import TableSchema

DOUBLED_KEY = mark("doubled key")
# No column of a table has a space in its name, so these cannot collide.
_OLD = "old "
_HAS_OLD, _HAS_NEW, _TIMES = "has old", "has new", "its times"


def appended(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """Records that append all rows."""
    return rows.select(_op(Op.APPEND), *[F.col(quoted(name)) for name in schema.names])


def upserted(schema: TableSchema, rows: DataFrame, standing: DataFrame) -> DataFrame:
    """Records that append new rows and correct those that differ; `standing` needs only the rows with these keys."""
    return _change_records(schema, _joined(schema, rows, standing, "left"))


def replaced(schema: TableSchema, rows: DataFrame, standing: DataFrame) -> DataFrame:
    """The same, and records that retract the standing rows that are not among the new ones."""
    return _change_records(schema, _joined(schema, rows, standing, "full"))


def retracted(schema: TableSchema, standing: DataFrame) -> DataFrame:
    """Records that retract all standing rows."""
    return standing.select(_op(Op.RETRACT), *[F.col(quoted(name)) for name in schema.names])


def refuse_doubled(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """The same rows; computing them raises an error that `doubled_in` understands if a key is there twice.

    Must come before the comparison: two equal rows that also equal the standing one give no record to notice.
    """
    key = [F.col(quoted(name)) for name in schema.key]
    known = reduce(lambda one, other: one & other, [column.isNotNull() for column in key])
    complaint = F.concat(F.lit(DOUBLED_KEY), F.to_json(F.struct(*key), IN_UTC))
    times = F.count(F.lit(1)).over(Window.partitionBy(*key))
    checked = rows.withColumn(
        _TIMES, F.when(known & (times > 1), F.raise_error(complaint).cast("long")).otherwise(times)
    )
    # A filter on the count keeps the optimizer from dropping a column that nobody reads, and the check with it.
    return checked.where(F.col(_TIMES) > 0).drop(_TIMES)


def doubled_in(error: BaseException) -> dict[str, object] | None:
    """The doubled key that an error from Spark names, or None."""
    found = raised_text(error, DOUBLED_KEY)
    return None if found is None else dict(json.loads(found))


def _op(op: Op) -> Column:
    return F.lit(int(op)).cast("int").alias("op")


def _joined(schema: TableSchema, rows: DataFrame, standing: DataFrame, how: str) -> DataFrame:
    new = rows.withColumn(_HAS_NEW, F.lit(True))
    renamed = [F.col(quoted(name)).alias(_OLD + name) for name in schema.names]
    old = standing.select(*renamed, F.lit(True).alias(_HAS_OLD))
    same_key = [new[quoted(name)] == old[quoted(_OLD + name)] for name in schema.key]
    # Without the hint Spark judges by sizes on disk, and would broadcast large rows that compress well.
    return new.join(old.hint("merge"), reduce(lambda one, other: one & other, same_key), how)


def _change_records(schema: TableSchema, joined: DataFrame) -> DataFrame:
    new = [F.col(quoted(name)) for name in schema.names]
    old = [F.col(quoted(_OLD + name)).alias(name) for name in schema.names]
    has_new, has_old = F.col(_HAS_NEW).isNotNull(), F.col(_HAS_OLD).isNotNull()
    changes = (
        F.when(has_new & ~has_old, F.array(F.struct(_op(Op.APPEND), *new)))
        .when(~has_new, F.array(F.struct(_op(Op.RETRACT), *old)))
        .when(
            _differs(schema),
            F.array(F.struct(_op(Op.CORRECT_FROM), *old), F.struct(_op(Op.CORRECT_TO), *new)),
        )
    )
    return joined.select(F.explode(changes).alias("record")).select("record.*")


def _differs(schema: TableSchema) -> Column:
    each = [~F.col(quoted(name)).eqNullSafe(F.col(quoted(_OLD + name))) for name in schema.values]
    return reduce(lambda one, other: one | other, each, F.lit(False))
