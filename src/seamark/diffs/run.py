"""One run of a diff at work: read what the logs bring and the state of those visits, apply it, and commit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from seamark.control import FailedKey, Mode, RunRecord
from seamark.diffs.ageing.expire import Expiry, Looked
from seamark.diffs.backlog import DiffBacklog
from seamark.diffs.compute.apply import apply_logs
from seamark.diffs.compute.result import CHANGES, MARKS, TIMES, applied_schema
from seamark.diffs.compute.visit_columns import HORIZON, NOW, Applying
from seamark.diffs.declare.spec import DiffSpec
from seamark.diffs.outcome import Outcome, changes_of, intermediate_frames, records_of
from seamark.diffs.reading import Reading, visits_of
from seamark.errors import CommitConflict, TooManyFailures, VisitFailed
from seamark.steps.past.checkpoint import Checkpoint, ReadAt
from seamark.steps.rows.scope import AllKeys
from seamark.steps.running.attempt import Attempt
from seamark.steps.running.commit import (
    Batch,
    Committed,
    Committer,
    MakeChange,
    change_of,
    least_watermark,
    position_at,
)
from seamark.steps.running.failures import failed_once_more
from seamark.steps.running.observe import batch_observers
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import SparkFrame
from seamark.tables.read.source import TableSource
from seamark.tables.write.change import Change, NoRecords, spark_errors_explained
from seamark.tables.write.publish import Progress
from seamark.tables.write.slices import OpCounts


@dataclass(frozen=True)
class DiffWork:
    """What a commit is to do: take what waits up to the pins (or not), and failed visits along with it.

    `skip_bad` leaves out records whose fast version is out of range, as their visit was given up by name, and all of
    its records where it cannot be taken for another reason. `follows` is a commit that only lets visits leave which
    another commit of the same run has left too old: it takes nothing, and leaves what that one kept of its steps.
    """

    mode: Mode
    takes_news: bool = True
    retried: tuple[FailedKey, ...] = ()
    skip_bad: bool = False
    follows: bool = False


class DiffRun:
    """A run of a diff that holds its lease."""

    def __init__(self, context: TableContext, spec: DiffSpec, attempt: Attempt, *, fail_fast: bool) -> None:
        self._context = context
        self._spec = spec
        self._attempt = attempt
        self._fail_fast = fail_fast
        self.has_visits_due = False  # whether the last commit left visits in the state that are too old for it

    def do(self, backlog: DiffBacklog, work: DiffWork) -> None:
        """Do some work in one commit. A visit with news in it does not leave by its age before the next one."""
        begun = time.monotonic()
        self._attempt.read_upto(self._context, backlog.pins)
        self._attempt.at_batch(self._context, work.mode, self._attempt.report.batches + 1, batches_left=0)
        with ExitStack() as stack:
            reading = Reading.of(backlog, work.retried, takes_news=work.takes_news)
            expiry = Expiry.due(self._context, self._spec, backlog)
            if work.skip_bad:  # a visit that was given up for good may have been too old for long
                expiry = replace(expiry, since=None, is_due=self._spec.ttl is not None)
            keep = self._spec.options.keep_intermediate
            outcome = outcome_of(
                self._context, self._spec, reading, expiry, work.skip_bad, stack, keep_intermediate=keep
            )
            failed = self._failures(backlog, work, outcome)
            left = self._left_failed(backlog, work, failed)
            expiry = replace(expiry, failed=tuple(left))
            done = Done(reading, outcome, expiry, expiry.look(outcome, stack), work.follows)
            self._commit(backlog, work, done, failed, left)
            self.has_visits_due = self._spec.is_over(done.looked.oldest, expiry.now)
        for observe in batch_observers:
            observe(self._spec.name, time.monotonic() - begun)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _failures(self, backlog: DiffBacklog, work: DiffWork, outcome: Outcome) -> dict[str, FailedKey]:
        """The visits that failed, as they are recorded: with the first record of theirs that is unread.

        None where they were given up: what cannot be taken even without the bad records is left out as a whole.
        """
        if work.skip_bad:
            return {}
        failures = outcome.failures(self._spec.options.max_failed_keys + 1)
        if failures and self._fail_fast:
            key, text = failures[0]
            raise VisitFailed(
                f"diff '{self._spec.name}': visit {key} cannot be taken: {text}. Nothing of this run was written.",
                hint="fix the log, or run without fail_fast: the visit waits then, and the others continue.",
            )
        if len(failures) > self._spec.options.max_failed_keys:
            key, text = failures[0]
            raise TooManyFailures(
                f"diff '{self._spec.name}': more than max_failed_keys={self._spec.options.max_failed_keys} visits "
                f"cannot be taken. The first is {key}: {text}. Nothing of this run was written.",
                hint="fix the log; none of these visits was recorded as failed.",
            )
        standing = {entry.key: entry for entry in backlog.failed}
        unread = json.dumps({p.table: -1 if p.after is None else p.after for p in backlog.logs})
        now = self._context.clock.now().timestamp()
        recorded = {}
        for key, text in failures:
            known = standing.get(key)
            read_at = known.read_at if known else unread
            recorded[key] = failed_once_more(self._spec.name, key, text, known, now, read_at)
        return recorded

    def _left_failed(
        self, backlog: DiffBacklog, work: DiffWork, failed: Mapping[str, FailedKey]
    ) -> dict[str, FailedKey]:
        """The visits that are failed after the run."""
        tried = {entry.key for entry in work.retried}
        return {entry.key: entry for entry in backlog.failed if entry.key not in tried} | dict(failed)

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(
        self,
        backlog: DiffBacklog,
        work: DiffWork,
        done: Done,
        failed: Mapping[str, FailedKey],
        left: Mapping[str, FailedKey],
    ) -> None:
        spec, context, report = self._spec, self._context, self._attempt.report
        cured = [entry.key for entry in work.retried if entry.key not in failed]
        covered = backlog.covers if work.takes_news else ()
        positions = tuple(position_at(context, spec.name, c, backlog.generation(c.table)) for c in covered)
        progress = Progress(
            positions=positions,
            failed=tuple(failed.values()),
            recovered=tuple((spec.name, key) for key in cured),
            batch=report.batches + 1,
        )
        batch = Batch(
            changes=tuple(make_changes(spec, done)),
            checkpoint=self._checkpoint(backlog, work, done, left, tuple(failed)),
            covered=covered,
            watermark=least_watermark(context, backlog.log_pins) if work.takes_news else None,
        )

        def record(counts: OpCounts) -> RunRecord:
            written = report.rows_out + counts.appended + counts.corrected + counts.retracted
            rows_in = report.rows_in + done.reading.records
            return self._attempt.record(context, mode=work.mode, rows_in=rows_in, rows_out=written)

        committed = Committer(context, spec, self._attempt.files, [self._attempt.lease]).commit(batch, record, progress)
        self._add_to_report(work, done, committed, failed)

    def _checkpoint(
        self,
        backlog: DiffBacklog,
        work: DiffWork,
        done: Done,
        left: Mapping[str, FailedKey],
        skipped: tuple[str, ...],
    ) -> Checkpoint:
        return Checkpoint(
            step=self._spec.name,
            mode=work.mode,
            read={table: ReadAt.of(pin) for table, pin in backlog.pins.items()},
            taken=done.reading.intervals,
            keys=tuple(entry.key for entry in work.retried),
            failed=tuple(left.values()),
            skipped=skipped,
            details={
                "state": backlog.state_offset,
                "positions": dict(done.reading.positions),
                "retried": {entry.key: json.loads(entry.read_at or "{}") for entry in work.retried},
                "skip_bad": work.skip_bad,
                "follows": work.follows,
                "too_late": backlog.too_late + done.outcome.late_rows,
                **done.expiry.details(done.looked, backlog.forgotten),
            },
        )

    def _add_to_report(self, work: DiffWork, done: Done, committed: Committed, failed: Mapping[str, FailedKey]) -> None:
        report, counts = self._attempt.report, committed.counts
        report.mode = report.mode if work.follows else work.mode
        report.batches += 1
        report.keys += done.outcome.visits
        report.rows_in += done.reading.records
        report.too_late += done.outcome.late_rows
        report.appended += counts.appended
        report.corrected += counts.corrected
        report.retracted += counts.retracted
        report.failed += len(failed)
        report.failures = (*report.failures, *((key, entry.error) for key, entry in failed.items()))


@dataclass(frozen=True)
class Done:
    """What a run read, what came of it, and what time did beside it: all that its commit is made of."""

    reading: Reading
    outcome: Outcome
    expiry: Expiry
    looked: Looked
    follows: bool = False


def outcome_of(
    context: TableContext,
    spec: DiffSpec,
    reading: Reading,
    expiry: Expiry,
    skip_bad: bool,
    stack: ExitStack,
    *,
    keep_intermediate: bool,
) -> Outcome:
    """What a run makes of the records that it reads, computed once. Without records there is nothing to compute."""
    if reading.is_empty:
        return Outcome.nothing(spec, Applying(keep_intermediate))
    context.session()  # Spark's functions need one, and it may be that nobody has started it yet
    horizon = expiry.horizon_column()
    visits = visits_of(context, spec, reading, horizon, skip_bad, stack)
    how = visits.departed.how(keep_intermediate=keep_intermediate)
    moments = {NOW: expiry.now_column(), **({HORIZON: horizon} if horizon is not None else {})}
    applied = apply_logs(spec, visits.frame.withColumns(moments), how)
    with spark_errors_explained(
        spec.state,
        "applied the logs",
        "the cause is below; a function in `merge` may have failed.",
    ):
        rows = stack.enter_context(computed(context, SparkFrame(applied), applied_schema(spec, how)))
    return Outcome(spec, rows)


def make_changes(spec: DiffSpec, done: Done) -> list[MakeChange]:
    """What changes in each of the tables that a commit writes."""
    parts = (done.outcome.rows, *done.looked.parts)
    changes: list[MakeChange] = [
        _on(done.reading.state, spec.state, lambda: changes_of(spec, CHANGES, parts)),
        lambda _last: records_of(spec, done.outcome),
    ]
    if spec.loses_visits:
        changes.append(_on(done.reading.gone, spec.gone, lambda: changes_of(spec, MARKS, parts)))
    if spec.ttl is not None:
        rows = done.looked.rows
        if rows is not None:
            changes.append(partial(change_of, spec.times, rows, AllKeys(), None))
        else:
            changes.append(_on(done.expiry.times, spec.times, lambda: changes_of(spec, TIMES, parts)))
    if spec.options.keep_intermediate and done.follows:
        changes += [lambda _last: NoRecords()] * len(spec.intermediate)
    elif spec.options.keep_intermediate:
        for output, level in zip(spec.intermediate, intermediate_frames(spec, done.outcome), strict=True):
            changes.append(partial(change_of, output, [level], AllKeys(), None))
    return changes


def _on(expected: int | None, table: TableSource, make: Callable[[], Change]) -> MakeChange:
    """A change that was made from a table as it was: refused if somebody has written there since."""

    def change(last: int | None) -> Change:
        if last != expected:
            raise CommitConflict(table.name, f"after record {expected}", f"after record {last}")
        return make()

    return change
