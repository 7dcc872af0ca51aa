"""One run of a step at work: compute a batch, compare it with the rows that stand, commit it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from seamark.control import CoveredKey, FailedKey, Lease, RunRecord
from seamark.errors import TooManyFailures
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame
from seamark.tables.publish import Progress, Writing
from seamark.transforms.batches import Pin, Taken
from seamark.transforms.checkpoint import Checkpoint, RangeMark, ReadAt, taken_intervals
from seamark.transforms.commit import Batch, Committed, Committer, Covered, least_watermark, position_at
from seamark.transforms.compute import Results, call
from seamark.transforms.declare import RunConfig
from seamark.transforms.failures import failed_again, held_by
from seamark.transforms.gather import Gathered, KnownRows, gather
from seamark.transforms.isolate import compute_isolating
from seamark.transforms.keys import key_texts
from seamark.transforms.nondeterminism import warn_of_chance
from seamark.transforms.pandas_call import compute_pandas
from seamark.transforms.report import StepReport
from seamark.transforms.scope import KeyValues, Scope
from seamark.transforms.situation import Situation
from seamark.transforms.spec import StepSpec
from seamark.transforms.tally import count_scope
from seamark.transforms.tracking import processed_rows


@dataclass(frozen=True)
class Work:
    """One batch to be done: a scope, how it was found, and how far inputs are incorporated once it is committed."""

    scope: Scope
    mode: str
    taken: tuple[Taken, ...] = ()
    covers: tuple[Covered, ...] = ()
    keys: tuple[str, ...] = ()
    range: RangeMark | None = None
    known: Mapping[str, KnownRows] = field(default_factory=dict)
    completes: bool = False  # all that waited up to the pins is done with it
    remember: bool = False  # keys computed ahead of the positions are remembered
    rows_in: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no key is to be computed: only positions or the definition move."""
        return isinstance(self.scope, KeyValues) and bool(self.scope.columns) and self.scope.values.num_rows == 0


@dataclass
class Done:
    """The results of a batch, before they are compared and committed."""

    work: Work
    results: Results
    rows: list[list[CheckedFrame]]
    keys: int


OnBatch = Callable[[StepReport, int], None]
"""Told after each batch: the report so far, and how many batches are known to follow."""


class StepRun:
    """A run of a step that holds its lease and has pinned its inputs."""

    def __init__(
        self,
        context: TableContext,
        spec: StepSpec,
        config: RunConfig,
        *,
        lease: Lease,
        writing: Writing,
        report: StepReport,
        started: float,
        on_batch: OnBatch,
    ) -> None:
        self.context = context
        self.spec = spec
        self.shape = spec.shape
        self.config = config
        self.report = report
        self.tried: set[str] = set()  # failed keys that this run has taken already
        self.added: dict[str, tuple[int | None, int | None]] = {}  # records added to each output, as (after, upto]
        self.offsets: dict[str, float] = {}  # times up to which inputs were covered
        self._fail_fast = spec.options.fail_fast if config.fail_fast is None else config.fail_fast
        self._lease = lease
        self._writing = writing
        self._started = started
        self._on_batch = on_batch
        self._committer = Committer(context, spec, writing)
        self._failures: dict[str, FailedKey] | None = None  # those that stand, once this run has committed

    def do(self, situation: Situation, work: Work, *, batches_left: int = 0) -> None:
        """Compute a batch and commit it."""
        with ExitStack() as stack:
            self._commit(situation, self._compute(situation, work, stack))
        self.report.batches += 1
        self._on_batch(self.report, batches_left)

    def do_together(self, situation: Situation, works: Sequence[Work], whole: Work) -> None:
        """Compute batch after batch, and commit all of them at once as `whole`."""
        with ExitStack() as stack:
            done = [self._compute(situation, work, stack) for work in works]
            results = Results.none(self.shape)
            for part in done:
                results.failed += part.results.failed
            rows = [[piece for part in done for piece in part.rows[n]] for n in range(len(self.spec.written))]
            self._commit(situation, Done(whole, results, rows, sum(part.keys for part in done)))
        self.report.batches += len(works)
        self._on_batch(self.report, 0)

    def give_up(self, situation: Situation, keys: Set[str], work: Work) -> None:
        """Forget failed keys, in a commit that computes nothing, so that the chain knows of it too."""
        standing = self._standing_failures(situation)
        self._failures = {key: entry for key, entry in standing.items() if key not in keys}
        done = Done(work, Results.none(self.shape), [[] for _ in self.spec.written], 0)
        progress = Progress(recovered=tuple((self.spec.name, key) for key in sorted(keys)), lease=self._lease)
        batch = self._batch(situation, done, tuple(self._failures.values()), ())
        self._committer.commit(batch, self._record(work, situation.pins), progress)
        self.report.batches += 1

    # --- computing ----------------------------------------------------------------------------------------------------

    def _compute(self, situation: Situation, work: Work, stack: ExitStack) -> Done:
        if work.is_empty:
            return Done(work, Results.none(self.shape), [[] for _ in self.spec.written], 0)
        gathered = gather(self.shape, work.scope, situation.read, work.known)
        results = self._call(gathered, stack)
        failed = self.report.failed + sum(max(keys.num_rows, 1) for keys, _ in results.failed)
        if failed > self.spec.options.max_failed_keys:
            raise self._too_many(failed, results)
        rows = [list(pieces) for pieces in results.outputs]
        if self.spec.keys_table is not None:
            rows.append([processed_rows(gathered, failed_keys(results), situation.read, self.spec.keys_table)])
        return Done(work, results, rows, count_scope(gathered, situation.read))

    def _call(self, gathered: Gathered, stack: ExitStack) -> Results:
        if self.spec.options.pandas:
            return compute_pandas(gathered, self.spec.function, self.context, stack, fail_fast=self._fail_fast)

        def one_call(part: Gathered) -> list[CheckedFrame]:
            return call(self.shape, warn_of_chance(self.spec), part, self.context, stack)

        return compute_isolating(gathered, one_call, self.context, stack, fail_fast=self._fail_fast)

    def _too_many(self, count: int, results: Results) -> TooManyFailures:
        keys, text = results.failed[0]
        first = key_texts(keys)[0] if keys.num_rows else "{}"
        error = TooManyFailures(
            f"step '{self.spec.name}': {count} keys failed, more than max_failed_keys="
            f"{self.spec.options.max_failed_keys}. The first is {first}: {text}. Nothing of this batch was written.",
            hint="mend the function and run again; none of these keys was recorded as failed.",
        )
        error.__cause__ = results.causes[0] if results.causes else None
        return error

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, situation: Situation, done: Done) -> None:
        work, now = done.work, self.context.clock.now().timestamp()
        standing = self._standing_failures(situation)
        failed = failed_again(self.spec.name, done.results.failed, standing, now)
        cured = held_by(self.context, self.shape, work.scope, [key for key in standing if key not in failed])
        left = {key: entry for key, entry in standing.items() if key not in cured} | failed
        covered, passed = self._covered_keys(work, failed, situation.read, now)
        self.report.keys += done.keys
        self.report.rows_in += work.rows_in
        positions = [
            position_at(self.context, self.spec.name, entry, situation.generation(entry.table)) for entry in work.covers
        ]
        progress = Progress(
            positions=tuple(positions),
            failed=tuple(failed.values()),
            covered=covered,
            recovered=tuple((self.spec.name, key) for key in [*cured, *passed]),
            lease=self._lease,
            batch=self.report.batches + 1,
        )
        batch = self._batch(situation, done, tuple(left.values()), tuple(failed))
        committed = self._committer.commit(batch, self._record(work, situation.pins), progress)
        self._tell(work, committed, failed)
        self._failures = left
        self.tried.update(failed, work.keys)
        self.offsets.update({p.input_table: p.update_ts for p in positions if p.update_ts is not None})

    def _batch(
        self, situation: Situation, done: Done, standing: tuple[FailedKey, ...], failed: tuple[str, ...]
    ) -> Batch:
        work = done.work
        checkpoint = Checkpoint(
            step=self.spec.name,
            mode=work.mode,
            read={table: ReadAt.of(pin) for table, pin in situation.pins.items()},
            taken=taken_intervals(work.taken),
            keys=work.keys,
            range=work.range,
            failed=standing,
            skipped=failed,
            selected_at=dict(situation.before) if self.shape.looked_up else None,
        )
        heads = [situation.heads.get(table) for table in self.shape.sources]
        return Batch(
            scope=work.scope,
            outputs=tuple(tuple(pieces) for pieces in done.rows),
            checkpoint=checkpoint,
            covered=work.covers,
            left_alone=failed_keys(done.results),
            watermark=least_watermark(self.context, heads) if work.completes else None,
        )

    def _standing_failures(self, situation: Situation) -> dict[str, FailedKey]:
        return self._failures if self._failures is not None else {entry.key: entry for entry in situation.failed}

    def _covered_keys(
        self, work: Work, failed: Mapping[str, FailedKey], read: Mapping[str, int | None], now: float
    ) -> tuple[tuple[CoveredKey, ...], list[str]]:
        """Keys to remember as computed ahead of the positions, and keys to forget because the positions pass them."""
        if work.remember and isinstance(work.scope, KeyValues):
            at = json.dumps({table: -1 if offset is None else offset for table, offset in read.items()})
            texts = [text for text in key_texts(work.scope.values) if text not in failed]
            return tuple(CoveredKey(self.spec.name, text, now, at) for text in texts), []
        if work.completes:
            return (), [entry.key for entry in self.context.control.index.covered_keys(self.spec.name)]
        return (), []

    def _record(self, work: Work, pins: Mapping[str, Pin]) -> RunRecord:
        return RunRecord(
            run_id=self._writing.run_id,
            step=self.spec.name,
            mode=work.mode,
            started=self._started,
            ended=self.context.clock.now().timestamp(),
            pins=json.dumps({table: pin.offset for table, pin in pins.items()}),
            rows_in=self.report.rows_in,
            rows_out=self.report.rows_out,
        )

    def _tell(self, work: Work, committed: Committed, failed: Mapping[str, FailedKey]) -> None:
        report, counts = self.report, committed.counts
        report.mode = work.mode
        report.appended += counts.appended
        report.corrected += counts.corrected
        report.retracted += counts.retracted
        report.failed += len(failed)
        report.failures = (*report.failures, *((key, entry.error) for key, entry in failed.items()))
        for table, (after, upto) in committed.added.items():
            self.added[table] = (self.added[table][0] if table in self.added else after, upto)


def failed_keys(results: Results) -> pa.Table | None:
    """The keys that failed in a batch, or None."""
    tables = [keys for keys, _ in results.failed if keys.column_names]
    return pa.concat_tables(tables) if tables else None
