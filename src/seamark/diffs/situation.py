"""Where a diff stands: what waits in its logs, which visits failed, and what its own chains say. No Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from seamark.control import FailedKey, TableHead
from seamark.diffs.declare import DiffSpec
from seamark.errors import DefinitionChanged, InvalidStep
from seamark.tables.context import TableContext
from seamark.tables.publish import plan_table
from seamark.transforms.batches import Pending, Pin
from seamark.transforms.commit import Covered, last_checkpoint, least_watermark
from seamark.transforms.definition import Definition, difference
from seamark.transforms.situation import Known, older_definition, pending_inputs


@dataclass(frozen=True)
class DiffSituation:
    """A diff at one moment. Its inputs are pinned: what is committed to them later waits for the next run."""

    spec: DiffSpec
    pending: tuple[Pending, ...]  # of the inputs that have a chain
    missing: tuple[str, ...]  # inputs without one
    failed: tuple[FailedKey, ...]
    due: tuple[FailedKey, ...]
    older: Definition | None
    state_offset: int | None  # the last record of the state
    horizon: datetime | None  # visits from before it are too old
    oldest: datetime | None  # no visit in the state is older
    watermark_waits: bool

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
    def expires(self) -> bool:
        """Whether visits are in the state that are too old for it."""
        if self.horizon is None or self.oldest is None or self.spec.ttl is None:
            return False
        kind = next(column.type for column in self.spec.columns if column.name == self.spec.ttl.column)
        if pa.types.is_date(kind):  # days are compared as days: today's midnight is not before this morning
            return self.oldest.date() < self.horizon.date()
        return self.oldest < self.horizon

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing."""
        return not (self.has_records or self.due or self.older or self.expires or self.watermark_waits)


def look(context: TableContext, spec: DiffSpec, known: Known) -> DiffSituation:
    """Where a diff stands now."""
    pending = pending_inputs(context, spec, known)
    now = context.clock.now()
    failed = tuple(known.failed.get(spec.name, ()))
    head = known.heads.get(spec.state.name)
    return DiffSituation(
        spec=spec,
        pending=pending,
        missing=tuple(table for table in spec.sources if table not in known.heads),
        failed=failed,
        due=tuple(key for key in failed if (key.retry_after or 0.0) <= now.timestamp()),
        older=older_definition(context, spec, known.heads),
        state_offset=head.last_offset if head else None,
        horizon=now - spec.ttl.span if spec.ttl else None,
        oldest=_oldest(context, spec, head),
        watermark_waits=_watermark_waits(context, spec, pending, known.heads),
    )


def _oldest(context: TableContext, spec: DiffSpec, head: TableHead | None) -> datetime | None:
    if spec.ttl is None or head is None:
        return None
    checkpoint = last_checkpoint(plan_table(context, spec.state.name, head))
    text = checkpoint.details.get("oldest") if checkpoint else None
    return datetime.fromisoformat(text) if text else None


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


def decide(situation: DiffSituation, policy: str) -> None:
    """Refuse to go on where the definition is not the one that the state was made by, unless that was allowed.

    A fold cannot be computed anew, so the rows that stand are kept or nothing is done.
    """
    older, spec = situation.older, situation.spec
    if older is None:
        return
    if older.counts == spec.definition.counts:
        raise InvalidStep(
            f"diff '{spec.name}': the chain of one of its logs is not the one that its state was made from. "
            "Nothing was run.",
            hint="a diff is a fold over its logs: declare it under another name to begin anew.",
        )
    multiplier = _multiplier(older)
    if multiplier is not None and multiplier != spec.multiplier:
        raise InvalidStep(
            f"diff '{spec.name}': its multiplier was {multiplier} and is {spec.multiplier} now, so that it could not "
            "take back the versions that it has written. Nothing was run.",
            hint=f"set it back to {multiplier}, or declare the diff under another name.",
        )
    if policy != "keep":
        raise DefinitionChanged(
            f"the definition of diff '{spec.name}' is not the one that its state was made by. Nothing was run.\n"
            f"{difference(older, spec.definition)}\n",
            hint='on_change="keep" goes on from the state that stands '
            f"(`seamark run {spec.name} --on-change keep`); under another name the diff begins anew.",
        )


def _multiplier(definition: Definition) -> int | None:
    if definition.kind != "diff":
        return None
    facts, _ = json.JSONDecoder().raw_decode(definition.source)
    return int(facts["multiplier"])
