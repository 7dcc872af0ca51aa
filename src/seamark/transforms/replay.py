"""Replay: each commit of a derived table computed again from what it read, and compared with what it wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from seamark.control import TableHead
from seamark.ledger.verify import VerifyReport
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import PastCommit, read_at_commit
from seamark.steps.past.replay import Shared, replay_commits
from seamark.steps.rows.keys import columns_of, keys_of
from seamark.steps.rows.scope import Scope
from seamark.steps.running.commit import change_of
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, by_name
from seamark.tables.read.source import TableSource
from seamark.tables.write.change import stage_change
from seamark.tables.write.stage import SliceTarget, StagedChange, stage_nothing
from seamark.transforms.keying import GatheredRows, KeyedSpec, Keying, Results
from seamark.transforms.run import failed_keys


def replay_tables(context: TableContext, spec: KeyedSpec, heads: Mapping[str, TableHead]) -> VerifyReport:
    """Compute the commits of a step's tables again, oldest first, until one gives other records than it wrote."""

    def again(output: TableSource, commit: PastCommit, target: SliceTarget, shared: Shared) -> StagedChange | None:
        checkpoint = commit.checkpoint
        keying = spec.keying_of(commit) if checkpoint is not None else None
        if keying is None or checkpoint is None:
            return None
        made = shared.once(
            checkpoint, commit.definition, lambda: _recompute_commit(spec, keying, checkpoint, shared.stack)
        )
        if made is None:
            return stage_nothing(target)
        return _stage_output(spec, keying, made, replace(output, schema=target.schema), commit, target)

    return replay_commits(context, spec.written, heads, again)


@dataclass(frozen=True)
class _Recomputed:
    """A commit, computed again: for which keys, from which rows, what the function gave, and which keys failed."""

    scope: Scope
    gathered: GatheredRows
    results: Results
    failed: pa.Table | None


def _recompute_commit(spec: KeyedSpec, keying: Keying, checkpoint: Checkpoint, stack: ExitStack) -> _Recomputed | None:
    """What a commit computed; None if it computed nothing."""
    scope = keying.scope_of(checkpoint, stack)
    if scope is None or (checkpoint.skipped and not keying.keys):  # the one global result failed
        return None
    read = read_at_commit(checkpoint)
    gathered = keying.gather(scope, read, {})
    most = spec.options.max_failed_keys + len(checkpoint.skipped) + len(checkpoint.failed)
    computed = keying.compute(gathered, stack, fail_fast=False, most_failed=most)
    scope, results = keying.settle(gathered, computed, read, stack)
    # A key that is recorded as failed after a commit was not made by it: it failed there, or was skipped.
    not_made = dict.fromkeys([*checkpoint.skipped, *(entry.key for entry in checkpoint.failed)])
    return _Recomputed(scope, gathered, results, _failed_at_commit(keying, scope, list(not_made), results))


def _stage_output(
    spec: KeyedSpec, keying: Keying, made: _Recomputed, output: TableSource, commit: PastCommit, target: SliceTarget
) -> StagedChange:
    """Stage one output's part of what a commit computed."""
    if spec.keys_table is not None and output.name == spec.keys_table.name:
        assert commit.checkpoint is not None
        processed = spec.processed(made.gathered, made.failed, read_at_commit(commit.checkpoint))
        rows = [] if processed is None else [processed]
    else:
        place = [entry.name for entry in keying.outputs].index(output.name)
        rows = [_without(piece, made.failed, output.context.session) for piece in made.results.outputs[place]]
    return stage_change(output, target, change_of(output, rows, made.scope, made.failed, commit.last_before))


def _failed_at_commit(keying: Keying, scope: Scope, skipped: Sequence[str], results: Results) -> pa.Table | None:
    now = failed_keys(results)
    mine = [text for text in skipped if set(columns_of(text)) == set(scope.columns or keying.group)]
    if not mine or not (scope.columns or keying.group):
        return now
    then = keys_of(mine, scope.columns or keying.group, keying.key_types)
    return then if now is None else pa.concat_tables([then, now.select(then.column_names).cast(then.schema)])


def _without(rows: CheckedFrame, keys: pa.Table | None, session: Session) -> CheckedFrame:
    if keys is None or keys.num_rows == 0:
        return rows
    return rows.anti_join(LocalFrame(keys), by_name(keys.column_names), session)
