"""One run of a diff at work: read what the logs bring and the old state of those visits, fold, and commit all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from seamark.control import FailedKey, RunRecord
from seamark.diffs.declare import DiffSpec
from seamark.diffs.expire import Expiry
from seamark.diffs.fold import fold_visits
from seamark.diffs.level import Folding
from seamark.diffs.outcome import Outcome, levels_of, records_of, state_changes
from seamark.diffs.reading import Reading, visits_of
from seamark.diffs.result import folded_schema
from seamark.diffs.situation import DiffSituation
from seamark.errors import CommitConflict, TooManyFailures, VisitFailed
from seamark.tables.change import Change, spark_errors_explained
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frames import SparkFrame
from seamark.tables.publish import Progress
from seamark.tables.read import TableSource
from seamark.tables.slices import OpCounts
from seamark.transforms.attempt import Attempt
from seamark.transforms.checkpoint import Checkpoint, ReadAt
from seamark.transforms.commit import (
    Batch,
    Committed,
    Committer,
    MakeChange,
    change_of,
    least_watermark,
    position_at,
)
from seamark.transforms.failures import failed_once_more
from seamark.transforms.observe import batch_observers
from seamark.transforms.scope import AllKeys


@dataclass(frozen=True)
class DiffWork:
    """What a commit is to do: take what waits up to the pins (or not), and failed visits along with it.

    `skip_bad` leaves out records whose fast version is out of range, as their visit was given up by name, and all of
    its records where it cannot be taken for another reason.
    """

    mode: str
    takes_news: bool = True
    retried: tuple[FailedKey, ...] = ()
    skip_bad: bool = False


class DiffRun:
    """A run of a diff that holds its lease."""

    def __init__(self, context: TableContext, spec: DiffSpec, attempt: Attempt, *, fail_fast: bool) -> None:
        self._context = context
        self._spec = spec
        self._attempt = attempt
        self._fail_fast = fail_fast

    def do(self, situation: DiffSituation, work: DiffWork) -> None:
        """Do some work in one commit."""
        begun = time.monotonic()
        self._attempt.read_upto(self._context, situation.pins)
        self._attempt.at_batch(self._context, work.mode, self._attempt.report.batches + 1, batches_left=0)
        with ExitStack() as stack:
            reading = Reading.of(situation, work.retried, takes_news=work.takes_news)
            expiry = Expiry.due(self._context, self._spec, situation)
            kept = self._spec.options.keep_intermediate
            outcome = fold_all(self._context, self._spec, reading, expiry, work.skip_bad, stack, keep_levels=kept)
            failed = self._failures(situation, work, outcome)
            self._commit(situation, work, reading, expiry, outcome, failed)
        for observe in batch_observers:
            observe(self._spec.name, time.monotonic() - begun)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _failures(self, situation: DiffSituation, work: DiffWork, outcome: Outcome) -> dict[str, FailedKey]:
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
                hint="mend the log, or run without fail_fast: the visit waits then, and the others go on.",
            )
        if len(failures) > self._spec.options.max_failed_keys:
            key, text = failures[0]
            raise TooManyFailures(
                f"diff '{self._spec.name}': more than max_failed_keys={self._spec.options.max_failed_keys} visits "
                f"cannot be taken. The first is {key}: {text}. Nothing of this run was written.",
                hint="mend the log; none of these visits was recorded as failed.",
            )
        standing = {entry.key: entry for entry in situation.failed}
        unread = json.dumps({p.table: -1 if p.after is None else p.after for p in situation.logs})
        now = self._context.clock.now().timestamp()
        recorded = {}
        for key, text in failures:
            known = standing.get(key)
            read_at = known.read_at if known else unread
            recorded[key] = failed_once_more(self._spec.name, key, text, known, now, read_at)
        return recorded

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(
        self,
        situation: DiffSituation,
        work: DiffWork,
        reading: Reading,
        expiry: Expiry,
        outcome: Outcome,
        failed: Mapping[str, FailedKey],
    ) -> None:
        spec, context, report = self._spec, self._context, self._attempt.report
        cured = [entry.key for entry in work.retried if entry.key not in failed]
        left = {entry.key: entry for entry in situation.failed if entry.key not in cured} | dict(failed)
        covered = situation.covers if work.takes_news else ()
        positions = tuple(position_at(context, spec.name, c, situation.generation(c.table)) for c in covered)
        progress = Progress(
            positions=positions,
            failed=tuple(failed.values()),
            recovered=tuple((spec.name, key) for key in cured),
            lease=self._attempt.lease,
            batch=report.batches + 1,
        )
        batch = Batch(
            changes=tuple(self._changes(situation, expiry, outcome)),
            checkpoint=self._checkpoint(situation, work, reading, expiry, outcome, left, tuple(failed)),
            covered=covered,
            watermark=least_watermark(context, situation.log_pins) if work.takes_news else None,
        )

        def record(counts: OpCounts) -> RunRecord:
            written = report.rows_out + counts.appended + counts.corrected + counts.retracted
            rows_in = report.rows_in + reading.records
            return self._attempt.record(context, mode=work.mode, rows_in=rows_in, rows_out=written)

        committed = Committer(context, spec, self._attempt.files).commit(batch, record, progress)
        self._tell(work, reading, outcome, committed, failed)

    def _changes(self, situation: DiffSituation, expiry: Expiry, outcome: Outcome) -> list[MakeChange]:
        spec = self._spec
        changes: list[MakeChange] = [
            _on(situation.state_offset, spec.state, lambda: state_changes(spec, outcome, expiry)),
            lambda _last: records_of(spec, outcome),
        ]
        if spec.options.keep_intermediate:
            for output, rows in zip(spec.intermediate, levels_of(spec, outcome), strict=True):
                changes.append(partial(change_of, output, [rows], AllKeys(), None))
        return changes

    def _checkpoint(
        self,
        situation: DiffSituation,
        work: DiffWork,
        reading: Reading,
        expiry: Expiry,
        outcome: Outcome,
        left: Mapping[str, FailedKey],
        skipped: tuple[str, ...],
    ) -> Checkpoint:
        oldest = expiry.oldest_after(outcome)
        return Checkpoint(
            step=self._spec.name,
            mode=work.mode,
            read={table: ReadAt.of(pin) for table, pin in situation.pins.items()},
            taken=reading.intervals,
            keys=tuple(entry.key for entry in work.retried),
            failed=tuple(left.values()),
            skipped=skipped,
            details={
                "state": situation.state_offset,
                "positions": dict(reading.positions),
                "retried": {entry.key: json.loads(entry.read_at or "{}") for entry in work.retried},
                "skip_bad": work.skip_bad,
                "horizon": expiry.horizon.isoformat() if expiry.horizon else None,
                "expires": expiry.is_due,
                "oldest": oldest.isoformat() if oldest else None,
            },
        )

    def _tell(
        self,
        work: DiffWork,
        reading: Reading,
        outcome: Outcome,
        committed: Committed,
        failed: Mapping[str, FailedKey],
    ) -> None:
        report, counts = self._attempt.report, committed.counts
        report.mode = work.mode
        report.batches += 1
        report.keys += outcome.visits
        report.rows_in += reading.records
        report.too_late += outcome.late_rows
        report.appended += counts.appended
        report.corrected += counts.corrected
        report.retracted += counts.retracted
        report.failed += len(failed)
        report.failures = (*report.failures, *((key, entry.error) for key, entry in failed.items()))


def fold_all(
    context: TableContext,
    spec: DiffSpec,
    reading: Reading,
    expiry: Expiry,
    skip_bad: bool,
    stack: ExitStack,
    *,
    keep_levels: bool,
) -> Outcome:
    """What a run makes of the records that it reads, computed once. Without records there is nothing to compute."""
    how = Folding(expiry.horizon, keep_levels)
    if reading.is_empty:
        return Outcome.nothing(spec, how)
    visits = visits_of(context, spec, reading, expiry.horizon, skip_bad, stack)
    folded = fold_visits(spec, visits, how)
    with spark_errors_explained(
        spec.state,
        "folded the logs",
        "the cause is below; a function in `merge` may have failed.",
    ):
        rows = stack.enter_context(computed(context, SparkFrame(folded), folded_schema(spec, how)))
    return Outcome(spec, how, rows)


def _on(expected: int | None, table: TableSource, make: Callable[[], Change]) -> MakeChange:
    """A change that was made from a table as it stood: refused if somebody has written there since."""

    def change(last: int | None) -> Change:
        if last != expected:
            raise CommitConflict(table.name, f"after record {expected}", f"after record {last}")
        return make()

    return change
