"""The keys that a step knows as processed: those of its table `<step>__keys` that count for its outputs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.ledger import SetTransform
from seamark.steps.definition.definition import Definition, from_chain
from seamark.steps.rows.fetch import OFFSET
from seamark.tables.frame import quoted
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource


def processed_keys(keys_table: TableSource, definition: Definition, last: int | None) -> DataFrame:
    """The rows of the table of processed keys, up to a record, that were made together with today's outputs.

    The table is named after the step. A step of this name may have had other outputs, whose keys say nothing of these;
    or other inputs, in another order than today's.
    """
    others = None if last is None else _last_of_others(keys_table, definition)
    rows = read_images(keys_table, upto=last)
    rows = rows if others is None else rows.where(F.col(OFFSET) > others)
    return rows.select(*[quoted(name) for name in keys_table.schema.names])


def _last_of_others(keys_table: TableSource, definition: Definition) -> int | None:
    """The last record from before the definitions that are like today's; None if there were no others."""
    index, table = keys_table.context.control.index, keys_table.name
    begun: int | None = None  # the block with which those that are like it began
    for entry in index.blocks(table, kinds=[SetTransform.__name__]):
        event = keys_table.context.files(table).block(entry.hash).event
        older = from_chain(event) if isinstance(event, SetTransform) else None
        if older is None or not _counts_for(older, definition):
            blocks = index.blocks(table, upto=begun)
            return next((block.last_offset for block in blocks if block.last_offset is not None), None)
        begun = entry.sequence
    return None


def _counts_for(older: Definition, today: Definition) -> bool:
    tables, then = ([table for table, _, _ in definition.inputs] for definition in (today, older))
    same_order = list(dict.fromkeys(tables)) == list(dict.fromkeys(then))
    return set(today.outputs) <= set(older.outputs) and same_order and today.keys == older.keys
