"""What `status` and `log` know of runs that are at work, and of those that were killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from seamark.control import Control, LiveRun, RunRecord
from seamark.control.live import KILLED, KILLED_TEXT


@dataclass(frozen=True, slots=True)
class RunningLine:
    """A run of a step that is at work: since when, where, and at which of the batches that are known."""

    run_id: str
    step: str
    mode: str
    since: datetime
    seconds: float
    host: str
    process: int | None
    batch: int
    batches: int


def running_lines(live: Sequence[LiveRun], now: datetime) -> tuple[RunningLine, ...]:
    """The runs that are at work, oldest first."""
    return tuple(_line(run, now) for run in live if run.is_alive)


def _line(run: LiveRun, now: datetime) -> RunningLine:
    host, _, process = run.lease.holder.rpartition(":")
    since = datetime.fromtimestamp(run.started, UTC)
    return RunningLine(
        run_id=run.run_id,
        step=run.step,
        mode=run.mode,
        since=since,
        seconds=round(max(0.0, (now - since).total_seconds()), 3),
        host=host or run.lease.holder,
        process=int(process) if process.isdigit() else None,
        batch=run.batch,
        batches=run.batches,
    )


def with_killed(runs: Sequence[RunRecord], live: Sequence[LiveRun], newest: int) -> list[RunRecord]:
    """The newest runs, with those that were killed as such: their next run puts that on record, looking does not.

    A run that has committed some of its batches has a row that says `done` until then.
    """
    killed = {run.run_id: run for run in live if not run.is_alive}
    recorded = {run.run_id for run in runs}
    found = [replace(run, outcome=KILLED, error=KILLED_TEXT) if run.run_id in killed else run for run in runs]
    for run in killed.values():
        if run.run_id not in recorded:
            found.append(RunRecord(run.run_id, run.step, run.mode, run.started, outcome=KILLED, error=KILLED_TEXT))
    return sorted(found, key=lambda run: run.started, reverse=True)[:newest]


def writing_now(control: Control, live: Sequence[LiveRun]) -> tuple[str, ...]:
    """The ids of the runs that write now, of steps and by hand. A step that was killed writes no longer."""
    killed = {run.run_id for run in live if not run.is_alive}
    return tuple(run for run in control.staging.writing_now() if run not in killed)
