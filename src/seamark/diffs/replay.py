"""Replay: each commit of a diff made again from the records and the state that it read, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from seamark.control import TableHead
from seamark.diffs.ageing.expire import Expiry
from seamark.diffs.declare.spec import DiffSpec
from seamark.diffs.reading import Reading
from seamark.diffs.run import Done, make_changes, outcome_of
from seamark.ledger.verify import VerifyReport
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import PastCommit
from seamark.steps.past.replay import Shared, replay_commits
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.write.change import stage_change
from seamark.tables.write.stage import SliceTarget, StagedChange


def replay_diff(context: TableContext, spec: DiffSpec, heads: Mapping[str, TableHead]) -> VerifyReport:
    """Make the commits of a diff's tables again, oldest first, of each until one gives other records than it wrote."""

    def again(output: TableSource, commit: PastCommit, target: SliceTarget, shared: Shared) -> StagedChange | None:
        definition, checkpoint = commit.definition, commit.checkpoint
        if definition is None or checkpoint is None or not spec.definition.agrees_with(definition):
            return None
        if not {"now", "follows"} <= set(checkpoint.details):
            return None  # made when visits left by other rules
        kept = output.name in [entry.name for entry in spec.intermediate]
        then = replace(spec, options=replace(spec.options, keep_intermediate=kept))
        done = shared.once(checkpoint, kept, lambda: _done(context, then, checkpoint, shared.stack))
        place = [entry.name for entry in then.written].index(output.name)
        return stage_change(output, target, make_changes(then, done)[place](commit.last_before))

    return replay_commits(context, spec.may_have_written, heads, again)


def _done(context: TableContext, spec: DiffSpec, checkpoint: Checkpoint, stack: ExitStack) -> Done:
    """What a commit was made of."""
    reading, expiry = _reading(spec, checkpoint), Expiry.then(context, spec, checkpoint)
    skip_bad, kept = bool(checkpoint.details["skip_bad"]), spec.options.keep_intermediate
    outcome = outcome_of(context, spec, reading, expiry, skip_bad, stack, keep_intermediate=kept)
    return Done(reading, outcome, expiry, expiry.look(outcome, stack), checkpoint.details["follows"])


def _reading(spec: DiffSpec, checkpoint: Checkpoint) -> Reading:
    """What a commit read."""
    wide = checkpoint.read.get(spec.wide.name) if spec.wide else None
    return Reading(
        intervals=checkpoint.taken,
        retried=checkpoint.details["retried"],
        positions=checkpoint.details["positions"],
        state=checkpoint.details["state"],
        gone=checkpoint.details["gone"],
        wide=wide.offset if wide else None,
    )
