"""The rows of its inputs that a row of a step was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import ReadAt
from seamark.steps.past.why import Found, first_rows
from seamark.steps.rows.fetch import OFFSET
from seamark.steps.rows.scope import AllKeys, KeyValues, rows_within
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame
from seamark.transforms.compute.gather import gather
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.past_keying import shape_at_commit


def input_rows(
    context: TableContext, definition: Definition, row: Mapping[str, Any], read: Mapping[str, ReadAt], most: int
) -> Iterator[Found]:
    """The rows of each input that a row was made of, at the positions that its commit read them, and how many more."""
    shape = shape_at_commit(context, definition, with_hidden=True)
    positions = {table: at.offset for table, at in read.items()}
    scope: AllKeys | KeyValues = AllKeys()
    if shape.group:
        arrays = [pa.array([row[name]], shape.key_types[name]) for name in shape.group]
        scope = KeyValues(pa.Table.from_arrays(arrays, names=list(shape.group)))
    gathered = gather(shape, scope, positions, {})
    seen: set[tuple[str, int]] = set()
    for source, frame in zip(shape.inputs, gathered.frames, strict=True):
        rows = _of_the_key(shape, source, frame, row)
        count, first = rows.count(), first_rows(source.source, rows, most)
        fresh = [one for one in first if (source.table, one[OFFSET]) not in seen]
        seen.update((source.table, one[OFFSET]) for one in fresh)
        yield source.source, fresh, count - len(first)


def _of_the_key(shape: Shape, source: Input, rows: CheckedFrame, row: Mapping[str, Any]) -> CheckedFrame:
    """Rows of an input that has more of the key than the group: those of this very key."""
    part = source.part_of(shape.keys)
    if source.is_reference or rows.in_memory is None or set(part) <= set(shape.group):
        return rows
    arrays = [pa.array([row[name]], shape.key_types[name]) for name in part]
    return rows_within(KeyValues(pa.Table.from_arrays(arrays, names=list(part))), source.source, rows)
