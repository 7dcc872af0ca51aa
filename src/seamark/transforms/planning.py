"""What a run of a step would do: told from positions and the index of blocks. Nothing is computed or changed."""

from __future__ import annotations

from seamark.errors import DefinitionChanged
from seamark.tables.context import TableContext
from seamark.tables.frames import LocalFrame
from seamark.tables.stage import SMALL_RECORDS
from seamark.transforms.batches import cut_batches
from seamark.transforms.partial import changed_idx_count, waiting_keys
from seamark.transforms.ranges import rows_at_most
from seamark.transforms.report import InputPlan, StepPlan
from seamark.transforms.shape import Input, Shape
from seamark.transforms.situation import Situation, decide, watermark_to_come


def plan_step(context: TableContext, situation: Situation) -> StepPlan:
    """What a run of a step would do now, and why."""
    spec = situation.spec
    mode, reason = _mode(context, situation)
    keys, exact = _keys(context, situation, mode)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=reason,
        inputs=tuple(_input_plan(situation, source) for source in _each_table(spec.shape)),
        outputs=tuple(output.name for output in spec.shape.outputs),
        keys=keys,
        keys_are_exact=exact,
        batches=_batches(situation, mode, keys),
        failed_due=len(situation.due),
        failed_waiting=len(situation.failed) - len(situation.due),
    )


def _mode(context: TableContext, situation: Situation) -> tuple[str, str]:
    try:
        recompute = decide(situation, situation.spec.options.on_change)
    except DefinitionChanged as refusal:
        return "refused", refusal.message
    if recompute:
        added = ", ".join(situation.new_outputs)
        return "recompute", f"new output {added}" if added else "its definition changed"
    if situation.unfinished is not None:
        return situation.unfinished.mode, "a pass over all keys goes on where it was cut off"
    if situation.has_records:
        because = situation.all_keys_because()
        if because is not None:
            return "all keys", because
        waiting = [f"{entry.records} in '{entry.table}'" for entry in situation.pending if entry.records > 0]
        return "changes", f"records wait: {', '.join(waiting)}"
    if situation.due:
        return "retry", f"{len(situation.due)} failed keys are due"
    if situation.older is not None:
        return "definition", "its definition changed; the rows that stand are kept"
    if watermark_to_come(context, situation):
        return "watermark", "the inputs' watermarks moved"
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


def _keys(context: TableContext, situation: Situation, mode: str) -> tuple[int, bool]:
    shape = situation.spec.shape
    if mode in ("settled", "refused", "definition", "watermark"):
        return 0, True
    if not shape.group:
        return 1, True
    if mode in ("all keys", "recompute"):
        return _every_key(situation), False
    count = len(situation.due)
    if not situation.has_records:
        return count, True
    direct = [entry.records for entry in situation.pending if not _is_joined(shape, entry.table)]
    if not shape.shares_all_keys or sum(direct) < sum(entry.records for entry in situation.pending):
        # changes would have to be joined to find their keys, which is work: any key may be among them
        return count + _every_key(situation) + sum(direct), False
    if sum(direct) <= SMALL_RECORDS and all(
        isinstance(entry.keys, LocalFrame) for entry in waiting_keys(context, situation)
    ):
        return changed_idx_count(context, situation), True
    return count + sum(direct), False


def _every_key(situation: Situation) -> int:
    """How many keys the inputs have, at the most."""
    shape = situation.spec.shape
    holders = [i for i in shape.plain if set(shape.group) <= set(i.columns)] or [shape.primary]
    return sum(rows_at_most(source, situation.read) for source in holders)


def _is_joined(shape: Shape, table: str) -> bool:
    return bool(shape.looked_up) or any(i.is_reference for i in shape.inputs if i.table == table)


def _batches(situation: Situation, mode: str, keys: int) -> int:
    options = situation.spec.options
    if mode in ("settled", "refused"):
        return 0
    if mode in ("all keys", "recompute"):
        return max(1, -(-keys // options.batch_keys))
    return max(1, len(cut_batches(situation.pending, options.batch_rows)))
