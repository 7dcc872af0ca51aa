"""The backlog of a step: its pins, positions, failed keys and definition at one moment. Read only, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seamark.control import FailedKey, Mode, Position, TableHead
from seamark.errors import SchemaChangeRefused
from seamark.ledger import AddData, ExecuteTransform
from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import Checkpoint, OpenPass, RangeMark
from seamark.steps.rows.keys import columns_of
from seamark.steps.running.commit import last_checkpoint, least_watermark
from seamark.steps.standing.known import (
    Known,
    _pending,
    has_made_rows,
    older_definition,
    outgrown_program,
    plan_table_at,
)
from seamark.steps.standing.own_rows import NO_ROWS, OwnRows
from seamark.steps.standing.pins import Pending, Pin
from seamark.tables.context import TableContext
from seamark.tables.write.publish import Planned
from seamark.transforms.keys.batches import FIRST_RUN, all_keys_because

if TYPE_CHECKING:
    from seamark.transforms.keying import KeyedSpec


@dataclass(frozen=True)
class Backlog:
    """A step at one moment: its pending records, its failed keys, and the state of its outputs' chains."""

    spec: KeyedSpec
    heads: Mapping[str, TableHead]
    pending: tuple[Pending, ...]  # of the inputs that have a chain
    missing: tuple[str, ...]  # inputs without one
    failed: tuple[FailedKey, ...]
    due: tuple[FailedKey, ...]
    older: Definition | None  # the definition that the outputs were made by, if it is not today's
    new_outputs: tuple[str, ...]  # outputs without a chain, while others have one
    unfinished: OpenPass | None  # a pass over all keys that was interrupted, or is to begin
    rows: int = 0
    own: OwnRows = NO_ROWS
    watermark_waits: bool = False  # inputs advanced without records, but the watermark of an output would move
    unkeepable: str | None = None  # why the rows of the older definition cannot be kept, if that is so
    outgrown: SchemaChangeRefused | None = None  # the refusal, if the program was declared before a table grew

    @property
    def pins(self) -> dict[str, Pin]:
        """How far each input is read, by table."""
        return {entry.table: entry.pin for entry in self.pending}

    @property
    def read(self) -> dict[str, int | None]:
        """The last record of each input at its pin, by table."""
        return {**dict.fromkeys(self.missing), **{entry.table: entry.pin.offset for entry in self.pending}}

    @property
    def before(self) -> dict[str, int | None]:
        """The last record of each input that is incorporated, by table."""
        return {**dict.fromkeys(self.missing), **{entry.table: entry.after for entry in self.pending}}

    def generation(self, table: str) -> int:
        """How often the position on an input was reset."""
        position = next((entry.position for entry in self.pending if entry.table == table), None)
        return position.generation if position else 0

    @property
    def waiting(self) -> tuple[Pending, ...]:
        """What waits in the inputs that a run takes changes of.

        A deferred input is not among them, but until all its rows were read once: while it has no position, and while a
        pass over all keys is open, its records wait like all others.
        """
        deferred = self.spec.deferred if self.unfinished is None else frozenset()
        return tuple(entry for entry in self.pending if entry.table not in deferred or not entry.was_read)

    @property
    def deferred(self) -> tuple[Pending, ...]:
        """The records of deferred inputs that wait for a run of their own kind.

        None while a pass over all keys is ahead, which takes them as well.
        """
        if self.unfinished is not None:
            return ()
        mine = (entry for entry in self.pending if entry.table in self.spec.deferred)
        return tuple(entry for entry in mine if entry.was_read and entry.records > 0)

    @property
    def has_records(self) -> bool:
        """Whether records wait, or rows that no position covers."""
        if any(entry.was_read and entry.records > 0 for entry in self.waiting):
            return True
        return any(not entry.was_read for entry in self.waiting) and (
            any(entry.pin.offset is not None for entry in self.pending)
        )

    def due_except(self, tried: Set[str]) -> list[FailedKey]:
        """The failed keys that are due, except those that this run has tried already."""
        return [entry for entry in self.due if entry.key not in tried]

    @property
    def has_made_rows(self) -> bool:
        """Whether an output has ever had a row."""
        return has_made_rows(self.spec, self.heads)

    @property
    def is_settled(self) -> bool:
        """Whether a run would do nothing."""
        waits = self.has_records or self.due or self.older or self.new_outputs or self.unfinished
        return not (waits or self.watermark_waits)

    @property
    def starts_over(self) -> bool:
        """Whether all keys are to be computed by another definition, and none has been yet."""
        return self.older is not None and self.unfinished is not None and self.unfinished.mark.upto is None

    def to_recompute(self) -> Backlog:
        """The same with a pass over all keys ahead, so that a partial run records that it is still needed."""
        nothing_done = RangeMark(self.spec.keying.group, None, None, {}, last=False)
        return replace(self, unfinished=OpenPass(Mode.RECOMPUTE, nothing_done))

    def checked(self, new_chains: Set[str] = frozenset()) -> Backlog:
        """The same with `outgrown` set; tables in `new_chains` have no committed block, so they cannot have grown."""
        pins = [pin for pin in self.pins.values() if pin.table not in new_chains]
        return replace(self, outgrown=outgrown_program(self.spec, pins, self.heads))

    @property
    def stored_under(self) -> str:
        """The outputs under which positions, failed and covered keys of the step are recorded now."""
        return self.own.stored_under(self.spec)

    def all_keys_because(self) -> str | None:
        """Why a run must compute all keys, or None if it can find keys by changes."""
        because = all_keys_because(self.waiting, self.spec.keying.concerns_every_key, self.rows)
        if because == FIRST_RUN and self.own.elsewhere:
            shown = [key.replace(",", ", ") for key in (self.spec.outputs_key, *self.own.elsewhere)]
            return f"first run into {shown[0]}: what '{self.spec.name}' has read went into {' and '.join(shown[1:])}"
        return because


def backlog_of(context: TableContext, spec: KeyedSpec, known: Known, pins: Mapping[str, Pin] | None = None) -> Backlog:
    """What waits for a step now. With `pins` what waits for a run that has pinned its inputs already."""
    heads, own = known.heads, known.own_rows(context, spec)
    pending = _pending(context, spec, known, own, pins)
    now = context.clock.now().timestamp()
    failed = own.failed
    chains = {output.name: plan_table_at(context, heads.get(output.name), output.name) for output in spec.written}
    standing = [name for name, plan in chains.items() if plan.state is not None]
    checkpoint = next((found for name in standing if (found := last_checkpoint(chains[name]))), None)
    backlog = Backlog(
        spec=spec,
        heads=heads,
        pending=pending,
        missing=tuple(table for table in spec.sources if table not in heads),
        failed=failed,
        due=tuple(key for key in failed if _can_be_computed(spec, key) and (key.retry_after or now) <= now),
        older=older_definition(context, spec, heads),
        new_outputs=tuple(name for name in chains if name not in standing) if standing else (),
        unfinished=_unfinished(checkpoint, spec, own.positions),
        own=own,
    )
    return replace(
        backlog,
        rows=_rows(context, backlog),
        watermark_waits=_watermark_waits(context, backlog, chains),
        unkeepable=None if backlog.older is None else spec.why_not_keep(backlog.older),
    )


def _can_be_computed(spec: KeyedSpec, failed: FailedKey) -> bool:
    """Whether a failed key has today's columns: the transform keys may have been changed since it failed."""
    return set(columns_of(failed.key)) <= set(spec.keying.keys)


def _unfinished(checkpoint: Checkpoint | None, spec: KeyedSpec, positions: Mapping[str, Position]) -> OpenPass | None:
    """The pass over all keys that continues; it starts again if a position was reset since it began."""
    found = checkpoint.unfinished if checkpoint and checkpoint.step == spec.name else None
    if found is None:
        return None
    known, inputs = found.mark.generations, [p for table, p in positions.items() if table in spec.sources]
    if all(known.get(position.input_table, 0) == position.generation for position in inputs):
        return found
    return OpenPass(found.mode, replace(found.mark, upto=None))


def _rows(context: TableContext, backlog: Backlog) -> int:
    """About how many rows the inputs have, without reading any: those of the newest base and the records read since.

    Without a base it is all records. Records that wait are not counted beside a base, so that it may be too low. Zero
    if nothing waits.
    """
    if not any(entry.records for entry in backlog.waiting):
        return 0
    bases = context.control.index.all_bases()

    def of(entry: Pending) -> int:
        if not bases.get(entry.table):
            return (entry.pin.offset or 0) + 1
        base = bases[entry.table][0]
        read_since = -1 if entry.after is None else entry.after - base.last_offset
        return base.row_count + max(0, read_since)

    return sum(of(entry) for entry in backlog.pending)


def _watermark_waits(context: TableContext, backlog: Backlog, chains: Mapping[str, Planned]) -> bool:
    """Whether inputs advanced without records, in a way that moves the watermark of an output."""
    moved = any(
        entry.position is not None and entry.pin.sequence > (entry.position.block_sequence or 0)
        for entry in backlog.waiting
        if entry.was_read
    )
    if not moved or backlog.missing or backlog.has_records:
        return False
    least = least_watermark(context, reached_pins(context, backlog))
    states = [plan.state for plan in chains.values() if plan.state is not None]
    return least is not None and any(state.watermark is None or state.watermark < least for state in states)


def reached_pins(context: TableContext, backlog: Backlog) -> list[Pin]:
    """How far each input is incorporated once all that waits is: up to its pin, a deferred one up to its position.

    Nothing later of a deferred input may count for a watermark: its records may still change any row.
    """
    waiting = {entry.table for entry in backlog.waiting}
    return [entry.pin if entry.table in waiting else _at_position(context, entry) for entry in backlog.pending]


def _at_position(context: TableContext, entry: Pending) -> Pin:
    position, kinds = entry.position, [AddData.__name__, ExecuteTransform.__name__]
    upto = position.block_sequence if position else None
    newest = context.control.index.blocks(entry.table, newest=1, kinds=kinds, upto=upto)
    return replace(entry.pin, data_block=newest[0].hash if newest else None)


def adopted(context: TableContext, backlog: Backlog) -> Backlog:
    """The backlog with the rows that the step takes over recorded as its own. Call it only once nothing can refuse."""
    if backlog.own.adoption is None:
        return backlog
    context.control.offsets.adopt(backlog.own.adoption)
    return replace(backlog, own=replace(backlog.own, adoption=None))
