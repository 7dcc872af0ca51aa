"""What applying the logs gives of each visit: its records, what changes in the diff's tables, and why it failed."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs.compute import news
from seamark.diffs.compute.blocks import Side
from seamark.diffs.compute.constant import constant_trouble, with_constants
from seamark.diffs.compute.visit_columns import (
    DELETED_WITHOUT_VERSION,
    ENDED,
    LAST_SLOW,
    LATE,
    LIVES,
    MARK,
    MARK_SLOW,
    MISSING,
    NOW,
    TOO_LARGE,
    Applying,
    column_names,
    gone,
    intermediate_columns,
    known_side,
    old,
    state_name,
    state_row,
    stored_side,
    written_records,
)
from seamark.diffs.declare.spec import AT, DELETED, REASON, SLOW, DiffSpec
from seamark.ledger import Op
from seamark.tables.frame import quoted
from seamark.tables.schema.types import spark_name

RECORDS, CHANGES, FAILED, OLDEST = "its records", "its changes", "its failure", "its time"
_LARGEST = (1 << 63) - 1
MARKS, TIMES = "its marks", "its times"  # what changes in the table of marks, and in that of the visits by their time


def _col(name: str) -> Column:
    return F.col(quoted(name))


def result_columns(spec: DiffSpec, how: Applying) -> list[Column]:
    """The columns of the result, over all that was computed of a visit."""
    records, failed = written_records(spec), _failure(spec)
    if spec.constant:
        records, failed = with_constants(spec), F.coalesce(failed, constant_trouble(spec))
    columns = [
        *[_col(name) for name in spec.key_names],
        F.when(failed.isNull(), records).alias(RECORDS),
        F.when(failed.isNull(), _changes(spec)).alias(CHANGES),
        failed.alias(FAILED),
        _col(news.ROWS),
        F.when(failed.isNull(), _col(LATE)).otherwise(0).alias(LATE),
    ]
    if spec.loses_visits:
        columns.append(F.when(failed.isNull(), _marks(spec, how)).alias(MARKS))
    if spec.ttl is not None:
        time = F.when(_col(LIVES), _col(state_name(spec.ttl.column)))
        columns.append(F.when(failed.isNull(), _times(spec, time)).alias(TIMES))
        columns.append(F.when(failed.isNull(), time).alias(OLDEST))
    if how.keep_intermediate:
        columns += [F.when(failed.isNull(), _col(name)).alias(name) for name in intermediate_columns(spec)]
    return columns


def _failure(spec: DiffSpec) -> Column:
    """Why a visit cannot be taken, or NULL."""
    name, most = spec.fast_version.name, spec.multiplier
    reasons = [F.when(_col(key).isNull(), F.lit(f"its key column '{key}' is NULL")) for key in spec.key_names]
    for log in spec.logs:
        bad = _col(news.fact(log, news.BAD))
        rule = f" in log '{log.name}': {name} must be 0 <= F < M, with M={most}"
        reasons.append(F.when(bad.isNotNull(), F.concat(F.lit(f"{name} is F="), bad, F.lit(rule))))
    if spec.wide is not None:
        missing = _col(MISSING)
        rule = ", whose columns its records must carry"
        lacking = F.concat(F.lit(f"the wide table '{spec.wide.name}' has no row for F="), missing.cast("string"))
        reasons.append(F.when(missing.isNotNull(), F.concat(lacking, F.lit(rule))))
    too_large = F.concat(F.lit("the sum of its column '"), _col(TOO_LARGE), F.lit("' does not fit the column"))
    reasons.append(F.when(_col(TOO_LARGE).isNotNull(), too_large))
    slow = _col(LAST_SLOW)
    beyond = F.concat(F.lit("its Version does not fit a long: S="), slow.cast("string"), F.lit(f", M={most}"))
    reasons.append(F.when(slow >= _LARGEST // most, beyond))
    without = f"it is deleted, and its {name} is not known, which must be taken back: F=NULL, M={most}"
    reasons.append(F.when(_col(DELETED_WITHOUT_VERSION), F.lit(without)))
    return F.coalesce(*reasons)


def _record(op: Op, *columns: Column) -> Column:
    return F.struct(F.lit(int(op)).cast("int").alias("op"), *columns)


def _none_of(records: Column) -> Column:
    return F.filter(records, lambda _: F.lit(False))


def _changes(spec: DiffSpec) -> Column:
    """What changes in the state, as records of its table.

    A visit that is too old by now stays for this commit: when it returns, what it has become here is taken back.
    """
    before, after, stood = stored_side(spec, old), known_side(spec), _col(old(spec.fast_version.name)).isNotNull()
    differs = ~before.slow.eqNullSafe(after.slow)
    differs |= ~before.fast.version.eqNullSafe(after.fast.version)
    for name in column_names(spec):
        differs |= ~before.state[name].eqNullSafe(after.state[name])
    for column in spec.wide_columns:
        differs |= ~before.fast.wide[column.name].eqNullSafe(after.fast.wide[column.name])  # type: ignore[index]
    new = F.array(state_record(spec, Op.APPEND, after))
    both = F.array(state_record(spec, Op.CORRECT_FROM, before), state_record(spec, Op.CORRECT_TO, after))
    nothing = _none_of(new)
    return (
        F.when(_col(LIVES) & stood, F.when(differs, both).otherwise(nothing))
        .when(_col(LIVES), new)
        .when(stood, F.array(state_record(spec, Op.RETRACT, before)))
        .otherwise(nothing)
    )


def state_record(spec: DiffSpec, op: Op, side: Side) -> Column:
    """A record of the state."""
    return _record(op, *state_row(spec, side))


# --- marks and times --------------------------------------------------------------------------------------------------


def _marks(spec: DiffSpec, how: Applying) -> Column:
    """What changes among the marks, as records of their table: a visit that is deleted leaves one."""
    changed = mark_records(spec, _col(MARK), _col(MARK_SLOW), F.lit(DELETED), has_mark=how.marks)
    return F.when(_col(ENDED), changed).otherwise(_none_of(changed))


def mark_records(spec: DiffSpec, fast: Column, slow: Column, reason: Column, *, has_mark: bool) -> Column:
    """The records that leave a mark of a visit, now, in the place of the one that it has, if it has one."""

    new = [fast.cast(spark_name(spec.fast_version.type)), slow, reason, _col(NOW)]
    if not has_mark:
        return F.array(mark_record(spec, Op.APPEND, new))
    was = [_col(gone(name)) for name in (spec.fast_version.name, SLOW, REASON, AT)]
    both = F.array(mark_record(spec, Op.CORRECT_FROM, was), mark_record(spec, Op.CORRECT_TO, new))
    return F.when(_col(gone(AT)).isNotNull(), both).otherwise(F.array(mark_record(spec, Op.APPEND, new)))


def mark_record(spec: DiffSpec, op: Op, values: list[Column] | None = None) -> Column:
    """A record of the table of marks: with given values, or those that its columns have."""
    names = (spec.fast_version.name, SLOW, REASON, AT)
    given = values or [_col(name) for name in names]
    values = [value.alias(name) for value, name in zip(given, names, strict=True)]
    return _record(op, *[_col(name) for name in spec.key_names], *values)


def _times(spec: DiffSpec, time: Column) -> Column:
    """What changes among the visits by their time, as records of their table."""
    assert spec.ttl is not None
    before = _col(old(spec.ttl.column))
    changed = F.array(
        F.when(before.isNotNull(), time_record(spec, Op.RETRACT, before)),
        F.when(time.isNotNull(), time_record(spec, Op.APPEND, time)),
    )
    there = F.filter(changed, lambda record: record.isNotNull())
    return F.when(~before.eqNullSafe(time), there).otherwise(_none_of(there))


def time_record(spec: DiffSpec, op: Op, time: Column) -> Column:
    """A record of the table of the visits by their time."""
    assert spec.ttl is not None
    return _record(op, time.alias(spec.ttl.column), *[_col(name) for name in spec.key_names])


def changes_type(schema: pa.Schema) -> pa.DataType:
    """The type of a column that holds records of a table."""
    return pa.list_(pa.struct([pa.field("op", pa.int32()), *[pa.field(f.name, f.type) for f in schema]]))


def applied_schema(spec: DiffSpec, how: Applying) -> pa.Schema:
    """The columns of the result as Arrow holds them."""
    own = [pa.field(f.name, f.type) for f in spec.log_schema.arrow if f.name not in spec.key_names]
    fields = [
        *[pa.field(column.name, column.type) for column in spec.key],
        pa.field(RECORDS, pa.list_(pa.struct(own))),
        pa.field(CHANGES, changes_type(spec.state_schema.arrow)),
        pa.field(FAILED, pa.string()),
        pa.field(news.ROWS, pa.int64()),
        pa.field(LATE, pa.int64()),
    ]
    if spec.loses_visits:
        fields.append(pa.field(MARKS, changes_type(spec.gone_schema.arrow)))
    if spec.ttl is not None:
        fields.append(pa.field(TIMES, changes_type(spec.times_schema.arrow)))
        fields.append(pa.field(OLDEST, spec.ttl_type))
    if how.keep_intermediate:
        row = [pa.field(f.name, f.type) for f in spec.state_schema.arrow]
        fields += [pa.field(name, pa.struct(row)) for name in intermediate_columns(spec)]
    return pa.schema(fields)
