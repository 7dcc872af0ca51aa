"""The past of a derived table: its commits, how each came about, and the step as it was then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.control import BlockEntry
from seamark.errors import UnknownTable
from seamark.ledger import ExecuteTransform, SetDataSchema, SetTransform
from seamark.tables.context import TableContext
from seamark.tables.read import TableSource
from seamark.tables.schema import TableSchema
from seamark.transforms.checkpoint import Checkpoint, decode
from seamark.transforms.definition import Definition, from_chain
from seamark.transforms.shape import Input, Shape
from seamark.transforms.tracking import keys_table_name

_EVENT = ExecuteTransform.__name__


@dataclass(frozen=True)
class PastCommit:
    """One commit of a derived table: its blocks, oldest first, and how it came about."""

    blocks: tuple[BlockEntry, ...]
    checkpoint: Checkpoint | None
    definition: Definition | None
    last_before: int | None


def past_commits(context: TableContext, table: str) -> Iterator[PastCommit]:
    """All commits of a derived table, oldest first."""
    entries = list(reversed(context.control.index.blocks(table, kinds=[_EVENT])))
    commits: dict[object, list[BlockEntry]] = {}
    for entry in entries:
        commits.setdefault(entry.system_time, []).append(entry)
    definitions = list(reversed(context.control.index.blocks(table, kinds=[SetTransform.__name__])))
    last: int | None = None
    for blocks in commits.values():
        yield PastCommit(
            blocks=tuple(blocks),
            checkpoint=checkpoint_of(context, table, blocks[0]),
            definition=_in_force(context, table, definitions, blocks[0].sequence),
            last_before=last,
        )
        last = max((b.last_offset for b in blocks if b.last_offset is not None), default=last)


def _in_force(context: TableContext, table: str, definitions: list[BlockEntry], sequence: int) -> Definition | None:
    newest = next((entry for entry in reversed(definitions) if entry.sequence < sequence), None)
    event = context.files(table).block(newest.hash).event if newest else None
    return from_chain(event) if isinstance(event, SetTransform) else None


def definition_at(context: TableContext, table: str, sequence: int) -> Definition | None:
    """The definition that was in force at a block of a derived table."""
    newest = context.control.index.blocks(table, newest=1, kinds=[SetTransform.__name__], upto=sequence)
    return _in_force(context, table, newest, sequence)


def checkpoint_of(context: TableContext, table: str, entry: BlockEntry) -> Checkpoint | None:
    """How the commit of a block came about, if it says."""
    if entry.checkpoint_hash is None:
        return None
    return decode(context.files(table).checkpoints.read(entry.checkpoint_hash))


def stored_source(context: TableContext, table: str) -> TableSource:
    """A table as its chain describes it."""
    head = context.control.index.head(table)
    event = context.files(table).block(head.schema_block).event if head and head.schema_block else None
    if not isinstance(event, SetDataSchema) or event.schema is None:
        raise UnknownTable(table, sorted(context.control.index.heads()))
    return TableSource(context, table, TableSchema.from_ledger(event.schema))


def shape_then(context: TableContext, definition: Definition) -> Shape:
    """The shape that a step had by one of its definitions."""
    inputs = [Input(stored_source(context, table), required, join) for table, required, join in definition.inputs]
    tracked = keys_table_name(definition.step)
    outputs = [stored_source(context, name) for name in definition.outputs if name != tracked]
    return Shape(definition.step, tuple(inputs), tuple(outputs), definition.keys)


def read_then(checkpoint: Checkpoint) -> dict[str, int | None]:
    """The last record of each input that a commit read."""
    return {table: at.offset for table, at in checkpoint.read.items()}
