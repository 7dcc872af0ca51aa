"""The steps of a store: who writes which table, in which order they run, and running several of them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from seamark.control import FailedKey, LiveRun, Mode, Position, TableHead, outputs_of_lease
from seamark.errors import InvalidStep, NoSuchRow, SeamarkError, UnknownStep, moved_offsets_of_diff
from seamark.ledger.verify import OnBlock, VerifyReport
from seamark.steps.past.replay import count_without_step
from seamark.steps.rows.changelist import ChangeList, not_read
from seamark.steps.running.commit import Maker
from seamark.steps.running.observe import OnBatch, silent
from seamark.steps.running.prepare import all_tables
from seamark.steps.running.report import RunReport, StepPlan, StepReport
from seamark.steps.running.run_config import RunConfig
from seamark.steps.standing.known import Known, refuse_written_by_hand
from seamark.steps.standing.moves import Move
from seamark.steps.standing.own_rows import adopt_rows, adoptable
from seamark.tables.care.chain_facts import takes_once_as
from seamark.tables.context import TableContext
from seamark.tables.kinds import DIFF, kind_of
from seamark.tables.read.source import TableSource
from seamark.tables.schema.growth import grow_declared
from seamark.tables.table import Table
from seamark.texts import MOST_LOGGED, record_of, storable

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("seamark.run")

OnStep = Callable[[str], None]
"""Called with a step's name before it is checked for work, and run if there is any."""


class AnyStep(Protocol):
    """What a pipeline knows of a step, whatever it does: its tables, how to run it, and what became of it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def spec(self) -> Maker:
        """The step as its commits see it."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables that it reads, each once."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The tables that it writes."""
        ...

    @property
    def transform_keys(self) -> tuple[str, ...]:
        """The columns by which it is computed."""
        ...

    @property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of these columns."""
        ...

    def run_full(
        self, config: RunConfig | None = None, *, known: Known | None = None, on_batch: OnBatch = silent
    ) -> StepReport:
        """Bring its outputs up to its inputs."""
        ...

    def run_changelist(self, changes: ChangeList, config: RunConfig | None = None) -> StepReport:
        """Compute the keys that these changes of inputs lead to."""
        ...

    def retry(self, config: RunConfig | None = None, keys: Any = None) -> StepReport:
        """Compute failed keys now, all or those of a frame, whether they are due or not."""
        ...

    def give_up(self, keys: Any = None) -> int:
        """Forget failed keys, all or those of a frame, and return how many."""
        ...

    def failures(self) -> pd.DataFrame:
        """The keys that failed."""
        ...

    def failed_keys(self) -> tuple[FailedKey, ...]:
        """The keys that failed, as they are recorded."""
        ...

    def may_wait(self, table: str) -> float:
        """How many seconds changes of an input may wait on purpose."""
        ...

    def plan(self, known: Known | None = None) -> StepPlan:
        """What a run would do now."""
        ...

    def next_move(self, known: Known | None = None) -> Move:
        """What a run would do first, and why."""
        ...

    def refuse_moved_offsets(self) -> None:
        """Refuse to have its offsets moved by hand, if that would make its tables wrong."""
        ...

    def filter_types(self) -> dict[str, pa.DataType]:
        """The columns that a run may be filtered by, with their types; refuses if a run must take all."""
        ...

    @property
    def too_late(self) -> int:
        """How many records came too late to have an effect, in all runs together."""
        ...

    def explain_missing(self, table: str, key: Mapping[str, Any], missing: NoSuchRow) -> NoSuchRow:
        """The error that one of its tables has no row with a key, with what the step knows of that."""
        ...

    def replay(self, heads: Mapping[str, TableHead]) -> VerifyReport:
        """What differs when the commits of some of its tables, up to these heads, are computed again."""
        ...


class Pipeline:
    """The steps of a store, by name."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self.steps: dict[str, AnyStep] = {}

    def include(self, step: AnyStep) -> None:
        """Add a step, or refuse it with nothing added."""
        self._refuse_second(step.spec)
        self._refuse_cycle(step.spec)
        refuse_written_by_hand(step.spec, self._context.control.index.heads())
        self.steps[step.name] = step
        self._context.makers.update({output.name: step.name for output in step.spec.written})

    def exclude(self, step: AnyStep) -> None:
        """Remove a step again, because a later part of its declaration was refused."""
        del self.steps[step.name]
        for output in step.spec.written:
            self._context.makers.pop(output.name, None)

    def step(self, name: str) -> AnyStep:
        """The step of this name."""
        if name not in self.steps:
            raise UnknownStep(name, list(self.steps))
        return self.steps[name]

    def inputs_to_move(self, name: str) -> tuple[str, ...]:
        """The inputs of a step whose offsets may be moved by hand, or its refusal; none if there is no such step."""
        step = self.steps.get(name)
        if step is None:
            self._refuse_foreign_diff(name)
            return ()
        step.refuse_moved_offsets()
        adopt_rows(self._context, step.spec)
        return step.inputs

    def _refuse_foreign_diff(self, name: str) -> None:
        """Refuse to move the offsets of a diff that another program declares: its state would hold records twice."""
        for table in kind_of(DIFF).fills(name, ()):
            head = self._context.control.index.head(table)
            if head is None or head.transform_block is None:
                continue
            if takes_once_as(self._context.files(table).block(head.transform_block).event, name):
                raise moved_offsets_of_diff(name)

    def may_wait(self, step: str, table: str) -> float:
        """How many seconds changes of an input may wait on purpose before a step takes them."""
        return self.steps[step].may_wait(table) if step in self.steps else 0.0

    def outputs_keys(self) -> dict[str, str]:
        """The outputs of each step, as the control database names them."""
        return {name: step.spec.outputs_key for name, step in self.steps.items()}

    def adopted_from(self, name: str, positions: Sequence[Position]) -> str | None:
        """The outputs whose recorded rows a step without rows of its own takes over, or None."""
        adoption = adoptable(self._context, self.steps[name].spec, self._context.control.index.heads(), positions)
        return adoption.from_outputs if adoption else None

    def failed_key_counts(self) -> dict[str, int]:
        """How many failed keys each step has."""
        known = None
        counted, found = self._context.control.index.failed_key_counts(), {}
        for name, step in self.steps.items():
            found[name] = counted.get((name, step.spec.outputs_key), 0)
            if found[name] == 0 and any(other == name for other, _ in counted):
                known = known or Known.of(self._context)
                found[name] = len(known.own_rows(self._context, step.spec).failed)
        return found

    def live_runs(self) -> list[LiveRun]:
        """The live runs, without those of other programs' steps of the same name."""
        ours, live = self.outputs_keys(), self._context.control.live.all()
        said = [(run, outputs_of_lease(run.lease.name)) for run in live]
        return [run for run, outputs in said if outputs in (None, ours.get(run.step, outputs))]

    def makers(self) -> dict[str, Maker]:
        """The step that writes each derived table."""
        return {output.name: step.spec for step in self.steps.values() for output in step.spec.written}

    def maker_of(self, table: str) -> AnyStep | None:
        """The step that writes a table, or may have written it before it was declared as it is now, or None."""
        spec = self._owners().get(table)
        return self.steps[spec.name] if spec else None

    def _owners(self) -> dict[str, Maker]:
        """The step that each table name is reserved for, whether the step writes it now or not."""
        return {output.name: step.spec for step in self.steps.values() for output in step.spec.may_have_written}

    def _refuse_second(self, spec: Maker) -> None:
        standing = self.steps.get(spec.name)
        if standing is not None:
            raise InvalidStep(
                f"there is a step '{spec.name}' already: {standing!r}. The second one was not added.",
                hint='give it another name with name="…".',
            )
        owners = self._owners()
        for output in spec.may_have_written:
            if output.name in owners:
                raise _taken(output.name, spec, owners[output.name])

    def _refuse_cycle(self, spec: Maker) -> None:
        """Refuse a step that would read what it writes, directly or through other steps."""
        written = {output.name for output in spec.written}
        paths: list[list[Maker]] = [[spec]]
        makers = self.makers()
        while paths:
            path = paths.pop()
            for table in path[-1].sources:
                if table in written:
                    names = " -> ".join(f"'{entry.name}'" for entry in [spec, *reversed(path)])
                    raise InvalidStep(
                        f"step '{spec.name}' would close a cycle: {names}, through table '{table}'. It was not added.",
                        hint="data flows one way; break the cycle at one of these steps.",
                    )
                maker = makers.get(table)
                if maker is not None and maker not in path:
                    paths.append([*path, maker])

    # --- order --------------------------------------------------------------------------------------------------------

    def in_order(self, names: Sequence[str] = ()) -> list[AnyStep]:
        """The named steps, or all, each after those whose outputs it reads."""
        wanted = [self.step(name) for name in names] or list(self.steps.values())
        return [step for step in self._sorted() if step in wanted]

    def _sorted(self) -> list[AnyStep]:
        ordered: list[AnyStep] = []
        makers = self.makers()

        def visit(step: AnyStep) -> None:
            if step in ordered:
                return
            for table in step.inputs:
                if table in makers:
                    visit(self.steps[makers[table].name])
            ordered.append(step)

        for step in self.steps.values():
            visit(step)
        return ordered

    # --- running ------------------------------------------------------------------------------------------------------

    def run(
        self, names: Sequence[str], config: RunConfig, on_batch: OnBatch = silent, on_step: OnStep | None = None
    ) -> RunReport:
        """Run steps in order, each once. A step's error is in its report, and the others continue."""
        steps, begun = self.in_order(names), time.monotonic()
        known: Known | None = Known.of(self._context)
        report = RunReport()
        for step in steps:
            if on_step is not None:
                on_step(step.name)
            done = reported(step.name, config, partial(step.run_full, config, known=known, on_batch=on_batch))
            report.steps[step.name] = done
            if done.did_something:
                known = Known.of(self._context)  # what it wrote is input for the steps that follow
        report.seconds = time.monotonic() - begun
        return report

    def grow_others(self, declared: Sequence[TableSource]) -> None:
        """Commit columns that the program adds to tables that no step reads or writes; a step does so for its own.

        What prevents it is logged: the steps have run, and the next run or write tries again.
        """
        touched = {source.name for step in self.steps.values() for source in all_tables(step.spec)}
        others = [source for source in declared if source.name not in touched]
        try:
            if others:
                grow_declared(others, self._context.control.index.heads())
        except SeamarkError as error:
            log.warning("declared columns were not added to all of %s: %s", [other.name for other in others], error)

    def run_changelist(self, changes: ChangeList, config: RunConfig) -> RunReport:
        """Run the steps that read the changed tables, then the steps that read what those changed, and so on."""
        begun, report = time.monotonic(), RunReport()
        self._refuse_unread(changes)
        for step in self._sorted():
            if _takes_once(step) or not any(table in changes.changes for table in step.inputs):
                continue  # one that takes each record once waits for its own run
            done = reported(step.name, config, partial(step.run_changelist, changes.of(step.inputs), config))
            report.steps[step.name] = done
            changes = changes.extend(done.changes)
        report.seconds = time.monotonic() - begun
        return report

    def _refuse_unread(self, changes: ChangeList) -> None:
        """Refuse tables that no step reads; derived ones may be there, because steps hand on their outputs."""
        read = list(dict.fromkeys(table for s in self._sorted() if not _takes_once(s) for table in s.inputs))
        makers = self.makers()
        for table in changes.changes:
            if table not in read and table not in makers:
                diff = next((step.name for step in self.steps.values() if table in step.inputs), None)
                why = "no step reads it" if diff is None else f"only diff '{diff}' reads it, record by record"
                raise not_read(table, why, read)

    def plan(self, names: Sequence[str]) -> dict[str, StepPlan]:
        """What a run of these steps would do now, by name in order; what one step changes is news to the next."""
        known = Known.of(self._context)
        return {step.name: step.plan(known) for step in self.in_order(names)}

    def next_moves(self) -> dict[str, Move]:
        """What a run of each step would do first, by name in order."""
        known = Known.of(self._context)
        return {step.name: step.next_move(known) for step in self.in_order([])}

    def replay(self, chains: Mapping[str, TableHead], on_block: OnBlock | None = None) -> VerifyReport:
        """What differs when derived tables are computed again: all tables of a step together, as it made them."""
        report, by_step = VerifyReport(0), defaultdict[str, dict[str, TableHead]](dict)
        for name, head in chains.items():
            maker = self.maker_of(name)
            if maker is not None:
                by_step[maker.name][name] = head
            else:  # its step was removed or renamed, or it is a root table, which has no such blocks
                report += count_without_step(self._context, name, head)
        for place, (step, heads) in enumerate(by_step.items()):
            if on_block is not None:
                on_block(f"{step}, computing its tables again", place, len(by_step))
            report += self.steps[step].replay(heads)
        return report

    def tables(self) -> Iterator[Table]:
        """The tables that steps write beside their declared outputs."""
        for step in self.steps.values():
            for source in step.spec.written[len(step.spec.outputs) :]:
                yield Table(self._context, source.name, source.schema)


def _takes_once(step: AnyStep) -> bool:
    return kind_of(step.spec.definition.kind).takes_once


def _taken(table: str, second: Maker, first: Maker) -> InvalidStep:
    """The refusal of a step because another one writes the same table or reserves its name."""
    ours, theirs = ([output.name for output in maker.written] for maker in (second, first))
    wants = f"is to write table '{table}'" if table in ours else f"reserves the name of table '{table}'"
    has = f"which step '{first.name}' writes" if table in theirs else f"whose name is reserved for step '{first.name}'"
    if table in ours and table in theirs:
        hint = "let each write a table of its own, and a third step join them."
    else:
        hint = "a diff reserves the names of the tables that it would write with other options; take another name."
    return InvalidStep(f"step '{second.name}' {wants}, {has}. It was not added.", hint=hint)


def reported(step: str, config: RunConfig, run: Callable[[], StepReport]) -> StepReport:
    """The report of a step's run, with the error that stopped it in it; with `fail_fast` the error is raised."""
    begun = time.monotonic()
    try:
        return run()
    except Exception as error:
        if config.fail_fast:
            raise
        level = logging.WARNING if isinstance(error, SeamarkError) else logging.ERROR
        fields = {"step": step, "stopped_by": type(error).__name__}
        text = storable(record_of(error), MOST_LOGGED)
        log.log(level, "step '%s' could not run: %s", step, text, extra={"seamark": fields})
        return StepReport(step, mode=Mode.FAILED, error=error, seconds=time.monotonic() - begun)
