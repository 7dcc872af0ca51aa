"""What `ls`, `status` and `plan` tell of steps: what they read and write, how far they are, and what waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.cli.facts.tables import RunLine, run_lines
from seamark.control import TableHead
from seamark.diffs.diff import Diff
from seamark.errors import UnknownStep
from seamark.store import DataStore
from seamark.transforms.diagnosis import StepFacts, likely_cause
from seamark.transforms.report import InputPlan
from seamark.transforms.step import Step


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a listing. `kind` says what its function is made for: `python`, `pandas`, `sql` or `diff`."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keys: tuple[str, ...]


def list_steps(store: DataStore) -> tuple[StepLine, ...]:
    """All steps, each after those whose outputs it reads."""
    return tuple(
        StepLine(step.name, step.spec.definition.kind, step.inputs, step.outputs, step.transform_keys)
        for step in store.steps().values()
    )


def chosen_steps(store: DataStore, names: Sequence[str]) -> list[Step | Diff]:
    """The named steps, or all, in order; a name that is none is refused."""
    for name in names:
        if name not in store.step_names():
            raise UnknownStep(name, store.step_names())
    return [step for step in store.steps().values() if not names or step.name in names]


# --- how far they are -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputState:
    """A step on one of its inputs. Offset, time and age are None where it has never been, or after a reset."""

    table: str
    record_offset: int | None
    offset_time: datetime | None
    age_seconds: float | None
    pending_records: int
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class StepState:
    """How a step stands: its inputs, its failed keys, its newest run, and the likely cause of it all."""

    name: str
    inputs: tuple[InputState, ...]
    pending_records: int
    lag_seconds: float
    failed_keys: int
    last_run: RunLine | None
    cause: str
    needs_attention: bool
    advice: str


def step_states(store: DataStore) -> tuple[StepState, ...]:
    """How every step stands now."""
    steps = store.steps()
    if not steps:
        return ()
    now = store.clock.now().timestamp()
    heads = store.control.index.heads()
    failed = store.control.index.failed_key_counts()
    newest = {each.step: each.newest for each in store.control.index.run_totals(list(steps))}
    known = {
        (line["transformation_id"], line["input_table_name"]): InputState(
            table=line["input_table_name"],
            record_offset=line["record_offset"],
            offset_time=_time(line["update_ts_offset"]),
            age_seconds=line["offset_age_seconds"],
            pending_records=line["pending_records"],
            lag_seconds=line["lag_seconds"],
        )
        for line in store.offset_table.get_statistics()
    }
    states = []
    for step in steps.values():
        inputs = tuple(known.get((step.name, table)) or _never_read(store, table, heads, now) for table in step.inputs)
        run = newest.get(step.name)
        last_run = run_lines([run])[0] if run else None
        states.append(_state(step.name, inputs, failed.get(step.name, 0), last_run, now))
    return tuple(states)


def _never_read(store: DataStore, table: str, heads: Mapping[str, TableHead], now: float) -> InputState:
    """An input that a step has never read: all that it has is pending, since its first record came in."""
    head = heads.get(table)
    if head is None or head.last_offset is None:
        return InputState(table, None, None, None, 0, 0.0)
    first = store.control.index.commit_holding(table, 0)[0]
    lag = max(0.0, now - first.system_time.timestamp())
    return InputState(table, None, None, None, head.last_offset + 1, lag)


def _state(
    name: str, inputs: Sequence[InputState], failed_keys: int, last_run: RunLine | None, now: float
) -> StepState:
    pending, lag = sum(entry.pending_records for entry in inputs), max(entry.lag_seconds for entry in inputs)
    ages = [entry.age_seconds for entry in inputs if entry.age_seconds is not None]
    cause = likely_cause(
        StepFacts(
            pending_records=pending,
            lag_seconds=lag,
            offset_age_seconds=max(ages, default=None),
            last_run_started=last_run.started.timestamp() if last_run else None,
            last_run_outcome=last_run.outcome if last_run else None,
            failed_keys=failed_keys,
            oldest_pending_at=now - lag if pending else None,
        )
    )
    return StepState(
        name=name,
        inputs=tuple(inputs),
        pending_records=pending,
        lag_seconds=lag,
        failed_keys=failed_keys,
        last_run=last_run,
        cause=cause.value,
        needs_attention=cause.needs_attention,
        advice=cause.sentence,
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


# --- what a run would do ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a run of a step would do. What the steps in `upstream` write comes on top of it."""

    step: str
    mode: str
    reason: str
    keys: int
    keys_are_exact: bool
    batches: int
    pending_records: int
    inputs: tuple[InputPlan, ...]
    outputs: tuple[str, ...]
    failed_due: int
    failed_waiting: int
    upstream: tuple[str, ...]

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing, whatever the others do."""
        return self.mode == "settled" and not self.upstream


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do, step after step."""

    steps: tuple[PlannedStep, ...]


def make_plan(store: DataStore, names: Sequence[str]) -> Plan:
    """What a run of these steps, or of all, would do now."""
    steps = chosen_steps(store, names)
    plans = store.plan(*[step.name for step in steps]) if steps else {}
    maker = {table: step.name for step in steps for table in step.outputs}
    busy: set[str] = set()
    planned = []
    for step in steps:
        plan = plans[step.name]
        upstream = tuple(dict.fromkeys(maker[table] for table in step.inputs if maker.get(table) in busy))
        if plan.mode not in ("settled", "refused") or upstream:
            busy.add(step.name)
        planned.append(
            PlannedStep(
                step=plan.step,
                mode=plan.mode,
                reason=plan.reason.strip(),
                keys=plan.keys,
                keys_are_exact=plan.keys_are_exact,
                batches=plan.batches,
                pending_records=plan.pending_records,
                inputs=plan.inputs,
                outputs=plan.outputs,
                failed_due=plan.failed_due,
                failed_waiting=plan.failed_waiting,
                upstream=upstream,
            )
        )
    return Plan(tuple(planned))
