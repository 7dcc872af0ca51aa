"""What is refreshed at once: the unit of a part, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.views.model import (
    MvComputation,
    MvPart,
    MvQuery,
    MvRefusal,
    MvUnitKind,
)
from seamark.views.paths.facts import quoted
from seamark.views.paths.lineage import LeafColumn, Lineage, any_inner_unit, same_expression
from seamark.views.places import MvPlace
from seamark.views.plain_sql.query import as_computation
from seamark.views.plain_sql.refusals import refusal


@dataclass(frozen=True, slots=True)
class UnitColumn:
    """One value of a unit: a column of a table (`leaf`), or computed. `expression` is None for an owner's key."""

    expression: MvComputation | None
    leaf: LeafColumn | None

    @property
    def shown(self) -> str:
        """The column as a person reads it."""
        if self.expression is not None:
            return self.expression.text
        return self.leaf.column if self.leaf is not None else "?"


@dataclass(frozen=True, slots=True)
class MvUnit:
    """What is refreshed at once. `query` decides it, and `leftmost` is the number of its left-most table."""

    kind: MvUnitKind
    columns: tuple[UnitColumn, ...]
    query: MvQuery | None
    leftmost: int

    @property
    def is_owner(self) -> bool:
        """Whether it is the rows of one left-most row."""
        return self.kind is MvUnitKind.OWNER


def unit_of(part: MvPart) -> MvUnit:
    """The unit of a linked part; all rows where its query was not read."""
    if part.query is None or not part.query.sources:
        return MvUnit(MvUnitKind.ALL, (), None, -1)
    lineage = Lineage(part)
    query, leftmost = lineage.unit_query, lineage.leftmost
    if query.kind is MvUnitKind.OWNER:
        key = leftmost.info.schema.key if leftmost.info is not None else ()
        columns = tuple(UnitColumn(None, LeafColumn(leftmost.number, name)) for name in key)
        return MvUnit(MvUnitKind.OWNER, columns, query, leftmost.number)
    found = tuple(UnitColumn(e, lineage.column(e)) for e in lineage.unit_of(query))
    return MvUnit(query.kind, found, query, leftmost.number)


def refusals_of(part: MvPart) -> tuple[MvRefusal, ...]:
    """Why a linked part has no unit, beside what was refused when it was read."""
    if part.query is None or not part.query.sources:
        return ()
    return tuple(_refusals(Lineage(part)))


def _refusals(lineage: Lineage) -> Iterator[MvRefusal]:
    query = lineage.unit_query
    if query.kind is MvUnitKind.OWNER:
        return
    if query.kind is MvUnitKind.PARTITION:
        yield from _partition_refusals(lineage, query)
    elif query.is_aggregated and not query.groups and not query.group_all:
        yield refusal("an aggregate without GROUP BY", _aggregate_place(query))
    elif query.group_all and not query.groups:
        yield refusal("an aggregate without GROUP BY", query.place)
    if query.distinct and (query.groups or query.windows):
        shown = [as_computation(column, lineage.part.text.text) for column in query.columns]
        if not all(any(same_expression(unit, column) for column in shown) for unit in lineage.unit_of(query)):
            yield refusal("DISTINCT over groups", query.place)
    for expression in lineage.unit_of(query):
        if expression.queries:
            yield refusal("a group by a query", expression.place)
    inner = any_inner_unit(query.sources)
    if inner is not None:
        yield refusal("a group over groups", inner.place)


def _partition_refusals(lineage: Lineage, query: MvQuery) -> Iterator[MvRefusal]:
    common = lineage.common_partition(query)
    if not common:
        empty = next((window for window in query.windows if not window.partition), query.windows[-1])
        yield refusal("a window", empty.place)
    elif query.is_aggregated:
        groups = query.groups or ()
        for expression in common:
            if not any(same_expression(expression, group) for group in groups):
                yield refusal("a partition over groups", expression.place)


def _aggregate_place(query: MvQuery) -> MvPlace:
    for column in query.columns:
        if column.computation is not None and column.computation.aggregates:
            return column.computation.aggregates[0]
    return query.having[0].computation.place if query.having else query.place


# --- units at the top -------------------------------------------------------------------------------------------------


def selectable(part: MvPart, unit: MvUnit) -> tuple[str | None, ...]:
    """How each value of a unit is written in the list of columns of the part; None where it cannot be.

    A unit that is decided by a subquery must come out of it: only what the subquery selects can be named outside.
    """
    lineage = Lineage(part)
    return tuple(_selectable(lineage, column) for column in unit.columns)


def _selectable(lineage: Lineage, column: UnitColumn) -> str | None:
    *around, inner = lineage.chain
    expression = column.expression
    if not around:
        if expression is not None:
            return expression.text
        return _named(inner.sources[0].alias, column.leaf.column) if column.leaf is not None else None
    name = _output_name(lineage, inner, column)
    for query in reversed(around):
        if name is None:
            return None
        source = query.sources[0]
        shown = _named(source.alias, name) if source.alias else quoted(name)
        if query is lineage.top:
            return shown
        name = _passed_on(query, source.number, name)
    return None


def _named(alias: str, column: str) -> str:
    return f"{quoted(alias)}.{quoted(column)}"


def _output_name(lineage: Lineage, query: MvQuery, column: UnitColumn) -> str | None:
    for output in query.columns:
        if column.expression is not None:
            if same_expression(as_computation(output, lineage.part.text.text), column.expression):
                return output.name
        elif lineage.column(output.value) == column.leaf:
            return output.name
    return None


def _passed_on(query: MvQuery, number: int, name: str) -> str | None:
    """The name under which a query gives on a column of its left-most item."""
    for output in query.columns:
        reference = as_computation(output, "").plain if output.computation is None else output.computation.plain
        if reference is not None and reference.source == number and reference.column.casefold() == name.casefold():
            return output.name
    return None
