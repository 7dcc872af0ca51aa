"""The shape that a step had when it made an older commit, with the schemas its tables had at that time."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.steps.definition.definition import Definition
from seamark.steps.past.history import PastCommit, stored_source
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keys.tracking import keys_table_name


def shape_at_commit(context: TableContext, definition: Definition, at: Mapping[str, int] | None = None) -> Shape:
    """The shape of a step by an older definition; `at` gives the block of each table whose schema it had."""
    at = at or {}

    def source(table: str) -> TableSource:
        return stored_source(context, table, at.get(table))

    inputs = [Input(source(table), required, join) for table, required, join in definition.inputs]
    tracked = keys_table_name(definition.step)
    outputs = [source(name) for name in definition.outputs if name != tracked]
    return Shape(definition.step, tuple(inputs), tuple(outputs), definition.keys)


def blocks_at_commit(context: TableContext, definition: Definition, commit: PastCommit) -> dict[str, int]:
    """The block that each table of a step was at in a commit: inputs where it read them, outputs where it wrote."""
    read = commit.checkpoint.read if commit.checkpoint else {}
    at = {table: position.sequence for table, position in read.items()}
    for output in definition.outputs:  # a commit has the same time in all tables that it writes
        for newest in context.control.index.blocks(output, newest=1, upto_time=commit.blocks[0].system_time):
            at[output] = newest.sequence
    return at
