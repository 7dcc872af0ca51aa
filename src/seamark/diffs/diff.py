"""A diff as a person uses it: run it, look at its state, its records and the visits that failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seamark.control import FailedKey, Mode, TableHead
from seamark.diffs.backlog import DiffBacklog, backlog_of, last_details, too_late_so_far
from seamark.diffs.declare.spec import REASON, DiffSpec
from seamark.diffs.moves import next_move
from seamark.diffs.planning import plan_diff
from seamark.diffs.replay import replay_diff
from seamark.diffs.run import DiffRun, DiffWork
from seamark.errors import FrameMismatch, InvalidStep, NoSuchRow, moved_offsets_of_diff
from seamark.ledger.verify import VerifyReport
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.changed_rows import changed_keys_of
from seamark.steps.rows.changelist import ChangeList, KeyFrames
from seamark.steps.rows.fetch import read_for, read_interval
from seamark.steps.rows.keys import key_texts, keys_of
from seamark.steps.rows.scope import KeyValues
from seamark.steps.running.attempt import Attempt, attempt
from seamark.steps.running.failures import failure_frame
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.prepare import Makers, all_tables, prepare_tables
from seamark.steps.running.report import StepPlan, StepReport
from seamark.steps.running.run_config import OnChange, RunConfig
from seamark.steps.standing.known import Known
from seamark.steps.standing.moves import Move
from seamark.steps.standing.own_rows import adopt_rows
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.far_times import python_rows
from seamark.tables.frame import SparkFrame
from seamark.tables.frames import check_frame
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import choose_values
from seamark.tables.read.records import read_changes
from seamark.tables.schema.growth import grow_declared
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.table import Table

if TYPE_CHECKING:
    import pandas as pd


class Diff:
    """A diff of a store."""

    def __init__(self, context: TableContext, spec: DiffSpec, makers: Callable[[], Makers], wait: float) -> None:
        self._context = context
        self.spec = spec
        self._makers = makers
        self._wait = wait

    def __repr__(self) -> str:
        return f"Diff({self.name!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    @property
    def name(self) -> str:
        """The diff's name."""
        return self.spec.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that it reads: its logs in their order, and the wide table."""
        return tuple(self.spec.sources)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tables that it writes: the state and the diff."""
        return tuple(output.name for output in self.spec.outputs)

    @property
    def transform_keys(self) -> tuple[str, ...]:
        """The columns that tell visits apart."""
        return self.spec.key_names

    @property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of these columns."""
        return self.spec.key_types

    @property
    def fast_version(self) -> str:
        """The column with the version that the fast supplier gave."""
        return self.spec.fast_version.name

    @property
    def collapsing_key(self) -> tuple[str, ...]:
        """The columns by which records of the diff that cancel each other are found."""
        return self.spec.key_names

    @property
    def constant_columns(self) -> tuple[str, ...]:
        """The columns that a visit never changes, by which a target may be ordered as well."""
        return self.spec.constant

    @property
    def state(self) -> Table:
        """What is known of each visit: its key, its fast and its slow version, and its columns."""
        return self._table(self.spec.state.name, self.spec.state_schema)

    @property
    def visit_log_slow(self) -> Table:
        """The diff: its records, as they go to ClickHouse."""
        return self._table(self.spec.visit_log_slow.name, self.spec.log_schema)

    @property
    def gone(self) -> Table:
        """The visits that have left the state: the versions that they left at, why and when."""
        return self._table(self.spec.gone.name, self.spec.gone_schema)

    @property
    def too_late(self) -> int:
        """How many records have come too late for their visit, in all runs together."""
        head = self._context.control.index.head(self.spec.state.name)
        return too_late_so_far(last_details(self._context, self.spec.state.name, head))

    def tables(self) -> list[Table]:
        """All tables that it writes."""
        return [self._table(source.name, source.schema) for source in self.spec.written]

    def _table(self, name: str, schema: TableSchema) -> Table:
        return Table(self._context, name, schema)

    # --- running ------------------------------------------------------------------------------------------------------

    def run_full(
        self, config: RunConfig | None = None, *, known: Known | None = None, on_batch: OnBatch = silent
    ) -> StepReport:
        """Take what waits in the logs, in one commit, and report what was done.

        Raises what stops it; a visit that fails does not, unless `fail_fast` is set.
        """
        config = config or RunConfig()
        if config.is_partial:
            raise self._refused("filters or a limit")
        known = known or Known.of(self._context)
        adopts = known.own_rows(self._context, self.spec).adoption is not None
        if self._backlog(known).is_settled and not adopts:
            grow_declared(all_tables(self.spec), known.heads)
            return StepReport(self.name)

        def work(run: DiffRun, backlog: DiffBacklog) -> None:
            move = next_move(backlog, self._policy(config))
            move.raise_refusal()
            if move.mode is not Mode.SETTLED:  # else another run was there first
                run.do(backlog, DiffWork(move.mode, retried=self._failed_with_news(backlog)))

        return self._run(config, Mode.RUN, work, on_batch)

    def retry(self, config: RunConfig | None = None, keys: Any = None) -> StepReport:
        """Take visits that failed now, all or those of a frame, whether they are due or not."""
        chosen = self._failed(keys)
        if not chosen:
            return StepReport(self.name)

        def work(run: DiffRun, backlog: DiffBacklog) -> None:
            retried = tuple(entry for entry in backlog.failed if keys is None or entry.key in chosen)
            if retried:
                run.do(backlog, DiffWork(Mode.RETRY, takes_news=False, retried=retried))

        return self._run(config or RunConfig(), Mode.RETRY, work)

    def give_up(self, keys: Any = None) -> int:
        """Leave out the records for which visits failed, all visits or those of a frame; what else waits continues.

        Records with a version out of range are left out; where a visit failed for something else, such as a wide row
        that never came, all that waits of it is. Gives how many visits these are.
        """
        chosen = self._failed(keys)
        if not chosen:
            return 0

        def work(run: DiffRun, backlog: DiffBacklog) -> None:
            retried = tuple(entry for entry in backlog.failed if entry.key in chosen)
            run.do(backlog, DiffWork(Mode.GIVE_UP, takes_news=False, retried=retried, skip_bad=True))

        self._run(RunConfig(), Mode.GIVE_UP, work)
        return len(chosen)

    def run_changelist(self, changes: ChangeList, config: RunConfig | None = None) -> StepReport:
        """Refused: a diff takes each record of its logs once, in their order."""
        raise self._refused("a changelist")

    def filter_types(self) -> dict[str, pa.DataType]:
        """Refused: a run takes all visits."""
        raise self._refused("filters or a limit")

    def _refused(self, what: str) -> InvalidStep:
        return InvalidStep(
            f"diff '{self.name}' cannot be run with {what}: it takes each record of its logs once, in order. "
            "Nothing was run.",
            hint=f"run it as a whole: `seamark run {self.name}`.",
        )

    def may_wait(self, table: str) -> float:
        """How many seconds records of a log may wait on purpose: none, every run takes them."""
        return 0.0

    def refuse_moved_offsets(self) -> None:
        """Refuse to have its offsets moved by hand: a record would be added to the state twice, or never."""
        raise moved_offsets_of_diff(self.name)

    def _failed(self, keys: Any) -> set[str]:
        """The visits that failed, all or those of a frame, as texts."""
        failed = {entry.key for entry in self.failed_keys()}
        if keys is None:
            return failed
        schema = TableSchema(self.spec.state_schema.columns[: len(self.spec.key)], self.spec.key_names)
        rows = check_frame(self.name, schema, keys)
        return failed & set(key_texts(rows.select(self.spec.key_names).to_arrow()))

    def _run(
        self,
        config: RunConfig,
        mode: Mode,
        work: Callable[[DiffRun, DiffBacklog], None],
        on_batch: OnBatch = silent,
    ) -> StepReport:
        """Pin the inputs, do some work under the diff's lease, and report it."""
        fail_fast = self.spec.options.fail_fast if config.fail_fast is None else config.fail_fast
        report = StepReport(self.name, mode=mode)

        def once(attempt: Attempt) -> None:
            backlog = self._pinned(attempt, self._policy(config))
            adopt_rows(self._context, self.spec)
            before = self._state_offset()
            run = DiffRun(self._context, self.spec, attempt, fail_fast=fail_fast)
            work(run, backlog)
            if run.has_visits_due:
                run.do(self._backlog(), DiffWork(Mode.EXPIRE, takes_news=False, follows=True))
            frames = {self.spec.state.name: changed_keys_of(self.spec.state, before, self._state_offset())}
            report.changes = ChangeList(KeyFrames(frames), {})
            on_batch(report, 0)

        return attempt(self._context, self.spec, report, self._wait, once)

    def _state_offset(self) -> int | None:
        head = self._context.control.index.head(self.spec.state.name)
        return head.last_offset if head else None

    def _pinned(self, attempt: Attempt, policy: OnChange) -> DiffBacklog:
        """What waits, with the diff's tables ready. Refusals come before anything is written."""
        known = Known.of(self._context)
        backlog = self._backlog(known)
        next_move(backlog.checked(), policy).raise_refusal()
        ready = prepare_tables(self._context, attempt.files, self.spec, self._makers(), known)
        return backlog if ready is known else self._backlog(ready)

    def _policy(self, config: RunConfig) -> OnChange:
        return config.on_change or self.spec.options.on_change

    def _backlog(self, known: Known | None = None) -> DiffBacklog:
        return backlog_of(self._context, self.spec, known or Known.of(self._context))

    def _failed_with_news(self, backlog: DiffBacklog) -> tuple[FailedKey, ...]:
        """The failed visits that a run takes along: those that are due, and those of which there is news."""
        waiting = [entry for entry in backlog.failed if entry not in backlog.due]
        if not waiting:
            return backlog.due
        wide = self.spec.wide.name if self.spec.wide else None
        if any(entry.table == wide and entry.records > 0 for entry in backlog.pending):
            return backlog.failed  # any of them may have waited for just these columns
        mine = keys_of([entry.key for entry in waiting], self.spec.key_names, self.spec.key_types)
        with_news = {key for entry in backlog.logs if entry.records > 0 for key in self._keys_in(entry, mine)}
        news = [entry for entry, key in zip(waiting, comparable(mine), strict=True) if key in with_news]
        return (*backlog.due, *news)

    def _keys_in(self, pending: Pending, keys: pa.Table) -> set[Any]:
        """Those of some keys that the unread records of a log are about."""
        source, names = self.spec.sources[pending.table], list(self.spec.key_names)
        found = read_interval(source, pending.blocks, names)
        if found.in_memory is None:
            found = SparkFrame(choose_values(source, keys).of(found.to_spark(self._context.session)))
        records = found.select(names).distinct().to_arrow()
        return set(comparable(records)) & set(comparable(keys))

    # --- looking ------------------------------------------------------------------------------------------------------

    def plan(self, known: Known | None = None) -> StepPlan:
        """What a run would do now."""
        backlog = self._backlog(known).checked()
        return plan_diff(backlog, next_move(backlog, self.spec.options.on_change))

    def next_move(self, known: Known | None = None) -> Move:
        """What a run would do, and why."""
        return next_move(self._backlog(known).checked(), self.spec.options.on_change)

    def replay(self, heads: Mapping[str, TableHead]) -> VerifyReport:
        """What differs when the commits of some of its tables, up to these heads, are made again."""
        return replay_diff(self._context, self.spec, heads)

    def failed_keys(self) -> tuple[FailedKey, ...]:
        """The visits that failed, as they are recorded."""
        return Known.of(self._context).own_rows(self._context, self.spec).failed

    def failures(self) -> pd.DataFrame:
        """The visits that failed, as a pandas frame: key columns, error, attempts, process_ts, retry_after."""
        return failure_frame(self.failed_keys(), self.spec.key_names, self.spec.key_types)

    def explain_missing(self, table: str, key: Mapping[str, Any], missing: NoSuchRow) -> NoSuchRow:
        """The error that a visit is not in the state, with where to look if it has left."""
        if table != self.spec.state.name:
            return missing
        source = self.spec.gone
        head = self._context.control.index.head(source.name)
        if head is None or head.last_offset is None or set(key) != set(self.spec.key_names):
            return missing
        wanted = keys_of([json.dumps(dict(key), default=str)], self.spec.key_names, self.spec.key_types)
        marks = read_for(source, KeyValues(wanted), head.last_offset).to_arrow()
        if marks.num_rows == 0:
            return missing
        (why,) = marks.column(REASON).to_pylist()
        shown = " ".join(f"{name}={value}" for name, value in key.items())
        text = f"{missing.message} The visit has left the state: it is {why}."
        return NoSuchRow(text, hint=f"`seamark why {source.name} {shown}` shows where its mark came from.")

    def history(self, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The records that the diff has written of one visit, oldest first."""
        missing = [name for name in self.spec.key_names if name not in key]
        if missing or len(key) != len(self.spec.key_names):
            raise FrameMismatch(
                f"the key of diff '{self.name}' is ({', '.join(self.spec.key_names)}), not ({', '.join(key)}).",
                hint="give all of its columns, and no others.",
            )
        source = self.spec.visit_log_slow
        head = self._context.control.index.head(source.name)
        if head is None or head.last_offset is None:
            return []
        values = keys_of([json.dumps(dict(key), default=str)], self.spec.key_names, self.spec.key_types)
        records = choose_values(source, values).of(read_changes(source, after=None, upto=None))
        found = arrow_rows(records.orderBy("offset").drop("op", "event_time"))
        return python_rows(found)
