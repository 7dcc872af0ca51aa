"""The model of a view: what both front ends make of a text, as frozen values.

A `MvTarget` has parts, and a part one `MvQuery`: sources in the order of the text, conditions, columns, groups. A
source is one occurrence of a table, or a subquery with a query of its own. Every occurrence in a part has a number,
by which linked references name it: a table joined twice is two sources, and a CTE used twice two subqueries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from seamark.views.places import MvPlace, MvScript, MvText
from seamark.views.table_info import MvTableInfo

DEFAULT_PART = "default"


class MvJoinKind(StrEnum):
    """How a source is joined to those before it."""

    FROM = "from"  # the left-most one
    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    ANTI = "anti"
    CROSS = "cross"  # also a comma, and a JOIN without condition

    @property
    def is_seen(self) -> bool:
        """Whether the columns of such a source can be selected."""
        return self not in (MvJoinKind.SEMI, MvJoinKind.ANTI)

    @property
    def keeps_condition_inside(self) -> bool:
        """Whether the ON condition decides about the joined rows only, and no row before is dropped by it as such."""
        return self in (MvJoinKind.LEFT, MvJoinKind.SEMI, MvJoinKind.ANTI)


class MvRefresh(StrEnum):
    """How a view is kept: by units, as a whole, or by units where that is possible."""

    INCREMENTAL = "incremental"
    FULL = "full"
    AUTO = "auto"


class MvUnitKind(StrEnum):
    """What is refreshed at once."""

    OWNER = "owner"  # the rows of one left-most row
    GROUP = "group"
    PARTITION = "partition"
    ALL = "all"


class MvSubqueryKind(StrEnum):
    """How a query stands in an expression."""

    EXISTS = "exists"
    IN = "in"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class MvLiteral:
    """A constant: a whole number or a text, with the words it was written with."""

    value: int | str
    text: str


@dataclass(frozen=True, slots=True)
class MvReference:
    """A column as it was written: `o.id`. Once linked, `source` is the number of the source that has it.

    `level` says how many queries further out that source stands: 0 in the query's own FROM.
    """

    words: tuple[str, ...]
    place: MvPlace
    source: int | None = None
    column: str = ""
    level: int = 0

    @property
    def alias(self) -> str | None:
        """The source's alias as it was written, or None."""
        return self.words[0] if len(self.words) > 1 else None

    @property
    def shown(self) -> str:
        """The reference as a person reads it."""
        return ".".join(self.words)

    @property
    def is_field(self) -> bool:
        """Whether it goes on behind its column, into a struct."""
        if self.source is None:
            return False
        return len(self.words) > 2 or self.words[-1].casefold() != self.column.casefold()


@dataclass(frozen=True, slots=True)
class MvSubquery:
    """A query inside an expression.

    `left` are the references before IN; `is_conjunct` says that the IN is a condition by itself.
    """

    kind: MvSubqueryKind
    query: MvQuery
    negated: bool = False
    left: tuple[MvReference | None, ...] = ()
    is_conjunct: bool = False


@dataclass(frozen=True, slots=True)
class MvComputation:
    """An expression: how a column or a condition is computed.

    `references` are the columns that it uses outside of its `queries`. `declared` are those of COMPUTE ON, None without
    it; an expression that could not be read (`is_readable`) uses these, or all columns without them. `signs` is the
    text without layout, comments and quotes of names: equal for two ways to write the same.
    """

    text: str
    place: MvPlace
    signs: str
    references: tuple[MvReference, ...] = ()
    queries: tuple[MvSubquery, ...] = ()
    declared: tuple[MvReference, ...] | None = None
    is_readable: bool = True
    is_opaque: bool = False  # it stood in #[ … ]#
    aggregates: tuple[MvPlace, ...] = ()
    generates: bool = False  # explode and its kind: several rows of one

    @property
    def plain(self) -> MvReference | None:
        """The column that it is, if it is nothing else."""
        if len(self.references) != 1 or self.queries:
            return None
        only = self.references[0]
        return only if self.signs == " . ".join(only.words).casefold() and not only.is_field else None

    @property
    def used(self) -> tuple[MvReference, ...]:
        """The references and the declared columns."""
        return (*self.references, *(self.declared or ()))


MvValue = MvReference | MvLiteral | MvComputation


@dataclass(frozen=True, slots=True)
class MvJoinCondition:
    """One of the conditions, joined by AND, of an ON, a WHERE or a HAVING.

    `left` and `right` are the two sides of an `=`, else None. `rejects_null` says that it is never true where all its
    columns are NULL.
    """

    computation: MvComputation
    left: MvValue | None = None
    right: MvValue | None = None
    rejects_null: bool = False

    @property
    def columns(self) -> tuple[MvReference, MvReference] | None:
        """The two columns that it compares by `=`, or None."""
        if isinstance(self.left, MvReference) and isinstance(self.right, MvReference):
            return self.left, self.right
        return None


@dataclass(frozen=True, slots=True)
class MvJoinSource:
    """One occurrence of a table, or of a subquery, in FROM. `place` is where its name (or query) stands."""

    alias: str
    kind: MvJoinKind
    place: MvPlace
    table: str | None = None
    query: MvQuery | None = None
    conditions: tuple[MvJoinCondition, ...] = ()
    using: tuple[MvReference, ...] = ()
    has_alias: bool = True  # whether the alias was written, or is the table's name
    renamed: tuple[str, ...] = ()  # AS t(a, b)
    alias_place: MvPlace = field(default_factory=lambda: MvPlace(0, 0))
    number: int = -1
    info: MvTableInfo | None = None


@dataclass(frozen=True, slots=True)
class MvColumn:
    """An output column. `star` is the alias before `.*`, or "" for `*` alone, until its columns are known.

    Each of these then says `of_star`.
    """

    name: str
    value: MvValue
    place: MvPlace
    star: str | None = None
    except_: tuple[str, ...] = ()
    of_star: bool = False

    @property
    def computation(self) -> MvComputation | None:
        """How it is computed, None for a plain column or constant."""
        return self.value if isinstance(self.value, MvComputation) else None


@dataclass(frozen=True, slots=True)
class MvWindow:
    """A window's PARTITION BY expressions; none if the partition is everything."""

    partition: tuple[MvComputation, ...]
    place: MvPlace


@dataclass(frozen=True, slots=True)
class MvQuery:
    """One SELECT: of a part, of a subquery, or of a CTE where it is used."""

    place: MvPlace
    sources: tuple[MvJoinSource, ...]
    where: tuple[MvJoinCondition, ...] = ()
    columns: tuple[MvColumn, ...] = ()
    groups: tuple[MvComputation, ...] | None = None
    having: tuple[MvJoinCondition, ...] = ()
    windows: tuple[MvWindow, ...] = ()
    distinct: bool = False
    group_all: bool = False
    others: tuple[MvComputation, ...] = ()  # of ORDER BY and its kind, within windows too
    list_place: int = 0  # where the list of columns begins: another column may be put there
    from_end: int = 0  # where FROM and WHERE end
    where_place: MvPlace | None = None  # what stands behind WHERE

    @property
    def is_aggregated(self) -> bool:
        """Whether its rows are groups, or one row of everything."""
        if self.groups is not None or self.group_all:
            return True
        return any(c.computation is not None and c.computation.aggregates for c in self.columns) or bool(self.having)

    @property
    def kind(self) -> MvUnitKind:
        """What its rows come from at once, by itself: windows of groups are partitions, DISTINCT is a group."""
        if self.windows:
            return MvUnitKind.PARTITION
        if self.is_aggregated or self.distinct:
            return MvUnitKind.GROUP
        return MvUnitKind.OWNER

    def column(self, name: str) -> MvColumn | None:
        """The output column of this name, in any case."""
        return next((c for c in self.columns if c.name.casefold() == name.casefold()), None)

    def computations(self) -> Iterator[MvComputation]:
        """All expressions of this query itself, its conditions' too."""
        for source in self.sources:
            yield from (condition.computation for condition in source.conditions)
        yield from (condition.computation for condition in self.where)
        yield from (column.value for column in self.columns if isinstance(column.value, MvComputation))
        yield from self.groups or ()
        yield from (condition.computation for condition in self.having)
        for window in self.windows:
            yield from window.partition
        yield from self.others

    def inner(self) -> Iterator[MvQuery]:
        """The queries right inside it: of its sources, then of its expressions."""
        yield from (source.query for source in self.sources if source.query is not None)
        for computation in self.computations():
            yield from (subquery.query for subquery in computation.queries)


@dataclass(frozen=True, slots=True)
class MvRefusal:
    """Why a text has no unit, what to write instead, and where."""

    reason: str
    way_out: str
    place: MvPlace


@dataclass(frozen=True)
class MvPart:
    """One SELECT of a view. `query` is None where the text was only looked through for its tables."""

    alias: str
    text: MvText
    query: MvQuery | None
    tables: tuple[MvJoinSource, ...]  # every occurrence of a table, in the order of their numbers
    refusals: tuple[MvRefusal, ...] = ()
    notes: tuple[MvPlace, ...] = ()  # ORDER BY that changes nothing
    place: int = 0  # in the script
    names: tuple[str, ...] = ()  # of its columns, where its query was not read and they are known

    @property
    def sources(self) -> tuple[MvJoinSource, ...]:
        """The sources of its own FROM."""
        return self.query.sources if self.query is not None else ()

    @property
    def leftmost(self) -> MvJoinSource:
        """The left-most source of its own FROM."""
        return self.sources[0]

    @property
    def columns(self) -> tuple[MvColumn, ...]:
        """The output columns."""
        return self.query.columns if self.query is not None else ()

    @property
    def filter(self) -> tuple[MvJoinCondition, ...]:
        """The conditions of its WHERE."""
        return self.query.where if self.query is not None else ()

    @property
    def groups(self) -> tuple[MvComputation, ...]:
        """The GROUP BY expressions."""
        return (self.query.groups or ()) if self.query is not None else ()

    def source(self, number: int) -> MvJoinSource:
        """The occurrence of a table with this number."""
        return next(source for source in self.tables if source.number == number)


@dataclass(frozen=True)
class MvTarget:
    """A view: its key as written, and parts joined by UNION ALL."""

    name: str
    parts: tuple[MvPart, ...]
    script: MvScript
    place: int
    key: tuple[str, ...] | None = None
    key_place: int = 0
    refresh: MvRefresh = MvRefresh.INCREMENTAL
    destination: str | None = None
    destination_place: int = 0
    dictionaries: tuple[str, ...] = ()
    is_document: bool = False  # written in the document's language
    is_select: bool = False  # given as a SELECT by itself: its name and key do not stand in the text

    @property
    def is_full(self) -> bool:
        """Whether all its rows are one unit."""
        if self.refresh is MvRefresh.INCREMENTAL:
            return False
        return self.refresh is MvRefresh.FULL or any(part.refusals for part in self.parts)

    @property
    def why_full(self) -> str:
        """Why all its rows are one unit though nobody has asked for that; empty if it is not so."""
        if self.refresh is not MvRefresh.AUTO:
            return ""
        return "; ".join(dict.fromkeys(found.reason for part in self.parts for found in part.refusals))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that it reads, each once, in order."""
        return tuple(dict.fromkeys(str(source.table) for part in self.parts for source in part.tables))

    def part(self, alias: str) -> MvPart:
        """The part of this alias."""
        return next(part for part in self.parts if part.alias == alias)

    def with_parts(self, parts: tuple[MvPart, ...]) -> MvTarget:
        """The same view with other parts."""
        return replace(self, parts=parts)
