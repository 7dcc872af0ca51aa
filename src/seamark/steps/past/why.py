"""Provenance: from a row to the block that made it, and on to the input records behind it, down to the roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seamark.control import Mode
from seamark.errors import FrameMismatch, NoSuchRow
from seamark.ledger import ExecuteTransform
from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import ReadAt
from seamark.steps.past.history import checkpoint_of, definition_at
from seamark.steps.rows.fetch import OFFSET, read_for
from seamark.steps.rows.scope import KeyValues
from seamark.tables.context import TableContext
from seamark.tables.far_times import python_rows
from seamark.tables.frame import CheckedFrame
from seamark.tables.frames import check_wanted_keys
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import first_small
from seamark.tables.schema.table_schema import check_columns


@dataclass(frozen=True)
class Provenance:
    """Where a row came from: the record that made it, its block, the step, and the input rows that it was made of.

    `inputs` are provenances themselves, down to root records. `omitted` counts input rows that were not followed;
    `definition` is the step's source as it was in force; `row` holds the row's values.
    """

    table: str
    key: Mapping[str, Any]
    offset: int
    block: str
    step: str | None = None
    inputs: tuple[Provenance, ...] = ()
    row: Mapping[str, Any] | None = None
    omitted: int = 0
    definition: str | None = None
    mode: Mode | None = None

    def walk(self) -> Iterator[Provenance]:
        """This row and all rows behind it."""
        yield self
        for behind in self.inputs:
            yield from behind.walk()


Found = tuple[TableSource, list[dict[str, Any]], int]
"""A table, some of its rows that another row was made of, each with its `_offset`, and how many more there are."""

RowsBehind = Callable[[TableContext, Definition, Mapping[str, Any], Mapping[str, ReadAt], int], Iterator[Found]]
"""From a definition, a row that it made, where its commit read the inputs, and how many rows of each are wanted."""


def provenance(
    context: TableContext,
    source: TableSource,
    key: Mapping[str, Any],
    most: int,
    rows_behind: Mapping[str, RowsBehind],
) -> Provenance:
    """The provenance of the row with a key as it is now, or `NoSuchRow`.

    `rows_behind` finds the rows that a row was made of, by the kind of definition.
    """
    wanted = _key_row(source, key)
    head = context.control.index.head(source.name)
    found = read_for(source, KeyValues(wanted), head.last_offset if head else None)
    rows = first_rows(source, found, 1)
    if not rows:
        shown = ", ".join(f"{name}={value}" for name, value in key.items())
        raise NoSuchRow(
            f"table '{source.name}' has no row with {shown}.",
            hint=f"`seamark show {source.name}` lists its rows; a row that was deleted has no provenance.",
        )
    return _behind(context, source, rows[0], most, rows_behind)


def _key_row(source: TableSource, key: Mapping[str, Any]) -> pa.Table:
    schema = source.schema
    if not schema.key:
        raise FrameMismatch(
            f"table '{source.name}' is append-only: its records have no key to ask by.",
            hint=f"`seamark log {source.name}` shows its blocks.",
        )
    if not isinstance(key, Mapping):
        raise FrameMismatch(
            f"the key of a row is a mapping of columns to values, and not {key!r}.",
            hint="give one such as {" + ", ".join(f"'{name}': …" for name in schema.key) + "}.",
        )
    check_columns(source.name, schema.key, list(key))
    missing = [name for name in schema.key if name not in key]
    if missing:
        raise FrameMismatch(
            f"the key of table '{source.name}' has more columns: {', '.join(missing)}.",
            hint=f"give all of {', '.join(schema.key)}.",
        )
    checked = check_wanted_keys(source.name, schema, [dict(key)])
    return checked.to_arrow()


def _behind(
    context: TableContext,
    source: TableSource,
    row: Mapping[str, Any],
    most: int,
    rows_behind: Mapping[str, RowsBehind],
) -> Provenance:
    """The provenance of a row in memory with its `_offset`."""
    offset = row[OFFSET]
    entry = context.control.index.slices(source.name, after=offset - 1, upto=offset)[0]
    values = {name: value for name, value in row.items() if name != OFFSET}
    shown = {name: values[name] for name in source.schema.visible.names}
    key = {name: row[name] for name in source.schema.key} or shown
    event = context.files(source.name).block(entry.hash).event
    checkpoint = checkpoint_of(context, source.name, entry)
    definition = definition_at(context, source.name, entry.sequence)
    if not isinstance(event, ExecuteTransform) or checkpoint is None or definition is None:
        return Provenance(source.name, key, offset, entry.hash, row=shown)
    inputs: list[Provenance] = []
    omitted = 0
    find = rows_behind.get(str(definition.kind), _nothing)  # a kind that is not known may be one of a later version's
    for behind, rows, left in find(context, definition, values, checkpoint.read, most):
        inputs += [_behind(context, behind, one, most, rows_behind) for one in rows]
        omitted += left
    return Provenance(
        table=source.name,
        key=key,
        offset=offset,
        block=entry.hash,
        step=definition.step,
        inputs=tuple(inputs),
        row=shown,
        omitted=omitted,
        definition=definition.source,
        mode=checkpoint.mode,
    )


def _nothing(*_: object) -> Iterator[Found]:
    return iter(())


def first_rows(source: TableSource, found: CheckedFrame, most: int) -> list[dict[str, Any]]:
    """The first rows, at most so many, and fewer where they are large."""
    if found.in_memory is not None:
        return python_rows(found.in_memory.slice(0, most))
    columns = {OFFSET: pa.int64(), **{column.name: column.type for column in source.schema.columns}}
    return python_rows(first_small(found.to_spark(source.context.session), columns, most))
