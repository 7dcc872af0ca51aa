"""Passes over a view's dictionaries: what their changes lead to is computed page by page, then the positions move.

A dictionary is a table whose changes wait in its log while runs by changes go on, all of which read it at its head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from seamark.control import Mode, Scan, ScanId, ScanKind
from seamark.steps.rows.scope import AllKeys, Scope
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.report import StepReport
from seamark.steps.standing.pins import Pending, Taken
from seamark.tables.context import TableContext
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import ChangedBlocks, no_keys
from seamark.transforms.keys.strategies import covers
from seamark.transforms.run import StepRun, Work
from seamark.transforms.step import Step
from seamark.views.keying import ViewKeying
from seamark.views.passes.pace import PAGE_UNITS, Pace
from seamark.views.passes.page import Page, cursor_in, cursor_text
from seamark.views.passes.units import PageUnits

AHEAD = 1.0  # seconds: each of several quick commits is a millisecond after the one before, so ahead of the clock
Interval = Mapping[str, tuple[int | None, int]]
"""The records, (after, upto], of each dictionary that a pass takes."""


@dataclass(frozen=True)
class DictionaryPass:
    """Takes what waits in the dictionaries of a view. `job` is the handler that the view belongs to, or nothing.

    `most_records` is how many records of a table one pass takes, cut between blocks; `period` how long, in seconds, a
    change may wait, and `wait` how long one pass waits for another to end.
    """

    context: TableContext
    step: Step
    keying: ViewKeying
    pace: Pace
    most_records: int
    period: float
    wait: float
    job: str = ""
    on_batch: OnBatch = silent

    def due_at(self, backlog: Backlog) -> float | None:
        """When a pass is due, in seconds since 1970; None if nothing waits for one."""
        waiting = backlog.deferred
        if not waiting:
            return None
        if self._open(backlog) is not None:  # one was cut off
            return 0.0
        return min(entry.blocks[0].system_time.timestamp() for entry in waiting) - AHEAD + self.period

    def run(self) -> StepReport:
        """Take all that waits now, in one pass after another."""
        report, backlog = StepReport(self.step.name, mode=Mode.DICTIONARY), self.step.backlog()
        ends = {entry.table: entry.pin.offset for entry in backlog.deferred}
        with ExitStack() as stack:
            if ends:
                leases = self.context.control.leases
                stack.enter_context(leases.held(f"dictionary:{self.step.name}", wait=self.wait))
            while (interval := self._next(self.step.backlog(), ends)) is not None:
                if not self._pass(interval, report):
                    break  # somebody else has moved a position, or all keys are to be computed
        return report

    def _next(self, backlog: Backlog, ends: Mapping[str, int | None]) -> Interval | None:
        """The records that the next pass takes: those of one that was cut off, or the first that wait."""
        waiting = [entry for entry in backlog.deferred if entry.table in ends]
        found = self._open(backlog)
        if found is not None:
            return interval_in(found)
        taken = {entry.table: first_blocks(entry, self.most_records, ends[entry.table]) for entry in waiting}
        intervals = {table: (one.after, one.upto) for table, one in taken.items() if one is not None}
        return {table: (after, upto) for table, (after, upto) in intervals.items() if upto is not None} or None

    # --- one pass -----------------------------------------------------------------------------------------------------

    @property
    def _digest(self) -> str:
        return self.step.spec.definition.digest

    @property
    def _id(self) -> ScanId:
        return ScanId(self.job, self.step.name, "", ScanKind.DICTIONARY)

    def _open(self, backlog: Backlog) -> Scan | None:
        """The pass that was cut off, if its records still wait as they did when it began."""
        found = self.context.control.scans.find(self._id)
        if found is None or found.done_at is not None or taken_of(backlog, interval_in(found)) is None:
            return None
        return found

    def _pass(self, interval: Interval, report: StepReport) -> bool:
        """Go through the units that some records lead to; False if these no longer wait."""
        scan = self._open(self.step.backlog()) or Scan(self._id, self.pace.now(), interval=json.dumps(interval))
        scan = replace(scan, rate=self.pace.rate)
        while scan.done_at is None:
            moved = self._do(scan, interval, report)
            if moved is None:
                return False
            scan = moved
        return True

    def _do(self, scan: Scan, interval: Interval, report: StepReport) -> Scan | None:
        """Compute and commit a page; gives how far the pass is after it."""
        begun, moved = self.pace.now(), dict[str, Scan]()

        def work(run: StepRun, backlog: Backlog) -> None:
            moved.clear()
            taken = taken_of(backlog, interval)
            if taken is None:
                return
            with ExitStack() as stack:
                page, scope = self._scope(scan, taken, backlog, stack)
                is_last = page.upto is None

                def after(keys: int) -> Scan:
                    moved[scan.id.target] = self._moved(scan, page, keys)
                    return moved[scan.id.target]

                done = Work(
                    scope,
                    Mode.DICTIONARY,
                    taken=tuple(taken),
                    covers=tuple(covers(backlog, piece) for piece in taken) if is_last else (),
                    rows_in=sum(piece.records for piece in taken) if is_last else 0,
                    details=page.details(),
                    scan=after,
                )
                run.do(backlog, done)

        done = self.step.run_pinned(Mode.DICTIONARY, work)
        report.include(done)
        self.on_batch(report, 0)
        self.pace.wait(begun, done.keys)
        return moved.get(scan.id.target)

    def _scope(self, scan: Scan, taken: list[Taken], backlog: Backlog, stack: ExitStack) -> tuple[Page, Scope]:
        keying = self.keying
        page = Page(keying.keys, cursor_in(scan.position, keying.keys, keying.key_types, self._digest))
        changes = [ChangedBlocks(piece.table, piece.blocks) for piece in taken]
        if not keying.keys:
            found = keying.changed_keys(changes, backlog.read, backlog.before)
            return page, no_keys(keying) if all(entry.keys.is_empty() for entry in found) else AllKeys()
        finder = PageUnits(keying, backlog.read, backlog.before, changes)
        return finder.first(page, self.pace.most or keying.batch_keys or PAGE_UNITS, stack)

    def _moved(self, scan: Scan, page: Page, keys: int) -> Scan:
        done_at = self.pace.now() if page.upto is None else None
        position = cursor_text(page.columns, page.upto, self._digest)
        return replace(scan, position=position, rows_done=scan.rows_done + keys, done_at=done_at)


# --- what waits -------------------------------------------------------------------------------------------------------


def first_blocks(entry: Pending, most: int, end: int | None) -> Taken | None:
    """The first blocks of an input with at most so many records, at least one block, none after a record."""
    there = sum(1 for block in entry.blocks if end is None or (block.last_offset or 0) <= end)
    if there == 0:
        return None
    count = 1
    while count < there and entry.upto_block(count + 1).records <= most:
        count += 1
    return entry.upto_block(count)


def taken_of(backlog: Backlog, interval: Interval) -> list[Taken] | None:
    """The blocks that hold some records; None if not all of them wait any more, or not from where they did."""
    waiting = {entry.table: entry for entry in backlog.deferred}
    taken = []
    for table, (after, upto) in interval.items():
        entry = waiting.get(table)
        if entry is None or entry.after != after:
            return None
        count = sum(1 for block in entry.blocks if (block.last_offset or 0) <= upto)
        if count == 0 or entry.blocks[count - 1].last_offset != upto:
            return None
        taken.append(entry.upto_block(count))
    return taken


def interval_in(scan: Scan) -> Interval:
    """The records that a pass takes."""
    return {table: (after, upto) for table, (after, upto) in json.loads(scan.interval or "{}").items()}
