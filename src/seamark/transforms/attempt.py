"""One run of a step, whatever the step does: its lease, its files, and its row in the record of runs."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from seamark.control import Lease, LiveRun, RunRecord
from seamark.errors import (
    AlreadyRunning,
    CommitConflict,
    LeaseHeld,
    PositionConflict,
    SeamarkError,
    StagedFilesGone,
)
from seamark.tables.context import TableContext
from seamark.tables.publish import Writing, writing
from seamark.transforms.batches import Pin
from seamark.transforms.report import StepReport

log = logging.getLogger("seamark.run")

# How often a run plans again when others committed first; a lease keeps a second run of the step away, so it is rare.
MOST_CONFLICTS = 5


@dataclass
class Attempt:
    """A run under way: the lease that it holds, where it writes, when it began, and how far it reads."""

    lease: Lease
    files: Writing
    report: StepReport
    started: float
    pins: Mapping[str, Pin] = field(default_factory=dict)
    is_listed: bool = False  # among the runs at work

    def read_upto(self, context: TableContext, pins: Mapping[str, Pin]) -> None:
        """Pin the inputs. The run is listed as at work from here on, so that nobody takes away what it reads."""
        offsets = {table: pin.offset for table, pin in pins.items()}
        if self.is_listed:
            context.control.live.move_pins(self.files.run_id, offsets)
        else:
            begun = LiveRun(
                self.files.run_id, self.report.step, self.lease, self.report.mode, self.started, pins=offsets
            )
            context.control.live.begin(begun)
        self.pins, self.is_listed = pins, True

    def at_batch(self, context: TableContext, mode: str, number: int, *, batches_left: int) -> None:
        """Say which batch is at work, for people who look on."""
        context.control.live.at_batch(self.files.run_id, number, number + batches_left, mode)

    def record(self, context: TableContext, *, mode: str, rows_in: int, rows_out: int) -> RunRecord:
        """The run's row after a commit."""
        return RunRecord(
            run_id=self.files.run_id,
            step=self.report.step,
            mode=mode,
            started=self.started,
            ended=context.clock.now().timestamp(),
            pins=json.dumps({table: pin.offset for table, pin in self.pins.items()}) if self.pins else None,
            rows_in=rows_in,
            rows_out=rows_out,
        )


def attempt(context: TableContext, report: StepReport, wait: float, work: Callable[[Attempt], None]) -> StepReport:
    """Do some work under a step's lease; planned again if others commit first; recorded also when it fails."""
    begun, started = time.monotonic(), context.clock.now().timestamp()
    with _leased(context, report.step, wait) as lease, writing(context) as files:
        run = Attempt(lease, files, report, started)
        try:
            _until_it_is_first(run, work)
        except BaseException as error:
            _record_failure(context, run, error)
            raise
        finally:
            if run.is_listed:
                context.control.live.end(files.run_id)
    report.seconds = time.monotonic() - begun
    if report.batches == 0:
        report.mode = "settled"
    return report


def _until_it_is_first(run: Attempt, work: Callable[[Attempt], None]) -> None:
    for number in range(1, MOST_CONFLICTS + 1):
        try:
            work(run)
            return
        except (CommitConflict, PositionConflict, StagedFilesGone):
            if number == MOST_CONFLICTS:
                raise
            log.info("step '%s' plans again: others committed first", run.report.step)


@contextmanager
def _leased(context: TableContext, step: str, wait: float) -> Iterator[Lease]:
    name, leases = f"step:{step}", context.control.leases
    holder = f"{socket.gethostname()}:{os.getpid()}"
    try:
        with leases.held(name, holder=holder, wait=wait) as lease:
            yield lease
    except LeaseHeld as error:
        if name not in error.message:
            raise
        raise AlreadyRunning(
            f"step '{step}' is already running: {leases.holder(name) or 'somebody'} holds its lease, and kept "
            f"it for longer than {wait:g} s. Nothing was changed.",
            hint="wait for the other run to end; after a crash its lease runs out by itself.",
        ) from None


def _record_failure(context: TableContext, run: Attempt, error: BaseException) -> None:
    text = str(error) if isinstance(error, Exception) else type(error).__name__
    report = run.report
    done = run.record(context, mode=report.mode, rows_in=report.rows_in, rows_out=report.rows_out)
    record = replace(done, outcome="failed", error=text[:4000])
    try:
        context.control.record_run(record)
    except SeamarkError as trouble:  # what stopped the run is raised all the same, and may well be the same trouble
        log.warning("the failed run of step '%s' could not be recorded: %s", report.step, trouble)
