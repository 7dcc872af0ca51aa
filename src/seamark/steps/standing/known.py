"""The recorded state of steps: heads, positions and failed keys, and the definitions in the chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.control import FailedKey, Position, TableHead
from seamark.errors import DefinitionChanged, InvalidStep, SchemaChangeRefused
from seamark.ledger import DatasetKind, SetDataSchema, SetTransform
from seamark.steps.definition.definition import Definition, difference, from_chain
from seamark.steps.running.commit import Maker, older_program
from seamark.steps.standing.own_rows import OwnRows, own_rows
from seamark.steps.standing.pins import Pending, Pin
from seamark.tables.context import TableContext
from seamark.tables.kinds import kind_of
from seamark.tables.read.source import TableSource
from seamark.tables.schema.evolution import refuse_old_schema
from seamark.tables.write.publish import Planned, plan_table, plan_unwritten


@dataclass(frozen=True)
class Known:
    """Heads, positions and failed keys of all steps, read from the control database at once."""

    heads: Mapping[str, TableHead]
    positions: Mapping[str, Sequence[Position]]
    failed: Mapping[str, Sequence[FailedKey]]

    @staticmethod
    def of(context: TableContext) -> Known:
        """Ask the control database: three queries, however many steps there are."""
        index = context.control.index
        # The heads come first: what is committed while we ask for the rest waits for the next run.
        heads = index.heads()
        positions: dict[str, list[Position]] = {}
        failed: dict[str, list[FailedKey]] = {}
        for position in index.positions():
            positions.setdefault(position.step, []).append(position)
        for key in index.failed_keys():
            failed.setdefault(key.step, []).append(key)
        return Known(heads, positions, failed)

    def own_rows(self, context: TableContext, maker: Maker) -> OwnRows:
        """The positions and failed keys of a step, of all that are recorded under its name."""
        positions, failed = self.positions.get(maker.name, ()), self.failed.get(maker.name, ())
        return own_rows(context, maker, self.heads, positions, failed)


def pending_inputs(
    context: TableContext, maker: Maker, known: Known, pins: Mapping[str, Pin] | None = None
) -> tuple[Pending, ...]:
    """What waits in each input of a step that has a chain, up to its head or to a pin."""
    return _pending(context, maker, known, known.own_rows(context, maker), pins)


def _pending(
    context: TableContext, maker: Maker, known: Known, own: OwnRows, pins: Mapping[str, Pin] | None
) -> tuple[Pending, ...]:
    pending = []
    for table in maker.sources:
        head = known.heads.get(table)
        if head is None:
            continue
        pin = (pins or {}).get(table) or Pin.at(head)
        position = own.positions.get(table)
        after = position.record_offset if position else None
        waiting = pin.offset is not None and (after is None or pin.offset > after)
        blocks = context.control.index.slices(table, after=after, upto=pin.offset) if waiting else []
        pending.append(Pending(pin, position, tuple(blocks)))
    return tuple(pending)


def plan_table_at(context: TableContext, head: TableHead | None, table: str) -> Planned:
    """A table's state at a head that is known already."""
    if head is None:
        return plan_unwritten(context, table)
    return plan_table(context, table, head)


def older_definition(
    context: TableContext,
    maker: Maker,
    heads: Mapping[str, TableHead],
    tables: Sequence[TableSource] | None = None,
) -> Definition | None:
    """The definition that an output's rows were made by, if today's definition would make other rows; else None.

    Looks at all tables that are written, or only at `tables`.
    """
    refuse_written_by_hand(maker, heads)
    for output in maker.written if tables is None else tables:
        head = heads.get(output.name)
        if head is None:
            continue
        event = context.files(output.name).block(head.transform_block).event if head.transform_block else None
        older = from_chain(event) if isinstance(event, SetTransform) else None
        if older is None or not maker.definition.agrees_with(older):
            return older or maker.definition
        if isinstance(event, SetTransform) and _inputs_replaced(event, heads):
            return older
    return None


def has_made_rows(maker: Maker, heads: Mapping[str, TableHead]) -> bool:
    """Whether an output of a step has ever had a row."""
    found = [heads.get(output.name) for output in maker.outputs]
    return any(head is not None and head.last_offset is not None for head in found)


def outgrown_program(maker: Maker, pins: Iterable[Pin], heads: Mapping[str, TableHead]) -> SchemaChangeRefused | None:
    """The refusal of a step that was declared before one of its tables grew; None if it knows all columns.

    An input counts as it was at its pin. It may grow at any time after that, but nothing later is read. Inputs of a
    step whose text names their columns may grow by others.
    """
    inputs = () if kind_of(maker.definition.kind).names_columns else pins
    tables = [(maker.sources[pin.table], pin.schema_block, False) for pin in inputs]
    tables += [(output, heads[output.name].schema_block, True) for output in maker.written if output.name in heads]
    for source, block, is_written in tables:
        event = source.context.files(source.name).block(block).event if block else None
        stored = event.schema if isinstance(event, SetDataSchema) else None
        try:
            refuse_old_schema(source.name, stored, source.schema, is_written=is_written)
        except SchemaChangeRefused as refusal:
            return older_program(maker.name, refusal)
    return None


def refuse_written_by_hand(maker: Maker, heads: Mapping[str, TableHead]) -> None:
    """Refuse a step on a table that rows were written to by hand."""
    for output in maker.written:
        head = heads.get(output.name)
        if head is not None and head.kind == DatasetKind.ROOT.name.lower():
            raise InvalidStep(
                f"step '{maker.name}' is to write table '{output.name}', which has a chain of rows written by hand. "
                "Nothing was run.",
                hint="write to another table; a table is derived from its first commit on, or never.",
            )


def _inputs_replaced(event: SetTransform, heads: Mapping[str, TableHead]) -> bool:
    """Whether an input's table was deleted and created again since: its chain has another id."""
    known = {entry.alias: entry.dataset_ref for entry in event.inputs if entry.alias}
    return any(table in heads and heads[table].dataset_id != dataset_id for table, dataset_id in known.items())


def definition_changed(
    step: str, older: Definition, newer: Definition, unkeepable: str | None = None
) -> DefinitionChanged:
    """The error that shows what changed and names the choices; `unkeepable` is why the rows cannot be kept."""
    what = f"the definition of step '{step}' is not the one that its rows were made by. Nothing was run.\n"
    if unkeepable is not None:
        return DefinitionChanged(
            f"{what}{difference(older, newer)}\n",
            hint=f'its rows cannot be kept: {unkeepable}. on_change="recompute" computes all keys again '
            f"(`seamark run {step} --on-change recompute`).",
        )
    return DefinitionChanged(
        f"{what}{difference(older, newer)}\n",
        hint='say what happens to the current rows: on_change="keep" leaves them, on_change="recompute" computes '
        f"all keys again (`seamark run {step} --on-change keep|recompute`).",
    )
