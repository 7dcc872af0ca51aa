"""Replay: each commit of a derived table computed again from what it read, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from seamark.control import TableHead
from seamark.errors import SeamarkError
from seamark.ledger.events import ExecuteTransform
from seamark.ledger.verify import Finding, VerifyReport
from seamark.spark.frames import spark_frame
from seamark.tables.change import stage_change
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame
from seamark.tables.publish import writing
from seamark.tables.read import TableSource
from seamark.tables.stage import StagedChange, Target, stage_nothing
from seamark.transforms.commit import change_of
from seamark.transforms.compute import Results, call
from seamark.transforms.gather import gather
from seamark.transforms.history import PastCommit, past_commits, read_then, shape_then
from seamark.transforms.isolate import compute_isolating
from seamark.transforms.keys import columns_of, comparable, keys_of, value_from_json
from seamark.transforms.pandas_call import compute_pandas
from seamark.transforms.run import failed_keys
from seamark.transforms.scope import AllKeys, KeyRange, Scope
from seamark.transforms.select import ChangedBlocks, changed_keys, joined_keys
from seamark.transforms.shape import Shape
from seamark.transforms.spec import StepSpec, sql_function
from seamark.transforms.tracking import processed_rows
from seamark.transforms.ways import joined_scope

# How many records of each side a finding shows.
SHOWN = 5


@dataclass(frozen=True)
class _Recipe:
    """What a commit was made by: the shape then, the function, and whether it is one for pandas."""

    shape: Shape
    function: Callable[..., Any]
    is_pandas: bool


Again = Callable[[PastCommit, Target, ExitStack], StagedChange | None]
"""Makes a commit again, up to its staged slices; None if what it was made by is no longer there."""


def replay_table(context: TableContext, spec: StepSpec, table: str, head: TableHead) -> VerifyReport:
    """Compute a derived table's commits again, oldest first, until one gives other records than it wrote."""
    output = next(entry for entry in spec.written if entry.name == table)

    def again(commit: PastCommit, target: Target, stack: ExitStack) -> StagedChange | None:
        recipe = _recipe(context, spec, commit)
        return None if recipe is None else _stage_again(context, spec, recipe, output, commit, target, stack)

    return replay_commits(context, output, head, again)


def replay_commits(context: TableContext, output: TableSource, head: TableHead, again: Again) -> VerifyReport:
    """Make the commits of a table again, oldest first, until one gives other records than it wrote."""
    replayed = not_replayable = 0
    for commit in past_commits(context, output.name):
        if commit.blocks[-1].sequence > head.sequence:
            break
        with ExitStack() as stack:
            outcome = _replayed(context, output, commit, again, stack)
        if outcome is None:
            not_replayable += len(commit.blocks)
            continue
        replayed += len(commit.blocks)
        if outcome:
            return VerifyReport(0, tuple(outcome), replayed, not_replayable)
    return VerifyReport(0, (), replayed, not_replayable)


def _recipe(context: TableContext, spec: StepSpec, commit: PastCommit) -> _Recipe | None:
    """What to compute a commit again with; None if it was made by a function that is not today's."""
    definition = commit.definition
    if definition is None or commit.checkpoint is None:
        return None
    if definition.counts == spec.definition.counts:
        return _Recipe(spec.shape, spec.function, spec.options.pandas)
    if definition.kind != "sql":
        return None
    shape = shape_then(context, definition)
    names = [source.table for source in shape.inputs]
    return _Recipe(shape, sql_function(definition.source, names, shape.primary.source), False)


def _replayed(
    context: TableContext, output: TableSource, commit: PastCommit, again: Again, stack: ExitStack
) -> list[Finding] | None:
    """What differs when a commit is made again; None if it cannot be."""
    expected = [_slice_of(context, output.name, entry.hash) for entry in commit.blocks]
    hashes = [piece.logical_hash for piece in expected if piece is not None]
    try:
        run = stack.enter_context(writing(context))
        staged = again(commit, _target(context, output, commit, run.folder), stack)
    except SeamarkError as error:
        text = f"table '{output.name}': computing block {commit.blocks[0].sequence} again failed: {error.message}"
        return [Finding(output.name, commit.blocks[0].hash, "replay", _told(hashes), "an error", text)]
    if staged is None:
        return None
    found = [piece.logical_hash for piece in staged.slices]
    if found == hashes:
        return []
    pairs = zip_longest(hashes, found)
    place = next(number for number, (one, other) in enumerate(pairs) if one != other)
    return [_finding(context, output, commit, staged, run.folder, place)]


def _target(context: TableContext, output: TableSource, commit: PastCommit, folder: Path) -> Target:
    sizes = [(b.last_offset or 0) - (b.first_offset or 0) + 1 for b in commit.blocks if b.first_offset is not None]
    return Target(
        table=output.name,
        schema=output.schema,
        folder=folder,
        first_offset=0 if commit.last_before is None else commit.last_before + 1,
        commit_time=lambda: commit.blocks[0].system_time,
        block_rows=max([2, *sizes]) if len(sizes) > 1 else max([context.block_rows, *sizes]),
    )


def _slice_of(context: TableContext, table: str, block: str) -> Any:
    event = context.files(table).block(block).event
    return event.new_data if isinstance(event, ExecuteTransform) else None


def _stage_again(
    context: TableContext,
    spec: StepSpec,
    recipe: _Recipe,
    output: TableSource,
    commit: PastCommit,
    target: Target,
    stack: ExitStack,
) -> StagedChange:
    scope = scope_then(context, recipe.shape, commit, stack)
    skipped = commit.checkpoint is not None and bool(commit.checkpoint.skipped)
    if scope is None or (skipped and not recipe.shape.keys):  # the one global result failed: nothing was touched
        return stage_nothing(target)
    rows, left_alone = _compute_again(context, spec, recipe, output, commit, scope, stack)
    return stage_change(output, target, change_of(output, rows, scope, left_alone, commit.last_before))


def scope_then(context: TableContext, shape: Shape, commit: PastCommit, stack: ExitStack) -> Scope | None:
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
    read = read_then(checkpoint)
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


def _compute_again(
    context: TableContext,
    spec: StepSpec,
    recipe: _Recipe,
    output: TableSource,
    commit: PastCommit,
    scope: Scope,
    stack: ExitStack,
) -> tuple[list[CheckedFrame], pa.Table | None]:
    """The rows that a commit's function gives again for one output, without those of the keys that failed then."""
    checkpoint = commit.checkpoint
    assert checkpoint is not None
    gathered = gather(recipe.shape, scope, read_then(checkpoint), {})
    if recipe.is_pandas:
        results = compute_pandas(gathered, recipe.function, context, stack, fail_fast=False)
    else:

        def one_call(part: Any) -> list[CheckedFrame]:
            return call(recipe.shape, recipe.function, part, context, stack)

        results = compute_isolating(gathered, one_call, context, stack, fail_fast=False)
    # A key that stands as failed after a commit was not made by it: it failed in it, or was left out as tried before.
    left_alone = dict.fromkeys([*checkpoint.skipped, *(entry.key for entry in checkpoint.failed)])
    failed = _failed_then(recipe.shape, scope, list(left_alone), results)
    if spec.keys_table is not None and output.name == spec.keys_table.name:
        return [processed_rows(gathered, failed, read_then(checkpoint), spec.keys_table)], failed
    place = [entry.name for entry in recipe.shape.outputs].index(output.name)
    return [_without(piece, failed) for piece in results.outputs[place]], failed


def _failed_then(shape: Shape, scope: Scope, skipped: Sequence[str], results: Results) -> pa.Table | None:
    now = failed_keys(results)
    mine = [text for text in skipped if set(columns_of(text)) == set(scope.columns or shape.group)]
    if not mine or not (scope.columns or shape.group):
        return now
    then = keys_of(mine, scope.columns or shape.group, shape.key_types)
    return then if now is None else pa.concat_tables([then, now.select(then.column_names).cast(then.schema)])


def _without(rows: CheckedFrame, keys: pa.Table | None) -> CheckedFrame:
    if keys is None or keys.num_rows == 0:
        return rows
    if isinstance(rows, LocalFrame):
        gone = set(comparable(keys))
        mine = comparable(rows.rows.select(keys.column_names))
        return LocalFrame(rows.rows.filter(pa.array([key not in gone for key in mine], pa.bool_())))
    others = spark_frame(rows.frame.sparkSession, keys)
    return SparkFrame(rows.frame.join(others, keys.column_names, "left_anti"))


def _finding(
    context: TableContext, output: TableSource, commit: PastCommit, staged: StagedChange, folder: Path, place: int
) -> Finding:
    entry = commit.blocks[min(place, len(commit.blocks) - 1)]
    data, pieces = context.files(output.name).data, staged.slices[place : place + 1]
    wrote = _records([data.path(b.slice_hash) for b in commit.blocks[place : place + 1] if b.slice_hash])
    again = _records([folder / piece.physical_hash for piece in pieces])
    recorded = _slice_of(context, output.name, entry.hash)
    return Finding(
        table=output.name,
        block=entry.hash,
        kind="replay",
        expected=_told([recorded.logical_hash] if recorded else []),
        found=_told([piece.logical_hash for piece in pieces]),
        message=f"table '{output.name}': block {entry.sequence} cannot be made again from what it read. "
        f"Recorded: {_shown(wrote, again)}. Computed now: {_shown(again, wrote)}.",
    )


def _records(paths: Sequence[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in paths:
        table = pq.read_table(path)
        rows += table.drop_columns(["offset", "system_time", "event_time"]).to_pylist()
    return rows


def _shown(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    """The records that the other side does not have, a few of them."""
    only = [row for row in rows if row not in others]
    if not only:
        return "nothing else"
    return "; ".join(str(row) for row in only[:SHOWN]) + (
        f"; and {len(only) - SHOWN} more" if len(only) > SHOWN else ""
    )


def _told(hashes: Sequence[str]) -> str:
    return ", ".join(hashes) or "no records"
