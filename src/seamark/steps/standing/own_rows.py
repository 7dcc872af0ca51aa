"""Which positions and failed keys in the control database are those of a step with its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from seamark.control import UNKNOWN_OUTPUTS, Adoption, BlockEntry, FailedKey, Position, TableHead
from seamark.ledger import ChainState, ExecuteTransform
from seamark.steps.definition.definition import from_chain
from seamark.steps.past.checkpoint import decode
from seamark.steps.running.commit import Maker
from seamark.tables.context import TableContext
from seamark.tables.kinds import kind_of
from seamark.tables.write.publish import plan_table


class Owned(Protocol):
    """A row of the control database that is recorded for certain outputs."""

    @property
    def outputs(self) -> str:
        """The outputs, as `outputs_key` names them."""
        ...


Row = TypeVar("Row", bound=Owned)


def rows_under(rows: Iterable[Row], outputs: str) -> list[Row]:
    """The rows that are recorded for these outputs."""
    return [row for row in rows if row.outputs == outputs]


@dataclass(frozen=True)
class OwnRows:
    """The positions of a step by input, and its failed keys.

    `adoption` is what it takes over before its next commit; `elsewhere` are the outputs of other steps of its name.
    """

    positions: Mapping[str, Position]
    failed: tuple[FailedKey, ...]
    adoption: Adoption | None = None
    elsewhere: tuple[str, ...] = ()

    def stored_under(self, maker: Maker) -> str:
        """The outputs under which the rows are recorded now."""
        return self.adoption.from_outputs if self.adoption else maker.outputs_key


NO_ROWS = OwnRows({}, ())


def own_rows(
    context: TableContext,
    maker: Maker,
    heads: Mapping[str, TableHead],
    positions: Sequence[Position],
    failed: Sequence[FailedKey],
) -> OwnRows:
    """The rows of a step, from all that are recorded under its name."""
    key = maker.outputs_key
    mine = rows_under(positions, key)
    elsewhere = tuple(sorted({row.outputs for row in positions if row.outputs not in (key, UNKNOWN_OUTPUTS)}))
    if not mine:
        adoption = adoptable(context, maker, heads, positions)
        if adoption is not None:
            lowered = {position.input_table: position for position in adoption.lowered}
            adopted = [lowered.get(row.input_table, row) for row in rows_under(positions, adoption.from_outputs)]
            keys = tuple(rows_under(failed, adoption.from_outputs))
            return OwnRows({row.input_table: row for row in adopted}, keys, adoption, elsewhere)
    return OwnRows({row.input_table: row for row in mine}, tuple(rows_under(failed, key)), None, elsewhere)


def adopt_rows(context: TableContext, maker: Maker) -> None:
    """Record rows that a step takes over as its own, before a run or a person moves them."""
    positions = context.control.index.positions(maker.name)
    if positions and not rows_under(positions, maker.outputs_key):
        adoption = adoptable(context, maker, context.control.index.heads(), positions)
        if adoption is not None:
            context.control.offsets.adopt(adoption)


def adoptable(
    context: TableContext, maker: Maker, heads: Mapping[str, TableHead], positions: Sequence[Position]
) -> Adoption | None:
    """What a step without rows of its own takes over, or None.

    Positions that were made with more outputs hold for each of them. Positions from before outputs were recorded hold
    for outputs whose chains confirm them: an output that was renamed since has no chain, or one that began later.
    """
    tables = maker.filled
    wider = sorted({row.outputs for row in positions if set(tables) < set(row.outputs.split(","))}, key=len)
    if wider and all(table in heads for table in tables):
        return Adoption(maker.name, wider[0], maker.outputs_key)
    unknown = rows_under(positions, UNKNOWN_OUTPUTS)
    states = [_state(context, maker, table, heads) for table in tables] if unknown else []
    known = [state for state in states if state is not None]
    if not unknown or len(known) < len(tables):
        return None
    if kind_of(maker.definition.kind).takes_once:  # its outputs have exactly the records up to its positions
        return Adoption(maker.name, UNKNOWN_OUTPUTS, maker.outputs_key)
    if any(_began_late(context, table) for table in tables):
        return None
    lowered = [low for row in unknown if (low := _confirmed_by_chains(context, row, heads, known)) != row]
    return Adoption(maker.name, UNKNOWN_OUTPUTS, maker.outputs_key, tuple(lowered))


def _state(context: TableContext, maker: Maker, table: str, heads: Mapping[str, TableHead]) -> ChainState | None:
    """The state of an output's chain, if a step of this name has filled it."""
    head = heads.get(table)
    state = plan_table(context, table, head).state if head else None
    definition = from_chain(state.transform) if state and state.transform else None
    return state if definition is not None and definition.step == maker.name else None


def _began_late(context: TableContext, table: str) -> bool:
    """Whether a chain began with changes after a position that others had reached: it lacks what came before."""
    first: BlockEntry | None = context.control.index.oldest(table, ExecuteTransform.__name__)
    if first is None or first.checkpoint_hash is None:
        return False
    checkpoint = decode(context.files(table).checkpoints.read_intact(first.checkpoint_hash))
    return any(after is not None for after, _ in checkpoint.taken.values())


def _confirmed_by_chains(
    context: TableContext, row: Position, heads: Mapping[str, TableHead], states: Sequence[ChainState]
) -> Position:
    """A position, or the earlier one that all outputs' chains confirm; empty if one has never read the input."""
    if row.block_sequence is None or row.input_table not in heads:
        return row
    found = [state.input(heads[row.input_table].dataset_id) for state in states]
    blocks = [context.control.index.block_at(row.input_table, at.block_hash) if at.block_hash else None for at in found]
    emptied = replace(row, update_ts=None, record_offset=None, block_sequence=None, block_hash=None)
    if any(block is None for block in blocks):
        return emptied
    earliest, place = min((block.sequence, place) for place, block in enumerate(blocks) if block is not None)
    if earliest >= row.block_sequence:
        return row
    newest = context.control.index.newest_before(row.input_table, earliest)
    return replace(
        row,
        update_ts=newest.system_time.timestamp() if newest else None,
        record_offset=found[place].offset,
        block_sequence=earliest,
        block_hash=found[place].block_hash,
    )
