"""What a run of a step would do, from positions and the index of blocks. Nothing is computed or changed."""

from __future__ import annotations

from seamark.control import Mode
from seamark.steps.running.report import InputPlan, StepPlan
from seamark.steps.standing.moves import Move
from seamark.tables.context import TableContext
from seamark.transforms.backlog import Backlog
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keys.batches import cut_batches
from seamark.transforms.keys.estimate import estimate_keys
from seamark.transforms.keys.ranges import key_holders, keys_per_range


def plan_step(context: TableContext, backlog: Backlog, move: Move) -> StepPlan:
    """What a run that begins with this move would do now, and why."""
    spec, mode = backlog.spec, move.mode
    found = estimate_keys(context, backlog, mode)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=move.reason,
        inputs=tuple(_input_plan(backlog, source) for source in _each_table(spec.shape)),
        outputs=tuple(output.name for output in spec.shape.outputs),
        keys=found.keys,
        keys_are_exact=found.is_exact,
        keys_are_estimated=found.is_estimate,
        batches=_batches(backlog, mode, found.keys),
        failed_due=len(backlog.due),
        failed_waiting=len(backlog.failed) - len(backlog.due),
    )


def _each_table(shape: Shape) -> list[Input]:
    return list({source.table: source for source in reversed(shape.inputs)}.values())[::-1]


def _input_plan(backlog: Backlog, source: Input) -> InputPlan:
    entry = next((entry for entry in backlog.pending if entry.table == source.table), None)
    return InputPlan(
        table=source.table,
        after=entry.after if entry else None,
        upto=entry.pin.offset if entry else None,
        pending_records=entry.records if entry else 0,
        path=path_of(backlog.spec.shape, source),
    )


def path_of(shape: Shape, source: Input) -> str:
    """How changes of an input lead to keys, for people."""
    group = shape.group_of(source)
    if not shape.keys:
        return "the one global result"
    if not group:
        return "every key"
    if shape.looked_up:
        return f"{', '.join(group)}, looked up before and now"
    if source.is_reference:
        pairs = ", ".join(f"{mine} = {theirs}" for mine, theirs in source.join_keys)
        return f"reverse join to {shape.primary.table} by {pairs}"
    if set(group) == set(shape.keys):
        return f"its own {', '.join(group)}"
    return f"groups of {', '.join(group)}"


def _batches(backlog: Backlog, mode: Mode, keys: int) -> int:
    options = backlog.spec.options
    if mode.is_idle:
        return 0
    if mode.takes_all_keys:
        return _ranges_left(backlog, keys)
    return max(1, len(cut_batches(backlog.pending, options.batch_rows)))


def _ranges_left(backlog: Backlog, keys: int) -> int:
    """How many ranges a pass over so many keys has, without those that it committed before it was cut off."""
    if not key_holders(backlog.spec.shape):
        return 1  # such keys cannot be cut into ranges
    ranges = -(-keys // keys_per_range(backlog.spec, backlog.read))
    starts_anew = backlog.older is not None or bool(backlog.new_outputs)
    mark = None if starts_anew or backlog.unfinished is None else backlog.unfinished.mark
    committed = mark.number + 1 if mark and mark.upto is not None and mark.columns == backlog.spec.shape.group else 0
    return max(1, ranges - committed)
