"""What a run of a diff would do: told from positions and the index of blocks. Nothing is read or changed."""

from __future__ import annotations

from seamark.diffs.situation import DiffSituation, decide
from seamark.errors import SeamarkError
from seamark.steps.running.report import InputPlan, StepPlan


def plan_diff(situation: DiffSituation) -> StepPlan:
    """What a run of a diff would do now, and why. How many visits the records are about is not known before."""
    spec = situation.spec
    mode, reason = _mode(situation)
    waiting = sum(entry.records for entry in situation.logs)
    visits = 0 if mode in ("settled", "refused") else waiting + len(situation.due)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=reason,
        inputs=tuple(_input_plan(situation, table) for table in spec.sources),
        outputs=tuple(output.name for output in spec.outputs),
        keys=visits,
        keys_are_exact=waiting == 0,
        batches=0 if mode in ("settled", "refused") else 1,
        failed_due=len(situation.due),
        failed_waiting=len(situation.failed) - len(situation.due),
    )


def _mode(situation: DiffSituation) -> tuple[str, str]:
    try:
        decide(situation, situation.spec.options.on_change)
    except SeamarkError as refusal:
        return "refused", refusal.message
    waiting = [f"{entry.records} in '{entry.table}'" for entry in situation.pending if entry.records > 0]
    if waiting:
        return "changes", f"records wait: {', '.join(waiting)}"
    if situation.due:
        due = len(situation.due)
        return "retry", f"{due} failed visit{' is' if due == 1 else 's are'} due"
    if situation.expires:
        return "expire", "visits are too old for the state"
    if situation.older is not None:
        return "definition", "its definition changed; the state that stands is kept"
    if situation.watermark_waits:
        return "watermark", "the logs' watermarks moved"
    return "settled", "nothing new"


def _input_plan(situation: DiffSituation, table: str) -> InputPlan:
    spec = situation.spec
    entry = next((entry for entry in situation.pending if entry.table == table), None)
    is_wide = spec.wide is not None and table == spec.wide.name
    key = ", ".join(spec.key_names)
    return InputPlan(
        table=table,
        after=entry.after if entry else None,
        upto=entry.pin.offset if entry else None,
        pending_records=entry.records if entry else 0,
        path=f"looked up by {key}, {spec.fast_version.name}" if is_wide else f"its own {key}",
    )
