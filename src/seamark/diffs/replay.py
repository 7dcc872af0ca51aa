"""Replay: each commit of a diff made again from the records and the state that it read, and compared."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

from seamark.control import TableHead
from seamark.diffs.declare import DiffSpec
from seamark.diffs.expire import Expiry
from seamark.diffs.outcome import Outcome, levels_of, records_of, state_changes
from seamark.diffs.reading import Reading
from seamark.diffs.run import fold_all
from seamark.ledger.verify import VerifyReport
from seamark.tables.change import Change, stage_change
from seamark.tables.context import TableContext
from seamark.tables.read import TableSource
from seamark.tables.stage import StagedChange, Target
from seamark.transforms.checkpoint import Checkpoint
from seamark.transforms.commit import change_of
from seamark.transforms.history import PastCommit
from seamark.transforms.replay import replay_commits
from seamark.transforms.scope import AllKeys


def replay_diff(context: TableContext, spec: DiffSpec, table: str, head: TableHead) -> VerifyReport:
    """Make the commits of one of a diff's tables again, oldest first, until one gives other records than it wrote."""
    output = next(entry for entry in spec.may_have_written if entry.name == table)

    def again(commit: PastCommit, target: Target, stack: ExitStack) -> StagedChange | None:
        definition, checkpoint = commit.definition, commit.checkpoint
        if definition is None or checkpoint is None or definition.counts != spec.definition.counts:
            return None
        reading, expiry = _reading(spec, checkpoint), _expiry(context, spec, checkpoint)
        skip_bad, levels = bool(checkpoint.details["skip_bad"]), output not in spec.outputs
        outcome = fold_all(context, spec, reading, expiry, skip_bad, stack, keep_levels=levels)
        return stage_change(output, target, _change(spec, output, outcome, expiry, commit.last_before))

    return replay_commits(context, output, head, again)


def _reading(spec: DiffSpec, checkpoint: Checkpoint) -> Reading:
    """What a commit read."""
    wide = checkpoint.read.get(spec.wide.name) if spec.wide else None
    return Reading(
        intervals=checkpoint.taken,
        retried=checkpoint.details["retried"],
        positions=checkpoint.details["positions"],
        state=checkpoint.details["state"],
        wide=wide.offset if wide else None,
    )


def _expiry(context: TableContext, spec: DiffSpec, checkpoint: Checkpoint) -> Expiry:
    horizon = checkpoint.details["horizon"]
    moment = datetime.fromisoformat(horizon) if horizon else None
    return Expiry(context, spec, checkpoint.details["state"], moment, bool(checkpoint.details["expires"]))


def _change(spec: DiffSpec, output: TableSource, outcome: Outcome, expiry: Expiry, last: int | None) -> Change:
    if output.name == spec.state.name:
        return state_changes(spec, outcome, expiry)
    if output.name == spec.visit_log_slow.name:
        return records_of(spec, outcome)
    place = [entry.name for entry in spec.intermediate].index(output.name)
    return change_of(output, [levels_of(spec, outcome)[place]], AllKeys(), None, last)
