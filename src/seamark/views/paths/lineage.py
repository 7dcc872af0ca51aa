"""Where the columns of a part come from: through subqueries and CTEs down to columns of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinKind,
    MvJoinSource,
    MvPart,
    MvQuery,
    MvReference,
    MvUnitKind,
    MvValue,
)
from seamark.views.plain_sql.query import as_computation


@dataclass(frozen=True, slots=True, order=True)
class LeafColumn:
    """A column of one occurrence of a table."""

    source: int
    column: str


def plain_reference(value: MvValue) -> MvReference | None:
    """The column that a value is, if it is nothing else."""
    if isinstance(value, MvReference):
        return None if value.is_field else value
    return value.plain if isinstance(value, MvComputation) else None


def same_expression(one: MvComputation, other: MvComputation) -> bool:
    """Whether two expressions of one query are the same: the same column, or written alike with the same columns."""
    first, second = one.plain, other.plain
    if first is not None and second is not None:
        return (first.source, first.column) == (second.source, second.column) and first.source is not None
    columns = [[(r.source, r.column) for r in each.references] for each in (one, other)]
    return one.signs == other.signs and columns[0] == columns[1]


@dataclass(frozen=True)
class Lineage:
    """Follows the columns of a linked part."""

    part: MvPart

    @property
    def top(self) -> MvQuery:
        """The part's own query."""
        assert self.part.query is not None, "only the tables of this part are known"
        return self.part.query

    @cached_property
    def items(self) -> dict[int, MvJoinSource]:
        """All sources, tables and subqueries, by number."""
        return {source.number: source for query in self.queries() for source in query.sources}

    def queries(self) -> Iterator[MvQuery]:
        """The part's query and all inside it."""
        waiting = [self.top]
        while waiting:
            query = waiting.pop()
            yield query
            waiting.extend(query.inner())

    def generators(self) -> Iterator[MvComputation]:
        """The expressions that give several rows of one, in the part's query and in those that it reads from."""
        waiting = [self.top]
        while waiting:
            query = waiting.pop()
            yield from (computation for computation in query.computations() if computation.generates)
            waiting.extend(source.query for source in query.sources if source.query is not None)

    # --- columns ------------------------------------------------------------------------------------------------------

    def column(self, value: MvValue) -> LeafColumn | None:
        """The table's column that a value is, or None where it is computed on the way."""
        reference = plain_reference(value)
        if reference is None or reference.source is None:
            return None
        source = self.items[reference.source]
        if source.query is None:
            return LeafColumn(reference.source, reference.column)
        return self.output(source.query, source.query.column(reference.column))

    def output(self, query: MvQuery, column: MvColumn | None) -> LeafColumn | None:
        """The table's column that an output column of a query is.

        Out of groups only the columns that they are made by lead, and out of windows those that are common to all of
        their partitions: a row with another value there belongs to the same group.
        """
        if column is None:
            return None
        if query.kind is not MvUnitKind.OWNER and not self._is_unit(query, column):
            return None
        return self.column(column.value)

    def _is_unit(self, query: MvQuery, column: MvColumn) -> bool:
        if plain_reference(column.value) is None:
            return False
        own = as_computation(column, self.part.text.text)
        return any(same_expression(own, unit) for unit in self.unit_of(query))

    # --- units --------------------------------------------------------------------------------------------------------

    def unit_of(self, query: MvQuery) -> tuple[MvComputation, ...]:
        """The expressions whose values make a group or partition of a query's rows; none for owners."""
        if query.kind is MvUnitKind.PARTITION:
            return self.common_partition(query)
        if query.kind is MvUnitKind.OWNER:
            return ()
        if query.groups is not None:
            return query.groups
        if query.is_aggregated:
            return ()
        return tuple(as_computation(column, self.part.text.text) for column in query.columns)

    @staticmethod
    def common_partition(query: MvQuery) -> tuple[MvComputation, ...]:
        """The PARTITION BY expressions that all windows of a query have."""
        first, *others = query.windows
        found: list[MvComputation] = []
        for expression in first.partition:
            everywhere = all(any(same_expression(expression, e) for e in window.partition) for window in others)
            if everywhere and not any(same_expression(expression, known) for known in found):
                found.append(expression)
        return tuple(found)

    @cached_property
    def chain(self) -> tuple[MvQuery, ...]:
        """The queries from the top to the one whose rows are the units: down the left-most items while plain."""
        found = [self.top]
        while found[-1].kind is MvUnitKind.OWNER and found[-1].sources[0].query is not None:
            found.append(found[-1].sources[0].query)
        return tuple(found)

    @property
    def unit_query(self) -> MvQuery:
        """The query that decides what a unit is."""
        return self.chain[-1]

    @cached_property
    def leftmost(self) -> MvJoinSource:
        """The left-most table."""
        source = self.unit_query.sources[0]
        while source.query is not None:
            source = source.query.sources[0]
        return source

    # --- leaves -------------------------------------------------------------------------------------------------------

    def leaves(self, query: MvQuery) -> frozenset[int]:
        """The numbers of all tables in a query, those of its conditions too."""
        own = {source.number for source in query.sources if source.query is None}
        return frozenset(own.union(*(self.leaves(inner) for inner in query.inner())))

    def leaves_of(self, source: MvJoinSource) -> frozenset[int]:
        """The numbers of the tables that a source is made of."""
        return frozenset({source.number}) if source.query is None else self.leaves(source.query)

    def nullable(self, query: MvQuery | None) -> frozenset[int]:
        """The tables in FROM of a query whose columns may be NULL because they are LEFT-joined."""
        if query is None:
            return frozenset()
        found: set[int] = set()
        for source in query.sources:
            if source.kind is MvJoinKind.LEFT:
                found |= self.leaves_of(source)
            found |= self.nullable(source.query)
        return frozenset(found)

    def in_from(self, query: MvQuery) -> frozenset[int]:
        """The tables of a query's FROM, through its subqueries; those of conditions left out."""
        return frozenset(
            number
            for source in query.sources
            for number in ([source.number] if source.query is None else self.in_from(source.query))
        )


def any_inner_unit(sources: Iterable[MvJoinSource]) -> MvJoinSource | None:
    """A source of FROM with groups or windows in it, or columns made by queries, however deep; or None."""
    for source in sources:
        if source.query is None:
            continue
        made_by_query = any(c.computation is not None and c.computation.queries for c in source.query.columns)
        if source.query.kind is not MvUnitKind.OWNER or made_by_query:
            return source
        if any_inner_unit(source.query.sources) is not None:
            return source
    return None
