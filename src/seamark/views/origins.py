"""The rows of its tables that a row of a view was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamark.steps.definition.definition import Definition
from seamark.steps.past.checkpoint import ReadAt
from seamark.steps.past.why import Found, first_rows
from seamark.steps.rows.fetch import OFFSET, read_for
from seamark.steps.rows.scope import AllKeys, KeyValues, Scope
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, by_name
from seamark.views.past import keying_from_chain
from seamark.views.refresh.frames import named
from seamark.views.refresh.gather import PartReader, leftmost_rows
from seamark.views.refresh.images import holding
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.units import PART, PartUnits


def joined_rows(
    context: TableContext, definition: Definition, row: Mapping[str, Any], read: Mapping[str, ReadAt], most: int
) -> Iterator[Found]:
    """The rows of each table that a row was made of, at the positions that its commit read, and how many more.

    They are those of the row's unit, without what its plain columns and the literal conditions exclude.
    """
    keying = keying_from_chain(context, definition, with_hidden=True)  # by which the rows behind these are found
    positions = {table: at.offset for table, at in read.items()}
    tables = keying.tables(positions, positions)
    part = keying.units.part(str(row[PART])) if PART in row else keying.units.parts[0]
    scope: Scope = AllKeys()
    if keying.keys:
        arrays = [pa.array([row[name]], keying.key_types[name]) for name in keying.keys]
        scope = KeyValues(pa.Table.from_arrays(arrays, names=list(keying.keys)))

    def whole_rows(table: str, wanted: Scope, columns: Sequence[str]) -> CheckedFrame:
        return read_for(tables.sources[table], wanted, positions[table])

    reader = PartReader(part, tables, whole_rows)
    leftmost = leftmost_rows(keying.units, reader, scope)
    assert leftmost is not None, "the row is of this part"
    frames = _narrowed(part, tables, reader, reader.around(leftmost), row)
    seen: set[tuple[str, int]] = set()
    for number, frame in sorted(frames.items()):
        source = tables.sources[reader.table(number)]
        count, first = frame.count(), first_rows(source, frame, most)
        fresh = [one for one in first if (source.name, one[OFFSET]) not in seen]
        seen.update((source.name, one[OFFSET]) for one in fresh)
        yield source, fresh, count - len(first)


def _narrowed(
    part: PartUnits,
    tables: ViewTables,
    reader: PartReader,
    frames: Mapping[int, CheckedFrame],
    row: Mapping[str, Any],
) -> dict[int, CheckedFrame]:
    """The rows that agree with the row in its plain columns; of tables that are joined, those that such rows name."""
    if part.part.query is None or not part.columns:
        return dict(frames)
    kept = {number: _agreeing(part, tables, reader, number, frame, row) for number, frame in frames.items()}
    for level in reader.plan.levels:
        for lookup in level:
            for known, theirs, mine in lookup.by:
                if known in kept and lookup.source in kept:
                    values = named(kept[known], [theirs], [mine])
                    kept[lookup.source] = kept[lookup.source].semi_join(
                        values, by_name([mine]), tables.session, null_safe=False
                    )
    return kept


def _agreeing(
    part: PartUnits,
    tables: ViewTables,
    reader: PartReader,
    number: int,
    frame: CheckedFrame,
    row: Mapping[str, Any],
) -> CheckedFrame:
    lineage, source = part.paths.facts.lineage, tables.sources[reader.table(number)]
    by_name_of_row = {name.casefold(): name for name in row}
    wanted: dict[str, Any] = {}
    for column in part.part.columns:
        leaf, name = lineage.column(column.value), by_name_of_row.get(column.name.casefold())
        if leaf is not None and leaf.source == number and name is not None:
            wanted[leaf.column] = row[name]
    if wanted:
        arrays = [pa.array([value], source.schema.column(name).type) for name, value in wanted.items()]
        values = LocalFrame(pa.Table.from_arrays(arrays, names=list(wanted)))
        frame = frame.semi_join(values, by_name(list(wanted)), tables.session)
    return holding(frame, part.paths.facts.literals(number), source)
