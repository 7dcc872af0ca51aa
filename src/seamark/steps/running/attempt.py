"""One run of a step, whatever the step does: its lease, its files, and its row in the record of runs."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from seamark.control import Control, Lease, LiveRun, Mode, RunRecord, outputs_of_lease, step_lease_name
from seamark.control.leases import this_process
from seamark.errors import (
    AlreadyRunning,
    CommitConflict,
    LeaseHeld,
    PositionConflict,
    SeamarkError,
    StagedFilesGone,
)
from seamark.spark.starting import seconds_spent
from seamark.steps.running.blame import interruptions_named
from seamark.steps.running.commit import Maker
from seamark.steps.running.observe import begin_observers
from seamark.steps.running.report import StepReport
from seamark.steps.standing.diagnosis import STOPPED
from seamark.steps.standing.pins import Pin
from seamark.tables.context import TableContext
from seamark.tables.write.conflicts import retry_on_conflict
from seamark.tables.write.writing import Writing, writing
from seamark.texts import record_of

log = logging.getLogger("seamark.run")


@dataclass
class Attempt:
    """A run in progress: its lease, its staged files, its report, when it began, and its pins."""

    lease: Lease
    files: Writing
    report: StepReport
    started: float
    spark_before: float  # seconds spent on starting Spark before this run: its own time leaves such seconds out
    pins: Mapping[str, Pin] = field(default_factory=dict)
    working_mode: Mode | None = None  # that of the batch being computed
    is_listed: bool = False  # among the runs at work
    seconds_on_record: float = 0.0  # of the run's row after its newest commit

    def read_upto(self, context: TableContext, pins: Mapping[str, Pin]) -> None:
        """Pin the inputs. From here on the run is listed as live, so that `gc` keeps the bases that it reads."""
        offsets = {table: pin.offset for table, pin in pins.items()}
        if self.is_listed:
            context.control.live.move_pins(self.files.run_id, offsets)
        else:
            begun = LiveRun(
                self.files.run_id, self.report.step, self.lease, self.report.mode.value, self.started, pins=offsets
            )
            context.control.live.begin(begun)
        self.pins, self.is_listed = pins, True

    def at_batch(self, context: TableContext, mode: Mode, number: int, *, batches_left: int) -> None:
        """Record which batch is being computed, for `status`, progress, metrics, and the run's row if it fails."""
        self.working_mode = mode
        context.control.live.at_batch(self.files.run_id, number, number + batches_left, mode.value)
        for observe in begin_observers:
            observe(self.report, number, number + batches_left)

    def record(self, context: TableContext, *, mode: Mode, rows_in: int, rows_out: int) -> RunRecord:
        """The run's row after a commit."""
        started, ended = self.started + seconds_spent() - self.spark_before, context.clock.now().timestamp()
        self.seconds_on_record = max(0.0, ended - started)  # a clock may be set back
        return RunRecord(
            run_id=self.files.run_id,
            step=self.report.step,
            mode=mode.value,
            started=started,
            ended=ended,
            pins=json.dumps({table: pin.offset for table, pin in self.pins.items()}) if self.pins else None,
            rows_in=rows_in,
            rows_out=rows_out,
            outputs=outputs_of_lease(self.lease.name),
        )


def attempt(
    context: TableContext, maker: Maker, report: StepReport, wait: float, work: Callable[[Attempt], None]
) -> StepReport:
    """Do the work under a step's lease and return the report. Retried after conflicts; recorded even if it fails."""
    begun, started, spark_before = time.monotonic(), context.clock.now().timestamp(), seconds_spent()
    with _leased(context, maker, wait) as lease, writing(context) as files:
        run = Attempt(lease, files, report, started, seconds_spent())
        try:
            _retried(run, work)
        except BaseException as error:
            _record_failure(context, run, error)
            raise
        finally:
            if run.is_listed:
                context.control.live.end(files.run_id)
    if report.batches == 0:
        report.seconds = time.monotonic() - begun - (seconds_spent() - spark_before)
        report.mode = Mode.SETTLED
    else:  # `run` says what `status` and `log` say later
        report.seconds = run.seconds_on_record
    return report


def _retried(run: Attempt, work: Callable[[Attempt], None]) -> None:
    def plan_again(error: SeamarkError, _number: int) -> None:
        if isinstance(error, StagedFilesGone):
            run.files.revive()
        log.info("step '%s' plans again: %s", run.report.step, error.message)

    retry_on_conflict(lambda: _work_once(run, work), (CommitConflict, PositionConflict, StagedFilesGone), plan_again)


def _work_once(run: Attempt, work: Callable[[Attempt], None]) -> None:
    """Do the work once; an error because `gc` removed the run's files becomes `StagedFilesGone`."""
    with interruptions_named(run.report.step):
        try:
            work(run)
        except Exception as error:
            run.files.blame_collection(error)
            raise


def _why_stopped(error: BaseException) -> str:
    return str(error) or ("stopped by Ctrl-C" if type(error) is KeyboardInterrupt else type(error).__name__)


def give_back_runs(control: Control) -> None:
    """Record the runs of this process as stopped and release its leases, before the process ends.

    A commit in progress is then refused or already complete.
    """
    now = control.clock.now().timestamp()
    for live in control.live.all():
        if live.lease.holder == this_process():
            control.live.stop(live.run_id, STOPPED, "stopped in the middle of a call that could not be broken off", now)
    control.leases.release_all()


@contextmanager
def _leased(context: TableContext, maker: Maker, wait: float) -> Iterator[Lease]:
    name, leases = step_lease_name(maker.name, maker.outputs_key), context.control.leases
    try:
        with leases.held(name, wait=wait) as lease:
            yield lease
    except LeaseHeld as error:
        if error.lease != name:
            raise
        raise AlreadyRunning(
            f"step '{maker.name}' is already running: {leases.holder(name) or 'somebody'} holds its lease, and kept "
            f"it for longer than {wait:g} s. Nothing was changed.",
            hint="wait for the other run to end; after a crash its lease runs out by itself.",
        ) from None


def _record_failure(context: TableContext, run: Attempt, error: BaseException) -> None:
    report = run.report
    done = run.record(context, mode=run.working_mode or report.mode, rows_in=report.rows_in, rows_out=report.rows_out)
    # A run that was broken off began when people saw it begin, even if Spark's start took most of its time.
    done = replace(done, started=run.started)
    if isinstance(error, Exception):
        record = replace(done, outcome="failed", error=record_of(error))
    else:  # Ctrl-C, a signal, or a program that ends: not a failure of the step
        record = replace(done, outcome=STOPPED, error=_why_stopped(error))
    try:
        context.control.record_run(record)
    except SeamarkError as trouble:  # the caller raises what stopped the run anyway; often that is the same problem
        log.warning("the failed run of step '%s' could not be recorded: %s", report.step, trouble)
