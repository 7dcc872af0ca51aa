"""What a fold gives of each visit: its records, what changes in the state, and why it failed, if it did."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs import news
from seamark.diffs.blocks import Fast, Side
from seamark.diffs.declare import SLOW, DiffSpec
from seamark.diffs.level import (
    AT_FAST,
    MISSING,
    TOO_LARGE,
    UNTOLD,
    Folding,
    column_names,
    kept_wide,
    known_side,
    level_names,
    lines_name,
    old,
    state_name,
    state_row,
    states_by,
)
from seamark.ledger import Op
from seamark.tables.frames import quoted

RECORDS, CHANGES, FAILED, OLDEST = "its records", "its changes", "its failure", "its time"


def result_columns(spec: DiffSpec, how: Folding) -> list[Column]:
    """The columns of the result, over all that was computed of a visit."""
    failed = _failure(spec)
    parts = [F.col(quoted(lines_name(log, "news"))) for log in spec.logs]
    for place, log in reversed(list(enumerate(spec.logs))):
        if log.deletes_by is not None:
            parts.insert(place, F.col(quoted(lines_name(log, "delete"))))
    stays, leaves = _stays(spec, how)
    columns = [
        *[F.col(quoted(name)) for name in spec.key_names],
        F.when(failed.isNull(), F.concat(*parts)).alias(RECORDS),
        F.when(failed.isNull(), _changes(spec, stays, leaves)).alias(CHANGES),
        failed.alias(FAILED),
        F.col(quoted(news.ROWS)),
        F.col(quoted(news.LATE_ROWS)),
    ]
    if spec.ttl is not None:
        columns.append(F.when(failed.isNull() & stays, F.col(quoted(state_name(spec.ttl.column)))).alias(OLDEST))
    if how.keep_levels:
        columns += [F.when(failed.isNull(), F.col(quoted(name))).alias(name) for name in level_names(spec)]
    return columns


def _failure(spec: DiffSpec) -> Column:
    """Why a visit cannot be taken, or NULL."""
    name, most = spec.fast_version.name, spec.multiplier
    reasons = [F.when(F.col(quoted(key)).isNull(), F.lit(f"its key column '{key}' is NULL")) for key in spec.key_names]
    for log in spec.logs:
        bad = F.col(quoted(news.fact(log, news.BAD)))
        rule = f" in log '{log.name}': {name} must be 0 <= F < M, with M={most}"
        reasons.append(F.when(bad.isNotNull(), F.concat(F.lit(f"{name} is F="), bad, F.lit(rule))))
    if spec.wide is not None:
        missing = F.col(quoted(MISSING))
        rule = ", whose columns its records must carry"
        told = F.concat(F.lit(f"the wide table '{spec.wide.name}' has no row for F="), missing.cast("string"))
        reasons.append(F.when(missing.isNotNull(), F.concat(told, F.lit(rule))))
    too_large = F.concat(F.lit("the sum of its column '"), F.col(quoted(TOO_LARGE)), F.lit("' does not fit the column"))
    reasons.append(F.when(F.col(quoted(TOO_LARGE)).isNotNull(), too_large))
    untold = f"it is deleted, and nobody has told its {name}, which must be taken back: F=NULL, M={most}"
    reasons.append(F.when(F.col(quoted(UNTOLD)), F.lit(untold)))
    return F.coalesce(*reasons)


def _stays(spec: DiffSpec, how: Folding) -> tuple[Column, Column]:
    """Whether a visit is in the state afterwards, and whether it was before."""
    stays = F.col(quoted(AT_FAST)).isNotNull()
    if spec.ttl is not None and how.horizon is not None:
        expired = news.before(spec, F.col(quoted(state_name(spec.ttl.column))), how.horizon)
        stays = stays & ~F.coalesce(expired, F.lit(False))
    return stays, F.col(quoted(old(spec.fast_version.name))).isNotNull()


def _changes(spec: DiffSpec, stays: Column, stood: Column) -> Column:
    """What changes in the state, as records of its table."""
    before = Side(
        F.col(quoted(old(SLOW))),
        Fast(F.col(quoted(old(spec.fast_version.name))), kept_wide(spec) if spec.wide_columns else None),
        states_by(spec, old),
    )
    after = known_side(spec)
    differs = ~F.col(quoted(old(SLOW))).eqNullSafe(after.slow)
    differs |= ~before.fast.version.eqNullSafe(after.fast.version)
    for name in column_names(spec):
        differs |= ~before.state[name].eqNullSafe(after.state[name])
    for column in spec.wide_columns:
        differs |= ~before.fast.wide[column.name].eqNullSafe(after.fast.wide[column.name])  # type: ignore[index]

    def record(op: Op, side: Side) -> Column:
        return F.struct(F.lit(int(op)).cast("int").alias("op"), *state_row(spec, side))

    corrected = F.array(record(Op.CORRECT_FROM, before), record(Op.CORRECT_TO, after))
    nothing = F.filter(F.array(record(Op.APPEND, after)), lambda _: F.lit(False))
    return (
        F.when(stays & stood, F.when(differs, corrected).otherwise(nothing))
        .when(stays, F.array(record(Op.APPEND, after)))
        .when(stood, F.array(record(Op.RETRACT, before)))
        .otherwise(nothing)
    )


def folded_schema(spec: DiffSpec, how: Folding) -> pa.Schema:
    """The columns of the result as Arrow holds them."""
    key = [pa.field(column.name, column.type) for column in spec.key]
    own = [pa.field(f.name, f.type) for f in spec.log_schema.arrow if f.name not in spec.key_names]
    row = [pa.field(f.name, f.type) for f in spec.state_schema.arrow]
    fields = [
        *key,
        pa.field(RECORDS, pa.list_(pa.struct(own))),
        pa.field(CHANGES, pa.list_(pa.struct([pa.field("op", pa.int32()), *row]))),
        pa.field(FAILED, pa.string()),
        pa.field(news.ROWS, pa.int64()),
        pa.field(news.LATE_ROWS, pa.int64()),
    ]
    if spec.ttl is not None:
        fields.append(pa.field(OLDEST, next(c.type for c in spec.columns if c.name == spec.ttl.column)))
    if how.keep_levels:
        fields += [pa.field(name, pa.struct(row)) for name in level_names(spec)]
    return pa.schema(fields)
