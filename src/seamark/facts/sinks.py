"""What `ls`, `status` and `run` show of sinks: where they lead, what waits for them, and what a run has sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from seamark.facts.trouble import Trouble, trouble_of
from seamark.sinks.report import SinkReport
from seamark.store import DataStore


@dataclass(frozen=True, slots=True)
class SinkLine:
    """One sink of a listing: the table that it carries, and where to."""

    name: str
    table: str
    target: str


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How far a sink is. `position` is None where nothing was sent yet; `error` is what stopped it from sending."""

    name: str
    table: str
    target: str
    position: int | None
    pending_blocks: int
    pending_records: int
    lag_seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class PlannedSink:
    """What a run of a sink would carry, and why. What the steps in `upstream` write comes on top of it."""

    sink: str
    table: str
    target: str
    mode: str
    reason: str
    blocks: int
    records: int
    after: int | None
    upto: int | None
    upstream: tuple[str, ...]
    has_work: bool


@dataclass(frozen=True, slots=True)
class SinkResult:
    """What a run of one sink did."""

    sink: str
    table: str
    blocks: int
    records: int
    position: int | None
    seconds: float
    error: Trouble | None

    @property
    def ok(self) -> bool:
        """Whether nothing stopped it."""
        return self.error is None

    @property
    def did_something(self) -> bool:
        """Whether it sent a block or met trouble."""
        return self.blocks > 0 or not self.ok


def list_sinks(store: DataStore) -> tuple[SinkLine, ...]:
    """All sinks; no target is asked."""
    return tuple(SinkLine(sink.name, sink.table, sink.where) for sink in store.sinks().values())


def planned_sinks(store: DataStore, names: Sequence[str], busy: Collection[str]) -> tuple[PlannedSink, ...]:
    """What a run of these sinks would carry; no target is asked. `busy` are the steps that are about to write."""
    plans = store.plan_sinks(*names) if names else {}
    return tuple(
        PlannedSink(
            sink=plan.sink,
            table=plan.table,
            target=plan.target,
            mode=plan.mode.value,
            reason=plan.reason,
            blocks=plan.blocks,
            records=plan.records,
            after=plan.after,
            upto=plan.upto,
            upstream=(plan.maker,) if plan.maker in busy and plan.maker is not None else (),
            has_work=not plan.is_settled or plan.maker in busy,
        )
        for plan in plans.values()
    )


def sink_statuses(store: DataStore) -> tuple[SinkStatus, ...]:
    """How far every sink is now; no target is asked."""
    found = [(sink, sink.state()) for sink in store.sinks().values()]
    return tuple(
        SinkStatus(
            name=sink.name,
            table=sink.table,
            target=sink.where,
            position=state.position,
            pending_blocks=state.pending_blocks,
            pending_records=state.pending_records,
            lag_seconds=round(state.lag_seconds, 3),
            error=sink.last_error() if state.pending_blocks else None,
        )
        for sink, state in found
    )


def sink_result(report: SinkReport) -> SinkResult:
    """A run of one sink as it is reported."""
    return SinkResult(
        sink=report.sink,
        table=report.table,
        blocks=report.blocks,
        records=report.records,
        position=report.position,
        seconds=round(report.seconds, 3),
        error=trouble_of(report.error) if report.error is not None else None,
    )
