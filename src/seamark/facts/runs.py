"""What `run` and `retry` show: counts per step, the keys that failed, and what stopped a step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from seamark.facts.sinks import SinkResult, sink_result
from seamark.facts.steps import how_to_load
from seamark.facts.trouble import Trouble, trouble_of
from seamark.steps.running.report import RunReport, StepReport
from seamark.store import DataStore
from seamark.texts import without_secrets

FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class KeyFailure:
    """A key that could not be computed, and why."""

    key: Mapping[str, object]
    error: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a run of one step did. `waiting_keys` failed before, and this run did not take them.

    `too_late` is how many records of a diff's logs came too late for their visit.
    """

    step: str
    mode: str
    keys: int
    batches: int
    rows_in: int
    appended: int
    corrected: int
    retracted: int
    failed: int
    waiting_keys: int
    seconds: float
    failures: tuple[KeyFailure, ...]
    error: Trouble | None
    too_late: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing stopped it and no key failed."""
        return self.error is None and self.failed == 0

    @property
    def did_something(self) -> bool:
        """Whether it committed anything or met trouble."""
        return self.batches > 0 or not self.ok


@dataclass(frozen=True, slots=True)
class NotFolded:
    """A table whose tail has grown long and that was not folded, and why."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A view or handler that was left out when it was loaded, and its errors."""

    name: str
    errors: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did, and whether all is well: nothing stopped or was left out, and no key of its steps is failed.

    `left_out` are views and handlers with errors. `empty_inputs` are tables that steps read and that have no record
    yet; `how_to_load` says how they get some.
    """

    ok: bool
    seconds: float
    steps: tuple[StepResult, ...]
    sinks: tuple[SinkResult, ...]
    folded: tuple[str, ...]
    not_folded: tuple[NotFolded, ...]
    empty_inputs: tuple[str, ...]
    how_to_load: str | None
    left_out: tuple[LeftOut, ...] = ()

    @property
    def did_something(self) -> bool:
        """Whether any step or sink had work."""
        return any(step.did_something for step in self.steps) or any(sink.did_something for sink in self.sinks)


def run_result(store: DataStore, report: RunReport) -> RunResult:
    """A run over several steps and sinks as it is reported."""
    heads = store.control.index.heads()
    made = {table for step in store.steps().values() for table in step.outputs}
    roots = dict.fromkeys(table for name in report.steps for table in store.step(name).inputs if table not in made)
    empty = tuple(name for name in roots if name not in heads or heads[name].last_offset is None)
    steps = tuple(step_result(store, done) for done in report.steps.values())
    sinks = tuple(sink_result(sent) for sent in report.sinks.values())
    return RunResult(
        ok=report.ok and not any(step.waiting_keys for step in steps),
        seconds=round(report.seconds, 3),
        steps=steps,
        sinks=sinks,
        folded=report.folded,
        not_folded=tuple(NotFolded(table, reason) for table, reason in report.not_folded.items()),
        empty_inputs=empty,
        how_to_load=how_to_load(store, empty) if empty else None,
        left_out=tuple(LeftOut(name, errors) for name, errors in report.left_out.items()),
    )


def step_result(store: DataStore, report: StepReport) -> StepResult:
    """A run of one step as it is reported."""
    standing = store.failed_key_counts().get(report.step, 0)
    return StepResult(
        step=report.step,
        mode=report.mode,
        keys=report.keys,
        batches=report.batches,
        rows_in=report.rows_in,
        appended=report.appended,
        corrected=report.corrected,
        retracted=report.retracted,
        failed=report.failed,
        waiting_keys=max(0, standing - report.failed),
        seconds=round(report.seconds, 3),
        failures=tuple(KeyFailure(json.loads(key), without_secrets(error)) for key, error in report.failures),
        error=trouble_of(report.error) if report.error is not None else None,
        too_late=report.too_late,
    )
