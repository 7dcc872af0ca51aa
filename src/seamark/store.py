"""DataStore: the front door that ties the rooms together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from seamark.clock import Clock, SystemClock
from seamark.config import Config, load_config
from seamark.control import Control, LiveRun, RunTotals
from seamark.diffs.compute.merge import Rule
from seamark.diffs.declare.checks import resolve_diff
from seamark.diffs.declare.declaration import DiffDeclaration
from seamark.diffs.declare.spec import KEEP_GONE
from seamark.diffs.diff import Diff
from seamark.diffs.origins import log_records
from seamark.errors import ConfigError, NoSuchRow
from seamark.sinks.run import OnSent
from seamark.sinks.target import Outlet
from seamark.spark import quiet_query_errors, spark_session
from seamark.steps.past.why import Provenance, provenance
from seamark.steps.rows.changelist import ChangeList
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.pipeline import OnStep
from seamark.steps.running.report import RunReport, StepPlan
from seamark.steps.running.run_config import Dictionaries, OnChange, RunConfig
from seamark.steps.standing.moves import Move
from seamark.steps.standing.offsets import OffsetTable
from seamark.store_views import StoreViews, rows_behind_view
from seamark.tables.care.heal import Healed, heal_heads
from seamark.tables.context import TableContext
from seamark.tables.kinds import DIFF, FUNCTIONS, VIEW
from seamark.tables.read.cache import BaseCache
from seamark.tables.table import Head, Table, TableOrName
from seamark.tables.write.cuts import CutPlan, SizeLimit
from seamark.transforms.declare.declaration import BatchTransform, InputLike, refuse_unknown_options
from seamark.transforms.declare.spec import resolve
from seamark.transforms.initialise import initialise_offsets
from seamark.transforms.origins import input_rows
from seamark.transforms.step import Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


_ROWS_BEHIND = {**dict.fromkeys(FUNCTIONS, input_rows), DIFF: log_records, VIEW: rows_behind_view}


class DataStore(StoreViews):
    """Tables on a verifiable log: a control database and a warehouse, opened together.

    `control` is the database's URL and `warehouse` a folder; what is not given comes from the environment
    (`SEAMARK_CONTROL`, `SEAMARK_WAREHOUSE`), from `seamark.toml`, or is the default. `control_schema` is the schema of
    a PostgreSQL database for the control tables. `spark` is a session to use; without one a session is started
    when it is first needed.
    """

    def __init__(
        self,
        control: str | None = None,
        warehouse: str | Path | None = None,
        *,
        control_schema: str | None = None,
        spark: SparkSession | None = None,
        block_rows: int | None = None,
        block_bytes: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        folder = None if warehouse is None else str(warehouse)
        self.config: Config = load_config(
            required=False,
            control=control,
            control_schema=control_schema,
            warehouse=folder,
            block_rows=block_rows,
            block_bytes=block_bytes,
        )
        if self.config.block_rows < 2:
            raise ConfigError(
                f"block_rows is {self.config.block_rows}.",
                hint="a block must have room for the two records of a correction: use at least 2.",
            )
        self._spark = spark
        if spark is not None:
            quiet_query_errors()
        self.clock: Clock = clock or SystemClock()
        control_database = Control(
            self.config.control,
            schema=self.config.control_schema,
            clock=self.clock,
            lease_seconds=self.config.scheduler.lease,
        )
        super().__init__(
            TableContext(
                control=control_database,
                warehouse=Path(self.config.warehouse),
                clock=self.clock,
                session=lambda: self.spark,
                cache=BaseCache(self.config.rows.cache_rows),
                cut=CutPlan(SizeLimit(self.config.block_rows, self.config.block_bytes)),
                rows=self.config.rows,
            ),
            self.config,
        )
        self.healed: tuple[Healed, ...] = heal_heads(self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the database's connections. A Spark session stays: others may use it."""
        self.control.close()

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started now if there is none yet."""
        if self._spark is None:
            self._spark = spark_session(self.config.spark)
        return self._spark

    @property
    def warehouse(self) -> Path:
        """The folder of the chains."""
        return self._context.warehouse

    # --- tables -------------------------------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        schema: str | pa.Schema | StructType | None = None,
        key: str | Sequence[str] | None = None,
        event_time: str | None = None,
        *,
        changefeeds: Mapping[str, Sequence[str]] | None = None,
    ) -> Table:
        """The table of this name: declared if it is new, opened if it exists; without a schema it must be known.

        `key` makes it keyed, else it is append-only. An existing table's schema can grow by columns that may be NULL:
        they are read as NULL, and are part of the table from the first write or run on. Declaring writes nothing.
        """
        return self._catalog.declare(name, schema, key, event_time, changefeeds)

    def tables(self) -> dict[str, Table]:
        """All tables, declared or stored, by name."""
        return self._catalog.all()

    def heads(self) -> dict[str, Head]:
        """How far all tables are, declared or stored, by name, in one query."""
        return self._catalog.heads()

    def table_names(self) -> list[str]:
        """The names of all tables, declared or stored, without looking into any of them."""
        return self._catalog.names()

    # --- steps --------------------------------------------------------------------------------------------------------

    def transform(
        self, inputs: Sequence[InputLike], outputs: Sequence[TableOrName], **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that makes a function a step: it takes one frame per input and returns one per output.

        The options are those of `BatchTransform`.
        """
        refuse_unknown_options(options)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add(BatchTransform(function, inputs=inputs, outputs=outputs, **options))
            return function

        return decorate

    def add(self, step: BatchTransform) -> Step:
        """Add a step; the same as the decorator, without one."""
        spec = resolve(step, self._catalog.known)
        added = Step(self._context, spec, self._pipeline.makers, self.config.scheduler.wait)
        self._pipeline.include(added)
        return added

    def diff(
        self,
        name: str,
        key: str | Sequence[str],
        fast_version: str,
        multiplier: int,
        logs: Sequence[TableOrName],
        merge: Mapping[str, Rule] | None = None,
        *,
        wide: TableOrName | None = None,
        sink: Outlet | None = None,
        ttl: tuple[str, str | timedelta] | None = None,
        deleted: str | None = None,
        fast_deletes: bool = False,
        keep_gone: str | timedelta = KEEP_GONE,
        version: str | None = None,
        constant: str | Sequence[str] = (),
        keep_intermediate: bool = False,
        fail_fast: bool = False,
        max_failed_keys: int = 1_000,
        on_change: OnChange = "ask",
    ) -> Diff:
        """Add a diff: what a slow supplier writes to correct the versions that a fast one has written.

        `logs` bring news of visits, `merge` says by column how an older and a newer value become one; a column without
        a rule is overwritten by what is not NULL. `constant` names columns that no visit changes, so that a target may
        be ordered by them as well. docs/diffs.md says what the others do.
        """
        declared = DiffDeclaration(
            name=name,
            key=key,
            fast_version=fast_version,
            multiplier=multiplier,
            logs=logs,
            merge=merge,
            wide=wide,
            ttl=ttl,
            deleted=deleted,
            fast_deletes=fast_deletes,
            keep_gone=keep_gone,
            version=version,
            constant=constant,
            keep_intermediate=keep_intermediate,
            fail_fast=fail_fast,
            max_failed_keys=max_failed_keys,
            on_change=on_change,
        )
        return self._add_diff(declared, sink)

    def _add_diff(self, declared: DiffDeclaration, sink: Outlet | None) -> Diff:
        spec = resolve_diff(declared, self._catalog.known)
        diff = Diff(self._context, spec, self._pipeline.makers, self.config.scheduler.wait)
        self._pipeline.include(diff)
        before = dict(self._catalog.declared)
        try:
            for written in spec.written:
                self.table(written.name, written.schema.arrow, list(written.schema.key) or None)
            if sink is not None:
                self.sink(spec.visit_log_slow.name, sink)
        except Exception:  # something that is not a sink is refused by whatever Python makes of it
            self._catalog.declared = before
            self._pipeline.exclude(diff)
            raise
        return diff

    def step(self, name: str) -> Step | Diff:
        """The step of this name."""
        self.refuse_left_out([name])
        return cast("Step | Diff", self._pipeline.step(name))

    def steps(self) -> dict[str, Step | Diff]:
        """All steps by name, each after those whose outputs it reads."""
        return {step.name: cast("Step | Diff", step) for step in self._pipeline.in_order()}

    def step_names(self) -> list[str]:
        """The names of all steps."""
        return list(self._pipeline.steps)

    def run(
        self,
        *steps: str,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        fail_fast: bool | None = None,
        on_change: OnChange | None = None,
        dictionaries: Dictionaries = "due",
        on_batch: OnBatch | None = None,
        on_block: OnSent | None = None,
        on_step: OnStep | None = None,
    ) -> RunReport:
        """Run everything that has work, in order, or some steps and sinks; gives a report for each.

        What stops a step or a sink is in its report, and the others continue, unless `fail_fast` is set. Tables with a
        long tail are folded; `not_folded` says which could not be. `dictionaries` says which changes of their
        dictionaries views take: those that have waited for `views.dictionary_period`, `"now"` all, or `"never"`.
        `left_out` of the report has views and handlers that were left out when they were loaded, with their errors.
        `on_batch` is called after each commit with the report so far and the batches left, `on_block` after each block
        that a sink has sent, `on_step` with the name of each before its turn.
        """
        config = RunConfig(filters or {}, limit, fail_fast, on_change, dictionaries)
        self.refuse_left_out(steps)
        sinks, others = self._sinks.among(steps)
        runs_steps = bool(others) or not steps
        report = self._pipeline.run(others, config, on_batch or silent, on_step) if runs_steps else RunReport()
        self._pipeline.grow_others([table.source for table in self._catalog.declared.values()])
        for name in sinks:
            if on_step is not None:
                on_step(name)
            report.sinks |= self._sinks.run([name], fail_fast=bool(fail_fast), on_block=on_block)
        report.seconds += sum(sent.seconds for sent in report.sinks.values())
        report.add_folds(self._fold_what_moved())
        report.left_out = {} if steps else {name: str(errors) for name, errors in self.left_out_views().items()}
        return report

    def _run_views(self, views: Sequence[str], dictionaries: Dictionaries) -> RunReport:
        """Run some views, and the sinks that carry them."""
        return self.run(*views, *self._sinks_of(views), dictionaries=dictionaries)

    def run_changelist(self, changes: ChangeList, *, fail_fast: bool | None = None) -> RunReport:
        """Compute what given keys lead to, in all steps downstream. No position moves."""
        return self._pipeline.run_changelist(changes, RunConfig(fail_fast=fail_fast))

    def plan(self, *steps: str) -> dict[str, StepPlan]:
        """What a run would do now, by step, in order. Nothing is computed or changed.

        Names of sinks are passed over: `plan_sinks` says what they would carry.
        """
        sinks, others = self._sinks.among(steps)
        return {} if sinks and steps and not others else self._pipeline.plan(others)

    def next_moves(self) -> dict[str, Move]:
        """What a run of each step would do first, and why, by step in order. Cheaper than `plan`: no key is counted."""
        return self._pipeline.next_moves()

    @cached_property
    def offset_table(self) -> OffsetTable:
        """How far each step has processed each of its inputs."""

        def initialise(step: str, tables: Sequence[str]) -> dict[str, float]:
            self._pipeline.inputs_to_move(step)
            return initialise_offsets(self._context, cast("Step", self._pipeline.step(step)).spec, tables)

        steps = self._pipeline
        return OffsetTable(
            self.control,
            self.clock,
            initialise,
            steps.inputs_to_move,
            steps.outputs_keys,
            steps.adopted_from,
            steps.may_wait,
        )

    def failed_key_counts(self) -> dict[str, int]:
        """How many failed keys each step has, by name."""
        return self._pipeline.failed_key_counts()

    def run_totals(self) -> list[RunTotals]:
        """What the runs of each step did in all, and its newest run; a step without runs is left out."""
        return self.control.index.run_totals(self._pipeline.outputs_keys())

    def live_runs(self) -> list[LiveRun]:
        """The runs of steps that are at work now, or were killed and not followed by another."""
        return self._pipeline.live_runs()

    def why(self, table: str, key: Mapping[str, Any], *, most: int = 100) -> Provenance:
        """Where a row came from: its block, and through the input intervals the input records behind it.

        Of each input at most `most` rows are followed; `NoSuchRow` if the table has no row with this key.
        """
        try:
            return provenance(self._context, self._catalog.known(table).source, key, most, _ROWS_BEHIND)
        except NoSuchRow as missing:
            maker = self._pipeline.maker_of(table)
            raise missing if maker is None else maker.explain_missing(table, key, missing) from None
