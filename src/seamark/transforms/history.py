"""The past of a derived table: its commits, how each came about, and the step as it was then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seamark.control import BlockEntry
from seamark.errors import LedgerError, UnknownTable
from seamark.ledger import ExecuteTransform, SetDataSchema, SetTransform
from seamark.tables.context import TableContext
from seamark.tables.read.rows import TableSource
from seamark.tables.schema.table_schema import TableSchema
from seamark.transforms.checkpoint import Checkpoint, decode
from seamark.transforms.definition import Definition, from_chain
from seamark.transforms.shape import Input, Shape
from seamark.transforms.tracking import keys_table_name

_EVENT = ExecuteTransform.__name__


@dataclass(frozen=True)
class PastCommit:
    """One commit of a derived table: its blocks, oldest first, and how it came about, or why that is not known."""

    blocks: tuple[BlockEntry, ...]
    checkpoint: Checkpoint | None
    definition: Definition | None
    last_before: int | None
    trouble: str | None = None


def past_commits(context: TableContext, table: str) -> Iterator[PastCommit]:
    """All commits of a derived table, oldest first."""
    entries = list(reversed(context.control.index.blocks(table, kinds=[_EVENT])))
    commits: dict[object, list[BlockEntry]] = {}
    for entry in entries:
        commits.setdefault(entry.system_time, []).append(entry)
    definitions = list(reversed(context.control.index.blocks(table, kinds=[SetTransform.__name__])))
    last: int | None = None
    for blocks in commits.values():
        try:
            checkpoint = checkpoint_of(context, table, blocks[0])
            definition = _in_force(context, table, definitions, blocks[0].sequence)
            yield PastCommit(tuple(blocks), checkpoint, definition, last)
        except (LedgerError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            yield PastCommit(tuple(blocks), None, None, last, f"{type(error).__name__}: {error}")
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
    return decode(context.files(table).checkpoints.read_intact(entry.checkpoint_hash))


def stored_source(context: TableContext, table: str, sequence: int | None = None) -> TableSource:
    """A table as its chain describes it, or described it at one of its blocks: it may have grown by columns since."""
    newest = context.control.index.blocks(table, newest=1, kinds=[SetDataSchema.__name__], upto=sequence)
    event = context.files(table).block(newest[0].hash).event if newest else None
    if not isinstance(event, SetDataSchema) or event.schema is None:
        raise UnknownTable(table, sorted(context.control.index.heads()))
    return TableSource(context, table, TableSchema.from_ledger(event.schema))


def shape_then(context: TableContext, definition: Definition, at: Mapping[str, int] | None = None) -> Shape:
    """The shape that a step had by one of its definitions, with each table as it was at a block, if one is given."""
    at = at or {}

    def source(table: str) -> TableSource:
        return stored_source(context, table, at.get(table))

    inputs = [Input(source(table), required, join) for table, required, join in definition.inputs]
    tracked = keys_table_name(definition.step)
    outputs = [source(name) for name in definition.outputs if name != tracked]
    return Shape(definition.step, tuple(inputs), tuple(outputs), definition.keys)


def blocks_then(context: TableContext, definition: Definition, commit: PastCommit) -> dict[str, int]:
    """Where the tables of a step stood when it made a commit: inputs where they were read, outputs where it wrote."""
    read = commit.checkpoint.read if commit.checkpoint else {}
    at = {table: position.sequence for table, position in read.items()}
    for output in definition.outputs:  # one commit has one time, in all tables that it writes
        for newest in context.control.index.blocks(output, newest=1, upto_time=commit.blocks[0].system_time):
            at[output] = newest.sequence
    return at


def read_then(checkpoint: Checkpoint) -> dict[str, int | None]:
    """The last record of each input that a commit read."""
    return {table: at.offset for table, at in checkpoint.read.items()}
