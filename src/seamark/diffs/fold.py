"""The fold: the old state of each visit, and log after log what it becomes, with the records that lead there.

Everything is columns of one row a visit, so that a run is one pass whatever the number of logs. A level is what is
known of the visit after a log: `at S`, `at F`, `at wide`, and a column `state …` for each of the state's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.diffs import news
from seamark.diffs.blocks import EMPTY, Fast, Line, Side, State, delete_blocks, late_blocks, six_blocks
from seamark.diffs.declare import LOG, SIGN, SLOW, VERSION, WIDE, DiffLog, DiffSpec
from seamark.ledger import Op
from seamark.tables.frames import quoted
from seamark.tables.schema import Column as TableColumn
from seamark.tables.types import spark_name

RECORDS, CHANGES, FAILED, OLDEST = "its records", "its changes", "its failure", "its time"
WIDE_BY_VERSION = "its wide"
_SLOW, _FAST, _WIDE = "at S", "at F", "at wide"
_LINES, _IS_GONE, _COUNTS, _MISSING, _UNTOLD = "lines", "is gone", "it counts", "missing wide", "untold version"


@dataclass(frozen=True)
class Folding:
    """How a fold is done: from which horizon on visits stay, and whether to keep what is known after each log."""

    horizon: datetime | None = None
    keep_levels: bool = False


def old(column: str) -> str:
    """The column of what stood in the state before."""
    return f"old {column}"


def level_of(number: int, *, new_only: bool = False) -> str:
    """The column of what is known after a log, as a row of the state; 0 is what stood before all of them."""
    return f"level {number}" + (" new" if new_only else "")


def fold_visits(spec: DiffSpec, visits: DataFrame, how: Folding) -> DataFrame:
    """A row a visit with its records, its changes of the state, and why it failed, if it did.

    `visits` has the news of all logs and what stood before, under `old …`.
    """
    name = f"fold, levels {how.keep_levels}"
    stages = spec.expressions.setdefault(name, lambda: _stages(spec, how))
    frame = reduce(lambda known, stage: known.withColumns(stage), stages, visits)
    if how.horizon is not None:  # it moves with the clock
        return frame.select(*_finish(spec, how))
    return frame.select(*spec.expressions.setdefault(f"{name}, result", lambda: _finish(spec, how)))


Stage = dict[str, Column]
"""Columns that are added, or put in the place of others, at once: each sees what stood before the stage."""


def _stages(spec: DiffSpec, how: Folding) -> list[Stage]:
    """What is to be computed, level after level."""
    stages = _begin(spec, how)
    for log in spec.logs:
        if log.deletes_by is not None:
            stages += _apply_delete(spec, log)
        stages += _apply_news(spec, log, how)
    return stages


# --- levels -----------------------------------------------------------------------------------------------------------


def _known(spec: DiffSpec, name: Callable[[str], str]) -> State:
    return {column.name: F.col(quoted(name(column.name))) for column in spec.columns}


def _state(column: str) -> str:
    return f"state {column}"


def _at(spec: DiffSpec) -> Side:
    wide = F.col(quoted(_WIDE)) if spec.wide_columns else None
    return Side(F.col(quoted(_SLOW)), Fast(F.col(quoted(_FAST)), wide), _known(spec, _state))


def _begin(spec: DiffSpec, how: Folding) -> list[Stage]:
    columns = {
        _SLOW: F.col(quoted(old(SLOW))),
        _FAST: F.col(quoted(old(spec.fast_version.name))).cast("bigint"),
        **{_state(c.name): F.col(quoted(old(c.name))) for c in spec.columns},
        _IS_GONE: F.lit(False),
        _MISSING: F.lit(None).cast("bigint"),
        _UNTOLD: F.lit(False),
    }
    if spec.wide_columns:
        columns[_WIDE] = F.col(quoted(old(WIDE)))
    return [columns, *([{level_of(0): _level(spec, F.lit(True))}] if how.keep_levels else [])]


def _level(spec: DiffSpec, condition: Column) -> Column:
    """What is known, as a row of the state; NULL where nothing is."""
    row = F.struct(*_state_row(spec, _at(spec)))
    return F.when(F.col(quoted(_FAST)).isNotNull() & condition, row)


def _state_row(spec: DiffSpec, side: Side) -> list[Column]:
    """What is known of a visit, as a row of the state."""
    row = [F.col(quoted(name)) for name in spec.key_names]
    row.append(side.fast.version.cast(spark_name(spec.fast_version.type)).alias(spec.fast_version.name))
    row.append(side.slow.alias(SLOW))
    row += [side.state[column.name].alias(column.name) for column in spec.columns]
    return row + ([side.fast.wide.alias(WIDE)] if side.fast.wide is not None else [])


# --- one log ----------------------------------------------------------------------------------------------------------


def _apply_delete(spec: DiffSpec, log: DiffLog) -> list[Stage]:
    """What is known after a log has said that visits are gone: of those, nothing."""
    at, gone = _at(spec), F.col(quoted(news.fact(log, news.GONE)))
    ended = F.col(quoted(news.fact(log, news.ENDED)))
    newest = F.greatest(at.fast.version, F.get(ended, F.lit(0)))
    others = F.filter(F.slice(ended, 2, F.size(ended)), lambda version: version.isNotNull())
    has_moved = at.fast.version.isNull() | (newest > at.fast.version)
    wide = None
    if spec.wide_columns:
        wide = F.when(has_moved, _looked_up(newest)).otherwise(at.fast.wide)
    lines = delete_blocks(at, Fast(newest, wide), fast_deletes=spec.fast_deletes)
    records = _records(spec, log, lines, gone)
    if not spec.fast_deletes:
        records = F.concat(records, F.transform(others, partial(_ended_life, spec, log)))
    needs_wide = gone & has_moved & newest.isNotNull() & F.lit(not spec.fast_deletes)
    # Nobody has said which of the fast supplier's versions is to be taken back: it cannot be left standing either.
    untold = gone & newest.isNull() & F.lit(not spec.fast_deletes and not log.is_keyed)
    known = [_SLOW, _FAST, *([_WIDE] if spec.wide_columns else []), *map(_state, _names(spec))]
    forgotten = {name: F.when(~gone, F.col(quoted(name))) for name in known}
    after = {
        **forgotten,
        _lines(log, "delete"): records,
        _MISSING: F.coalesce(F.col(quoted(_MISSING)), _missing(spec, needs_wide, newest), _missing_of(spec, others)),
        _UNTOLD: F.col(quoted(_UNTOLD)) | F.coalesce(untold, F.lit(False)),
        _IS_GONE: F.col(quoted(_IS_GONE)) | (gone & (F.col(quoted(news.fact(log, news.NEWS))) == 0)),
    }
    return [after]


def _ended_life(spec: DiffSpec, log: DiffLog, version: Column) -> Column:
    """The record that takes back the version of a visit that came back and was deleted again before it was known."""
    wide = _looked_up(version) if spec.wide_columns else None
    line = Line(11, -1, F.lit(0).cast("bigint"), Fast(version, wide), EMPTY, F.lit(True))
    return F.struct(*_record(spec, log, line))


def _apply_news(spec: DiffSpec, log: DiffLog, how: Folding) -> list[Stage]:
    """What is known after a log's news."""
    at, version = _at(spec), F.col(quoted(news.fact(log, news.FAST)))
    merged = _known(spec, _next)
    moves = at.fast.version.isNull() | (at.fast.version < version)
    # A version that stays keeps the columns that it was written with: the wide row may have changed since.
    wide = F.when(moves, _looked_up(version)).otherwise(at.fast.wide) if at.fast.wide is not None else None
    new = Side(F.lit(1).cast("bigint"), Fast(version, wide), merged)
    counts = F.col(quoted(_COUNTS))
    lines = (*six_blocks(at, new, merged), *late_blocks(at, new, merged))
    after = {
        _lines(log, "news"): _records(spec, log, lines, counts),
        _SLOW: F.when(counts, F.coalesce(at.slow, F.lit(0)) + 1).otherwise(at.slow),
        _FAST: F.when(counts & moves, version).otherwise(at.fast.version),
        _MISSING: F.coalesce(F.col(quoted(_MISSING)), _missing(spec, counts & moves, version)),
        **{_state(name): F.when(counts, merged[name]).otherwise(at.state[name]) for name in _names(spec)},
    }
    if at.fast.wide is not None:
        after[_WIDE] = F.when(counts & moves, _looked_up(version)).otherwise(at.fast.wide)
    stages: list[Stage] = [_merged(spec, log), {_COUNTS: _counts(spec, log)}, after]
    if how.keep_levels:
        levels = {level_of(log.number): F.lit(True), level_of(log.number, new_only=True): counts}
        stages.append({name: _level(spec, condition) for name, condition in levels.items()})
    return stages


def _next(column: str) -> str:
    return f"next {column}"


def _names(spec: DiffSpec) -> list[str]:
    return [column.name for column in spec.columns]


def _merged(spec: DiffSpec, log: DiffLog) -> Stage:
    """What the state would be with a log's news. News of an older version is the older side, not the newer one."""
    at, version = _at(spec), F.col(quoted(news.fact(log, news.FAST)))
    merged = {}
    for column in spec.columns:
        stands = at.state[column.name]
        if not log.has(column.name):
            merged[_next(column.name)] = stands
            continue
        comes = F.col(quoted(news.value(log, column.name)))
        merged[_next(column.name)] = (
            F.when(at.fast.version.isNull(), comes)
            .when(at.fast.version > version, column.merged(comes, stands))
            .otherwise(column.merged(stands, comes))
        )
    return merged


def _counts(spec: DiffSpec, log: DiffLog) -> Column:
    """Whether a log brings news of a visit: another version, or something that its state did not have."""
    at, version = _at(spec), F.col(quoted(news.fact(log, news.FAST)))
    unknown = at.fast.version.isNull()
    comes = (F.col(quoted(news.fact(log, news.NEWS))) > 0) | (
        (F.col(quoted(news.fact(log, news.UNDONE))) > 0) & ~unknown
    )
    differs = [~at.state[name].eqNullSafe(F.col(quoted(_next(name)))) for name in _names(spec) if log.has(name)]
    is_other = reduce(lambda one, other: one | other, differs, F.lit(False))
    told = comes & ~F.col(quoted(_IS_GONE)) & version.isNotNull()
    return F.coalesce(told & (unknown | (version > at.fast.version) | is_other), F.lit(False))


def _looked_up(version: Column) -> Column:
    return F.col(quoted(WIDE_BY_VERSION))[version]


def _missing(spec: DiffSpec, is_needed: Column, version: Column) -> Column:
    """The version whose wide columns are needed and not there, or NULL."""
    if not spec.wide_columns:
        return F.lit(None).cast("bigint")
    return F.when(is_needed & _looked_up(version).isNull(), version)


def _missing_of(spec: DiffSpec, versions: Column) -> Column:
    """The first of some versions whose wide columns are not there, or NULL."""
    if not spec.wide_columns or spec.fast_deletes:
        return F.lit(None).cast("bigint")
    return F.get(F.filter(versions, lambda version: _looked_up(version).isNull()), F.lit(0))


# --- records ----------------------------------------------------------------------------------------------------------


def _lines(log: DiffLog, what: str) -> str:
    return f"{_LINES} {log.number} {what}"


def _records(spec: DiffSpec, log: DiffLog, lines: Sequence[Line], condition: Column) -> Column:
    """The records of the lines that a visit falls under, in their order."""
    each = [F.when(condition & line.condition, F.struct(*_record(spec, log, line))) for line in lines]
    return F.filter(F.array(*each), lambda record: record.isNotNull())


def _record(spec: DiffSpec, log: DiffLog, line: Line) -> list[Column]:
    fast = line.fast.version
    version = line.slow * F.lit(spec.multiplier).cast("bigint") + fast
    record = [
        F.lit(line.sign).cast("tinyint").alias(SIGN),
        line.slow.alias(SLOW),
        fast.cast(spark_name(spec.fast_version.type)).alias(spec.fast_version.name),
        version.alias(VERSION),
        F.lit(log.name).alias(LOG),
    ]
    wide = {c.name: _wide_value(line, c) for c in spec.wide_columns}
    for column in spec.columns:
        known = line.state[column.name] if line.state is not EMPTY else F.lit(None).cast(column.spark_type)
        # Where both suppliers know a column, the fast one's value is the older side.
        told = column.merged(wide[column.name], known) if column.name in wide else known
        record.append(told.alias(column.name))
    names = _names(spec)
    return record + [told.alias(name) for name, told in wide.items() if name not in names]


def _wide_value(line: Line, column: TableColumn) -> Column:
    assert line.fast.wide is not None
    return line.fast.wide[column.name]


# --- the result -------------------------------------------------------------------------------------------------------


def _finish(spec: DiffSpec, how: Folding) -> list[Column]:
    failed = _failure(spec)
    parts = [F.col(quoted(_lines(log, "news"))) for log in spec.logs]
    for place, log in reversed(list(enumerate(spec.logs))):
        if log.deletes_by is not None:
            parts.insert(place, F.col(quoted(_lines(log, "delete"))))
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
        columns.append(F.when(failed.isNull() & stays, F.col(quoted(_state(spec.ttl.column)))).alias(OLDEST))
    if how.keep_levels:
        names = [level_of(0)]
        for log in spec.logs:
            names += [level_of(log.number), level_of(log.number, new_only=True)]
        columns += [F.when(failed.isNull(), F.col(quoted(name))).alias(name) for name in names]
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
        missing = F.col(quoted(_MISSING))
        rule = ", whose columns its records must carry"
        told = F.concat(F.lit(f"the wide table '{spec.wide.name}' has no row for F="), missing.cast("string"))
        reasons.append(F.when(missing.isNotNull(), F.concat(told, F.lit(rule))))
    untold = f"it is deleted, and nobody has told its {name}, which must be taken back: F=NULL, M={most}"
    reasons.append(F.when(F.col(quoted(_UNTOLD)), F.lit(untold)))
    return F.coalesce(*reasons)


def _stays(spec: DiffSpec, how: Folding) -> tuple[Column, Column]:
    """Whether a visit is in the state afterwards, and whether it was before."""
    stays = F.col(quoted(_FAST)).isNotNull()
    if spec.ttl is not None and how.horizon is not None:
        expired = news.before(spec, F.col(quoted(_state(spec.ttl.column))), how.horizon)
        stays = stays & ~F.coalesce(expired, F.lit(False))
    return stays, F.col(quoted(old(spec.fast_version.name))).isNotNull()


def _changes(spec: DiffSpec, stays: Column, stood: Column) -> Column:
    """What changes in the state, as records of its table."""
    before = Side(
        F.col(quoted(old(SLOW))),
        Fast(F.col(quoted(old(spec.fast_version.name))), F.col(quoted(old(WIDE))) if spec.wide_columns else None),
        _known(spec, old),
    )
    after = _at(spec)
    differs = ~F.col(quoted(old(SLOW))).eqNullSafe(after.slow)
    differs |= ~before.fast.version.eqNullSafe(after.fast.version)
    for name in _names(spec):
        differs |= ~before.state[name].eqNullSafe(after.state[name])

    def record(op: Op, side: Side) -> Column:
        return F.struct(F.lit(int(op)).cast("int").alias("op"), *_state_row(spec, side))

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
        levels = [level_of(0)]
        for log in spec.logs:
            levels += [level_of(log.number), level_of(log.number, new_only=True)]
        fields += [pa.field(name, pa.struct(row)) for name in levels]
    return pa.schema(fields)
