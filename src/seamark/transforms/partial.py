"""Runs that take only part of what waits, the older algorithm, and looking at what a run would take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import FailedKey
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read import read_images
from seamark.transforms.candidates import (
    all_keys,
    candidates,
    filter_values,
    first_keys,
    in_spark,
    narrowed,
    without_covered,
    without_processed,
)
from seamark.transforms.declare import RunConfig
from seamark.transforms.keys import columns_of, comparable, distinct, key_texts, keys_of
from seamark.transforms.run import StepRun, Work
from seamark.transforms.scope import KeyValues, Scope
from seamark.transforms.select import Found, joined_keys
from seamark.transforms.shape import Shape
from seamark.transforms.situation import Situation
from seamark.transforms.ways import by_columns, covers_pins, no_keys, scope_of

Columns = tuple[str, ...]


def waiting_keys(context: TableContext, situation: Situation) -> list[Found]:
    """The keys that records lead to, but for those that limited runs have computed since."""
    covered = context.control.index.covered_keys(situation.spec.name)
    restart = situation.unfinished is not None or situation.older is not None
    return without_covered(candidates(context, situation, from_the_start=restart), covered, situation.spec.shape)


# --- limits and filters -----------------------------------------------------------------------------------------------


def part_of_changes(run: StepRun, situation: Situation, config: RunConfig) -> None:
    """Compute as many waiting keys as a run may take. The positions move only if that was all of them."""
    shape = run.shape
    wanted = filter_values(shape, config.filters)
    mode = "limit" if config.limit is not None else "filter"
    found = waiting_keys(run.context, situation)
    due = by_columns(run, situation.due)
    left, complete = config.limit, True
    for columns in dict.fromkeys([*(entry.columns for entry in found), *due]):
        same = [entry for entry in found if entry.columns == columns]
        pieces: list[CheckedFrame] = [joined_keys(same, run.context.session)] if same else []
        pieces.append(LocalFrame(keys_of(due.get(columns, []), columns, shape.key_types)))
        everything = _at_hand(shape, columns, pieces)
        chosen = first_keys(_filtered(everything, wanted), left)
        complete = complete and chosen.num_rows == everything.num_rows
        left = None if left is None else left - chosen.num_rows
        if chosen.num_rows:
            texts = tuple(key_texts(chosen))
            run.do(situation, Work(KeyValues(chosen), mode, keys=texts, remember=True, rows_in=chosen.num_rows))
    if complete and situation.has_records:
        run.do(situation, Work(no_keys(shape), mode, covers=covers_pins(situation), completes=True))


def _at_hand(shape: Shape, columns: Columns, pieces: Sequence[CheckedFrame]) -> pa.Table:
    schema = pa.schema([pa.field(name, shape.key_types[name]) for name in columns])
    tables = []
    for piece in pieces:
        rows = piece.rows if isinstance(piece, LocalFrame) else piece.frame.toArrow()
        tables.append(rows.select(list(columns)).cast(schema))
    return distinct(pa.concat_tables(tables))


def _filtered(keys: pa.Table, wanted: pa.Table) -> pa.Table:
    there = wanted.select([name for name in wanted.column_names if name in keys.column_names])
    if len(there.column_names) < len(wanted.column_names):
        return keys.slice(0, 0)
    kept = narrowed(LocalFrame(keys), there)
    assert isinstance(kept, LocalFrame)
    return kept.rows


# --- the older algorithm ----------------------------------------------------------------------------------------------


def processed_keys_say(context: TableContext, situation: Situation) -> list[Found]:
    """The keys whose records, all there ever were, are not all known as processed: v1, a full comparison."""
    spec = situation.spec
    assert spec.keys_table is not None
    head = situation.heads.get(spec.keys_table.name)
    found = candidates(context, situation, from_the_start=True)
    return without_processed(found, spec.shape, spec.keys_table, head.last_offset if head else None)


def by_processed_keys(run: StepRun, situation: Situation, due: Sequence[FailedKey]) -> None:
    """Compute the keys that the full comparison finds, but for failed ones that wait; positions move to the pins."""
    waiting = {entry.key for entry in situation.failed} - {entry.key for entry in due}
    found = processed_keys_say(run.context, situation)
    with ExitStack() as stack:
        columns = run.shape.keys
        retried = by_columns(run, due).get(columns, [])
        scope = scope_of(run, columns, found, retried, stack)
        scope = _without(run.shape, scope, waiting - _changed_since(run.context, situation, waiting))
        run.do(
            situation,
            Work(
                scope=scope,
                mode="v1",
                covers=covers_pins(situation),
                keys=tuple(key_texts(scope.values)) if isinstance(scope, KeyValues) else (),
                completes=True,
                rows_in=sum(entry.records for entry in situation.pending),
            ),
        )


def _changed_since(context: TableContext, situation: Situation, waiting: set[str]) -> set[str]:
    """Those of some failed keys that waiting records speak for: a change does not wait."""
    if not waiting:
        return set()
    changed: set[str] = set()
    for entry in candidates(context, situation):
        keys = entry.keys.rows if isinstance(entry.keys, LocalFrame) else entry.keys.frame.toArrow()
        changed.update(key_texts(keys.select(list(entry.columns))))
    return changed & waiting


def _without(shape: Shape, scope: Scope, texts: set[str]) -> Scope:
    mine = [text for text in texts if set(columns_of(text)) == set(scope.columns)]
    if not mine or not isinstance(scope, KeyValues):
        return scope
    gone = set(comparable(keys_of(mine, scope.columns, shape.key_types)))
    kept = [key not in gone for key in comparable(scope.values)]
    return KeyValues(scope.values.filter(pa.array(kept, pa.bool_())))


# --- looking ----------------------------------------------------------------------------------------------------------


def changed_idx(context: TableContext, situation: Situation) -> DataFrame:
    """The transform keys that a run would take now. Where keys are computed in groups, all keys of these groups."""
    shape, session = situation.spec.shape, context.session()
    types = pa.schema([pa.field(name, shape.key_types[name]) for name in shape.group])
    if not shape.group:
        return session.createDataFrame([()] if not situation.is_settled else [], "struct<>")
    frames = [in_spark(context, entry.keys) for entry in _taken_now(context, situation)]
    names = [quoted(name) for name in shape.group]
    keys = [frame.select(*names) for frame in frames if set(shape.group) <= set(frame.columns)]
    due = [entry.key for entry in situation.due if set(columns_of(entry.key)) == set(shape.group)]
    keys.append(session.createDataFrame(keys_of(due, shape.group, shape.key_types).cast(types)))
    groups = reduce(DataFrame.unionByName, keys).distinct()
    return groups if shape.shares_all_keys else _keys_of_groups(shape, situation, groups)


def changed_idx_count(context: TableContext, situation: Situation) -> int:
    """How many keys a run would take now; without a Spark job where the changes are few and lead straight to keys."""
    shape = situation.spec.shape
    if situation.is_settled:
        return 0
    if not shape.group:
        return 1
    if shape.shares_all_keys:
        found = _taken_now(context, situation)
        if all(isinstance(entry.keys, LocalFrame) for entry in found):
            tables = [
                entry.keys.rows.select(list(shape.group)) for entry in found if isinstance(entry.keys, LocalFrame)
            ]
            due = [entry.key for entry in situation.due if set(columns_of(entry.key)) == set(shape.group)]
            tables.append(keys_of(due, shape.group, shape.key_types))
            return distinct(pa.concat_tables(tables)).num_rows
    return changed_idx(context, situation).count()


def _taken_now(context: TableContext, situation: Situation) -> list[Found]:
    spec, shape = situation.spec, situation.spec.shape
    covered = context.control.index.covered_keys(spec.name)
    must = situation.must_recompute or situation.unfinished is not None
    if not covered and (must or (situation.has_records and situation.all_keys_because() is not None)):
        frames = [Found("all", shape.group, SparkFrame(all_keys(shape, situation.read)))]
        for output in shape.outputs:
            head = situation.heads.get(output.name)
            if head is not None and head.last_offset is not None and set(shape.group) <= set(output.schema.key):
                rows = read_images(output, upto=head.last_offset).select(*[quoted(name) for name in shape.group])
                frames.append(Found(output.name, shape.group, SparkFrame(rows)))
        return frames
    if spec.options.algorithm == "v1":
        return processed_keys_say(context, situation)
    return waiting_keys(context, situation)


def _keys_of_groups(shape: Shape, situation: Situation, groups: DataFrame) -> DataFrame:
    """All transform keys of some groups: what an outer join of the inputs has there."""
    joined = groups
    for source in shape.plain:
        part = source.part_of(shape.keys)
        if not part:
            continue
        rows = (
            read_images(source.source, upto=situation.read[source.table]).select(*[quoted(n) for n in part]).distinct()
        )
        shared = [name for name in part if name in joined.columns]
        joined = joined.join(rows, shared, "left") if shared else joined.crossJoin(rows)
    return joined.select(*[F.col(quoted(name)) for name in shape.keys]).distinct()
