"""The past of a derived table: its commits, how each came about, and the definition in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.control import BlockEntry
from seamark.errors import LedgerError, UnknownTable
from seamark.ledger import ExecuteTransform, SetDataSchema, SetTransform
from seamark.steps.definition.definition import Definition, from_chain
from seamark.steps.past.checkpoint import Checkpoint, decode
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import TableSchema

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


def read_at_commit(checkpoint: Checkpoint) -> dict[str, int | None]:
    """The last record of each input that a commit read."""
    return {table: at.offset for table, at in checkpoint.read.items()}
