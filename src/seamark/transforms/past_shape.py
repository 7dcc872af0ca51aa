"""The shape that a step had when it made a commit, with its tables as they were then."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.steps.definition.definition import Definition
from seamark.steps.past.history import PastCommit, stored_source
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keys.tracking import keys_table_name


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
    """How far the tables of a step were when it made a commit: inputs where they were read, outputs where it wrote."""
    read = commit.checkpoint.read if commit.checkpoint else {}
    at = {table: position.sequence for table, position in read.items()}
    for output in definition.outputs:  # one commit has one time, in all tables that it writes
        for newest in context.control.index.blocks(output, newest=1, upto_time=commit.blocks[0].system_time):
            at[output] = newest.sequence
    return at
