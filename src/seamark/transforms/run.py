"""One run of a step: compute a batch, compare it with the standing rows, commit it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from seamark.control import CoveredKey, FailedKey, Mode, RunRecord, Scan
from seamark.errors import ComputeFailed, TooManyFailures
from seamark.spark.frames import arrow_rows
from seamark.steps.past.checkpoint import Checkpoint, RangeMark, ReadAt, taken_intervals
from seamark.steps.rows.keys import columns_of, key_texts
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope
from seamark.steps.running.attempt import Attempt
from seamark.steps.running.blame import KeyTrouble, function_failed
from seamark.steps.running.commit import Batch, Committed, Committer, Covered, change_of, least_watermark, position_at
from seamark.steps.running.failures import failed_again, held_by
from seamark.steps.running.observe import OnBatch, batch_observers
from seamark.steps.running.run_config import RunConfig
from seamark.steps.standing.pins import Taken
from seamark.tables.computed import moved_to_files
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame
from seamark.tables.small import fits_on_driver
from seamark.tables.write.publish import Progress
from seamark.tables.write.slices import OpCounts
from seamark.transforms.backlog import Backlog, reached_pins
from seamark.transforms.keying import GatheredRows, KeyedSpec, LoadedRows, Results, no_keys


@dataclass(frozen=True)
class Work:
    """One batch to compute: its scope, how it was found, and how far its commit incorporates the inputs."""

    scope: Scope
    mode: Mode
    taken: tuple[Taken, ...] = ()
    covers: tuple[Covered, ...] = ()
    keys: tuple[str, ...] = ()
    range: RangeMark | None = None
    loaded: Mapping[str, LoadedRows] = field(default_factory=dict)
    completes: bool = False  # everything pending up to the pins is done with it
    remember: bool = False  # whether its keys, computed ahead of the positions, are remembered
    rows_in: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)  # what else its checkpoint says
    scan: Callable[[int], Scan] | None = None  # how far a scan is once so many keys more are computed

    @property
    def is_empty(self) -> bool:
        """Whether no key is to be computed: only positions or the definition move."""
        return isinstance(self.scope, KeyValues) and bool(self.scope.columns) and self.scope.values.num_rows == 0


@dataclass
class Done:
    """The results of a batch, before they are compared and committed."""

    work: Work
    scope: Scope  # of the work, or wider: with keys that had to be computed with it
    results: Results
    rows: list[list[CheckedFrame]]
    keys: int


class StepRun:
    """A run of a step that holds its lease and has pinned its inputs."""

    def __init__(
        self,
        context: TableContext,
        spec: KeyedSpec,
        config: RunConfig,
        attempt: Attempt,
        on_batch: OnBatch,
    ) -> None:
        self.context = context
        self.spec = spec
        self.keying = spec.keying
        self.config = config
        self.attempt = attempt
        self.report = attempt.report
        self.tried: set[str] = set()  # failed keys that this run has tried already
        self.added: dict[str, tuple[int | None, int | None]] = {}  # records added to each output, as (after, upto]
        self.offsets: dict[str, float] = {}  # times up to which inputs were covered
        self._fail_fast = spec.options.fail_fast if config.fail_fast is None else config.fail_fast
        self._on_batch = on_batch
        self._committer = Committer(context, spec, attempt.files, [attempt.lease])
        self._failures: dict[str, FailedKey] | None = None  # the current ones, once this run has committed

    def do(self, backlog: Backlog, work: Work, *, batches_left: int = 0) -> None:
        """Compute a batch and commit it."""
        begun = time.monotonic()
        self.attempt.at_batch(self.context, work.mode, self.report.batches + 1, batches_left=batches_left)
        with ExitStack() as stack:
            self._compute_and_commit(backlog, work, stack)
        self.report.batches += 1
        for observe in batch_observers:
            observe(self.spec.name, time.monotonic() - begun)
        self._on_batch(self.report, batches_left)

    def do_handed_in(self, backlog: Backlog, work: Work) -> None:
        """Compute keys that the caller has handed in and commit them; without any key, do nothing."""
        if not work.is_empty:
            self.do(backlog, work)

    def _compute_and_commit(self, backlog: Backlog, work: Work, stack: ExitStack) -> None:
        """A large frame is computed once, while it is written. Only when that fails is it computed before.

        Then the keys to blame can be found, and the others are committed.
        """
        gathered = self._gather(backlog, work)
        trouble = None
        if gathered is not None:
            try:
                frames = self.keying.compute_while_writing(gathered)
                if frames is not None:
                    self._commit(backlog, self._uncomputed(backlog, work, gathered, frames))
                    return
            except KeyTrouble as error:
                trouble = error
            except ComputeFailed as error:
                trouble = self.keying.trouble_in(error)
        self._commit(backlog, self._compute(backlog, work, stack, gathered, trouble))

    def _gather(self, backlog: Backlog, work: Work) -> GatheredRows | None:
        return None if work.is_empty else self.keying.gather(work.scope, backlog.read, work.loaded)

    def _uncomputed(self, backlog: Backlog, work: Work, gathered: GatheredRows, frames: Sequence[CheckedFrame]) -> Done:
        results = Results.none(self.spec.outputs)
        results.add(frames)
        return self._done(backlog, work, gathered, work.scope, results)

    def do_together(self, backlog: Backlog, works: Sequence[Work], whole: Work) -> None:
        """Compute batch after batch, and commit all of them at once as `whole`."""
        with ExitStack() as stack:
            done: list[Done] = []
            results = Results.none(self.spec.outputs)
            for number, work in enumerate(works, start=1):
                self.attempt.at_batch(self.context, work.mode, number, batches_left=len(works) - number)
                gathered = self._gather(backlog, work)
                part = self._compute(backlog, work, stack, gathered)
                assert part.scope is work.scope, "batches that are committed together must not overlap"
                self._make_room(done, part, stack)
                done.append(part)
                results.failed += part.results.failed
                results.causes += part.results.causes
                self._refuse_too_many(results)
            rows = [[piece for part in done for piece in part.rows[n]] for n in range(len(self.spec.written))]
            self._commit(backlog, Done(whole, whole.scope, results, rows, sum(part.keys for part in done)))
        self.report.batches += len(works)
        self._on_batch(self.report, 0)

    def _make_room(self, done: Sequence[Done], part: Done, stack: ExitStack) -> None:
        """Move the rows of a batch into files, if they and those of the batches before it are too large for memory."""
        every = [piece for entry in [*done, part] for pieces in entry.rows for piece in pieces]
        held = [table for piece in every if (table := piece.in_memory) is not None]
        if fits_on_driver(sum(table.num_rows for table in held), sum(table.nbytes for table in held)):
            return
        for output, pieces in zip(self.spec.written, part.rows, strict=True):
            for place, piece in enumerate(pieces):
                if (local := piece.in_memory) is not None:
                    pieces[place] = stack.enter_context(moved_to_files(self.context, local, output.schema))

    def give_up(self, backlog: Backlog, keys: Set[str], work: Work) -> None:
        """Forget failed keys in a commit that computes nothing, so that the chain records it too."""
        standing = self._standing_failures(backlog)
        self._failures = {key: entry for key, entry in standing.items() if key not in keys}
        done = self._nothing(work)
        progress = Progress(recovered=tuple((self.spec.name, key) for key in sorted(keys)))
        batch = self._batch(backlog, done, tuple(self._failures.values()), ())
        self._committer.commit(batch, self._record(work), progress)
        self.report.batches += 1

    # --- computing ----------------------------------------------------------------------------------------------------

    def _compute(
        self,
        backlog: Backlog,
        work: Work,
        stack: ExitStack,
        gathered: GatheredRows | None,
        trouble: KeyTrouble | None = None,
    ) -> Done:
        if gathered is None:
            return self._nothing(work)
        results = self.keying.compute(
            gathered,
            stack,
            fail_fast=self._fail_fast,
            most_failed=max(self.spec.options.max_failed_keys - self.report.failed, 0),
            trouble=trouble,
        )
        self._refuse_too_many(results)
        scope, settled = self.keying.settle(gathered, results, backlog.read, stack)
        self._refuse_failed(settled)
        self._refuse_too_many(settled)
        return self._done(backlog, work, gathered, scope, settled)

    def _nothing(self, work: Work) -> Done:
        return Done(work, work.scope, Results.none(self.spec.outputs), [[] for _ in self.spec.written], 0)

    def _done(self, backlog: Backlog, work: Work, gathered: GatheredRows, scope: Scope, results: Results) -> Done:
        rows = [list(pieces) for pieces in results.outputs]
        processed = self.spec.processed(gathered, failed_keys(results), backlog.read)
        if processed is not None:
            rows.append([processed])
        return Done(work, scope, results, rows, self.keying.count(gathered, backlog.read))

    def _refuse_failed(self, results: Results) -> None:
        """With `fail_fast`, refuse keys that failed only when they were settled."""
        if self._fail_fast and results.failed:
            keys, _ = results.failed[0]
            raise function_failed(self.spec.name, key_texts(keys)[0], KeyTrouble(results.causes[0]))

    def _refuse_too_many(self, results: Results) -> None:
        failed = self.report.failed + results.further + sum(max(keys.num_rows, 1) for keys, _ in results.failed)
        if failed > self.spec.options.max_failed_keys:
            raise self._too_many(failed, results)

    def _too_many(self, count: int, results: Results) -> TooManyFailures:
        keys, text = results.failed[0]
        first = key_texts(keys)[0] if keys.num_rows else "{}"
        error = TooManyFailures(
            f"step '{self.spec.name}': {count} keys failed, more than max_failed_keys="
            f"{self.spec.options.max_failed_keys}. The first is {first}: {text}. Nothing of this batch was written.",
            hint="fix the function and run again; none of these keys was recorded as failed.",
        )
        error.__cause__ = results.causes[0] if results.causes else None
        return error

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, backlog: Backlog, done: Done) -> None:
        work, now = done.work, self.context.clock.now().timestamp()
        standing = self._standing_failures(backlog)
        read_at = json.dumps({table: -1 if offset is None else offset for table, offset in backlog.read.items()})
        failed = failed_again(self.spec.name, done.results.failed, standing, now, read_at)
        cured = held_by(done.scope, self.keying.key_types, [key for key in standing if key not in failed])
        if (
            work.range is not None and work.range.last
        ):  # all keys were computed, also those that failed by other columns
            cured += [key for key in standing if not set(columns_of(key)) <= set(self.keying.keys)]
        left = {key: entry for key, entry in standing.items() if key not in cured} | failed
        covered, passed = self._covered_keys(done, failed, backlog, read_at, now)
        positions = [
            position_at(self.context, self.spec.name, entry, backlog.generation(entry.table)) for entry in work.covers
        ]
        progress = Progress(
            positions=tuple(positions),
            failed=tuple(failed.values()),
            covered=covered,
            recovered=tuple((self.spec.name, key) for key in [*cured, *passed]),
            scans=() if work.scan is None else (work.scan(done.keys),),
            batch=self.report.batches + 1,
        )
        batch = self._batch(backlog, done, tuple(left.values()), tuple(failed))
        committed = self._committer.commit(batch, self._record(work), progress)
        self._add_to_report(done, committed, failed)
        self._failures = left
        self.tried.update(failed, work.keys)
        self.offsets.update({p.input_table: p.update_ts for p in positions if p.update_ts is not None})

    def _batch(self, backlog: Backlog, done: Done, standing: tuple[FailedKey, ...], failed: tuple[str, ...]) -> Batch:
        work = done.work
        checkpoint = Checkpoint(
            step=self.spec.name,
            mode=work.mode,
            read={table: ReadAt.of(pin) for table, pin in backlog.pins.items()},
            taken=taken_intervals(work.taken),
            keys=(*work.keys, *_joined_keys(work.scope, done.scope)),
            range=work.range,
            failed=standing,
            skipped=failed,
            selected_at=dict(backlog.before) if self.keying.looks_back else None,
            open_pass=None if work.range is not None or work.completes else backlog.unfinished,
            details=work.details,
        )
        global_failure = bool(failed) and not self.keying.keys  # then the standing rows are left as they are
        scope = no_keys(self.keying) if global_failure else done.scope
        failed_now = failed_keys(done.results)
        pairs = zip(self.spec.written, done.rows, strict=True)
        return Batch(
            changes=tuple(partial(change_of, output, rows, scope, failed_now) for output, rows in pairs),
            checkpoint=checkpoint,
            covered=work.covers,
            watermark=self._watermark(backlog, work) if work.completes else None,
        )

    def _watermark(self, backlog: Backlog, work: Work) -> datetime | None:
        """The watermark of the outputs once everything that waits is done; after all keys nothing is deferred."""
        reached = reached_pins(self.context, backlog) if work.range is None else backlog.pins.values()
        return least_watermark(self.context, reached)

    def _standing_failures(self, backlog: Backlog) -> dict[str, FailedKey]:
        return self._failures if self._failures is not None else {entry.key: entry for entry in backlog.failed}

    def _covered_keys(
        self, done: Done, failed: Mapping[str, FailedKey], backlog: Backlog, read_at: str, now: float
    ) -> tuple[tuple[CoveredKey, ...], list[str]]:
        """Keys to remember as computed ahead of the positions, and keys to forget.

        Those are forgotten when the positions pass them, and when all keys are to be computed by another definition.
        """
        work, forgotten = done.work, list[str]()
        if work.completes or backlog.starts_over:
            covered = self.context.control.index.covered_keys(self.spec.name, self.spec.outputs_key)
            forgotten = [entry.key for entry in covered]
        if not work.remember or not isinstance(done.scope, KeyValues):
            return (), forgotten
        texts = [text for text in key_texts(done.scope.values) if text not in failed]
        return tuple(CoveredKey(self.spec.name, text, now, read_at) for text in texts), forgotten

    def _record(self, work: Work) -> Callable[[OpCounts], RunRecord]:
        """The run's row after a commit, once it is known what that writes."""

        def record(counts: OpCounts) -> RunRecord:
            written = self.report.rows_out + counts.appended + counts.corrected + counts.retracted
            rows_in = self.report.rows_in + work.rows_in
            return self.attempt.record(self.context, mode=work.mode, rows_in=rows_in, rows_out=written)

        return record

    def _add_to_report(self, done: Done, committed: Committed, failed: Mapping[str, FailedKey]) -> None:
        report, counts = self.report, committed.counts
        report.mode = done.work.mode
        report.keys += done.keys
        report.rows_in += done.work.rows_in
        report.appended += counts.appended
        report.corrected += counts.corrected
        report.retracted += counts.retracted
        report.failed += len(failed)
        report.failures = (*report.failures, *((key, entry.error) for key, entry in failed.items()))
        for table, (after, upto) in committed.added.items():
            self.added[table] = (self.added[table][0] if table in self.added else after, upto)


def _joined_keys(taken: Scope, computed: Scope) -> tuple[str, ...]:
    """The keys that were computed with those that a batch took, so that replay computes them as well."""
    if taken is computed or isinstance(computed, AllKeys | KeyRange):
        return ()
    if isinstance(computed, KeyFrame):
        assert isinstance(taken, KeyFrame)
        more = arrow_rows(computed.frame.exceptAll(taken.frame.select(*computed.frame.columns)))
        return tuple(key_texts(more.select(list(computed.columns))))
    known = set(key_texts(taken.values)) if isinstance(taken, KeyValues) else set()
    return tuple(text for text in key_texts(computed.values) if text not in known)


def failed_keys(results: Results) -> pa.Table | None:
    """The keys that failed in a batch, or None."""
    tables = [keys for keys, _ in results.failed if keys.column_names]
    if not tables:
        return None
    schema = pa.schema([field.with_nullable(True) for field in tables[0].schema])
    return pa.concat_tables([table.cast(schema) for table in tables])
