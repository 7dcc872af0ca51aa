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
from seamark.control import GRACE_SECONDS, Control, TableHead
from seamark.diffs.checks import resolve_diff
from seamark.diffs.declare import DiffOptions
from seamark.diffs.diff import Diff
from seamark.diffs.merge import Rule
from seamark.errors import ConfigError, SeamarkError, StoreError, UnknownTable
from seamark.ledger import DatasetKind, SetDataSchema
from seamark.ledger.verify import OnBlock, VerifyReport, verify_chain
from seamark.sinks.registry import SinkRegistry
from seamark.sinks.run import OnSent, Sink
from seamark.sinks.target import Outlet
from seamark.spark import quiet_query_errors, spark_session
from seamark.tables.cache import BaseCache
from seamark.tables.collect import CollectReport, collect_garbage
from seamark.tables.context import TableContext
from seamark.tables.evolve import grow_schema
from seamark.tables.fold import FoldReport, needs_fold
from seamark.tables.heal import Healed, heal_heads
from seamark.tables.rebuild import RebuildReport, rebuild_control
from seamark.tables.schema import TableSchema, check_evolution, check_table_name, declare
from seamark.tables.table import Head, Table
from seamark.transforms.changelist import ChangeList
from seamark.transforms.declare import BatchTransform, InputLike, OnChange, RunConfig, TableOrName
from seamark.transforms.initialise import initialise_offsets
from seamark.transforms.offsets import OffsetTable
from seamark.transforms.pipeline import Pipeline
from seamark.transforms.report import RunReport, StepPlan
from seamark.transforms.run import OnBatch
from seamark.transforms.step import Step
from seamark.transforms.why import Provenance, provenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class DataStore:
    """Tables on a verifiable log: a control database and a warehouse, opened together.

    `control` is the database's URL and `warehouse` a folder; what is not given comes from the environment
    (`SEAMARK_CONTROL`, `SEAMARK_WAREHOUSE`), from `seamark.toml`, or is the default. `spark` is a session to use;
    without one a session is started when it is first needed.
    """

    def __init__(
        self,
        control: str | None = None,
        warehouse: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        block_rows: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        folder = None if warehouse is None else str(warehouse)
        self.config: Config = load_config(required=False, control=control, warehouse=folder, block_rows=block_rows)
        if self.config.block_rows < 2:
            raise ConfigError(
                f"block_rows is {self.config.block_rows}.",
                hint="a block must have room for the two records of a correction: use at least 2.",
            )
        self._spark = spark
        if spark is not None:
            quiet_query_errors()
        self.clock: Clock = clock or SystemClock()
        self.control = Control(self.config.control, clock=self.clock, lease_seconds=self.config.scheduler.lease)
        self._context = TableContext(
            control=self.control,
            warehouse=Path(self.config.warehouse),
            clock=self.clock,
            session=lambda: self.spark,
            cache=BaseCache(self.config.rows.cache_rows),
            block_rows=self.config.block_rows,
            rows=self.config.rows,
        )
        self._declared: dict[str, Table] = {}
        self._pipeline = Pipeline(self._context, self._known_table, wait=self.config.scheduler.wait)
        self._sinks = SinkRegistry(self._context, self._standing_schema, wait=self.config.scheduler.wait)
        self._folded_at: dict[str, int] = {}
        self.healed: tuple[Healed, ...] = heal_heads(self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the database's connections. A Spark session goes on: others may use it."""
        self.control.close()

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started now if there is none yet."""
        if self._spark is None:
            self._spark = spark_session(self.config.spark)
        return self._spark

    @property
    def warehouse(self) -> Path:
        """The folder that the chains lie in."""
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
        """The table of this name: declared if it is new, opened if it stands; without a schema it must be known.

        `key` makes it keyed, else it is append-only. A standing table's schema can grow by columns that may be NULL.
        """
        check_table_name(name)
        if schema is None:
            return self._known_table(name)
        declared = declare(name, schema, key, event_time)
        standing = self._standing_schema(self.control.index.head(name))
        if standing is not None and check_evolution(name, standing, declared):
            grow_schema(self._context, name, declared)
        elif standing is not None:
            declared = standing  # the same columns, in the order that the table has them
        table = Table(self._context, name, declared, changefeeds=dict(changefeeds or {}))
        self._declared[name] = table
        return table

    def tables(self) -> dict[str, Table]:
        """All tables, declared or stored, by name."""
        heads = self.control.index.heads()
        return {name: self._table_at(name, heads.get(name)) for name in sorted({*self._declared, *heads})}

    def heads(self) -> dict[str, Head]:
        """Where all tables stand, declared or stored, by name, in one query."""
        heads = self.control.index.heads()
        return {name: Head.of(heads.get(name)) for name in sorted({*self._declared, *heads})}

    def table_names(self) -> list[str]:
        """The names of all tables, declared or stored, without looking into any of them."""
        return sorted({*self._declared, *self.control.index.heads()})

    def _known_table(self, name: str) -> Table:
        return self._declared.get(name) or self._table_at(name, self.control.index.head(name))

    def _table_at(self, name: str, head: TableHead | None) -> Table:
        if name in self._declared:
            return self._declared[name]
        stored = self._standing_schema(head)
        if stored is None:
            raise UnknownTable(name, self.table_names())
        return Table(self._context, name, stored)

    def _standing_schema(self, head: TableHead | None) -> TableSchema | None:
        if head is None or head.schema_block is None:
            return None
        event = self._context.files(head.table).block(head.schema_block).event
        if not isinstance(event, SetDataSchema) or event.schema is None:
            return None
        return TableSchema.from_ledger(event.schema)

    # --- steps --------------------------------------------------------------------------------------------------------

    def transform(
        self, inputs: Sequence[InputLike], outputs: Sequence[TableOrName], **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that makes a function a step: it takes a frame an input and returns a frame an output.

        The options are those of `BatchTransform`.
        """
        return self._pipeline.decorate(inputs=inputs, outputs=outputs, **options)

    def add(self, step: BatchTransform) -> Step:
        """Add a step; the same as the decorator, without one."""
        return self._pipeline.add(step)

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
        version: str | None = None,
        keep_intermediate: bool = False,
        fail_fast: bool = False,
        max_failed_keys: int = 1_000,
        on_change: str = "ask",
    ) -> Diff:
        """Add a diff: what a slow supplier writes to correct the versions that a fast one has written.

        `logs` bring news of visits, `merge` says by column how an older and a newer value become one; a column without
        a rule is overwritten by what is not NULL. docs/diffs.md tells what the others do.
        """
        spec = resolve_diff(
            self._known_table,
            name,
            key=key,
            fast_version=fast_version,
            multiplier=multiplier,
            logs=logs,
            merge=merge,
            wide=wide,
            ttl=ttl,
            deleted=deleted,
            fast_deletes=fast_deletes,
            version=version,
            options=DiffOptions(keep_intermediate, fail_fast, max_failed_keys, on_change),
        )
        diff = Diff(self._context, spec, self._pipeline.makers, self.config.scheduler.wait)
        self._pipeline.include(diff)
        try:
            for written in spec.written:
                self.table(written.name, written.schema.arrow, list(written.schema.key) or None)
            if sink is not None:
                self.sink(spec.visit_log_slow.name, sink)
        except SeamarkError:
            self._pipeline.exclude(diff)
            raise
        return diff

    def step(self, name: str) -> Step | Diff:
        """The step of this name."""
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
        on_batch: OnBatch | None = None,
        on_block: OnSent | None = None,
    ) -> RunReport:
        """Run everything that has work, in order, or some steps and sinks; gives a report for each.

        What stops a step or a sink stands in its report, and the others go on, unless `fail_fast` is set. Tables whose
        tail has grown long are folded. `on_batch` is called after each commit with the report so far and the batches
        left, `on_block` after each block that a sink has sent.
        """
        config = RunConfig(filters=filters or {}, limit=limit, fail_fast=fail_fast, on_change=on_change)
        sinks, others = self._sinks.among(steps)
        runs_steps = bool(others) or not steps
        report = self._pipeline.run(others, config, *([on_batch] if on_batch else [])) if runs_steps else RunReport()
        report.sinks = self._sinks.run(sinks, fail_fast=bool(fail_fast), on_block=on_block)
        report.seconds += sum(sent.seconds for sent in report.sinks.values())
        report.folded = self._fold_what_moved()
        return report

    def run_changelist(self, changes: ChangeList, *, fail_fast: bool | None = None) -> RunReport:
        """Compute what given keys lead to, in all steps downstream. No position moves."""
        return self._pipeline.run_changelist(changes, RunConfig(fail_fast=fail_fast))

    def plan(self, *steps: str) -> dict[str, StepPlan]:
        """What a run would do now, by step, in order. Nothing is computed or changed."""
        return self._pipeline.plan(steps)

    @cached_property
    def offset_table(self) -> OffsetTable:
        """How far each step has processed each of its inputs."""

        def initialise(step: str, tables: Sequence[str]) -> dict[str, float]:
            self._pipeline.inputs_to_move(step)
            return initialise_offsets(self._context, cast("Step", self._pipeline.step(step)).spec, tables)

        return OffsetTable(self.control, self.clock, initialise, self._pipeline.inputs_to_move)

    def why(self, table: str, key: Mapping[str, Any], *, most: int = 100) -> Provenance:
        """Where a row came from: its block, and through the input intervals the input records behind it.

        Of each input at most `most` rows are followed; `NoSuchRow` if the table has no row with this key.
        """
        return provenance(self._context, self._known_table(table).source, key, most)

    def _fold_what_moved(self) -> tuple[str, ...]:
        """Fold what has grown long, if anything has moved since this was last looked at."""
        heads = {name: head.sequence for name, head in self.control.index.heads().items()}
        if heads == self._folded_at:
            return ()
        self._folded_at = heads
        return tuple(report.table for report in self.fold_where_needed() if report.folded)

    # --- sinks --------------------------------------------------------------------------------------------------------

    def sink(self, table: str | Table, sink: Outlet, name: str | None = None) -> Sink:
        """Carry a table's changes to a target, at every `run`; under its name it goes on after a restart."""
        known = self._known_table(table.name if isinstance(table, Table) else table)
        collapsing_key = getattr(self._pipeline.maker_of(known.name), "collapsing_key", None)
        return self._sinks.add(known.name, known.schema, sink, name, collapsing_key, taken=self.step_names())

    def sinks(self) -> dict[str, Sink]:
        """All sinks by name."""
        return dict(self._sinks.sinks)

    # --- care ---------------------------------------------------------------------------------------------------------

    def verify(
        self, table: str | None = None, replay: bool = False, *, on_block: OnBlock | None = None
    ) -> VerifyReport:
        """Read every block, slice and checkpoint of one table or of all, and report what is not as it should be.

        `replay` also computes derived tables again, by the steps that make them; a root table has nothing to compute.
        """
        report = VerifyReport(0)
        chains = self._chains(table)
        if replay:
            self._refuse_stepless(chains)
        for name, head in chains.items():
            report += verify_chain(name, self._context.files(name), head.head_hash, on_block)
            maker = self._pipeline.maker_of(name)
            if replay and maker is not None:
                report += maker.replay(name, head)
        return report

    def _refuse_stepless(self, chains: Mapping[str, TableHead]) -> None:
        """Refuse to replay a derived table that no step of this program makes."""
        for name, head in chains.items():
            if head.kind != DatasetKind.ROOT.name.lower() and self._pipeline.maker_of(name) is None:
                raise StoreError(
                    f"table '{name}' is derived, and no step of this program makes it, so it cannot be computed again.",
                    hint="verify it without replay, or in the program that declares its step.",
                )

    def _chains(self, table: str | None) -> dict[str, TableHead]:
        heads = self.control.index.heads()
        if table is None:
            return dict(sorted(heads.items()))
        if table in heads:  # the schema is not asked for: it may be the very block that is damaged
            return {table: heads[table]}
        self._known_table(table)
        return {}

    def fold(self, *tables: str) -> list[FoldReport]:
        """Bring the bases of these tables, or of all, up to their heads."""
        names = tables or sorted(self.control.index.heads())
        return [self._known_table(name).fold() for name in names]

    def fold_where_needed(self) -> list[FoldReport]:
        """Fold the tables whose tail has grown past the configured share of the base, or number of slices."""
        sizes, bases = self.control.index.tail_sizes(), self.control.index.all_bases()
        reports = []
        for name, (records, slices) in sorted(sizes.items()):
            table = self._known_table(name)
            rows = bases[name][0].row_count if name in bases else 0
            if needs_fold(table.source, records, slices, rows):
                reports.append(table.fold())
        return reports

    def gc(self, *, dry_run: bool = False, grace: float = GRACE_SECONDS) -> CollectReport:
        """Remove files older than the grace (seconds) that no chain names and no live run has registered."""
        sources = [self._known_table(name).source for name in sorted(self.control.index.heads())]
        return collect_garbage(self._context, sources, grace=grace, dry_run=dry_run)

    @staticmethod
    def rebuild(control: str | None = None, warehouse: str | Path | None = None) -> RebuildReport:
        """Build the control database again from the chains in a warehouse, and say what was restored."""
        folder = None if warehouse is None else str(warehouse)
        config = load_config(required=False, control=control, warehouse=folder)
        database = Control(config.control)
        try:
            return rebuild_control(database, Path(config.warehouse))
        finally:
            database.close()
