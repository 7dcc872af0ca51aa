"""The logs of a run applied one after another: the state of each visit, what it becomes, and the records in between.

Everything is columns of one row per visit, so that a run is one pass whatever the number of logs. A level is what is
known of the visit after a log: the columns that `visit_columns.py` names, and `state …` for each of the state's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.diffs.compute import news
from seamark.diffs.compute.blocks import EMPTY, Fast, Line, Side, delete_blocks, late_blocks, six_blocks
from seamark.diffs.compute.constant import constant_stages
from seamark.diffs.compute.lives import HEARD, NO_VERSION, Life, applied, columns_of
from seamark.diffs.compute.result import result_columns
from seamark.diffs.compute.visit_columns import (
    AT_FAST,
    AT_SLOW,
    AT_WIDE,
    COUNTS,
    DELETED_WITHOUT_VERSION,
    ENDED,
    ENDS,
    HORIZON,
    LAST_SLOW,
    LATE,
    LIVES,
    MARK,
    MARK_SLOW,
    MISSING,
    TOO_LARGE,
    WIDE_BY_VERSION,
    Applying,
    applied_name,
    asleep,
    column_names,
    gone,
    heard_name,
    intermediate_column,
    known_side,
    lines_name,
    old,
    state_name,
    state_row,
    stored_side,
)
from seamark.diffs.declare.spec import LOG, SIGN, SLOW, VERSION, DiffLog, DiffSpec
from seamark.tables.frame import quoted
from seamark.tables.schema.table_schema import Column as TableColumn
from seamark.tables.schema.types import spark_name


def apply_logs(spec: DiffSpec, visits: DataFrame, how: Applying) -> DataFrame:
    """A row per visit with its records, what changes in the diff's tables, and why it failed, if it did.

    `visits` has the records of all logs, the state before under `old …`, and the run's moments.
    """
    stages = spec.expressions.setdefault(f"stages, {how}", lambda: _stages(spec, how))
    frame = reduce(lambda known, stage: known.withColumns(stage), stages, visits)
    return frame.select(*spec.expressions.setdefault(f"result, {how}", lambda: result_columns(spec, how)))


Stage = dict[str, Column]
"""Columns that are added, or put in the place of others, at once: each sees what was there before the stage."""


def _stages(spec: DiffSpec, how: Applying) -> list[Stage]:
    """What is to be computed, level after level."""
    stages = _begin(spec, how)
    for log in spec.logs:
        stages += _read(spec, log)
        if log.deletes_by is not None:
            stages += _apply_deletes(spec, log)
        stages += _apply_news(spec, log, how)
    return stages + (constant_stages(spec) if spec.constant else [])


def _col(name: str) -> Column:
    return F.col(quoted(name))


# --- levels -----------------------------------------------------------------------------------------------------------


def _begin(spec: DiffSpec, how: Applying) -> list[Stage]:
    """The state before: a row of the state, the row of a visit that left by its age, or nothing."""
    stood = stored_side(spec, old)
    fast, lives = stood.fast.version.cast("bigint"), stood.fast.version.isNotNull()
    slow, wide, state = stood.slow, stood.fast.wide, stood.state
    if how.asleep:
        left = stored_side(spec, asleep)
        fast, slow = F.coalesce(fast, left.fast.version.cast("bigint")), F.coalesce(slow, left.slow)
        state = {name: F.when(lives, value).otherwise(left.state[name]) for name, value in state.items()}
        wide = F.when(lives, wide).otherwise(left.fast.wide) if wide is not None else None
    nothing = F.expr(NO_VERSION)
    mark = _col(gone(spec.fast_version.name)).cast("bigint") if how.marks else nothing
    columns = {
        AT_SLOW: slow,
        AT_FAST: fast,
        **{state_name(name): value for name, value in state.items()},
        LIVES: lives,
        LAST_SLOW: F.greatest(slow, _col(gone(SLOW)) if how.marks else nothing, F.lit(0).cast("bigint")),
        MARK: mark,
        MARK_SLOW: nothing,
        ENDS: F.array_compact(F.array(mark)),
        ENDED: F.lit(False),
        MISSING: nothing,
        DELETED_WITHOUT_VERSION: F.lit(False),
        TOO_LARGE: F.lit(None).cast("string"),
        LATE: _col(news.LATE_ROWS),
    }
    if wide is not None:
        columns[AT_WIDE] = wide
    return [columns, *([{intermediate_column(0): _intermediate(spec, F.lit(True))}] if how.keep_intermediate else [])]


def _intermediate(spec: DiffSpec, condition: Column) -> Column:
    """What is known of a visit that lives, as a row of the state; NULL of one that does not."""
    return F.when(_col(LIVES) & condition, F.struct(*state_row(spec, known_side(spec))))


# --- the records of one log -------------------------------------------------------------------------------------------

_SEVERAL = "several"


def _next(column: str) -> str:
    return f"next {column}"


def _read(spec: DiffSpec, log: DiffLog) -> list[Stage]:
    """What a log's records make of a visit, one record after another: `next …` for each fact of its life.

    Nearly always a log has one record of a visit; only several need a reduction.
    """
    facts = _life(spec, log).facts
    names = [column.name for column in columns_of(spec, log)]

    def follow(known: Column, entry: Column) -> Column:
        life = Life.of({name: known[name] for name in facts}, names)
        return _as_struct(applied(spec, log, life, news.record_of(spec, log, entry)).facts)

    records, several = _col(applied_name(log)), _col(_SEVERAL)
    one = applied(spec, log, _life(spec, log), news.record_of(spec, log, F.get(records, F.lit(0)))).facts
    count = F.size(records)
    after = {
        _next(name): F.when(count == 0, facts[name]).when(count == 1, one[name]).otherwise(several[name])
        for name in facts
    }
    if spec.constant:
        after[heard_name(log)] = after[_next(HEARD)]
    reduction = F.when(count > 1, F.reduce(records, _as_struct(facts), follow))
    return [*_to_apply(spec, log), {_SEVERAL: reduction}, after]


def _as_struct(facts: Mapping[str, Column]) -> Column:
    return F.struct(*[value.alias(name) for name, value in facts.items()])


def _to_apply(spec: DiffSpec, log: DiffLog) -> list[Stage]:
    """The records of a log. A side log without the time to live's column is too late when its visit is."""
    name = applied_name(log)
    records: Stage = {name: news.records_to_apply(spec, log)}
    if spec.ttl is None or log.number == 1 or log.has(spec.ttl.column):
        return [records]
    is_over = F.coalesce(_col(LIVES) & (_col(state_name(spec.ttl.column)) < _col(HORIZON)), F.lit(False))
    late = F.when(is_over, F.size(_col(name))).otherwise(0)
    in_time = F.when(is_over, F.slice(_col(name), 1, 0)).otherwise(_col(name))
    return [records, {LATE: _col(LATE) + late, name: in_time}]


def _life(spec: DiffSpec, log: DiffLog) -> Life:
    """What is known of a visit before the first record of a log."""
    lives = _col(LIVES)
    return Life(
        fast=F.when(lives, _col(AT_FAST)),
        newest=F.expr(NO_VERSION),
        mark=_col(MARK),
        same=lives,
        ended=F.array().cast("array<bigint>"),
        late=F.lit(0),
        lacks_version=F.lit(False),
        too_large=F.lit(None).cast("string"),
        heard=F.array().cast("array<bigint>"),
        state={c.name: F.when(lives, _col(state_name(c.name))) for c in columns_of(spec, log)},
    )


def _facts(spec: DiffSpec, log: DiffLog) -> Life:
    """What is known of a visit after the last record of a log."""
    names = [column.name for column in columns_of(spec, log)]
    facts = [*_life(spec, log).facts]
    return Life.of({name: _col(_next(name)) for name in facts}, names)


# --- deletes ----------------------------------------------------------------------------------------------------------


def _apply_deletes(spec: DiffSpec, log: DiffLog) -> list[Stage]:
    """What remains after a log has ended lives of visits: of those, nothing."""
    at, life = known_side(spec), _facts(spec, log)
    has_ended = F.size(life.ended) > 0
    newest, others = F.get(life.ended, F.lit(0)), F.slice(life.ended, 2, F.greatest(F.size(life.ended), F.lit(1)))
    has_moved = at.fast.version.isNull() | (newest > at.fast.version)
    wide = None
    if at.fast.wide is not None:
        wide = F.when(has_moved, _looked_up(newest)).otherwise(at.fast.wide)
    lines = delete_blocks(at, Fast(newest, wide), fast_deletes=spec.fast_deletes)
    records = _records(spec, log, lines, has_ended)
    if not spec.fast_deletes:
        records = F.concat(records, F.transform(others, partial(_unseen_life, spec, log)))
    needs_wide = has_ended & has_moved & F.lit(not spec.fast_deletes)
    known = [AT_SLOW, AT_FAST, *([AT_WIDE] if spec.wide_columns else []), *map(state_name, column_names(spec))]
    after = {
        **{name: F.when(~has_ended, _col(name)) for name in known},
        lines_name(log, "delete"): records,
        MISSING: F.coalesce(_col(MISSING), _missing(spec, needs_wide, newest), _missing_of(spec, others)),
        # Nobody has said which of the fast supplier's versions is to be taken back: it cannot be left either.
        DELETED_WITHOUT_VERSION: _col(DELETED_WITHOUT_VERSION)
        | (life.lacks_version & F.lit(not spec.fast_deletes and not log.is_keyed)),
        LIVES: _col(LIVES) & ~has_ended,
        MARK_SLOW: F.when(has_ended, _col(LAST_SLOW)).otherwise(_col(MARK_SLOW)),
        ENDED: _col(ENDED) | has_ended,
        ENDS: F.concat(_col(ENDS), life.ended),
    }
    return [after]


def _unseen_life(spec: DiffSpec, log: DiffLog, version: Column) -> Column:
    """The record that takes back the version of a visit that came back and was deleted again before it was known."""
    wide = _looked_up(version) if spec.wide_columns else None
    line = Line(11, -1, F.lit(0).cast("bigint"), Fast(version, wide), EMPTY, F.lit(True))
    return F.struct(*_record(spec, log, line))


# --- news -------------------------------------------------------------------------------------------------------------


def _apply_news(spec: DiffSpec, log: DiffLog, how: Applying) -> list[Stage]:
    """What is known after a log's news."""
    at, life = known_side(spec), _facts(spec, log)
    merged = _merged(spec, log, at, life)
    version = F.coalesce(life.newest, at.fast.version)
    moves = at.fast.version.isNull() | (at.fast.version < version)
    # A version that stays keeps the columns that it was written with: the wide row may have changed since.
    wide = F.when(moves, _looked_up(version)).otherwise(at.fast.wide) if at.fast.wide is not None else None
    new = Side(_col(LAST_SLOW) + 1, Fast(version, wide), merged)
    counts = _col(COUNTS)
    lines = (*six_blocks(at, new, merged), *late_blocks(at, new, merged))
    after = {
        lines_name(log, "news"): _records(spec, log, lines, counts),
        AT_SLOW: F.when(counts, _col(LAST_SLOW) + 1).otherwise(at.slow),
        AT_FAST: F.when(counts, life.fast).otherwise(at.fast.version),
        MISSING: F.coalesce(_col(MISSING), _missing(spec, counts & moves, version)),
        **{state_name(name): F.when(counts, merged[name]).otherwise(at.state[name]) for name in column_names(spec)},
        LIVES: life.fast.isNotNull(),
        LAST_SLOW: F.when(counts, _col(LAST_SLOW) + 1).otherwise(_col(LAST_SLOW)),
        MARK: life.mark,
        TOO_LARGE: F.coalesce(_col(TOO_LARGE), life.too_large),
        LATE: _col(LATE) + life.late,
    }
    if wide is not None:
        after[AT_WIDE] = F.when(counts, wide).otherwise(at.fast.wide)
    stages: list[Stage] = [{COUNTS: _counts(spec, log, at, life)}, after]
    if how.keep_intermediate:
        levels = {intermediate_column(log.number): F.lit(True), intermediate_column(log.number, new_only=True): counts}
        stages.append({name: _intermediate(spec, condition) for name, condition in levels.items()})
    return stages


def _merged(spec: DiffSpec, log: DiffLog, at: Side, life: Life) -> dict[str, Column]:
    """The state of a visit after a log's news: a life that has just begun knows only what this log says."""
    return {
        name: life.state[name] if log.has(name) else F.when(life.same, at.state[name]) for name in column_names(spec)
    }


def _counts(spec: DiffSpec, log: DiffLog, at: Side, life: Life) -> Column:
    """Whether a log brings news of a visit: another version, or something that its state did not have."""
    differs = [~at.state[c.name].eqNullSafe(life.state[c.name]) for c in columns_of(spec, log)]
    is_other = reduce(lambda one, other: one | other, differs, F.lit(False))
    is_newer = F.coalesce(life.newest > at.fast.version, F.lit(False))
    return life.fast.isNotNull() & (~life.same | is_newer | is_other)


def _looked_up(version: Column) -> Column:
    return _col(WIDE_BY_VERSION)[version]


def _missing(spec: DiffSpec, is_needed: Column, version: Column) -> Column:
    """The version whose wide columns are needed and not there, or NULL."""
    if not spec.wide_columns:
        return F.expr(NO_VERSION)
    return F.when(is_needed & _looked_up(version).isNull(), version)


def _missing_of(spec: DiffSpec, versions: Column) -> Column:
    """The first of some versions whose wide columns are not there, or NULL."""
    if not spec.wide_columns or spec.fast_deletes:
        return F.expr(NO_VERSION)
    return F.get(F.filter(versions, lambda version: _looked_up(version).isNull()), F.lit(0))


# --- records ----------------------------------------------------------------------------------------------------------


def _records(spec: DiffSpec, log: DiffLog, lines: Sequence[Line], condition: Column) -> Column:
    """The records of the lines that a visit falls under, in their order."""
    each = [F.when(condition & line.condition, F.struct(*_record(spec, log, line))) for line in lines]
    return F.filter(F.array(*each), lambda record: record.isNotNull())


def _record(spec: DiffSpec, log: DiffLog, line: Line) -> list[Column]:
    fast = line.fast.version
    # One that does not fit is NULL here, and its visit fails for it: see `result.py`.
    version = F.try_add(F.try_multiply(line.slow, F.lit(spec.multiplier).cast("bigint")), fast)
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
        value = column.merged(wide[column.name], known) if column.name in wide else known
        record.append(value.alias(column.name))
    names = column_names(spec)
    return record + [value.alias(name) for name, value in wide.items() if name not in names]


def _wide_value(line: Line, column: TableColumn) -> Column:
    assert line.fast.wide is not None
    return line.fast.wide[column.name]
