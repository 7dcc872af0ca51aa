"""What `run` and `retry` tell: counts a step, the keys that failed, and what stopped a step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from seamark.cli.facts.sinks import SinkResult, sink_result
from seamark.cli.facts.trouble import Trouble, trouble_of
from seamark.cli.failures import without_secrets
from seamark.store import DataStore
from seamark.transforms.report import RunReport, StepReport

FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class KeyFailure:
    """A key that could not be computed, and why."""

    key: Mapping[str, object]
    error: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a run of one step did. `waiting_keys` failed before and were not due in this run."""

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

    @property
    def ok(self) -> bool:
        """Whether nothing stopped it and no key failed."""
        return self.error is None and self.failed == 0

    @property
    def did_something(self) -> bool:
        """Whether it committed anything or met trouble."""
        return self.batches > 0 or not self.ok


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did: `empty_inputs` are tables that steps read and that have no record yet."""

    ok: bool
    seconds: float
    steps: tuple[StepResult, ...]
    sinks: tuple[SinkResult, ...]
    folded: tuple[str, ...]
    empty_inputs: tuple[str, ...]

    @property
    def did_something(self) -> bool:
        """Whether any step or sink had work."""
        return any(step.did_something for step in self.steps) or any(sink.did_something for sink in self.sinks)


def run_result(store: DataStore, report: RunReport) -> RunResult:
    """A run over several steps and sinks as it is told."""
    heads = store.control.index.heads()
    made = {table for step in store.steps().values() for table in step.outputs}
    roots = dict.fromkeys(table for name in report.steps for table in store.step(name).inputs if table not in made)
    empty = tuple(name for name in roots if name not in heads or heads[name].last_offset is None)
    steps = tuple(step_result(store, done) for done in report.steps.values())
    sinks = tuple(sink_result(sent) for sent in report.sinks.values())
    return RunResult(report.ok, round(report.seconds, 3), steps, sinks, report.folded, empty)


def step_result(store: DataStore, report: StepReport) -> StepResult:
    """A run of one step as it is told."""
    standing = store.control.index.failed_key_counts().get(report.step, 0)
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
    )
