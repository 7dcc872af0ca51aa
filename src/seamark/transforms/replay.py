"""Replay: each commit of a derived table computed again from what it read, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from seamark.control import TableHead
from seamark.ledger.verify import VerifyReport
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import PastCommit, read_at_commit
from seamark.steps.past.replay import NotReplayed, Shared, replay_commits
from seamark.steps.rows.keys import columns_of, keys_of, value_from_json
from seamark.steps.rows.scope import AllKeys, KeyRange, Scope
from seamark.steps.running.commit import change_of
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, by_name
from seamark.tables.kinds import kind_of
from seamark.tables.read.source import TableSource
from seamark.tables.write.change import stage_change
from seamark.tables.write.stage import SliceTarget, StagedChange, stage_nothing
from seamark.transforms.compute.call import Results, call
from seamark.transforms.compute.gather import Gathered, gather
from seamark.transforms.compute.isolate import compute_isolating
from seamark.transforms.compute.pandas_call import compute_pandas
from seamark.transforms.declare.safe_sql import UnsafeSql, checked_query
from seamark.transforms.declare.shape import Shape
from seamark.transforms.declare.spec import StepSpec, sql_function
from seamark.transforms.keys.select import ChangedBlocks, changed_keys, joined_keys
from seamark.transforms.keys.strategies import joined_scope
from seamark.transforms.keys.tracking import processed_rows
from seamark.transforms.past_shape import blocks_at_commit, shape_at_commit
from seamark.transforms.run import failed_keys


@dataclass(frozen=True)
class _Recipe:
    """How a commit was made: the shape at that time, the function, and whether it is one for pandas."""

    shape: Shape
    function: Callable[..., Any]
    is_pandas: bool


def replay_tables(context: TableContext, spec: StepSpec, heads: Mapping[str, TableHead]) -> VerifyReport:
    """Compute the commits of a step's tables again, oldest first, until one gives other records than it wrote."""

    def again(output: TableSource, commit: PastCommit, target: SliceTarget, shared: Shared) -> StagedChange | None:
        recipe, checkpoint = _recipe(context, spec, commit), commit.checkpoint
        if recipe is None or checkpoint is None:
            return None
        made = shared.once(
            checkpoint, commit.definition, lambda: _recompute_commit(context, spec, recipe, commit, shared.stack)
        )
        if made is None:
            return stage_nothing(target)
        return _stage_output(spec, recipe, made, replace(output, schema=target.schema), commit, target)

    return replay_commits(context, spec.written, heads, again)


def _recipe(context: TableContext, spec: StepSpec, commit: PastCommit) -> _Recipe | None:
    """How to compute a commit again; None if it was made by a function other than today's."""
    definition = commit.definition
    if definition is None or commit.checkpoint is None:
        return None
    is_todays = spec.definition.agrees_with(definition)
    if not is_todays and not kind_of(definition.kind).runs_from_chain:
        return None
    # The schemas of that time: tables may have grown since, and the function neither got nor returned those columns.
    shape = shape_at_commit(context, definition, blocks_at_commit(context, definition, commit))
    if is_todays:
        return _Recipe(shape, spec.function, spec.options.pandas)
    names = [source.table for source in shape.inputs]
    # The text comes from the chain, so from strangers: run it only if it is a plain query over its inputs.
    try:
        query = checked_query(definition.source, names)
    except UnsafeSql as error:
        raise NotReplayed(f"its SQL is not run: {error}") from None
    return _Recipe(shape, sql_function(query, names, shape.primary.source), False)


@dataclass(frozen=True)
class _Recomputed:
    """A commit, computed again: for which keys, from which rows, what the function gave, and which keys failed."""

    scope: Scope
    gathered: Gathered
    results: Results
    failed: pa.Table | None


def _recompute_commit(
    context: TableContext, spec: StepSpec, recipe: _Recipe, commit: PastCommit, stack: ExitStack
) -> _Recomputed | None:
    """What a commit computed; None if it computed nothing."""
    checkpoint = commit.checkpoint
    assert checkpoint is not None
    scope = scope_of_commit(context, recipe.shape, commit, stack)
    if scope is None or (checkpoint.skipped and not recipe.shape.keys):  # the one global result failed
        return None
    gathered = gather(recipe.shape, scope, read_at_commit(checkpoint), {})
    results = _call_function(context, spec, recipe, checkpoint, gathered, stack)
    # A key that is recorded as failed after a commit was not made by it: it failed there, or was skipped.
    not_made = dict.fromkeys([*checkpoint.skipped, *(entry.key for entry in checkpoint.failed)])
    return _Recomputed(scope, gathered, results, _failed_at_commit(recipe.shape, scope, list(not_made), results))


def _stage_output(
    spec: StepSpec, recipe: _Recipe, made: _Recomputed, output: TableSource, commit: PastCommit, target: SliceTarget
) -> StagedChange:
    """Stage one output's part of what a commit computed."""
    if spec.keys_table is not None and output.name == spec.keys_table.name:
        assert commit.checkpoint is not None
        rows = [processed_rows(made.gathered, made.failed, read_at_commit(commit.checkpoint), spec.keys_table)]
    else:
        place = [entry.name for entry in recipe.shape.outputs].index(output.name)
        rows = [_without(piece, made.failed, output.context.session) for piece in made.results.outputs[place]]
    return stage_change(output, target, change_of(output, rows, made.scope, made.failed, commit.last_before))


def scope_of_commit(context: TableContext, shape: Shape, commit: PastCommit, stack: ExitStack) -> Scope | None:
    """The keys that a commit computed, from its checkpoint; None if it computed none."""
    checkpoint = commit.checkpoint
    assert checkpoint is not None
    if checkpoint.range is not None:
        mark = checkpoint.range
        after, upto = (_bound(shape, mark.columns, values) for values in (mark.after, mark.upto))
        return AllKeys(mark.columns) if after is None and upto is None else KeyRange(mark.columns, after, upto)
    changes = []
    for table, (since, until) in checkpoint.taken.items():
        blocks = context.control.index.slices(table, after=since, upto=until)
        changes.append(ChangedBlocks(table, tuple(blocks)))
    before = checkpoint.selected_at or {table: since for table, (since, _) in checkpoint.taken.items()}
    read = read_at_commit(checkpoint)
    found = list(changed_keys(shape, changes, read, {**dict.fromkeys(read), **before}))
    columns = columns_of(checkpoint.keys[0]) if checkpoint.keys else found[0].columns if found else None
    if columns is None:
        return None
    if not columns:
        return AllKeys()
    same = [entry for entry in found if entry.columns == columns]
    frames: list[CheckedFrame] = [joined_keys(same, context.session)] if same else []
    given = LocalFrame(keys_of(checkpoint.keys, columns, shape.key_types))
    return joined_scope(context, shape, columns, [*frames, given], stack)


def _bound(shape: Shape, columns: Sequence[str], values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    if values is None:
        return None
    return tuple(value_from_json(v, shape.key_types[n]) for n, v in zip(columns, values, strict=True))


def _call_function(
    context: TableContext,
    spec: StepSpec,
    recipe: _Recipe,
    checkpoint: Checkpoint,
    gathered: Gathered,
    stack: ExitStack,
) -> Results:
    if recipe.is_pandas:
        most = spec.options.max_failed_keys + len(checkpoint.skipped) + len(checkpoint.failed)
        return compute_pandas(gathered, recipe.function, context, stack, fail_fast=False, most_failed=most)

    def one_call(part: Any) -> list[CheckedFrame]:
        return call(recipe.shape, recipe.function, part, context, stack)

    return compute_isolating(gathered, one_call, context, stack, fail_fast=False)


def _failed_at_commit(shape: Shape, scope: Scope, skipped: Sequence[str], results: Results) -> pa.Table | None:
    now = failed_keys(results)
    mine = [text for text in skipped if set(columns_of(text)) == set(scope.columns or shape.group)]
    if not mine or not (scope.columns or shape.group):
        return now
    then = keys_of(mine, scope.columns or shape.group, shape.key_types)
    return then if now is None else pa.concat_tables([then, now.select(then.column_names).cast(then.schema)])


def _without(rows: CheckedFrame, keys: pa.Table | None, session: Session) -> CheckedFrame:
    if keys is None or keys.num_rows == 0:
        return rows
    return rows.anti_join(LocalFrame(keys), by_name(keys.column_names), session)
