"""What waits for a diff: records in its logs, visits that failed, and what its own chains say. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from seamark.control import FailedKey, TableHead
from seamark.diffs.declare.spec import DiffSpec
from seamark.errors import SchemaChangeRefused
from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.running.commit import Covered, last_checkpoint, least_watermark
from seamark.steps.standing.known import Known, older_definition, outgrown_program, pending_inputs
from seamark.steps.standing.pins import Pending, Pin
from seamark.tables.context import TableContext
from seamark.tables.write.publish import plan_table


@dataclass(frozen=True)
class Times:
    """What is known of the times of the visits in the state without looking at any of them.

    `offset` is the last record of the table that has the visits by their time, which is current if the last commit of
    the state has written it too. No visit that has not failed is older than `oldest`; `ahead` is how far the last look
    went beyond its horizon without finding one, None if it did find one.
    """

    offset: int | None = None
    are_current: bool = True
    oldest: datetime | None = None
    ahead: timedelta | None = None


@dataclass(frozen=True)
class DiffBacklog:
    """A diff at one moment. Its inputs are pinned: what is committed to them later waits for the next run."""

    spec: DiffSpec
    pending: tuple[Pending, ...]  # of the inputs that have a chain
    missing: tuple[str, ...]  # inputs without one
    failed: tuple[FailedKey, ...]
    due: tuple[FailedKey, ...]
    older: Definition | None
    state_offset: int | None  # the last record of the state
    gone_offset: int | None  # and that of the marks
    times: Times
    now: datetime
    read_upto: Mapping[str, int | None]  # the last record of each log that is in the state, as its last commit says
    too_late: int  # how many records have come too late so far
    forgotten: int | None  # up to which record of theirs marks were looked through for those to be forgotten
    watermark_waits: bool
    heads: Mapping[str, TableHead]
    outgrown: SchemaChangeRefused | None = None  # what a program from before a table grew is refused with

    @property
    def pins(self) -> dict[str, Pin]:
        """How far each input is read, by table."""
        return {entry.table: entry.pin for entry in self.pending}

    @property
    def logs(self) -> tuple[Pending, ...]:
        """What waits in the logs, without the wide table."""
        names = {log.name for log in self.spec.logs}
        return tuple(entry for entry in self.pending if entry.table in names)

    @property
    def log_pins(self) -> tuple[Pin, ...]:
        """How far the logs are read."""
        return tuple(entry.pin for entry in self.logs)

    def pin_of(self, table: str) -> Pin | None:
        """How far an input is read; None if nobody has written to it."""
        return self.pins.get(table)

    @property
    def covers(self) -> tuple[Covered, ...]:
        """All inputs incorporated up to the pins."""
        pins = self.pins.values()
        return tuple(Covered(p.table, p.dataset_id, p.block_hash, p.sequence, p.offset) for p in pins)

    def generation(self, table: str) -> int:
        """The generation of the position on an input."""
        position = next((entry.position for entry in self.pending if entry.table == table), None)
        return position.generation if position else 0

    @property
    def has_records(self) -> bool:
        """Whether records wait in an input."""
        return any(entry.records > 0 for entry in self.pending)

    @property
    def horizon(self) -> datetime | None:
        """Visits from before it are too old for the state."""
        return self.now - self.spec.ttl.span if self.spec.ttl else None

    @property
    def expires(self) -> bool:
        """Whether visits may be in the state that are too old for it."""
        if self.horizon is None or self.state_offset is None:
            return False
        if not self.times.are_current:
            return True
        return self.spec.is_over(self.times.oldest, self.now)

    @property
    def moved(self) -> list[tuple[Pending, int | None]]:
        """The logs whose position is not where the state says, each with the last record that the state has of it.

        A run refuses then, also where nothing seems to wait.
        """
        upto = [(entry, self.read_upto.get(entry.table, entry.after)) for entry in self.logs]
        return [(entry, last) for entry, last in upto if last != entry.after]

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing."""
        waits = self.has_records or self.due or self.older or self.expires or self.watermark_waits
        return not (waits or self.moved)

    def checked(self) -> DiffBacklog:
        """The same with what a program from before a table grew is refused with, if there is anything to do."""
        if self.is_settled:
            return self
        return replace(self, outgrown=outgrown_program(self.spec, self.pins.values(), self.heads))


def backlog_of(context: TableContext, spec: DiffSpec, known: Known) -> DiffBacklog:
    """What waits for a diff now."""
    pending = pending_inputs(context, spec, known)
    now = context.clock.now()
    failed = known.own_rows(context, spec).failed
    head, gone = known.heads.get(spec.state.name), known.heads.get(spec.gone.name)
    checkpoint = _last_of(context, spec.state.name, head)
    details = checkpoint.details if checkpoint else {}
    return DiffBacklog(
        spec=spec,
        pending=pending,
        missing=tuple(table for table in spec.sources if table not in known.heads),
        failed=failed,
        due=tuple(key for key in failed if (key.retry_after or 0.0) <= now.timestamp()),
        older=older_definition(context, spec, known.heads, spec.outputs),
        state_offset=head.last_offset if head else None,
        gone_offset=gone.last_offset if gone else None,
        times=_times(context, spec, details, known.heads) if spec.ttl else Times(),
        now=now,
        read_upto=_read_upto(checkpoint) if checkpoint else {},
        too_late=too_late_so_far(details),
        forgotten=details.get("forgotten"),
        watermark_waits=_watermark_waits(context, spec, pending, known.heads),
        heads=known.heads,
    )


def last_details(context: TableContext, table: str, head: TableHead | None) -> Mapping[str, Any]:
    """What the last commit of a table says of itself."""
    checkpoint = _last_of(context, table, head)
    return checkpoint.details if checkpoint else {}


def _last_of(context: TableContext, table: str, head: TableHead | None) -> Checkpoint | None:
    return last_checkpoint(plan_table(context, table, head)) if head else None


def _read_upto(checkpoint: Checkpoint) -> dict[str, int | None]:
    """The last record of each log that was in the state after a commit."""
    before = checkpoint.details.get("positions", {})
    return {**before, **{table: upto for table, (_, upto) in checkpoint.taken.items()}}


def too_late_so_far(details: Mapping[str, Any]) -> int:
    """How many records had come too late after a commit of a diff."""
    return int(details.get("too_late", 0))


def _times(context: TableContext, spec: DiffSpec, details: Mapping[str, Any], heads: Mapping[str, TableHead]) -> Times:
    head = heads.get(spec.times.name)
    oldest, ahead = details.get("oldest"), details.get("ahead")
    return Times(
        offset=head.last_offset if head else None,
        # It may be missing, or not have been written for a while: the time to live was another one, or none.
        are_current=head is not None and last_details(context, spec.times.name, head) == details,
        oldest=datetime.fromisoformat(oldest) if oldest else None,
        ahead=timedelta(seconds=ahead) if ahead is not None else None,
    )


def _watermark_waits(
    context: TableContext, spec: DiffSpec, pending: tuple[Pending, ...], heads: Mapping[str, TableHead]
) -> bool:
    """Whether the logs moved on without records, and with them the watermark of the diff."""
    logs = [entry for entry in pending if entry.table in {log.name for log in spec.logs}]
    moved = any(e.was_read and e.position and e.pin.sequence > (e.position.block_sequence or 0) for e in logs)
    if not moved or len(logs) < len(spec.logs):
        return False
    least = least_watermark(context, [entry.pin for entry in logs])
    head = heads.get(spec.state.name)
    state = plan_table(context, spec.state.name, head).state if head else None
    return least is not None and state is not None and (state.watermark is None or state.watermark < least)
