"""The fold: the old state of each visit, and log after log what it becomes, with the records that lead there.

Everything is columns of one row a visit, so that a run is one pass whatever the number of logs. A level is what is
known of the visit after a log: `at S`, `at F`, `at wide`, and a column `state …` for each of the state's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.diffs import news
from seamark.diffs.blocks import EMPTY, Fast, Line, Side, delete_blocks, late_blocks, six_blocks
from seamark.diffs.declare import LOG, SIGN, SLOW, VERSION, DiffLog, DiffSpec
from seamark.diffs.level import (
    AT_FAST,
    AT_SLOW,
    AT_WIDE,
    COUNTS,
    IS_GONE,
    MISSING,
    TOO_LARGE,
    UNTOLD,
    WIDE_BY_VERSION,
    Folding,
    column_names,
    kept_wide,
    known_side,
    level_of,
    lines_name,
    old,
    state_name,
    state_row,
    states_by,
)
from seamark.diffs.result import result_columns
from seamark.tables.frames import quoted
from seamark.tables.schema import Column as TableColumn
from seamark.tables.types import spark_name


def fold_visits(spec: DiffSpec, visits: DataFrame, how: Folding) -> DataFrame:
    """A row a visit with its records, its changes of the state, and why it failed, if it did.

    `visits` has the news of all logs and what stood before, under `old …`.
    """
    name = f"fold, levels {how.keep_levels}"
    stages = spec.expressions.setdefault(name, lambda: _stages(spec, how))
    frame = reduce(lambda known, stage: known.withColumns(stage), stages, visits)
    if how.horizon is not None:  # it moves with the clock
        return frame.select(*result_columns(spec, how))
    return frame.select(*spec.expressions.setdefault(f"{name}, result", lambda: result_columns(spec, how)))


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


def _begin(spec: DiffSpec, how: Folding) -> list[Stage]:
    columns = {
        AT_SLOW: F.col(quoted(old(SLOW))),
        AT_FAST: F.col(quoted(old(spec.fast_version.name))).cast("bigint"),
        **{state_name(c.name): F.col(quoted(old(c.name))) for c in spec.columns},
        IS_GONE: F.lit(False),
        MISSING: F.lit(None).cast("bigint"),
        UNTOLD: F.lit(False),
        TOO_LARGE: F.lit(None).cast("string"),
    }
    if spec.wide_columns:
        columns[AT_WIDE] = kept_wide(spec)
    return [columns, *([{level_of(0): _level(spec, F.lit(True))}] if how.keep_levels else [])]


def _level(spec: DiffSpec, condition: Column) -> Column:
    """What is known, as a row of the state; NULL where nothing is."""
    row = F.struct(*state_row(spec, known_side(spec)))
    return F.when(F.col(quoted(AT_FAST)).isNotNull() & condition, row)


# --- one log ----------------------------------------------------------------------------------------------------------


def _apply_delete(spec: DiffSpec, log: DiffLog) -> list[Stage]:
    """What is known after a log has said that visits are gone: of those, nothing."""
    at = known_side(spec)
    gone = F.col(quoted(news.fact(log, news.GONE))) & ~F.col(quoted(IS_GONE))  # that it is gone is told once
    comes_back = F.col(quoted(news.fact(log, news.NEWS))) > 0
    ended = _ended_lives(spec, log, comes_back)
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
    known = [AT_SLOW, AT_FAST, *([AT_WIDE] if spec.wide_columns else []), *map(state_name, column_names(spec))]
    forgotten = {name: F.when(~gone, F.col(quoted(name))) for name in known}
    after = {
        **forgotten,
        lines_name(log, "delete"): records,
        MISSING: F.coalesce(F.col(quoted(MISSING)), _missing(spec, needs_wide, newest), _missing_of(spec, others)),
        UNTOLD: F.col(quoted(UNTOLD)) | F.coalesce(untold, F.lit(False)),
        IS_GONE: F.col(quoted(IS_GONE)) | (gone & ~comes_back),
    }
    return [after]


def _ended_lives(spec: DiffSpec, log: DiffLog, comes_back: Column) -> Column:
    """The newest fast version of each life that a log has ended, the one that stood before first.

    Logs that come later may know of a version that is newer than all of these; if the visit is gone for good, nobody
    else takes it back, and it was the last life that reached it.
    """
    ended = F.col(quoted(news.fact(log, news.ENDED)))
    later = [F.col(quoted(news.fact(other, news.FAST))) for other in spec.logs if other.number > log.number]
    if not later:
        return ended
    heard, told = F.array_max(ended), F.array_max(F.array(*later))
    unheard = F.when(~comes_back & (heard.isNull() | (told > heard)), told)
    last = F.greatest(F.element_at(ended, -1), unheard)
    return F.concat(F.slice(ended, 1, F.size(ended) - 1), F.array(last))


def _ended_life(spec: DiffSpec, log: DiffLog, version: Column) -> Column:
    """The record that takes back the version of a visit that came back and was deleted again before it was known."""
    wide = _looked_up(version) if spec.wide_columns else None
    line = Line(11, -1, F.lit(0).cast("bigint"), Fast(version, wide), EMPTY, F.lit(True))
    return F.struct(*_record(spec, log, line))


def _apply_news(spec: DiffSpec, log: DiffLog, how: Folding) -> list[Stage]:
    """What is known after a log's news."""
    at, version = known_side(spec), F.col(quoted(news.fact(log, news.FAST)))
    merged = states_by(spec, _next)
    moves = at.fast.version.isNull() | (at.fast.version < version)
    # A version that stays keeps the columns that it was written with: the wide row may have changed since.
    wide = F.when(moves, _looked_up(version)).otherwise(at.fast.wide) if at.fast.wide is not None else None
    new = Side(F.lit(1).cast("bigint"), Fast(version, wide), merged)
    counts = F.col(quoted(COUNTS))
    lines = (*six_blocks(at, new, merged), *late_blocks(at, new, merged))
    after = {
        lines_name(log, "news"): _records(spec, log, lines, counts),
        AT_SLOW: F.when(counts, F.coalesce(at.slow, F.lit(0)) + 1).otherwise(at.slow),
        AT_FAST: F.when(counts & moves, version).otherwise(at.fast.version),
        MISSING: F.coalesce(F.col(quoted(MISSING)), _missing(spec, counts & moves, version)),
        **{state_name(name): F.when(counts, merged[name]).otherwise(at.state[name]) for name in column_names(spec)},
    }
    if at.fast.wide is not None:
        after[AT_WIDE] = F.when(counts & moves, _looked_up(version)).otherwise(at.fast.wide)
    stages: list[Stage] = [
        _merged(spec, log),
        {COUNTS: _counts(spec, log), TOO_LARGE: _too_large(spec, log)},
        after,
    ]
    if how.keep_levels:
        levels = {level_of(log.number): F.lit(True), level_of(log.number, new_only=True): counts}
        stages.append({name: _level(spec, condition) for name, condition in levels.items()})
    return stages


def _next(column: str) -> str:
    return f"next {column}"


def _merged(spec: DiffSpec, log: DiffLog) -> Stage:
    """What the state would be with a log's news. News of an older version is the older side, not the newer one."""
    at, version = known_side(spec), F.col(quoted(news.fact(log, news.FAST)))
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


def _too_large(spec: DiffSpec, log: DiffLog) -> Column:
    """The column whose sum does not fit it any more, of this log or of one before, or NULL."""
    known, told = F.col(quoted(TOO_LARGE)), F.col(quoted(news.fact(log, news.OVERFLOW)))
    each = []
    for column in spec.columns:
        if column.rule == "sum" and log.has(column.name):
            stands, comes = F.col(quoted(state_name(column.name))), F.col(quoted(news.value(log, column.name)))
            merged = F.col(quoted(_next(column.name)))
            each.append(F.when(column.overflows(stands, comes, merged), F.lit(column.name)))
    return F.coalesce(known, told, *each)


def _counts(spec: DiffSpec, log: DiffLog) -> Column:
    """Whether a log brings news of a visit: another version, or something that its state did not have."""
    at, version = known_side(spec), F.col(quoted(news.fact(log, news.FAST)))
    unknown = at.fast.version.isNull()
    comes = (F.col(quoted(news.fact(log, news.NEWS))) > 0) | (
        (F.col(quoted(news.fact(log, news.UNDONE))) > 0) & ~unknown
    )
    differs = [~at.state[name].eqNullSafe(F.col(quoted(_next(name)))) for name in column_names(spec) if log.has(name)]
    is_other = reduce(lambda one, other: one | other, differs, F.lit(False))
    told = comes & ~F.col(quoted(IS_GONE)) & version.isNotNull()
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
    names = column_names(spec)
    return record + [told.alias(name) for name, told in wide.items() if name not in names]


def _wide_value(line: Line, column: TableColumn) -> Column:
    assert line.fast.wide is not None
    return line.fast.wide[column.name]
