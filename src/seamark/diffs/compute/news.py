"""From the records of all logs to one row per visit: the records of each log about it, in the order of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from seamark.diffs.compute.lives import Record, columns_of
from seamark.diffs.compute.visit_columns import HORIZON
from seamark.diffs.declare.spec import DiffLog, DiffSpec
from seamark.ledger import Op
from seamark.tables.frame import quoted

# A column's name holds no space, so these are nobody's.
_WHICH, _OFFSET, _FAST, _IS_BAD, _IS_LATE = "its log", "its offset", "its fast", "it is bad", "it is late"
_BAD_ROW, _ROW, _TAKES_BACK, _DELETES = "its bad row", "its row", "it takes back", "it deletes"
_CORRECTS = "it corrects"
ROWS, LATE_ROWS, RECORDS, BAD = "its rows", "its late rows", "records", "bad"


def fact(log: DiffLog, what: str) -> str:
    """The column of what a log says about a visit, such as its records."""
    return f"its {log.number} {what}"


def records_of(spec: DiffSpec, log: DiffLog, records: DataFrame, horizon: Column | None) -> DataFrame:
    """The records of one log, in the columns that all logs share; those from before the horizon are marked as late."""
    name = f"records of log {log.number}, horizon {horizon is not None}"
    if horizon is not None:
        records = records.withColumn(HORIZON, horizon)
    has_horizon = horizon is not None
    return records.select(*spec.expressions.setdefault(name, lambda: _columns_of(spec, log, has_horizon)))


def _columns_of(spec: DiffSpec, log: DiffLog, has_horizon: bool) -> list[Column]:
    fast = F.col(quoted(spec.fast_version.name)).cast("bigint")
    out_of_range = fast.isNull() | (fast < 0) | (fast >= spec.multiplier)
    takes_back = F.col("op").isin(int(Op.RETRACT), int(Op.CORRECT_FROM))
    deletes = _deletes(log)
    # A row that only says that a visit is gone need not know its version.
    bad = F.when(deletes & ~takes_back & fast.isNull(), False).otherwise(out_of_range)
    late = _is_late(spec, log) if has_horizon else F.lit(False)
    # A late row of a keyed log is looked at all the same: what it brought, and what takes it back, go together.
    wanted = (~bad | deletes) & (F.lit(True) if _has_late_rows(spec, log) else ~late)
    entry = [F.col("offset").alias(_OFFSET), F.when(~bad, fast).alias(_FAST)]
    if log.deletes_by is not None:
        entry.append(deletes.alias(_DELETES))
    if log.is_keyed:
        row = F.struct(*[F.col(quoted(name)) for name in log.source.schema.key])
        corrects = F.col("op") == int(Op.CORRECT_TO)
        entry += [takes_back.alias(_TAKES_BACK), row.alias(_ROW), corrects.alias(_CORRECTS), late.alias(_IS_LATE)]
    entry += [F.col(quoted(column.name)).alias(_value(column.name)) for column in columns_of(spec, log)]
    return [
        *[F.col(quoted(name)) for name in spec.key_names],
        F.lit(log.number).alias(_WHICH),
        F.col("offset").alias(_OFFSET),
        fast.alias(_FAST),
        takes_back.alias(_TAKES_BACK),
        bad.alias(_IS_BAD),
        _row_of(log, bad).alias(_BAD_ROW),
        late.alias(_IS_LATE),
        F.when(wanted, F.struct(*entry)).alias(fact(log, RECORDS)),
    ]


def _value(column: str) -> str:
    return f"value {column}"


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


def _has_late_rows(spec: DiffSpec, log: DiffLog) -> bool:
    return spec.ttl is not None and log.is_keyed and log.has(spec.ttl.column)


def _is_late(spec: DiffSpec, log: DiffLog) -> Column:
    """Whether a record comes after its own time to live; the two records of a correction are judged by the second."""
    if spec.ttl is None or not log.has(spec.ttl.column):
        return F.lit(False)
    late = F.coalesce(F.col(quoted(spec.ttl.column)) < F.col(quoted(HORIZON)), F.lit(False))
    if not log.is_keyed:
        return late
    row = Window.partitionBy(*[quoted(name) for name in log.source.schema.key]).orderBy("offset")
    # The second one may be of another visit, and then not be here where only some visits are read again.
    is_pair = F.lead("offset").over(row) == F.col("offset") + 1
    by_pair = F.when(is_pair, F.lead(late).over(row))
    return F.when(F.col("op") == int(Op.CORRECT_FROM), F.coalesce(by_pair, late)).otherwise(late)


def gather_news(spec: DiffSpec, logs: Sequence[DataFrame], *, skip_bad: bool) -> DataFrame:
    """One row per visit, with the records that each log brings of it.

    A visit is bad if one of its records has a fast version that is out of range; with `skip_bad` such records are left
    out instead.
    """
    records = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), logs)
    per_visit = spec.expressions.setdefault(f"news, skip bad {skip_bad}", lambda: _per_visit(spec, skip_bad=skip_bad))
    return records.groupBy(*[F.col(quoted(name)) for name in spec.key_names]).agg(*per_visit)


def _per_visit(spec: DiffSpec, *, skip_bad: bool) -> list[Column]:
    columns = [F.count(F.lit(1)).alias(ROWS), F.count_if(F.col(_IS_LATE)).cast("bigint").alias(LATE_ROWS)]
    for log in spec.logs:
        # What takes a bad row back does so too where the row says something now that comes too late.
        is_bad = (F.col(_WHICH) == log.number) & F.col(_IS_BAD) & (F.col(_TAKES_BACK) | ~F.col(_IS_LATE))
        columns.append(F.collect_list(quoted(fact(log, RECORDS))).alias(fact(log, RECORDS)))
        columns.append((F.lit(None).cast("string") if skip_bad else _bad(log, is_bad)).alias(fact(log, BAD)))
    return columns


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


# --- the records of one visit -----------------------------------------------------------------------------------------


def records_to_apply(spec: DiffSpec, log: DiffLog) -> Column:
    """The records of a log about a visit that are to be applied, in their order."""
    given = F.col(quoted(fact(log, RECORDS)))
    in_order = F.array_sort(given, lambda one, other: F.when(one[_OFFSET] < other[_OFFSET], -1).otherwise(1))
    if not log.is_keyed:
        return F.when(F.size(given) > 1, in_order).otherwise(given)
    standing = F.reduce(in_order, F.filter(given, lambda _: F.lit(False)), _without_withdrawn)
    applied = F.when(F.size(given) > 1, standing).otherwise(given)
    return F.filter(applied, lambda record: ~record[_IS_LATE]) if _has_late_rows(spec, log) else applied


def _without_withdrawn(kept: Column, record: Column) -> Column:
    """The records of a keyed log that are left when one more is looked at.

    A version that is corrected to a smaller one before anybody has read it was never there: neither what it brought nor
    what takes it back is applied. What came too late was not taken, so there is nothing to take back of it either.
    """
    of_the_row = F.filter(kept, lambda other: (other[_ROW] == record[_ROW]) & ~other[_TAKES_BACK])
    last = F.get(of_the_row, F.size(of_the_row) - 1)
    is_withdrawn = record[_CORRECTS] & ~last[_IS_LATE] & ~record[_IS_LATE] & (last[_FAST] > record[_FAST])
    others = F.filter(kept, lambda other: (other[_ROW] != record[_ROW]) | (other[_OFFSET] < last[_OFFSET]))
    is_void = record[_TAKES_BACK] & last[_IS_LATE]
    return (
        F.when(F.coalesce(is_void, F.lit(False)), kept)
        .when(F.coalesce(is_withdrawn, F.lit(False)), F.concat(others, F.array(record)))
        .otherwise(F.concat(kept, F.array(record)))
    )


def record_of(spec: DiffSpec, log: DiffLog, entry: Column) -> Record:
    """An entry of the records of a log, as it is applied."""
    return Record(
        offset=entry[_OFFSET],
        fast=entry[_FAST],
        takes_back=entry[_TAKES_BACK] if log.is_keyed else F.lit(False),
        deletes=entry[_DELETES] if log.deletes_by is not None else F.lit(False),
        values={column.name: entry[_value(column.name)] for column in columns_of(spec, log)},
    )


def versions_named(spec: DiffSpec) -> Column:
    """The fast versions that the logs name, each once."""
    each = [F.transform(F.col(quoted(fact(log, RECORDS))), lambda record: record[_FAST]) for log in spec.logs]
    return F.array_distinct(F.array_compact(F.concat(*each)))


def brought_by(spec: DiffSpec, log: DiffLog, records: Column, make: Callable[[Record], Column]) -> Column:
    """Something made of each record of a log that brings or ends a version, and that was not corrected since."""

    def corrected(record: Column, later: Column) -> Column:
        is_newer = (later[_ROW] == record[_ROW]) & (later[_OFFSET] > record[_OFFSET])
        return is_newer & later[_TAKES_BACK] & ~record_of(spec, log, later).deletes

    def counts(record: Column) -> Column:
        brings = record[_FAST].isNotNull()
        if not log.is_keyed:
            return brings
        stands = ~record[_TAKES_BACK] & ~F.exists(records, lambda later: corrected(record, later))
        return brings & (record_of(spec, log, record).deletes | stands)

    return F.transform(F.filter(records, counts), lambda record: make(record_of(spec, log, record)))
