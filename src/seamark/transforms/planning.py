"""What a run of a step would do, from positions and the index of blocks. Nothing is computed or changed."""

from __future__ import annotations

from seamark.control import Mode
from seamark.steps.running.report import InputPlan, StepPlan
from seamark.steps.standing.moves import Move
from seamark.tables.context import TableContext
from seamark.transforms.backlog import Backlog
from seamark.transforms.keys.batches import cut_batches
from seamark.transforms.keys.estimate import estimate_keys


def plan_step(context: TableContext, backlog: Backlog, move: Move) -> StepPlan:
    """What a run that begins with this move would do now, and why."""
    spec, mode = backlog.spec, move.mode
    found = estimate_keys(context, backlog, mode)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=move.reason,
        inputs=tuple(_input_plan(backlog, table) for table in spec.sources),
        outputs=tuple(output.name for output in spec.outputs),
        keys=found.keys,
        keys_are_exact=found.is_exact,
        keys_are_estimated=found.is_estimate,
        batches=_batches(backlog, mode, found.keys),
        failed_due=len(backlog.due),
        failed_waiting=len(backlog.failed) - len(backlog.due),
    )


def _input_plan(backlog: Backlog, table: str) -> InputPlan:
    entry = next((entry for entry in backlog.pending if entry.table == table), None)
    return InputPlan(
        table=table,
        after=entry.after if entry else None,
        upto=entry.pin.offset if entry else None,
        pending_records=entry.records if entry else 0,
        path=backlog.spec.keying.path_of(table),
    )


def _batches(backlog: Backlog, mode: Mode, keys: int) -> int:
    options = backlog.spec.options
    if mode.is_idle:
        return 0
    if mode.takes_all_keys:
        return _ranges_left(backlog, keys)
    return max(1, len(cut_batches(backlog.waiting, options.batch_rows)))


def _ranges_left(backlog: Backlog, keys: int) -> int:
    """How many ranges a pass over so many keys has, without those that it committed before it was cut off."""
    ranges = backlog.spec.keying.ranges_at_most(keys, backlog.read)
    starts_anew = backlog.older is not None or bool(backlog.new_outputs)
    mark = None if starts_anew or backlog.unfinished is None else backlog.unfinished.mark
    committed = mark.number + 1 if mark and mark.upto is not None and mark.columns == backlog.spec.keying.group else 0
    return max(1, ranges - committed)
