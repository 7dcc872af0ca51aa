"""Replay: each commit of a derived table computed again from what it read, and compared with what it wrote."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from seamark.control import TableHead
from seamark.errors import SeamarkError
from seamark.ledger.events import ExecuteTransform
from seamark.ledger.verify import Finding, VerifyReport
from seamark.spark.frames import spark_frame
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame
from seamark.tables.read.rows import TableSource
from seamark.tables.write.change import stage_change
from seamark.tables.write.publish import writing
from seamark.tables.write.stage import StagedChange, Target, stage_nothing
from seamark.transforms.checkpoint import Checkpoint
from seamark.transforms.commit import change_of
from seamark.transforms.compute import Results, call
from seamark.transforms.gather import Gathered, gather
from seamark.transforms.history import (
    PastCommit,
    blocks_then,
    past_commits,
    read_then,
    shape_then,
    stored_source,
)
from seamark.transforms.isolate import compute_isolating
from seamark.transforms.keys import columns_of, comparable, keys_of, value_from_json
from seamark.transforms.pandas_call import compute_pandas
from seamark.transforms.replay_compare import Difference, Skipped, first_difference
from seamark.transforms.run import failed_keys
from seamark.transforms.safe_sql import UnsafeSql, checked_query
from seamark.transforms.scope import AllKeys, KeyRange, Scope
from seamark.transforms.select import ChangedBlocks, changed_keys, joined_keys
from seamark.transforms.shape import Shape
from seamark.transforms.spec import StepSpec, sql_function
from seamark.transforms.tracking import processed_rows
from seamark.transforms.ways import joined_scope


@dataclass(frozen=True)
class _Recipe:
    """What a commit was made by: the shape then, the function, and whether it is one for pandas."""

    shape: Shape
    function: Callable[..., Any]
    is_pandas: bool


T = TypeVar("T")


class Shared:
    """What the tables of one commit share while they are compared: computed for the first, and there for the others."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self._made: list[tuple[Checkpoint, Any, Any]] = []

    def once(self, checkpoint: Checkpoint, also: Any, make: Callable[[], T]) -> T:
        """What is made of a checkpoint, and of something else that it depends on.

        Each table has a checkpoint of its own. One that says something else than the others' is made for itself.
        """
        whole = checkpoint.as_part(1, 1)
        for known, beside, made in self._made:
            if (known, beside) == (whole, also):
                found: T = made
                return found
        made = make()
        self._made.append((whole, also, made))
        return made


Again = Callable[[TableSource, PastCommit, Target, Shared], StagedChange | None]
"""Makes a table's part of a commit again, up to its staged slices; None if what it was made by is no longer there."""


def replay_tables(context: TableContext, spec: StepSpec, heads: Mapping[str, TableHead]) -> VerifyReport:
    """Compute the commits of a step's tables again, oldest first, until one gives other records than it wrote."""

    def again(output: TableSource, commit: PastCommit, target: Target, shared: Shared) -> StagedChange | None:
        recipe, checkpoint = _recipe(context, spec, commit), commit.checkpoint
        if recipe is None or checkpoint is None:
            return None
        made = shared.once(
            checkpoint, commit.definition, lambda: _made_again(context, spec, recipe, commit, shared.stack)
        )
        if made is None:
            return stage_nothing(target)
        return _stage_again(spec, recipe, made, replace(output, schema=target.schema), commit, target)

    return replay_commits(context, spec.written, heads, again)


def replay_commits(
    context: TableContext, outputs: Iterable[TableSource], heads: Mapping[str, TableHead], again: Again
) -> VerifyReport:
    """Make the commits of tables again, oldest first, of each table until one gives other records than it wrote.

    The tables of one commit have one system time, and are compared side by side.
    """
    replays = [_Replay(context, output, heads[output.name]) for output in outputs if output.name in heads]
    by_time = heapq.merge(*[replay.commits() for replay in replays], key=_time_of)
    for _, together in groupby(by_time, key=_time_of):
        with ExitStack() as stack:
            shared = Shared(stack)
            for commit, replay in together:
                replay.compare(commit, again, shared)
    return reduce(operator.add, (replay.report() for replay in replays), VerifyReport(0))


def _time_of(entry: tuple[PastCommit, _Replay]) -> datetime:
    return entry[0].blocks[0].system_time


class _Replay:
    """The commits of one table, made again until one gives other records than it wrote."""

    def __init__(self, context: TableContext, output: TableSource, head: TableHead) -> None:
        self._context = context
        self._output = output
        self._head = head
        self._replayed = 0
        self._skipped = Skipped(output.name)
        self._findings: list[Finding] = []

    def commits(self) -> Iterator[tuple[PastCommit, _Replay]]:
        """The commits up to the head, oldest first, each with this."""
        for commit in past_commits(self._context, self._output.name):
            if commit.blocks[-1].sequence > self._head.sequence:
                return
            yield commit, self

    def compare(self, commit: PastCommit, again: Again, shared: Shared) -> None:
        """Make one commit again, unless an earlier one was found to differ."""
        if self._findings:
            return
        try:
            with ExitStack() as stack:
                found = self._difference(commit, again, shared, stack)
        except UnsafeSql as error:
            self._skipped.add(commit, f"its SQL is not run: {error}")
            return
        except Exception as error:
            # What the chain and its files say of a commit may be anything: that it cannot be made again is reported.
            self._findings.append(_not_made(self._output.name, commit, f"{type(error).__name__}: {error}"))
            return
        if found is None:
            self._skipped.add(commit, "it was made by another definition, which is not run from the chain")
            return
        self._replayed += len(commit.blocks)
        self._findings += found

    def report(self) -> VerifyReport:
        """What was made again, what was not, and what differs."""
        skipped = self._skipped
        return VerifyReport(0, tuple(self._findings), self._replayed, skipped.blocks, skipped.reasons())

    def _difference(self, commit: PastCommit, again: Again, shared: Shared, stack: ExitStack) -> list[Finding] | None:
        """What differs when a commit is made again; None if it cannot be."""
        context, name = self._context, self._output.name
        if commit.trouble is not None:
            return [_not_made(name, commit, commit.trouble)]
        expected = [_slice_of(context, name, entry.hash) for entry in commit.blocks]
        try:
            run = stack.enter_context(writing(context))
            staged = again(self._output, commit, _target(context, self._output, commit, run.folder), shared)
        except SeamarkError as error:
            return [_not_made(name, commit, error.message)]
        if staged is None:
            return None
        data, recorded = context.files(name).data, [piece for piece in expected if piece is not None]
        difference = first_difference(data, recorded, run.folder, staged.slices)
        return [] if difference is None else [_finding(name, commit, difference)]


def count_without_step(context: TableContext, table: str, head: TableHead) -> VerifyReport:
    """The blocks of a derived table that no step of this program makes: nothing of it can be computed again."""
    made = context.control.index.blocks(table, kinds=[ExecuteTransform.__name__], upto=head.sequence)
    return VerifyReport(0, (), 0, len(made))


def _recipe(context: TableContext, spec: StepSpec, commit: PastCommit) -> _Recipe | None:
    """What to compute a commit again with; None if it was made by a function that is not today's."""
    definition = commit.definition
    if definition is None or commit.checkpoint is None:
        return None
    is_todays = spec.definition.agrees_with(definition)
    if not is_todays and definition.kind != "sql":
        return None
    # Tables may have grown by columns since: the function was not given those, and did not give them.
    shape = shape_then(context, definition, blocks_then(context, definition, commit))
    if is_todays:
        return _Recipe(shape, spec.function, spec.options.pandas)
    names = [source.table for source in shape.inputs]
    # Text from the chain: a query over its inputs is run, and nothing else.
    query = checked_query(definition.source, names)
    return _Recipe(shape, sql_function(query, names, shape.primary.source), False)


def _target(context: TableContext, output: TableSource, commit: PastCommit, folder: Path) -> Target:
    sizes = [(b.last_offset or 0) - (b.first_offset or 0) + 1 for b in commit.blocks if b.first_offset is not None]
    return Target(
        table=output.name,
        schema=stored_source(context, output.name, commit.blocks[0].sequence).schema,
        folder=folder,
        first_offset=0 if commit.last_before is None else commit.last_before + 1,
        commit_time=lambda: commit.blocks[0].system_time,
        cut=replace(context.cut, sizes=tuple(sizes)),  # where it was cut then: the limits may have been others
    )


def _slice_of(context: TableContext, table: str, block: str) -> Any:
    event = context.files(table).block(block).event
    return event.new_data if isinstance(event, ExecuteTransform) else None


@dataclass(frozen=True)
class _Made:
    """A commit, computed again: for which keys, from which rows, what the function gave, and which keys failed."""

    scope: Scope
    gathered: Gathered
    results: Results
    failed: pa.Table | None


def _made_again(
    context: TableContext, spec: StepSpec, recipe: _Recipe, commit: PastCommit, stack: ExitStack
) -> _Made | None:
    """What a commit computed; None if it computed nothing."""
    checkpoint = commit.checkpoint
    assert checkpoint is not None
    scope = scope_then(context, recipe.shape, commit, stack)
    if scope is None or (checkpoint.skipped and not recipe.shape.keys):  # the one global result failed
        return None
    gathered = gather(recipe.shape, scope, read_then(checkpoint), {})
    results = _call_again(context, spec, recipe, checkpoint, gathered, stack)
    # A key that stands as failed after a commit was not made by it: it failed in it, or was left out as tried before.
    left_alone = dict.fromkeys([*checkpoint.skipped, *(entry.key for entry in checkpoint.failed)])
    return _Made(scope, gathered, results, _failed_then(recipe.shape, scope, list(left_alone), results))


def _stage_again(
    spec: StepSpec, recipe: _Recipe, made: _Made, output: TableSource, commit: PastCommit, target: Target
) -> StagedChange:
    """Stage one output's part of what a commit computed."""
    if spec.keys_table is not None and output.name == spec.keys_table.name:
        assert commit.checkpoint is not None
        rows = [processed_rows(made.gathered, made.failed, read_then(commit.checkpoint), spec.keys_table)]
    else:
        place = [entry.name for entry in recipe.shape.outputs].index(output.name)
        rows = [_without(piece, made.failed) for piece in made.results.outputs[place]]
    return stage_change(output, target, change_of(output, rows, made.scope, made.failed, commit.last_before))


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


def _call_again(
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


def _finding(table: str, commit: PastCommit, difference: Difference) -> Finding:
    with_data = [entry for entry in commit.blocks if entry.slice_hash is not None] or list(commit.blocks)
    entry = with_data[min(difference.place, len(with_data) - 1)]
    return Finding(
        table=table,
        block=entry.hash,
        kind="replay",
        expected=difference.recorded,
        found=difference.computed,
        message=f"table '{table}': block {entry.sequence} cannot be made again from what it read. {difference.shown}",
    )


def _not_made(table: str, commit: PastCommit, reason: str) -> Finding:
    entry = commit.blocks[0]
    text = f"table '{table}': computing block {entry.sequence} again failed: {reason}"
    return Finding(table, entry.hash, "replay", "the records of the block", "an error", text)
