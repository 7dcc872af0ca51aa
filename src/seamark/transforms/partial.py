"""Runs that take only part of what waits, the older algorithm, and looking at what a run would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import FailedKey
from seamark.spark.frames import spark_frame
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read import read_images
from seamark.transforms.candidates import (
    all_keys,
    candidates,
    computed_ahead,
    filter_values,
    first_keys,
    in_spark,
    narrowed,
    waiting_since,
    without_covered,
    without_processed,
)
from seamark.transforms.commit import Covered
from seamark.transforms.declare import RunConfig
from seamark.transforms.keys import columns_of, comparable, distinct, key_texts, keys_of
from seamark.transforms.run import StepRun, Work
from seamark.transforms.scope import AllKeys, KeyValues, no_keys
from seamark.transforms.select import FIRST, Found, joined_keys
from seamark.transforms.shape import Shape
from seamark.transforms.situation import Situation
from seamark.transforms.ways import by_columns, covers_pins, scope_of

Columns = tuple[str, ...]


def waiting_keys(context: TableContext, situation: Situation) -> list[Found]:
    """The keys that records lead to, but for those that limited runs have computed since."""
    found = candidates(context, situation, from_the_start=situation.unfinished is not None)
    if situation.begins_anew:  # what was computed ahead was computed by the definition before
        return found
    return without_covered(found, computed_ahead(context, situation.spec.name), situation.spec.shape)


# --- limits and filters -----------------------------------------------------------------------------------------------


def part_of_changes(run: StepRun, situation: Situation, config: RunConfig) -> None:
    """Compute as many waiting keys as a run may take. The positions move as far as nothing is left to compute."""
    shape = run.shape
    wanted = filter_values(shape, config.filters)
    mode = "limit" if config.limit is not None else "filter"
    found = waiting_keys(run.context, situation)
    ahead = computed_ahead(run.context, run.spec.name)
    due = by_columns(run, situation.due)
    left, complete = config.limit, True
    for columns in dict.fromkeys([*(entry.columns for entry in found), *due]):
        if not columns:  # one result of all rows: there is nothing to choose from
            complete = complete and left != 0
            if left != 0:
                run.do(situation, Work(AllKeys(), mode, keys=("{}",), rows_in=1))
            continue
        same = [entry for entry in found if entry.columns == columns]
        waiting = _at_hand(shape, columns, [joined_keys(same, run.context.session)] if same else [])
        failed = keys_of(due.get(columns, []), columns, shape.key_types)
        since = waiting_since(run.context, same, ahead) if left is not None else {}
        taken = first_keys(_filtered(waiting, wanted), left, since)
        complete = complete and taken.num_rows == waiting.num_rows
        # Failed keys come last: else a limit that they fill would keep the others from ever being computed.
        retried = first_keys(
            _filtered(_others(failed, waiting), wanted), None if left is None else left - taken.num_rows
        )
        chosen = pa.concat_tables([taken, retried.cast(taken.schema)])
        left = None if left is None else left - chosen.num_rows
        if chosen.num_rows:
            texts = tuple(key_texts(chosen))
            run.do(situation, Work(KeyValues(chosen), mode, keys=texts, remember=True, rows_in=chosen.num_rows))
    if complete and (situation.has_records or situation.unfinished is not None):
        run.do(situation, Work(no_keys(shape), mode, covers=covers_pins(situation), completes=True))
    elif situation.unfinished is None and not shape.looked_up and situation.all_keys_because() is None:
        covers = tuple(_covered_blocks(run.context, situation))
        if covers:  # else a backlog that is never worked off would grow for ever
            run.do(situation, Work(no_keys(shape), mode, covers=covers))


def _covered_blocks(context: TableContext, situation: Situation) -> Iterator[Covered]:
    """The inputs whose oldest waiting blocks speak for no key that still waits, each up to the last such block."""
    oldest: dict[str, int] = {}
    for found in waiting_keys(context, situation):
        keys = found.keys
        first = (
            pc.min(keys.rows.column(FIRST)).as_py()
            if isinstance(keys, LocalFrame)
            else (keys.frame.agg(F.min(FIRST).alias("first")).collect()[0].first)
        )
        if first is not None:
            oldest[found.table] = min(first, oldest.get(found.table, first))
    for entry in situation.pending:
        first = oldest.get(entry.table)
        done = [block for block in entry.blocks if first is None or (block.last_offset or 0) < first]
        if done:
            piece = entry.upto_block(len(done))
            yield Covered(entry.table, entry.pin.dataset_id, piece.end_hash, piece.end_sequence, piece.upto)


def _at_hand(shape: Shape, columns: Columns, pieces: Sequence[CheckedFrame]) -> pa.Table:
    schema = pa.schema([pa.field(name, shape.key_types[name]) for name in columns])
    tables = [schema.empty_table()]
    for piece in pieces:
        rows = piece.rows if isinstance(piece, LocalFrame) else piece.frame.toArrow()
        tables.append(rows.select(list(columns)).cast(schema))
    return distinct(pa.concat_tables(tables))


def _others(keys: pa.Table, known: pa.Table) -> pa.Table:
    there = set(comparable(known))
    return keys.filter(pa.array([key not in there for key in comparable(keys)], pa.bool_()))


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
    left = without_processed(found, situation, spec.keys_table, head.last_offset if head else None)
    return without_covered(left, computed_ahead(context, spec.name), spec.shape)


def by_processed_keys(run: StepRun, situation: Situation, due: Sequence[FailedKey]) -> None:
    """Compute the keys that the full comparison finds, but for failed ones that wait; positions move to the pins."""
    found = processed_keys_say(run.context, situation)
    with ExitStack() as stack:
        columns = run.shape.keys
        retried = by_columns(run, due).get(columns, [])
        scope = scope_of(run, columns, found, retried, stack)
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


# --- looking ----------------------------------------------------------------------------------------------------------


def changed_idx(context: TableContext, situation: Situation) -> DataFrame:
    """The transform keys that a run would take now. Where keys are computed in groups, all keys of these groups."""
    shape, session = situation.spec.shape, context.session()
    types = pa.schema([pa.field(name, shape.key_types[name]) for name in shape.group])
    if not shape.group:
        return session.range(0 if situation.is_settled else 1).select()
    frames = [in_spark(context, entry.keys) for entry in _taken_now(context, situation)]
    names = [quoted(name) for name in shape.group]
    keys = [frame.select(*names) for frame in frames if set(shape.group) <= set(frame.columns)]
    due = [entry.key for entry in situation.due if set(columns_of(entry.key)) == set(shape.group)]
    keys.append(spark_frame(session, keys_of(due, shape.group, shape.key_types).cast(types)))
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
            due = [entry.key for entry in situation.due if set(columns_of(entry.key)) == set(shape.group)]
            retried = LocalFrame(keys_of(due, shape.group, shape.key_types))
            return _at_hand(shape, shape.group, [*(entry.keys for entry in found), retried]).num_rows
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
