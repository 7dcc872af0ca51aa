"""A view of a store: a step whose keys are found through the joins of its SELECT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from seamark.config import ViewSettings
from seamark.control import Mode
from seamark.errors import InvalidStep, LeaseHeld, ViewPaused, did_you_mean
from seamark.steps.rows.changed_rows import changed_keys_of
from seamark.steps.rows.changelist import ChangeList, KeyFrames
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.prepare import Makers
from seamark.steps.running.report import StepPlan, StepReport
from seamark.steps.running.run_config import Dictionaries, RunConfig
from seamark.steps.standing.known import Known
from seamark.steps.standing.moves import Move
from seamark.tables.context import TableContext
from seamark.tables.table import Table
from seamark.transforms.backlog import Backlog
from seamark.transforms.planning import plan_step
from seamark.transforms.step import Step
from seamark.views.analysis.memory import Record
from seamark.views.issues import MvIssues
from seamark.views.model import MvTarget
from seamark.views.passes.dictionaries import DictionaryPass
from seamark.views.passes.pace import Pace
from seamark.views.passes.scan import Scanning
from seamark.views.spec import ViewSpec
from seamark.views.sql.ddl import Dialect
from seamark.views.sql.script import view_sql
from seamark.views.sql.texts import united, with_tables


class View(Step):
    """A materialized view: run it like any step, read its rows like any table's."""

    spec: ViewSpec

    def __init__(
        self,
        context: TableContext,
        spec: ViewSpec,
        makers: Callable[[], Makers],
        wait: float,
        issues: MvIssues,
        settings: ViewSettings,
        record: Record | None = None,
    ) -> None:
        super().__init__(context, spec, makers, wait)
        self.issues = issues
        self.handler = ""  # the job that it belongs to
        self._settings = settings
        self._record = record  # what Spark has said of it, as long as that is not kept yet

    def __repr__(self) -> str:
        return f"View({self.name!r}: {', '.join(self.inputs)})"

    @property
    def target(self) -> MvTarget:
        """The view's model."""
        return self.spec.target

    @property
    def table(self) -> Table:
        """The table with its rows."""
        output = self.spec.keying.output
        return Table(self._context, output.name, output.schema)

    def sql(self, dialect: str = "spark") -> str:
        """The queries that its runs amount to, and the table that it is kept in, in a dialect of SQL."""
        if dialect not in list(Dialect):
            raise InvalidStep(
                f"there is no dialect '{dialect}'.", hint=did_you_mean(dialect, [*map(str, Dialect)], "Dialects")
            )
        return view_sql(self.spec, Dialect(dialect))

    @property
    def query(self) -> str:
        """Its SELECT as Spark runs it, over tables that are called as they are; parts are joined by UNION ALL."""
        return united([with_tables(part, {}) for part in self.target.parts])

    @property
    def unit(self) -> str:
        """What of it is refreshed at once: what comes from one left-most row, a group, a partition, or all rows."""
        if self.target.is_full:
            return "all rows"
        keying = self.spec.keying
        shown = [
            f"row of {keying.leftmost_table(part).name}" if part.unit.is_owner else part.unit.kind.value
            for part in keying.units.parts
        ]
        return ", ".join(dict.fromkeys(shown))

    # --- runs and what they leave waiting -----------------------------------------------------------------------------

    def run_full(
        self, config: RunConfig | None = None, *, known: Known | None = None, on_batch: OnBatch = silent
    ) -> StepReport:
        """Bring its rows up to its tables; with `dictionaries` in the configuration up to changes of these as well."""
        config = config or RunConfig()
        if self.is_paused:
            return StepReport(self.name, mode=Mode.PAUSED)
        self._keep_record()
        report = super().run_full(config, known=known, on_batch=on_batch)
        if config.is_partial or not self._wants_pass(config.dictionaries, None if report.did_something else known):
            return report
        try:
            passed = self.run_dictionaries(on_batch=on_batch)
        except LeaseHeld:
            if config.dictionaries == "now":
                raise
            return report  # another process does what is due
        report.include(passed)
        report.changes = report.changes.extend(passed.changes)
        return report

    def run_changelist(self, changes: ChangeList, config: RunConfig | None = None) -> StepReport:
        """Compute the units that these changes of tables lead to, changed or not. No position moves."""
        if self.is_paused:
            return StepReport(self.name, mode=Mode.PAUSED)
        return super().run_changelist(changes, config)

    def run_idx(self, keys: Any, config: RunConfig | None = None) -> StepReport:
        """Compute the units of a frame, changed or not. No position moves."""
        self._refuse_paused()
        return super().run_idx(keys, config)

    def retry(self, config: RunConfig | None = None, keys: Any = None) -> StepReport:
        """Compute failed units now, all or those of a frame, whether they are due or not."""
        self._refuse_paused()
        return super().retry(config, keys)

    def plan(self, known: Known | None = None) -> StepPlan:
        """What a run would do now."""
        backlog = self.backlog(known).checked()
        return plan_step(self._context, backlog, self._move(backlog, known))

    def next_move(self, known: Known | None = None) -> Move:
        """What a run would do first, and why."""
        return self._move(self.backlog(known), known)

    def _move(self, backlog: Backlog, known: Known | None) -> Move:
        since = self._context.control.views.find(self.name).paused_since
        if since is not None:
            moment = datetime.fromtimestamp(since, UTC)
            return Move(Mode.PAUSED, f"paused since {moment:%Y-%m-%d %H:%M:%S} UTC")
        return self._or_pass(backlog, super().next_move(known))

    def _keep_record(self) -> None:
        """Keep what Spark has said of the view, so that the next program that loads it need not ask."""
        if self._record is not None:
            self._context.control.views.record_analysed(self.name, self._record.digest, self._record.types)
            self._record = None

    # --- pauses -------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let its rows stand still, in every program, until it is resumed. A run at work is not stopped."""
        self._context.control.views.pause(self.name, self._context.clock.now().timestamp())

    def resume(self) -> None:
        """Let it run again; the next run catches up."""
        self._context.control.views.resume(self.name)

    @property
    def is_paused(self) -> bool:
        """Whether somebody has paused it."""
        return self._context.control.views.find(self.name).is_paused

    def _refuse_paused(self) -> None:
        if self.is_paused:
            raise ViewPaused(self.name)

    # --- what waits ---------------------------------------------------------------------------------------------------

    def may_wait(self, table: str) -> float:
        """How many seconds changes of a table may wait on purpose: a dictionary's wait for a pass."""
        return self._settings.dictionary_period if table in self.spec.deferred else 0.0

    # --- passes -------------------------------------------------------------------------------------------------------

    def run_dictionaries(self, *, on_batch: OnBatch = silent) -> StepReport:
        """Take all changes of its dictionaries that wait now, page by page; other runs go on in between."""
        self._refuse_paused()
        return self._with_changes(self._pass(on_batch).run)

    def scan(
        self,
        rate: float | None = None,
        where: str | None = None,
        part: str | None = None,
        restart: bool = False,
        *,
        on_batch: OnBatch = silent,
    ) -> StepReport:
        """Compute all its rows again, or those of the left-most rows for which `where` holds, page by page.

        A scan that was cut off continues, unless `restart`. `rate` is how many units, which are left-most rows or
        groups, it takes per second at the most, `part` the only part that is scanned. Positions stay as they are.
        """
        self._refuse_paused()
        pace = Pace(self._context.clock, self._settings.scan_rate if rate is None else rate)
        scanning = Scanning(self._context, self, self.spec.keying, pace, self.handler, where, on_batch)
        return self._with_changes(lambda: scanning.run(part, restart=restart))

    def _pass(self, on_batch: OnBatch = silent) -> DictionaryPass:
        return DictionaryPass(
            context=self._context,
            step=self,
            keying=self.spec.keying,
            pace=Pace(self._context.clock, self._settings.scan_rate),
            most_records=self._settings.max_change_rows,
            period=self._settings.dictionary_period,
            wait=self._wait,
            job=self.handler,
            on_batch=on_batch,
        )

    def _wants_pass(self, wanted: Dictionaries, known: Known | None) -> bool:
        if wanted == "never" or not self.spec.deferred:
            return False
        backlog = self.backlog(known)
        return bool(backlog.deferred) if wanted == "now" else self._is_due(backlog)

    @property
    def dictionaries_are_due(self) -> bool:
        """Whether changes of its dictionaries have waited long enough, or a pass over them was cut off."""
        return bool(self.spec.deferred) and self._is_due(self.backlog())

    def _is_due(self, backlog: Backlog) -> bool:
        due_at = self._pass().due_at(backlog)
        return due_at is not None and due_at <= self._context.clock.now().timestamp()

    def _or_pass(self, backlog: Backlog, move: Move) -> Move:
        """The move; where there is no other, the pass over dictionaries that is due, or what waits for it."""
        if move.mode is not Mode.SETTLED or not backlog.deferred:
            return move
        waiting = ", ".join(f"{entry.records} in '{entry.table}'" for entry in backlog.deferred)
        if self._is_due(backlog):
            return Move(Mode.DICTIONARY, f"records of dictionaries have waited long enough: {waiting}")
        return Move(Mode.SETTLED, f"only records of dictionaries wait, for a pass: {waiting}")

    def _with_changes(self, run: Callable[[], StepReport]) -> StepReport:
        """The report of several runs, with all keys that changed meanwhile."""
        output = self.spec.keying.output
        before = self.spec.keying.last_record
        report = run()
        after = self.spec.keying.last_record
        frames = {} if before == after else {output.name: changed_keys_of(output, before, after)}
        report.changes = ChangeList(KeyFrames(frames))
        return replace(report, mode=report.mode if report.batches else Mode.SETTLED)
