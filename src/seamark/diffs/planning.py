"""What a run of a diff would do, from positions and the index of blocks. Nothing is read or changed."""

from __future__ import annotations

from seamark.diffs.backlog import DiffBacklog
from seamark.steps.running.report import InputPlan, StepPlan
from seamark.steps.standing.moves import Move


def plan_diff(backlog: DiffBacklog, move: Move) -> StepPlan:
    """What a run of a diff would do now, and why. How many visits the records are about is not known before."""
    spec, mode = backlog.spec, move.mode
    waiting = sum(entry.records for entry in backlog.logs)
    visits = 0 if mode.is_idle else waiting + len(backlog.due)
    return StepPlan(
        step=spec.name,
        mode=mode,
        reason=move.reason,
        inputs=tuple(_input_plan(backlog, table) for table in spec.sources),
        outputs=tuple(output.name for output in spec.outputs),
        keys=visits,
        keys_are_exact=waiting == 0,
        batches=0 if mode.is_idle else 1,
        failed_due=len(backlog.due),
        failed_waiting=len(backlog.failed) - len(backlog.due),
    )


def _input_plan(backlog: DiffBacklog, table: str) -> InputPlan:
    spec = backlog.spec
    entry = next((entry for entry in backlog.pending if entry.table == table), None)
    is_wide = spec.wide is not None and table == spec.wide.name
    key = ", ".join(spec.key_names)
    return InputPlan(
        table=table,
        after=entry.after if entry else None,
        upto=entry.pin.offset if entry else None,
        pending_records=entry.records if entry else 0,
        path=f"looked up by {key}, {spec.fast_version.name}" if is_wide else f"its own {key}",
    )
