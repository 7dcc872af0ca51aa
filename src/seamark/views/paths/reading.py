"""Which rows a refresh of some units needs: level by level, each source by values of rows that are read before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.views.paths.actions import Hop, Paths
from seamark.views.paths.lineage import LeafColumn


@dataclass(frozen=True, slots=True)
class LeftmostRead:
    """How the left-most rows of units are found.

    By the unit's values in `columns` of `source`, pairs of a unit column's number and a column, and from there over
    `hops`. Without a source all left-most rows are read; `whole_for_null` are the unit columns that make it so where
    their value is NULL: a row that no LEFT-joined row matches is not found from that side.
    """

    source: int | None
    columns: tuple[tuple[int, str], ...] = ()
    hops: tuple[Hop, ...] = ()
    whole_for_null: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a source that have, in each column of `by`, a value of a column that was read; all rows without one.

    `by` are triples: the source that was read, its column, and the column here. NULL finds nothing.
    """

    source: int
    by: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The left-most rows, then all other sources in levels: those of one level are read at once."""

    leftmost: LeftmostRead
    levels: tuple[tuple[Lookup, ...], ...]


def reading_plan(paths: Paths) -> ReadingPlan:
    """How the rows for some units of a part are read."""
    return ReadingPlan(_leftmost(paths), tuple(_levels(paths)))


def _leftmost(paths: Paths) -> LeftmostRead:
    unit = paths.unit
    own = [(n, c.leaf.column) for n, c in enumerate(unit.columns) if c.leaf and c.leaf.source == unit.leftmost]
    if own:
        return LeftmostRead(unit.leftmost, tuple(own))
    assert unit.query is not None, "a part that was not read has no units"
    inside = paths.facts.lineage.leaves(unit.query)
    nullable = paths.facts.lineage.nullable(unit.query)
    for number, column in enumerate(unit.columns):
        hops = paths.hops(column.leaf.source, unit.leftmost, inside) if column.leaf is not None else ()
        if column.leaf is not None and hops:
            leaf: LeafColumn = column.leaf
            null = (number,) if leaf.source in nullable else ()
            return LeftmostRead(leaf.source, ((number, leaf.column),), hops, null)
    return LeftmostRead(None)


def _levels(paths: Paths) -> Iterator[tuple[Lookup, ...]]:
    ways = sorted({way for equality in paths.facts.equalities for way in equality.read_into()})
    known = {paths.unit.leftmost}
    waiting = [source.number for source in paths.part.tables if source.number not in known]
    while waiting:
        level = [Lookup(number, _by(ways, known, number)) for number in waiting]
        level = [lookup for lookup in level if lookup.by] or level[:1]
        yield tuple(level)
        known |= {lookup.source for lookup in level}
        waiting = [number for number in waiting if number not in known]


def _by(ways: list[tuple[LeafColumn, LeafColumn]], known: set[int], number: int) -> tuple[tuple[int, str, str], ...]:
    return tuple(
        (one.source, one.column, other.column)
        for one, other in ways
        if one.source in known and other.source == number and one.source != number
    )
