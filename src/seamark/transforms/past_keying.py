"""The keys and the shape that a step had when it made an older commit, with the schemas its tables had at that time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seamark.steps.definition.definition import Definition
from seamark.steps.past.history import PastCommit, stored_source
from seamark.steps.past.replay import NotReplayed
from seamark.tables.context import TableContext
from seamark.tables.kinds import kind_of
from seamark.tables.read.source import TableSource
from seamark.transforms.declare.safe_sql import UnsafeSql, checked_query
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.declare.sql_text import sql_function
from seamark.transforms.function_keying import FunctionKeying
from seamark.transforms.keys.tracking import keys_table_name


def keying_at_commit(today: Definition, keying: FunctionKeying, commit: PastCommit) -> FunctionKeying | None:
    """A function's keys as they were when a commit was made; None if it was made by a function other than today's."""
    definition = commit.definition
    if definition is None:
        return None
    is_todays, kind = today.agrees_with(definition), kind_of(definition.kind)
    if not is_todays and not (kind.is_function and kind.runs_from_chain):
        return None
    # The schemas of that time: tables may have grown since, and the function neither got nor returned those columns.
    context = keying.context
    shape = shape_at_commit(context, definition, blocks_at_commit(context, definition, commit))
    if is_todays:
        return replace(keying, shape=shape)
    names = [source.table for source in shape.inputs]
    # The text comes from the chain, so from strangers: run it only if it is a plain query over its inputs.
    try:
        query = checked_query(definition.source, names)
    except UnsafeSql as error:
        raise NotReplayed(f"its SQL is not run: {error}") from None
    return FunctionKeying(shape, sql_function(query, names, shape.primary.source))


def shape_at_commit(
    context: TableContext,
    definition: Definition,
    at: Mapping[str, int] | None = None,
    *,
    with_hidden: bool = False,
) -> Shape:
    """The shape of a step by an older definition; `at` gives the block of each table whose schema it had.

    Its inputs are those of the function, `with_hidden` for who follows their rows to where these came from.
    """
    at = at or {}

    def source(table: str) -> TableSource:
        return stored_source(context, table, at.get(table))

    def read(table: str) -> TableSource:
        return source(table) if with_hidden else source(table).visible

    inputs = [Input(read(table), required, join) for table, required, join in definition.inputs]
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
