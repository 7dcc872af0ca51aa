"""What a run of a step would do: told from positions and the index of blocks. Nothing is computed or changed."""

from __future__ import annotations

from seamark.errors import DefinitionChanged, SchemaChangeRefused
from seamark.steps.running.report import InputPlan, StepPlan
from seamark.steps.standing.known import refuse_older_program
from seamark.tables.context import TableContext
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keys.batches import cut_batches
from seamark.transforms.keys.estimate import estimate_keys
from seamark.transforms.situation import Situation, decide, watermark_to_come


def plan_step(context: TableContext, situation: Situation) -> StepPlan:
    """What a run of a step would do now, and why."""
    spec = situation.spec
    mode, reason = _mode(context, situation)
    found = estimate_keys(context, situation, mode)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=reason,
        inputs=tuple(_input_plan(situation, source) for source in _each_table(spec.shape)),
        outputs=tuple(output.name for output in spec.shape.outputs),
        keys=found.keys,
        keys_are_exact=found.is_exact,
        keys_are_estimated=found.is_estimate,
        batches=_batches(situation, mode, found.keys),
        failed_due=len(situation.due),
        failed_waiting=len(situation.failed) - len(situation.due),
    )


def _mode(context: TableContext, situation: Situation) -> tuple[str, str]:
    try:
        recompute = decide(situation, situation.spec.options.on_change)
        if not situation.is_settled:
            refuse_older_program(situation.spec, situation.pins.values(), situation.heads)
    except (DefinitionChanged, SchemaChangeRefused) as refusal:
        return "refused", refusal.message
    if recompute:
        added = ", ".join(situation.new_outputs)
        made = "" if situation.has_made_rows else " before it made any row"
        return "recompute", f"new output {added}" if added else f"its definition changed{made}"
    if situation.unfinished is not None:
        return situation.unfinished.mode, "a pass over all keys goes on where it was cut off"
    if situation.has_records:
        because = situation.all_keys_because()
        if because is not None:
            return "all keys", because
        waiting = [f"{entry.records} in '{entry.table}'" for entry in situation.pending if entry.records > 0]
        return "changes", f"records wait: {', '.join(waiting)}"
    if situation.due:
        due = len(situation.due)
        return "retry", f"{due} failed key{' is' if due == 1 else 's are'} due"
    if situation.older is not None:
        return "definition", "its definition changed; the rows that stand are kept"
    if watermark_to_come(context, situation):
        return "watermark", "the inputs' watermarks moved"
    if all(offset is None for offset in situation.read.values()):
        return "settled", f"no records yet in {', '.join(situation.read)}"
    return "settled", "nothing new"


def _each_table(shape: Shape) -> list[Input]:
    return list({source.table: source for source in reversed(shape.inputs)}.values())[::-1]


def _input_plan(situation: Situation, source: Input) -> InputPlan:
    entry = next((entry for entry in situation.pending if entry.table == source.table), None)
    return InputPlan(
        table=source.table,
        after=entry.after if entry else None,
        upto=entry.pin.offset if entry else None,
        pending_records=entry.records if entry else 0,
        path=path_of(situation.spec.shape, source),
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


def _batches(situation: Situation, mode: str, keys: int) -> int:
    options = situation.spec.options
    if mode in ("settled", "refused"):
        return 0
    if mode in ("all keys", "recompute"):
        return max(1, -(-keys // options.batch_keys))
    return max(1, len(cut_batches(situation.pending, options.batch_rows)))
