"""What a write changes: the records that lead from the rows that stand to the rows that are wanted.

Every function gives a frame of `op` and the table's columns. Only real differences are in it: values are compared as
Spark compares them NULL-safely, so NULL equals NULL, NaN equals NaN, and 0.0 equals -0.0.
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
# A column's name holds no space, so these are nobody's.
_OLD = "old "
_STANDS, _COMES, _TIMES = "it stands", "it comes", "its times"


def appended(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """All rows as new ones."""
    return rows.select(_op(Op.APPEND), *[F.col(quoted(name)) for name in schema.names])


def upserted(schema: TableSchema, rows: DataFrame, standing: DataFrame) -> DataFrame:
    """New rows appended, rows that differ corrected; `standing` needs to have only the rows with these keys."""
    return _records(schema, _join(schema, rows, standing, "left"))


def replaced(schema: TableSchema, rows: DataFrame, standing: DataFrame) -> DataFrame:
    """The same, and rows that are not among the new ones retracted."""
    return _records(schema, _join(schema, rows, standing, "full"))


def retracted(schema: TableSchema, standing: DataFrame) -> DataFrame:
    """All standing rows as retracted ones."""
    return standing.select(_op(Op.RETRACT), *[F.col(quoted(name)) for name in schema.names])


def refuse_doubled(schema: TableSchema, rows: DataFrame) -> DataFrame:
    """The rows; Spark raises an error that `doubled_in` understands when it meets a key twice.

    A doubled key must be seen before the rows are compared: two equal rows that equal the standing one change nothing.
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
    """The key, if an error of Spark's tells of a doubled one."""
    found = raised_text(error, DOUBLED_KEY)
    return None if found is None else dict(json.loads(found))


def _op(op: Op) -> Column:
    return F.lit(int(op)).cast("int").alias("op")


def _join(schema: TableSchema, rows: DataFrame, standing: DataFrame, how: str) -> DataFrame:
    new = rows.withColumn(_COMES, F.lit(True))
    renamed = [F.col(quoted(name)).alias(_OLD + name) for name in schema.names]
    old = standing.select(*renamed, F.lit(True).alias(_STANDS))
    same_key = [new[quoted(name)] == old[quoted(_OLD + name)] for name in schema.key]
    # Spark judges a file by its size on disk, and would send large rows that repeat to every task.
    return new.join(old.hint("merge"), reduce(lambda one, other: one & other, same_key), how)


def _records(schema: TableSchema, joined: DataFrame) -> DataFrame:
    new = [F.col(quoted(name)) for name in schema.names]
    old = [F.col(quoted(_OLD + name)).alias(name) for name in schema.names]
    comes, stands = F.col(_COMES).isNotNull(), F.col(_STANDS).isNotNull()
    changes = (
        F.when(comes & ~stands, F.array(F.struct(_op(Op.APPEND), *new)))
        .when(~comes, F.array(F.struct(_op(Op.RETRACT), *old)))
        .when(
            _differs(schema),
            F.array(F.struct(_op(Op.CORRECT_FROM), *old), F.struct(_op(Op.CORRECT_TO), *new)),
        )
    )
    return joined.select(F.explode(changes).alias("record")).select("record.*")


def _differs(schema: TableSchema) -> Column:
    each = [~F.col(quoted(name)).eqNullSafe(F.col(quoted(_OLD + name))) for name in schema.values]
    return reduce(lambda one, other: one | other, each, F.lit(False))
