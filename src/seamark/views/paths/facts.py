"""What the conditions of a part say: which columns are equal and in which direction that leads, which rows of a table
can matter at all, and which columns are used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from seamark.views.model import (
    MvComputation,
    MvJoinCondition,
    MvJoinKind,
    MvJoinSource,
    MvPart,
    MvQuery,
    MvReference,
    MvSubqueryKind,
)
from seamark.views.paths.lineage import LeafColumn, Lineage


@dataclass(frozen=True, slots=True)
class Equality:
    """Two columns that are equal in every joined row.

    One from the ON of a LEFT, SEMI or ANTI source, or from a correlation, leads only out of that source: `out_of` are
    its tables. Where such a condition fails the row before stays, so a value there says nothing of what is joined.
    """

    left: LeafColumn
    right: LeafColumn
    out_of: frozenset[int] | None = None

    def directed(self) -> Iterator[tuple[LeafColumn, LeafColumn]]:
        """The ways that it leads."""
        for one, other in ((self.left, self.right), (self.right, self.left)):
            if self.out_of is None or one.source in self.out_of:
                yield one, other

    def read_into(self) -> Iterator[tuple[LeafColumn, LeafColumn]]:
        """The ways in which it may narrow what is read: only into a LEFT, SEMI or ANTI source, never out of it."""
        for one, other in ((self.left, self.right), (self.right, self.left)):
            if self.out_of is None or other.source in self.out_of:
                yield one, other


@dataclass(frozen=True, slots=True)
class LiteralCondition:
    """A condition on the columns of one source alone: a row for which it is not true changes no unit."""

    source: int
    computation: MvComputation
    columns: tuple[tuple[MvReference, str], ...]  # each reference, with the table's column that it is

    @property
    def used(self) -> tuple[str, ...]:
        """The table's columns that it uses."""
        return tuple(dict.fromkeys(column for _, column in self.columns))

    def sql(self, alias: str) -> str:
        """The condition as it was written, over a table of this alias."""
        by = dict(self.columns)
        return rendered(self.computation, lambda reference: f"{alias}.{quoted(by[reference])}")


def rendered(computation: MvComputation, name: Callable[[MvReference], str]) -> str:
    """An expression's own words, with other names for its columns."""
    shown, last, begin = [], 0, computation.place.start
    for reference in sorted(computation.references, key=lambda r: r.place):
        start = reference.place.start - begin
        shown += [computation.text[last:start], name(reference)]
        last = reference.place.end - begin
    return "".join([*shown, computation.text[last:]])


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Facts:
    """Equalities, literal conditions and used columns of a linked part."""

    part: MvPart

    @cached_property
    def lineage(self) -> Lineage:
        """Where its columns come from."""
        return Lineage(self.part)

    @cached_property
    def _found(self) -> _Walk:
        walk = _Walk(self.lineage)
        walk.query(self.lineage.top)
        return walk

    @property
    def equalities(self) -> tuple[Equality, ...]:
        """Columns that are equal."""
        return tuple(self._found.equalities)

    def literals(self, source: int) -> tuple[LiteralCondition, ...]:
        """The literal conditions of a source."""
        return tuple(self._found.literals[source])

    @cached_property
    def used(self) -> dict[int, frozenset[str]]:
        """The columns of each source that the part's rows depend on."""
        return _used(self.lineage)


@dataclass
class _Walk:
    """Goes through all conditions once. `correlated` are the tables of the expressions' queries around a condition."""

    lineage: Lineage
    equalities: list[Equality] = field(default_factory=list)
    literals: defaultdict[int, list[LiteralCondition]] = field(default_factory=lambda: defaultdict(list))
    correlated: list[frozenset[int]] = field(default_factory=list)

    def query(self, query: MvQuery) -> None:
        """A query with all inside it."""
        nullable = self.lineage.nullable(query)
        for source in query.sources:
            if source.query is not None:
                self._apart(source.query)
            inside = self.lineage.leaves_of(source) if source.kind.keeps_condition_inside else None
            for condition in source.conditions:
                self._condition(condition, inside, self._possibly_null(source, inside, nullable))
        for condition in query.where:
            self._condition(condition, None, nullable)
        conditions = {id(c.computation) for s in query.sources for c in s.conditions} | {
            id(c.computation) for c in query.where
        }
        for computation in query.computations():
            if id(computation) not in conditions:
                self._subqueries(computation)

    def _apart(self, query: MvQuery) -> None:
        """A query in FROM: no row around it is known there."""
        self.query(query)

    def _possibly_null(
        self, source: MvJoinSource, inside: frozenset[int] | None, nullable: frozenset[int]
    ) -> frozenset[int]:
        """The tables whose columns may be NULL, where the source's ON is decided, because they are LEFT-joined."""
        return nullable if inside is None else self.lineage.nullable(source.query)

    def _condition(self, condition: MvJoinCondition, inside: frozenset[int] | None, nullable: frozenset[int]) -> None:
        if condition.columns is not None:
            self._equal(*condition.columns, inside)
        self._literal(condition, inside, nullable)
        self._subqueries(condition.computation)

    def _equal(self, left: MvReference, right: MvReference, inside: frozenset[int] | None) -> None:
        one, other = self.lineage.column(left), self.lineage.column(right)
        if one is None or other is None or one == other:
            return
        if inside is not None and one.source not in inside and other.source not in inside:
            return
        outer = (left.level > 0) + (right.level > 0)
        if outer == 2:
            return
        self.equalities.append(Equality(one, other, self.correlated[-1] if outer else inside))

    def _literal(self, condition: MvJoinCondition, inside: frozenset[int] | None, nullable: frozenset[int]) -> None:
        computation = condition.computation
        if computation.queries or not computation.is_readable or not computation.references:
            return
        if any(reference.level for reference in computation.references):
            return
        columns = [(reference, self._whole(reference)) for reference in computation.references]
        numbers = {column.source for _, column in columns if column is not None}
        if len(numbers) != 1 or any(column is None for _, column in columns):
            return
        (number,) = numbers
        if inside is not None and number not in inside:
            return
        if number in nullable and not condition.rejects_null:
            return
        found = tuple((reference, column.column) for reference, column in columns if column is not None)
        self.literals[number].append(LiteralCondition(number, computation, found))

    def _whole(self, reference: MvReference) -> LeafColumn | None:
        """The column of a reference; a field of a struct cannot be named through a subquery, so it is None."""
        return None if reference.is_field else self.lineage.column(reference)

    def _subqueries(self, computation: MvComputation) -> None:
        for subquery in computation.queries:
            inside = self.lineage.leaves(subquery.query)
            self.correlated.append(inside)
            self.query(subquery.query)
            self.correlated.pop()
            if subquery.kind is not MvSubqueryKind.IN or not subquery.is_conjunct:
                continue
            for left, column in zip(subquery.left, subquery.query.columns, strict=False):
                one = None if left is None else self.lineage.column(left)
                other = self.lineage.output(subquery.query, column)
                if one is not None and other is not None:
                    self.equalities.append(Equality(one, other, inside))


# --- used columns -----------------------------------------------------------------------------------------------------


def _used(lineage: Lineage) -> dict[int, frozenset[str]]:
    used: defaultdict[int, set[str]] = defaultdict(set)
    _use(lineage.top, None, used)
    leftmost = lineage.leftmost
    if leftmost.info is not None:
        used[leftmost.number] |= set(leftmost.info.schema.key)
    return {source.number: frozenset(used[source.number]) for source in lineage.part.tables}


def _use(query: MvQuery, needed: Iterable[str] | None, used: defaultdict[int, set[str]]) -> None:
    """Note the columns that a query uses; `needed` are those of its own that are used outside, None for all."""
    unlinked = any(r.source is None for c in query.computations() for r in c.references)
    if query.distinct or unlinked:
        needed = None
    wanted = None if needed is None else {name.casefold() for name in needed}
    left_out = set()
    for column in query.columns:
        if wanted is not None and column.name.casefold() not in wanted:
            if column.computation is None or not column.computation.generates:  # how many rows there are counts too
                left_out.add(id(column.value))
        elif isinstance(column.value, MvReference):
            _note(column.value, used)
    for computation in query.computations():
        if id(computation) not in left_out:
            _use_computation(computation, query, used)
    for source in query.sources:
        if source.query is not None:
            _use(source.query, used[source.number], used)


def _use_computation(computation: MvComputation, query: MvQuery, used: defaultdict[int, set[str]]) -> None:
    for reference in computation.used:
        _note(reference, used)
    if not computation.is_readable and computation.declared is None:
        for source in query.sources:
            used[source.number] |= set(_all_columns(source))
    for subquery in computation.queries:
        _use(subquery.query, () if subquery.kind is MvSubqueryKind.EXISTS else None, used)
        for left in subquery.left:
            if left is not None:
                _note(left, used)


def _note(reference: MvReference, used: defaultdict[int, set[str]]) -> None:
    if reference.source is not None:
        used[reference.source].add(reference.column)


def _all_columns(source: MvJoinSource) -> Iterator[str]:
    if source.query is not None:
        yield from (column.name for column in source.query.columns)
    elif source.info is not None and source.kind is not MvJoinKind.SEMI and source.kind is not MvJoinKind.ANTI:
        yield from source.info.columns
