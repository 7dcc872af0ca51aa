"""What `ls`, `status` and `plan` show of steps: what they read and write, how far they are, and what waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.control import LiveRun, Mode, RunRecord, TableHead
from seamark.diffs.diff import Diff
from seamark.errors import UnknownStep
from seamark.facts.live import RunningLine, running_lines, with_killed
from seamark.facts.sinks import PlannedSink, planned_sinks
from seamark.facts.tables import RunLine, run_lines
from seamark.steps.running.report import InputPlan
from seamark.steps.standing.diagnosis import StepFacts, advice, likely_cause
from seamark.steps.standing.moves import Move
from seamark.steps.standing.offsets import OffsetStatistics
from seamark.store import DataStore
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
        StepLine(step.name, step.spec.definition.kind, step.inputs, step.outputs, _keys_of(step))
        for step in store.steps().values()
    )


def _keys_of(step: Step | Diff) -> tuple[str, ...]:
    """The columns that a step is computed by; where these are hidden, the key of what it writes."""
    (output, *_) = step.spec.outputs
    hidden = {column.name for column in output.schema.hidden}
    return output.schema.key if hidden & set(step.transform_keys) else step.transform_keys


def chosen_steps(store: DataStore, names: Sequence[str]) -> list[Step | Diff]:
    """The named steps, or all, in order; an unknown name is refused."""
    known, sinks = store.step_names(), list(store.sinks())
    store.refuse_left_out(names)
    for name in names:
        if name not in known:
            raise UnknownStep(name, [*known, *sinks], "Steps and sinks" if sinks else "Steps")
    return [step for step in store.steps().values() if not names or step.name in names]


def chosen(store: DataStore, names: Sequence[str]) -> tuple[list[str], list[Step | Diff]]:
    """The sinks and the steps that some names mean, all of both without any; an unknown name is refused."""
    sinks = [name for name in store.sinks() if not names or name in names]
    others = [name for name in names if name not in sinks]
    return sinks, chosen_steps(store, others) if others or not names else []


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
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of a step: its inputs, its failed keys, its newest run, and the likely cause of it all.

    `next` is the mode in which a run would begin, and `next_reason` why: what `plan` says. `too_late` is how many
    records of a diff's logs came too late for their visit, in all runs together.
    """

    name: str
    inputs: tuple[InputState, ...]
    pending_records: int
    lag_seconds: float
    failed_keys: int
    last_run: RunLine | None
    cause: str
    needs_attention: bool
    advice: str
    running: RunningLine | None
    next: str
    next_reason: str
    too_late: int = 0


def step_states(store: DataStore, live: Sequence[LiveRun], at: datetime) -> tuple[StepState, ...]:
    """The state of every step at a moment, with the runs that have begun and not ended."""
    steps, moves = store.steps(), store.next_moves()
    if not steps:
        return ()
    now = at.timestamp()
    heads = store.control.index.heads()
    failed = store.failed_key_counts()
    newest = {each.step: each.newest for each in store.run_totals()}
    running = {run.step: run for run in running_lines(live, at)}
    known = {
        (line["transformation_id"], line["input_table_name"]): line for line in store.offset_table.get_statistics()
    }
    states = []
    for step in steps.values():
        inputs = tuple(_input_state(store, known.get((step.name, table)), table, heads, now) for table in step.inputs)
        ended = [run for run in (newest.get(step.name),) if run is not None]
        last = next(iter(with_killed(ended, [run for run in live if run.step == step.name], newest=1)), None)
        move, failures = moves[step.name], failed.get(step.name, 0)
        states.append(_state(store, step, inputs, move, failures, last, running.get(step.name), now))
    return tuple(states)


def _input_state(
    store: DataStore, line: OffsetStatistics | None, table: str, heads: Mapping[str, TableHead], now: float
) -> InputState:
    head = heads.get(table)
    if head is None or head.last_offset is None:
        return InputState(table, None, None, None, 0, 0.0, is_empty=True)
    if line is None:  # never read: all that it has is pending, since its first record came in
        first = store.control.index.commit_holding(table, 0)[0]
        lag = max(0.0, now - first.system_time.timestamp())
        return InputState(table, None, None, None, head.last_offset + 1, lag)
    return InputState(
        table=table,
        record_offset=line["record_offset"],
        offset_time=_time(line["update_ts_offset"]),
        age_seconds=line["offset_age_seconds"],
        pending_records=line["pending_records"],
        lag_seconds=line["lag_seconds"],
    )


def _state(
    store: DataStore,
    step: Step | Diff,
    inputs: Sequence[InputState],
    move: Move,
    failed_keys: int,
    last: RunRecord | None,
    running: RunningLine | None,
    now: float,
) -> StepState:
    pending, lag = sum(entry.pending_records for entry in inputs), max(entry.lag_seconds for entry in inputs)
    on_purpose = sum(one.pending_records for one in inputs if step.may_wait(one.table) and one.lag_seconds == 0)
    ages = [entry.age_seconds for entry in inputs if entry.age_seconds is not None]
    oldest = now - lag if pending else None
    empty = [entry.table for entry in inputs if entry.is_empty]
    facts = StepFacts(
        pending_records=pending - on_purpose,
        waiting_on_purpose=on_purpose,
        lag_seconds=lag,
        offset_age_seconds=max(ages, default=None),
        last_run_started=last.started if last else None,
        last_run_outcome=last.outcome if last else None,
        failed_keys=failed_keys,
        oldest_pending_at=oldest,
        modes_since=() if oldest is None else store.control.index.run_modes(step.name, oldest, step.spec.outputs_key),
        inputs_are_empty=len(empty) == len(inputs),
        next_move=move,
        is_running=running is not None,
        lacks_position=any(one.record_offset is None and one.pending_records for one in inputs),
    )
    cause = likely_cause(facts)
    return StepState(
        name=step.name,
        inputs=tuple(inputs),
        pending_records=pending,
        lag_seconds=lag,
        failed_keys=failed_keys,
        last_run=run_lines([last])[0] if last else None,
        cause=cause.value,
        needs_attention=cause.needs_attention,
        advice=advice(cause, step.name, facts, empty, how_to_load(store, empty)),
        running=running,
        next=move.mode,
        next_reason=move.reason.strip(),
        too_late=step.too_late,
    )


def how_to_load(store: DataStore, tables: Sequence[str]) -> str:
    """How empty tables are filled: by running the steps that make them, or by a program that writes to them."""
    makers = dict.fromkeys(
        step.name for step in store.steps().values() if any(table in step.outputs for table in tables)
    )
    made = {table for name in makers for table in store.step(name).outputs}
    advice = [f"`seamark run {' '.join(makers)}` makes {', '.join(t for t in tables if t in made)}"] if makers else []
    if by_hand := [table for table in tables if table not in made]:
        advice.append(f"load {', '.join(by_hand)} with a program that calls `upsert`, `append` or `replace`")
        if (store.config.folder / "load.py").is_file():  # as `seamark init` makes one
            advice[-1] += ", such as `python load.py`"
    return "; ".join(advice)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


# --- what a run would do ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a run of a step would do. What the steps in `upstream` write comes on top of it."""

    step: str
    mode: Mode
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
    keys_are_estimated: bool

    @property
    def is_refused(self) -> bool:
        """Whether the step would refuse to run."""
        return self.mode is Mode.REFUSED

    @property
    def is_idle(self) -> bool:
        """Whether a run would do nothing now: it is settled, or refuses."""
        return self.mode.is_idle

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing, whatever the others do."""
        return self.mode is Mode.PAUSED or (self.mode is Mode.SETTLED and not self.upstream)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do, step after step, and what the sinks would carry then."""

    steps: tuple[PlannedStep, ...]
    sinks: tuple[PlannedSink, ...]

    @property
    def is_refused(self) -> bool:
        """Whether a step would refuse to run."""
        return any(step.is_refused for step in self.steps)

    @property
    def has_work(self) -> bool:
        """Whether a run would do anything."""
        steps = [not step.is_refused and not step.is_settled for step in self.steps]
        return any([*steps, *(sink.has_work for sink in self.sinks)])


def make_plan(store: DataStore, names: Sequence[str]) -> Plan:
    """What a run of these steps and sinks, or of all, would do now."""
    sinks, steps = chosen(store, names)
    plans = store.plan(*[step.name for step in steps]) if steps else {}
    maker = {table: step.name for step in steps for table in step.outputs}
    busy: set[str] = set()
    planned = []
    for step in steps:
        plan = plans[step.name]
        upstream = tuple(dict.fromkeys(maker[table] for table in step.inputs if maker.get(table) in busy))
        if plan.mode is not Mode.PAUSED and (not plan.mode.is_idle or upstream):
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
                keys_are_estimated=plan.keys_are_estimated,
            )
        )
    return Plan(tuple(planned), planned_sinks(store, sinks, busy))
