"""Step: run it, in full or in part, and read what is pending and what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seamark.control import FailedKey, Mode, TableHead
from seamark.errors import NoSuchRow
from seamark.ledger.verify import VerifyReport
from seamark.steps.rows.changed_rows import changed_keys_of
from seamark.steps.rows.changelist import ChangeList, KeyFrames, Recipe, is_known_empty, not_read
from seamark.steps.running.attempt import Attempt, attempt
from seamark.steps.running.failures import failure_frame
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.prepare import Makers, all_tables, prepare_tables
from seamark.steps.running.report import StepPlan, StepReport
from seamark.steps.running.run_config import OnChange, RunConfig
from seamark.steps.standing.known import Known
from seamark.steps.standing.moves import Move
from seamark.tables.context import TableContext
from seamark.tables.schema.growth import grow_declared
from seamark.tables.write.publish import new_chain_heads
from seamark.transforms.backlog import Backlog, adopted, backlog_of
from seamark.transforms.keying import KeyedSpec, no_keys
from seamark.transforms.keys.handed_in import changed_rows, failed_among, handed_in_scope, key_rows
from seamark.transforms.keys.strategies import by_changes, by_columns, covers_pins, scope_of, through_all_keys
from seamark.transforms.moves import decided, next_move
from seamark.transforms.partial import by_processed_keys, changed_idx, changed_idx_count, part_of_changes
from seamark.transforms.planning import plan_step
from seamark.transforms.replay import replay_tables
from seamark.transforms.run import StepRun, Work

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


class Step:
    """A step of a store."""

    def __init__(self, context: TableContext, spec: KeyedSpec, makers: Callable[[], Makers], wait: float) -> None:
        self._context = context
        self.spec = spec
        self._makers = makers
        self._wait = wait

    def __repr__(self) -> str:
        reads, writes = ", ".join(self.spec.sources), ", ".join(o.name for o in self.spec.outputs)
        return f"Step({self.name!r}: {reads} -> {writes})"

    @property
    def name(self) -> str:
        """The step's name."""
        return self.spec.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that it reads, each once."""
        return tuple(self.spec.sources)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tables that it writes."""
        return tuple(output.name for output in self.spec.outputs)

    @property
    def transform_keys(self) -> tuple[str, ...]:
        """The columns by which it is computed."""
        return self.spec.keying.keys

    @property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of these columns."""
        types = self.spec.keying.key_types
        return {name: types[name] for name in self.transform_keys}

    # --- running ------------------------------------------------------------------------------------------------------

    def run_full(
        self, config: RunConfig | None = None, *, known: Known | None = None, on_batch: OnBatch = silent
    ) -> StepReport:
        """Bring the outputs up to the inputs, or as much of that as `config` allows, and report what was done.

        Raises what stops it; a key that fails does not, unless `fail_fast` is set.
        """
        config = config or RunConfig()
        backlog = backlog_of(self._context, self.spec, known or Known.of(self._context))
        if backlog.is_settled:
            adopted(self._context, backlog)
            grow_declared(all_tables(self.spec), backlog.heads)
            return StepReport(self.name)
        return self._run(config, Mode.RUN, lambda run: self._settle(run, config), on_batch)

    def run_changelist(self, changes: ChangeList, config: RunConfig | None = None) -> StepReport:
        """Compute the keys that these changes of inputs lead to, changed or not. No position moves."""
        config = config or RunConfig()
        for table in changes.changes:
            if table not in self.inputs:
                raise not_read(table, f"step '{self.name}' does not read it", self.inputs)
        if changes.has_no_rows:
            return StepReport(self.name)

        def work(run: StepRun) -> None:
            backlog = self._pinned(run, config)
            for scope, keys in changed_rows(run, backlog, changes):
                run.do_handed_in(backlog, Work(scope, Mode.CHANGELIST, keys=keys))

        return self._run(config, Mode.CHANGELIST, work)

    def run_idx(self, keys: Any, config: RunConfig | None = None) -> StepReport:
        """Compute the keys of a frame, changed or not. No position moves."""
        config = config or RunConfig()
        if is_known_empty(keys):
            if not isinstance(keys, list):  # the columns of a frame are checked even if it is empty
                key_rows(self.spec.keying, keys)
            return StepReport(self.name)

        def work(run: StepRun) -> None:
            scope, texts = handed_in_scope(run, keys)
            run.do_handed_in(self._pinned(run, config), Work(scope, Mode.KEYS, keys=texts))

        return self._run(config, Mode.KEYS, work)

    def retry(self, config: RunConfig | None = None, keys: Any = None) -> StepReport:
        """Compute failed keys now, all or those of a frame, whether they are due or not."""
        config = config or RunConfig()
        chosen = self._failed(keys)
        if not chosen:
            return StepReport(self.name)

        def work(run: StepRun) -> None:
            backlog = self._pinned(run, config)
            failed = [entry for entry in backlog.failed if keys is None or entry.key in chosen]
            for columns, texts in by_columns(run.keying, failed, run.tried).items():
                with ExitStack() as stack:
                    scope = scope_of(run, columns, [], texts, stack)
                    run.do(backlog, Work(scope, Mode.RETRY, keys=tuple(texts)))

        return self._run(config, Mode.RETRY, work)

    def give_up(self, keys: Any = None) -> int:
        """Forget failed keys, all or those of a frame: they are tried again only when they change. Returns how many."""
        given_up = self._failed(keys)
        if not given_up:
            return 0

        def work(run: StepRun) -> None:
            backlog = self._pinned(run, RunConfig())
            run.give_up(backlog, given_up, Work(no_keys(run.keying), Mode.GIVE_UP))

        self._run(RunConfig(), Mode.GIVE_UP, work)
        return len(given_up)

    def _failed(self, keys: Any) -> set[str]:
        """The keys that failed, all or those of a frame, as texts."""
        failed = {entry.key for entry in self.failed_keys()}
        return failed if keys is None else failed_among(failed, key_rows(self.spec.keying, keys))

    def run_pinned(self, mode: Mode, work: Callable[[StepRun, Backlog], None]) -> StepReport:
        """Do some work under the step's lease, with its inputs pinned for that, and report it."""
        config = RunConfig()
        return self._run(config, mode, lambda run: work(run, self._pinned(run, config)))

    def backlog(self, known: Known | None = None) -> Backlog:
        """What waits for the step now."""
        return backlog_of(self._context, self.spec, known or Known.of(self._context))

    # --- looking ------------------------------------------------------------------------------------------------------

    def plan(self, known: Known | None = None) -> StepPlan:
        """What a run would do now."""
        backlog = self.backlog(known).checked()
        return plan_step(self._context, backlog, next_move(backlog, self.spec.options.on_change))

    def next_move(self, known: Known | None = None) -> Move:
        """What a run would do first, and why."""
        return next_move(self.backlog(known).checked(), self.spec.options.on_change)

    def get_changed_idx(self, config: RunConfig | None = None) -> DataFrame:
        """The keys that a run with this configuration would take now, as a Spark frame."""
        config = config or RunConfig()
        return changed_idx(self._context, self._as_a_run_would(config), config)

    def get_changed_idx_count(self, config: RunConfig | None = None) -> int:
        """How many keys a run with this configuration would take now."""
        config = config or RunConfig()
        return changed_idx_count(self._context, self._as_a_run_would(config), config)

    def _as_a_run_would(self, config: RunConfig) -> Backlog:
        """The backlog as a run would see it; where a changed definition needs a choice, as if rows were kept."""
        policy = self._policy(config)
        backlog = self.backlog()
        chosen: OnChange = "keep" if backlog.unkeepable is None else "recompute"
        return decided(backlog, chosen if policy == "ask" else policy)

    def may_wait(self, table: str) -> float:
        """How many seconds changes of an input may wait on purpose: none, every run takes them."""
        return 0.0

    def refuse_moved_offsets(self) -> None:
        """Does nothing: a step computes rows from its inputs, so reading a record twice does no harm."""

    def filter_types(self) -> dict[str, pa.DataType]:
        """The columns that a run may be filtered by, with their types."""
        keying = self.spec.keying
        return {name: keying.key_types[name] for name in keying.group}

    @property
    def too_late(self) -> int:
        """None: whenever a record comes, its keys are computed."""
        return 0

    def explain_missing(self, table: str, key: Mapping[str, Any], missing: NoSuchRow) -> NoSuchRow:
        """The error as it is: a row that is not there was not computed, or no longer."""
        return missing

    def replay(self, heads: Mapping[str, TableHead]) -> VerifyReport:
        """What differs when the commits of some of its tables, up to these heads, are computed again."""
        return replay_tables(self._context, self.spec, heads)

    def failed_keys(self) -> tuple[FailedKey, ...]:
        """The keys that failed, as they are recorded."""
        return Known.of(self._context).own_rows(self._context, self.spec).failed

    def failures(self) -> pd.DataFrame:
        """The keys that failed, as a pandas frame: key columns, error, attempts, process_ts, retry_after."""
        return failure_frame(self.failed_keys(), self.transform_keys, self.spec.keying.key_types)

    # --- how a run goes -----------------------------------------------------------------------------------------------

    def _settle(self, run: StepRun, config: RunConfig) -> None:
        """Pin the inputs once, then make moves until settled. Later commits wait for the next run."""
        backlog = self._pinned(run, config)
        pins = backlog.pins
        while (move := next_move(backlog, self._policy(config), run.tried, config)).mode is not Mode.SETTLED:
            move.raise_refusal()
            self._make(run, backlog, move, config)
            if config.is_partial:
                return
            backlog = backlog_of(self._context, self.spec, Known.of(self._context), pins)

    def _make(self, run: StepRun, backlog: Backlog, move: Move, config: RunConfig) -> None:
        """Carry out one move."""
        match move.mode:
            case Mode.RECOMPUTE | Mode.ALL_KEYS:
                through_all_keys(run, backlog, move.mode)
            case Mode.LIMIT | Mode.FILTER:
                part_of_changes(run, backlog, config, move.mode)
            case Mode.V1:
                by_processed_keys(run, backlog)
            case Mode.CHANGES | Mode.RETRY:
                by_changes(run, backlog)
            case Mode.DEFINITION | Mode.WATERMARK:
                run.do(backlog, Work(no_keys(run.keying), move.mode, covers=covers_pins(backlog), completes=True))
            case _:
                raise AssertionError(f"a run does not decide on {move.mode}")

    def _policy(self, config: RunConfig) -> OnChange:
        """What happens to the standing rows, if the definition changed."""
        return config.on_change or self.spec.options.on_change

    def _pinned(self, run: StepRun, config: RunConfig) -> Backlog:
        """The backlog with the tables prepared and the inputs pinned. Refuses before anything is written."""
        known = Known.of(self._context)
        backlog = decided(backlog_of(self._context, self.spec, known).checked(), self._policy(config))
        ready = prepare_tables(self._context, run.attempt.files, self.spec, self._makers(), known)
        if ready is not known:
            new_chains = new_chain_heads(run.attempt.files)
            backlog = backlog_of(self._context, self.spec, ready).checked(new_chains.keys())
            backlog = decided(backlog, self._policy(config))
        run.attempt.read_upto(self._context, backlog.pins)
        return adopted(self._context, backlog)

    def _run(
        self, config: RunConfig, mode: Mode, work: Callable[[StepRun], None], on_batch: OnBatch = silent
    ) -> StepReport:
        """Do some work under the step's lease, and report it."""

        def once(attempt: Attempt) -> None:
            run = StepRun(self._context, self.spec, config, attempt, on_batch)
            try:
                work(run)
            finally:
                self._remember(run, attempt.report)

        return attempt(self._context, self.spec, StepReport(self.name, mode=mode), self._wait, once)

    def _remember(self, run: StepRun, report: StepReport) -> None:
        """Report what the run changed, for the steps that follow; frames of keys are computed when they are read."""
        frames: dict[str, Recipe] = {}
        for output in self.spec.outputs:
            if output.name in run.added and run.added[output.name][0] != run.added[output.name][1]:
                frames[output.name] = changed_keys_of(output, *run.added[output.name])
        offsets = {(self.name, table): moment for table, moment in run.offsets.items()}
        report.changes = report.changes.extend(ChangeList(KeyFrames(frames), offsets))
