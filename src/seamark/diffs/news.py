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
_WHICH, _OFFSET, _FAST, _LIFE, _LIVES = "its log", "its offset", "its fast", "its life", "its lives"
_DELETES, _TAKES_BACK, _IS_BAD, _IS_LATE = "it deletes", "it takes back", "it is bad", "it is late"
_BAD_ROW = "its bad row"
ROWS, LATE_ROWS = "its rows", "its late rows"
NEWS, UNDONE, FAST, GONE, ENDED, BAD, OVERFLOW = "news", "undone", "fast", "gone", "ended", "bad", "overflow"


def fact(log: DiffLog, what: str) -> str:
    """The column of what a log says about a visit, such as whether it is gone."""
    return f"its {log.number} {what}"


def value(log: DiffLog, column: str) -> str:
    """The column of a value that a log brings."""
    return f"{log.number} {column}"


def records_of(spec: DiffSpec, log: DiffLog, records: DataFrame, horizon: datetime | None) -> DataFrame:
    """The records of one log, in the columns that all logs share; rows from before the horizon are marked as late."""
    if horizon is not None:  # it moves with the clock
        return records.select(*_columns_of(spec, log, horizon))
    name = f"records of log {log.number}"
    return records.select(*spec.expressions.setdefault(name, lambda: _columns_of(spec, log, None)))


def _columns_of(spec: DiffSpec, log: DiffLog, horizon: datetime | None) -> list[Column]:
    fast = F.col(quoted(spec.fast_version.name)).cast("bigint")
    out_of_range = fast.isNull() | (fast < 0) | (fast >= spec.multiplier)
    takes_back = F.col("op").isin(int(Op.RETRACT), int(Op.CORRECT_FROM))
    deletes = _deletes(log)
    # A row that only says that a visit is gone need not know its version.
    bad = F.when(deletes & ~takes_back & fast.isNull(), False).otherwise(out_of_range)
    values = [
        F.col(quoted(c.name)) if log.has(c.name) else F.lit(None).cast(c.spark_type).alias(c.name) for c in spec.columns
    ]
    return [
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
    ]


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
    out instead. What was written before the last delete counts no more, but for the newest version of each life.
    """
    records = reduce(DataFrame.unionByName, logs)
    key = [F.col(quoted(name)) for name in spec.key_names]
    life = lives = F.lit(0)
    if any(log.deletes_by is not None for log in spec.logs):
        records = records.repartition(*key)  # once, for the window and for the groups
        window = Window.partitionBy(*key, _WHICH)
        before_it = window.orderBy(_OFFSET).rowsBetween(Window.unboundedPreceding, -1)
        ends = F.count_if(F.col(_DELETES) & ~F.col(_IS_LATE))
        life, lives = ends.over(before_it), ends.over(window)
    records = records.withColumns({_LIFE: life.cast("int"), _LIVES: lives.cast("int")})
    told = spec.expressions.setdefault(f"news, skip bad {skip_bad}", lambda: _told(spec, skip_bad=skip_bad))
    return records.groupBy(*key).agg(*told)


def _told(spec: DiffSpec, *, skip_bad: bool) -> list[Column]:
    told = [F.count(F.lit(1)).alias(ROWS), F.count_if(F.col(_IS_LATE)).alias(LATE_ROWS)]
    for log in spec.logs:
        told += _told_by(spec, log, skip_bad=skip_bad)
    return told


def _told_by(spec: DiffSpec, log: DiffLog, *, skip_bad: bool) -> list[Column]:
    mine = (F.col(_WHICH) == log.number) & ~F.col(_IS_LATE)
    good = mine & ~F.col(_IS_BAD)
    after = F.col(_LIFE) == F.col(_LIVES)
    news, undone = good & after & ~F.col(_TAKES_BACK), good & after & F.col(_TAKES_BACK)
    record = Record(F.col(_OFFSET), news, undone)
    told = [
        F.count_if(news).alias(fact(log, NEWS)),
        F.count_if(undone).alias(fact(log, UNDONE)),
        F.max(F.when(good & after, F.col(_FAST))).alias(fact(log, FAST)),
        (F.count_if(mine & F.col(_DELETES)) > 0).alias(fact(log, GONE)),
        (_ended(good & ~after) if log.deletes_by is not None else F.array(F.expr(_NONE))).alias(fact(log, ENDED)),
        (F.lit(None).cast("string") if skip_bad else _bad(log, mine & F.col(_IS_BAD))).alias(fact(log, BAD)),
    ]
    merged = [column for column in spec.columns if log.has(column.name)]
    too_large = [
        F.when(column.overflowing_records(F.col(quoted(column.name)), record), F.lit(column.name))
        for column in merged
        if column.rule == "sum"
    ]
    told.append(F.coalesce(*too_large, F.lit(None).cast("string")).alias(fact(log, OVERFLOW)))
    return told + [c.from_records(F.col(quoted(c.name)), record).alias(value(log, c.name)) for c in merged]


_NONE = "CAST(NULL AS BIGINT)"


def _ended(is_past: Column) -> Column:
    """The newest fast version of each life of a visit that a delete has ended, the one that stood before first.

    A life begins with a record that brings something: a delete that comes twice ends nothing.
    """
    begins = ~F.col(_DELETES) & ~F.col(_TAKES_BACK)
    entry = F.struct(
        F.col(_OFFSET).alias("offset"), F.col(_LIFE).alias("life"), begins.alias("begins"), F.col(_FAST).alias("fast")
    )
    entries = F.array_sort(F.collect_list(F.when(is_past, entry)))
    first = F.struct(F.lit(0).alias("life"), F.array(F.expr(_NONE)).alias("newest"))

    def follow(known: Column, entry: Column) -> Column:
        newest = known["newest"]
        another = F.struct(entry["life"].alias("life"), F.concat(newest, F.array(entry["fast"])).alias("newest"))
        last = F.greatest(F.element_at(newest, -1), entry["fast"])
        others = F.slice(newest, 1, F.size(newest) - 1)
        same = F.struct(known["life"].alias("life"), F.concat(others, F.array(last)).alias("newest"))
        return F.when(entry["begins"] & (entry["life"] > known["life"]), another).otherwise(same)

    return F.reduce(entries, first, follow)["newest"]


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
