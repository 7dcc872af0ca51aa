"""From the records of all logs to one row a visit: what each log brings, in the order in which it was written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from seamark.diffs.declare import DiffLog, DiffSpec
from seamark.diffs.merge import Record
from seamark.ledger import Op
from seamark.tables.frames import quoted
from seamark.tables.types import spark_name

# A column's name holds no space, so these are nobody's.
_WHICH, _OFFSET, _FAST, _GONE_AT = "its log", "its offset", "its fast", "gone at"
_DELETES, _TAKES_BACK, _IS_BAD, _IS_LATE = "it deletes", "it takes back", "it is bad", "it is late"
_BAD_ROW = "its bad row"
ROWS, LATE_ROWS = "its rows", "its late rows"
NEWS, UNDONE, FAST, GONE, GONE_FAST, BAD = "news", "undone", "fast", "gone", "gone fast", "bad"


def fact(log: DiffLog, what: str) -> str:
    """The column of what a log says about a visit, such as whether it is gone."""
    return f"its {log.number} {what}"


def value(log: DiffLog, column: str) -> str:
    """The column of a value that a log brings."""
    return f"{log.number} {column}"


def records_of(spec: DiffSpec, log: DiffLog, records: DataFrame, horizon: datetime | None) -> DataFrame:
    """The records of one log, in the columns that all logs share; rows from before the horizon are marked as late."""
    fast = F.col(quoted(spec.fast_version.name)).cast("bigint")
    out_of_range = fast.isNull() | (fast < 0) | (fast >= spec.multiplier)
    takes_back = F.col("op").isin(int(Op.RETRACT), int(Op.CORRECT_FROM))
    deletes = _deletes(log)
    # A row that only says that a visit is gone need not know its version.
    bad = F.when(deletes & ~takes_back & fast.isNull(), False).otherwise(out_of_range)
    values = [
        F.col(quoted(c.name)) if log.has(c.name) else F.lit(None).cast(c.spark_type).alias(c.name) for c in spec.columns
    ]
    return records.select(
        *[F.col(quoted(name)) for name in spec.key_names],
        F.lit(log.number).alias(_WHICH),
        F.col("offset").alias(_OFFSET),
        fast.alias(_FAST),
        deletes.alias(_DELETES),
        takes_back.alias(_TAKES_BACK),
        bad.alias(_IS_BAD),
        _row_of(log, bad).alias(_BAD_ROW),
        _is_late(spec, log, horizon).alias(_IS_LATE),
        *values,
    )


def _deletes(log: DiffLog) -> Column:
    if log.deletes_by is None:
        return F.lit(False)
    if log.deletes_by == "":
        return F.col("op") == int(Op.RETRACT)
    return F.coalesce(F.col(quoted(log.deletes_by)), F.lit(False))


def _row_of(log: DiffLog, bad: Column) -> Column:
    """The row of a keyed log that a bad record is about, as text: another record of the same row takes it back."""
    if not log.is_keyed:
        return F.lit(None).cast("string")
    return F.when(bad, F.to_json(F.struct(*[F.col(quoted(name)) for name in log.source.schema.key])))


def _is_late(spec: DiffSpec, log: DiffLog, horizon: datetime | None) -> Column:
    if spec.ttl is None or horizon is None or not log.has(spec.ttl.column):
        return F.lit(False)
    return F.coalesce(before(spec, F.col(quoted(spec.ttl.column)), horizon), F.lit(False))


def before(spec: DiffSpec, moment: Column, horizon: datetime) -> Column:
    """Whether a time is older than the state keeps visits."""
    assert spec.ttl is not None
    kind = next(c.type for c in spec.columns if c.name == spec.ttl.column)
    return moment < F.lit(horizon.isoformat()).cast("timestamp").cast(spark_name(kind))


def gather_news(spec: DiffSpec, logs: Sequence[DataFrame], *, skip_bad: bool) -> DataFrame:
    """One row a visit, with what each log brings of it.

    A visit is bad if one of its records has a fast version that is out of range; with `skip_bad` such records are left
    out instead. What was written before the last delete counts no more, but for the newest version.
    """
    records = reduce(DataFrame.unionByName, logs)
    key = [F.col(quoted(name)) for name in spec.key_names]
    gone_at = F.lit(None).cast("bigint")
    if any(log.deletes_by is not None for log in spec.logs):
        records = records.repartition(*key)  # once, for the window and for the groups
        window = Window.partitionBy(*key, _WHICH)
        gone_at = F.max(F.when(F.col(_DELETES) & ~F.col(_IS_LATE), F.col(_OFFSET))).over(window)
    records = records.withColumn(_GONE_AT, gone_at)
    told = [F.count(F.lit(1)).alias(ROWS), F.count_if(F.col(_IS_LATE)).alias(LATE_ROWS)]
    for log in spec.logs:
        told += _told_by(spec, log, skip_bad=skip_bad)
    return records.groupBy(*key).agg(*told)


def _told_by(spec: DiffSpec, log: DiffLog, *, skip_bad: bool) -> list[Column]:
    mine = (F.col(_WHICH) == log.number) & ~F.col(_IS_LATE)
    good = mine & ~F.col(_IS_BAD)
    after = F.col(_GONE_AT).isNull() | (F.col(_OFFSET) > F.col(_GONE_AT))
    news, undone = good & after & ~F.col(_TAKES_BACK), good & after & F.col(_TAKES_BACK)
    record = Record(F.col(_OFFSET), news, undone)
    told = [
        F.count_if(news).alias(fact(log, NEWS)),
        F.count_if(undone).alias(fact(log, UNDONE)),
        F.max(F.when(good & after, F.col(_FAST))).alias(fact(log, FAST)),
        (F.count_if(mine & F.col(_DELETES)) > 0).alias(fact(log, GONE)),
        F.max(F.when(good & ~after, F.col(_FAST))).alias(fact(log, GONE_FAST)),
        (F.lit(None).cast("string") if skip_bad else _bad(log, mine & F.col(_IS_BAD))).alias(fact(log, BAD)),
    ]
    merged = [column for column in spec.columns if log.has(column.name)]
    return told + [c.from_records(F.col(quoted(c.name)), record).alias(value(log, c.name)) for c in merged]


def _bad(log: DiffLog, is_bad: Column) -> Column:
    """The fast version of a record that is out of range, as text, or NULL if there is none.

    In a keyed log a correction takes the bad row back, and with it the trouble; but not that of other rows, also where
    the row that is taken back was given up before.
    """
    shown = F.coalesce(F.col(_FAST).cast("string"), F.lit("NULL"))
    if not log.is_keyed:
        return F.min(F.when(is_bad, F.struct(F.col(_OFFSET).alias("offset"), shown.alias("shown"))))["shown"]
    placed = F.struct(
        F.col(_OFFSET).alias("offset"),
        F.col(_TAKES_BACK).alias("takes back"),
        F.col(_BAD_ROW).alias("row"),
        shown.alias("shown"),
    )
    found = F.array_sort(F.collect_list(F.when(is_bad, placed)))

    def follow(standing: Column, entry: Column) -> Column:
        others = F.filter(standing, lambda other: other["row"] != entry["row"])
        return F.when(entry["takes back"], others).otherwise(F.concat(standing, F.array(entry)))

    left = F.reduce(found, F.filter(found, lambda _: F.lit(False)), follow)
    return F.get(left, F.lit(0))["shown"]
