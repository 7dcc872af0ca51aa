"""Runs that take only part of what waits, the older algorithm, and looking at what a run would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import Mode
from seamark.spark.frames import arrow_rows, spark_frame
from seamark.steps.rows.keys import key_texts, keys_of
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyValues
from seamark.steps.running.commit import Covered
from seamark.steps.running.run_config import RunConfig
from seamark.steps.standing.pins import Taken
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, by_name, quoted
from seamark.tables.ordering import comparable, distinct
from seamark.tables.read.rows import read_images
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import FIRST, ChangedBlocks, Found, Keying, no_keys
from seamark.transforms.keys.candidates import (
    candidates,
    computed_ahead,
    filter_values,
    narrowed,
    without_covered,
    without_processed,
)
from seamark.transforms.keys.select import joined_keys
from seamark.transforms.keys.strategies import by_columns, covers_pins, scope_of
from seamark.transforms.keys.waiting import Waiting, first_keys, longest_waiting
from seamark.transforms.moves import next_move
from seamark.transforms.run import StepRun, Work

Columns = tuple[str, ...]


def waiting_keys(context: TableContext, backlog: Backlog) -> list[Found]:
    """The keys that pending records lead to, except those that limited runs have computed since."""
    found = candidates(context, backlog, from_the_start=backlog.unfinished is not None)
    if backlog.starts_over:  # what was computed ahead was computed by the older definition
        return found
    return without_covered(found, computed_ahead(context, backlog), backlog.spec.keying)


# --- limits and filters -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Keys with the same columns that a run takes; None means the one result of a step without keys."""

    keys: pa.Table | None
    complete: bool  # whether these are all waiting keys with these columns


def parts_to_take(context: TableContext, backlog: Backlog, config: RunConfig) -> Iterator[Part]:
    """The keys that a run takes within its filters and its limit, by the columns that they have."""
    keying = backlog.spec.keying
    wanted = filter_values(keying, config.filters)
    found = waiting_keys(context, backlog)
    ahead = computed_ahead(context, backlog)
    due = by_columns(keying, backlog.due)
    left = config.limit
    for columns in dict.fromkeys([*(entry.columns for entry in found), *due]):
        if not columns:  # a single result of all rows: there are no keys to choose
            yield Part(None, complete=left != 0)
            continue
        same = [entry for entry in found if entry.columns == columns]
        failed = keys_of(due.get(columns, []), columns, keying.key_types)
        waiting = longest_waiting(keying, same, ahead, wanted, left) if same else Waiting(failed[:0], True)
        taken = waiting.keys
        # Failed keys come last: otherwise they could fill the limit in every run, and no other key would be computed.
        # If one of them is left out, the limit is reached.
        others = _filtered(_others(failed, taken), wanted, context.session)
        retried = first_keys(others, None if left is None else left - taken.num_rows)
        chosen = pa.concat_tables([taken, retried.cast(taken.schema)])
        left = None if left is None else left - chosen.num_rows
        yield Part(chosen, complete=waiting.are_all)


def part_of_changes(run: StepRun, backlog: Backlog, config: RunConfig, mode: Mode) -> None:
    """Compute as many waiting keys as a run may take. Positions move only past records with no key left to compute."""
    keying = run.keying
    complete = True
    for part in parts_to_take(run.context, backlog, config):
        complete = complete and part.complete
        if part.keys is None and part.complete:
            run.do(backlog, Work(AllKeys(), mode, keys=("{}",), rows_in=1))
        elif part.keys is not None and part.keys.num_rows:
            texts, count = tuple(key_texts(part.keys)), part.keys.num_rows
            run.do(backlog, Work(KeyValues(part.keys), mode, keys=texts, remember=True, rows_in=count))
    if complete and (backlog.has_records or backlog.unfinished is not None):
        run.do(backlog, Work(no_keys(keying), mode, covers=covers_pins(backlog), completes=True))
    elif backlog.unfinished is None and not keying.looks_back and backlog.all_keys_because() is None:
        covers = tuple(_covered_blocks(run.context, backlog))
        if covers:  # otherwise the remembered keys of a backlog that never settles would grow forever
            run.do(backlog, Work(no_keys(keying), mode, covers=covers))


def _covered_blocks(context: TableContext, backlog: Backlog) -> Iterator[Covered]:
    """The inputs whose oldest pending blocks lead to no key that still waits, each up to the last such block."""
    oldest: dict[str, int] = {}
    for found in waiting_keys(context, backlog):
        first = _first_record(found.keys, context)
        if first is not None:
            oldest[found.table] = min(first, oldest.get(found.table, first))
    for entry in backlog.waiting:
        first = oldest.get(entry.table)
        done = [block for block in entry.blocks if first is None or (block.last_offset or 0) < first]
        if done:
            piece = entry.upto_block(len(done))
            yield Covered(entry.table, entry.pin.dataset_id, piece.end_hash, piece.end_sequence, piece.upto)


def _first_record(keys: CheckedFrame, context: TableContext) -> int | None:
    """The oldest record that leads to any of these keys."""
    if keys.in_memory is not None:
        return pc.min(keys.in_memory.column(FIRST)).as_py()
    return arrow_rows(keys.to_spark(context.session).agg(F.min(FIRST))).column(0)[0].as_py()


def _in_memory(keying: Keying, columns: Columns, pieces: Sequence[CheckedFrame]) -> pa.Table:
    schema = pa.schema([pa.field(name, keying.key_types[name]) for name in columns])
    tables = [schema.empty_table()]
    tables += [piece.select(columns).to_arrow(schema) for piece in pieces]
    return distinct(pa.concat_tables(tables))


def _others(keys: pa.Table, known: pa.Table) -> pa.Table:
    there = set(comparable(known))
    return keys.filter(pa.array([key not in there for key in comparable(keys)], pa.bool_()))


def _filtered(keys: pa.Table, wanted: pa.Table, session: Session) -> pa.Table:
    there = wanted.select([name for name in wanted.column_names if name in keys.column_names])
    if len(there.column_names) < len(wanted.column_names):
        return keys.slice(0, 0)
    return narrowed(LocalFrame(keys), there, session).to_arrow()


# --- the older algorithm ----------------------------------------------------------------------------------------------


def processed_keys_say(context: TableContext, backlog: Backlog) -> list[Found]:
    """The keys of algorithm v1: a full comparison of all records with the table of processed keys."""
    spec = backlog.spec
    assert spec.keys_table is not None
    head = backlog.heads.get(spec.keys_table.name)
    found = candidates(context, backlog, from_the_start=True)
    left = without_processed(found, backlog, spec.keys_table, head.last_offset if head else None)
    return without_covered(left, computed_ahead(context, backlog), spec.keying)


def by_processed_keys(run: StepRun, backlog: Backlog) -> None:
    """Compute the keys that the full comparison finds, except failed ones not yet due; positions move to the pins."""
    found = processed_keys_say(run.context, backlog)
    with ExitStack() as stack:
        columns = run.keying.keys
        retried = by_columns(run.keying, backlog.due, run.tried).get(columns, [])
        scope = scope_of(run, columns, found, retried, stack)
        taken: tuple[Taken, ...] = ()
        if isinstance(scope, KeyFrame):  # many keys are recorded by the records that lead to them, the others by name
            taken = tuple(entry.whole() for entry in backlog.waiting if entry.records > 0)
            keys = _not_led_to(run, backlog, scope, taken)
        else:
            keys = scope.values if isinstance(scope, KeyValues) else no_keys(run.keying).values
        run.do(
            backlog,
            Work(
                scope=scope,
                mode=Mode.V1,
                taken=taken,
                covers=covers_pins(backlog),
                keys=tuple(key_texts(keys)),
                completes=True,
                rows_in=sum(entry.records for entry in backlog.waiting),
            ),
        )


def _not_led_to(run: StepRun, backlog: Backlog, scope: KeyFrame, taken: Sequence[Taken]) -> pa.Table:
    """The keys of a scope that no record of some intervals leads to."""
    changes = [ChangedBlocks(piece.table, piece.blocks) for piece in taken]
    found = list(run.keying.changed_keys(changes, backlog.read, backlog.before))
    types = pa.schema([pa.field(name, run.keying.key_types[name]) for name in scope.columns])
    keys: CheckedFrame = SparkFrame(scope.frame)
    if found:
        keys = keys.anti_join(joined_keys(found, run.context.session), by_name(scope.columns), run.context.session)
    return keys.to_arrow(types)


# --- looking ----------------------------------------------------------------------------------------------------------


def changed_idx(context: TableContext, backlog: Backlog, config: RunConfig) -> DataFrame:
    """The transform keys that a run would take now. Where keys are computed in groups, all keys of these groups."""
    keying, session = backlog.spec.keying, context.session()
    taken = _keys_taken(context, backlog, config)
    if not keying.keys:
        return session.range(1 if () in taken else 0).select()
    frames = [spark_frame(session, _in_memory(keying, keying.keys, []))]
    for columns, keys in taken.items():
        names = [quoted(name) for name in columns]
        union = reduce(DataFrame.unionByName, [entry.to_spark(context.session).select(*names) for entry in keys])
        frames.append(keying.keys_of_groups(union.distinct(), backlog.read))
    return reduce(DataFrame.unionByName, frames).distinct()


def changed_idx_count(context: TableContext, backlog: Backlog, config: RunConfig) -> int:
    """How many keys a run would take now; without a Spark job where the changes are few and lead straight to keys."""
    keying = backlog.spec.keying
    if backlog.is_settled:
        return 0
    taken = _keys_taken(context, backlog, config)
    if not keying.keys:
        return 1 if () in taken else 0
    mine = [entry for entry in taken.get(keying.keys, []) if entry.in_memory is not None]
    if len(mine) == sum(len(keys) for keys in taken.values()):
        return _in_memory(keying, keying.keys, mine).num_rows
    return changed_idx(context, backlog, config).count()


def _keys_taken(context: TableContext, backlog: Backlog, config: RunConfig) -> dict[Columns, list[CheckedFrame]]:
    """The keys that a run would take, by the columns that they have; those without are the one global result."""
    keying, taken = backlog.spec.keying, dict[Columns, list[CheckedFrame]]()
    if backlog.is_settled:
        return taken
    if config.is_partial:
        for part in parts_to_take(context, backlog, config):
            if part.keys is not None:
                taken.setdefault(tuple(part.keys.column_names), []).append(LocalFrame(part.keys))
            elif part.complete:
                taken[()] = []
        return taken
    if not keying.group:
        return {(): []}
    for entry in _taken_now(context, backlog):
        taken.setdefault(entry.columns, []).append(entry.keys)
    for columns, texts in by_columns(keying, backlog.due).items():
        taken.setdefault(columns, []).append(LocalFrame(keys_of(texts, columns, keying.key_types)))
    return taken


def _taken_now(context: TableContext, backlog: Backlog) -> list[Found]:
    spec, keying = backlog.spec, backlog.spec.keying
    covered = context.control.index.covered_keys(spec.name, backlog.stored_under)
    mode = next_move(backlog, "keep").mode  # a choice that is to be made was made before
    if mode.takes_all_keys and not covered:
        frames = [Found("all", keying.group, SparkFrame(keying.all_keys(backlog.read)))]
        for output in spec.outputs:
            head = backlog.heads.get(output.name)
            if head is not None and head.last_offset is not None and set(keying.group) <= set(output.schema.names):
                rows = read_images(output, upto=head.last_offset).select(*[quoted(name) for name in keying.group])
                frames.append(Found(output.name, keying.group, SparkFrame(rows)))
        return frames
    if mode is Mode.V1:
        return processed_keys_say(context, backlog)
    return waiting_keys(context, backlog)
