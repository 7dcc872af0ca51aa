"""The steps of a store: who writes which table, in which order they run, and running several of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from seamark.errors import InvalidStep, SeamarkError, UnknownStep
from seamark.tables.context import TableContext
from seamark.tables.table import Table
from seamark.transforms.changelist import ChangeList
from seamark.transforms.declare import BatchTransform, RunConfig
from seamark.transforms.report import RunReport, StepPlan, StepReport
from seamark.transforms.run import OnBatch
from seamark.transforms.situation import Known, refuse_written_by_hand
from seamark.transforms.spec import FindTable, StepSpec, resolve
from seamark.transforms.step import Step

log = logging.getLogger("seamark.run")


def _silent(_report: StepReport, _left: int) -> None:
    pass


class Pipeline:
    """The steps of a store, by name."""

    def __init__(self, context: TableContext, find: FindTable, wait: float) -> None:
        self._context = context
        self._find = find
        self._wait = wait
        self.steps: dict[str, Step] = {}

    def add(self, declared: BatchTransform) -> Step:
        """Add a step, or refuse it with an error that names what is wrong; then nothing was added."""
        spec = resolve(declared, self._find)
        self._refuse_second(spec)
        self._refuse_cycle(spec)
        refuse_written_by_hand(spec, self._context.control.index.heads())
        step = Step(self._context, spec, self.makers, self._wait)
        self.steps[spec.name] = step
        self._context.makers.update({output.name: spec.name for output in spec.written})
        return step

    def step(self, name: str) -> Step:
        """The step of this name."""
        if name not in self.steps:
            raise UnknownStep(name, list(self.steps))
        return self.steps[name]

    def makers(self) -> dict[str, StepSpec]:
        """The step that writes each derived table."""
        return {output.name: step.spec for step in self.steps.values() for output in step.spec.written}

    def maker_of(self, table: str) -> Step | None:
        """The step that writes a table, or None."""
        spec = self.makers().get(table)
        return self.steps[spec.name] if spec else None

    def _refuse_second(self, spec: StepSpec) -> None:
        standing = self.steps.get(spec.name)
        if standing is not None:
            raise InvalidStep(
                f"there is a step '{spec.name}' already: {standing!r}. The second one was not added.",
                hint='give it another name with name="…".',
            )
        for output in spec.written:
            maker = self.makers().get(output.name)
            if maker is not None:
                raise InvalidStep(
                    f"step '{spec.name}' is to write table '{output.name}', which step '{maker.name}' writes. "
                    "It was not added.",
                    hint="let each write a table of its own, and a third step join them.",
                )

    def _refuse_cycle(self, spec: StepSpec) -> None:
        """Refuse a step that would read, by way of others, what it writes."""
        written = {output.name for output in spec.written}
        ways: list[list[StepSpec]] = [[spec]]
        makers = self.makers()
        while ways:
            way = ways.pop()
            for table in way[-1].shape.sources:
                if table in written:
                    names = " -> ".join(f"'{entry.name}'" for entry in [spec, *reversed(way)])
                    raise InvalidStep(
                        f"step '{spec.name}' would close a cycle: {names}, by way of table '{table}'. "
                        "It was not added.",
                        hint="data flows one way; break the circle at one of these steps.",
                    )
                maker = makers.get(table)
                if maker is not None and maker not in way:
                    ways.append([*way, maker])

    # --- order --------------------------------------------------------------------------------------------------------

    def in_order(self, names: Sequence[str] = ()) -> list[Step]:
        """The named steps, or all, each after those whose outputs it reads."""
        wanted = [self.step(name) for name in names] or list(self.steps.values())
        return [step for step in self._sorted() if step in wanted]

    def _sorted(self) -> list[Step]:
        ordered: list[Step] = []
        makers = self.makers()

        def visit(step: Step) -> None:
            if step in ordered:
                return
            for table in step.spec.shape.sources:
                if table in makers:
                    visit(self.steps[makers[table].name])
            ordered.append(step)

        for step in self.steps.values():
            visit(step)
        return ordered

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, names: Sequence[str], config: RunConfig, on_batch: OnBatch = _silent) -> RunReport:
        """Run steps in order, each once. Trouble of a step stands in its report, and the others go on."""
        steps, begun = self.in_order(names), time.monotonic()
        known: Known | None = Known.of(self._context)
        report = RunReport()
        for step in steps:
            done = _reported(step, config, partial(step.run_full, config, known=known, on_batch=on_batch))
            report.steps[step.name] = done
            if done.did_something:
                known = Known.of(self._context)  # what it wrote is news to those that follow
        report.seconds = time.monotonic() - begun
        return report

    def run_changelist(self, changes: ChangeList, config: RunConfig) -> RunReport:
        """Push given changes through the steps that read their tables, and those steps' changes on from there."""
        begun, report = time.monotonic(), RunReport()
        for step in self._sorted():
            if not any(table in changes.changes for table in step.inputs):
                continue
            done = _reported(step, config, partial(step.run_changelist, changes, config))
            report.steps[step.name] = done
            changes = changes.extend(done.changes)
        report.seconds = time.monotonic() - begun
        return report

    def plan(self, names: Sequence[str]) -> dict[str, StepPlan]:
        """What a run of these steps would do now, by name in order; what one step changes is news to the next."""
        known = Known.of(self._context)
        return {step.name: step.plan(known) for step in self.in_order(names)}

    def tables(self) -> Iterator[Table]:
        """The tables that steps write beside their declared outputs."""
        for step in self.steps.values():
            if step.spec.keys_table is not None:
                source = step.spec.keys_table
                yield Table(self._context, source.name, source.schema)

    def decorate(self, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that adds its function as a step and gives it back as it was."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add(BatchTransform(function, **options))
            return function

        return decorate


def _reported(step: Step, config: RunConfig, run: Callable[[], StepReport]) -> StepReport:
    """What a run did; what stopped it stands in the report, unless the first trouble is to stop everything."""
    begun = time.monotonic()
    try:
        return run()
    except Exception as error:
        if config.fail_fast:
            raise
        level = logging.WARNING if isinstance(error, SeamarkError) else logging.ERROR
        told = {"step": step.name, "stopped_by": type(error).__name__}
        log.log(level, "step '%s' could not run: %s", step.name, error, extra={"seamark": told})
        return StepReport(step.name, mode="failed", error=error, seconds=time.monotonic() - begun)
