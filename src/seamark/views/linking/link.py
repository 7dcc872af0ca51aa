"""Linking a part: every occurrence of a table gets its number, and every column the source that it is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from seamark.errors import did_you_mean
from seamark.views.issues import MvIssue, issue_in
from seamark.views.linking.scope import Found, Named, Scope, Trouble
from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinCondition,
    MvJoinSource,
    MvLiteral,
    MvPart,
    MvQuery,
    MvReference,
    MvSubquery,
    MvValue,
    MvWindow,
)
from seamark.views.paths.units import refusals_of
from seamark.views.places import MvPlace, MvText
from seamark.views.plain_sql.query import as_computation
from seamark.views.table_info import Tables

IN_CONDITION = "UnknownColumnInCondition"
IN_OUTPUT = "IllegalOutputReference"
ELSEWHERE = "UnknownColumn"


@dataclass(frozen=True)
class Linked:
    """A linked part, and what was found wrong with it on the way."""

    part: MvPart
    issues: tuple[MvIssue, ...]


def link_part(part: MvPart, tables: Tables | None, *, strict: bool) -> Linked:
    """The part with numbers, linked columns and `*` spelled out, as far as `tables` (None: not asked) tell.

    With tables it is also known whether the part has a unit: if not, its `refusals` say why.

    With `strict` a name before a point must be an alias, as it always is in the document's language.
    """
    if part.query is None:
        found = tuple(replace(s, info=tables.find(str(s.table)) if tables else None) for s in part.tables)
        return Linked(replace(part, tables=found), ())
    linker = _Linker(part.text, tables, strict)
    query = linker.query(part.query, None)
    linked = replace(part, query=query, tables=tuple(sorted(linker.leaves, key=_number)))
    if tables is not None and not part.refusals:
        # Only now is it known which expressions are the same: by what windows have in common, for one.
        linked = replace(linked, refusals=refusals_of(linked))
    return Linked(linked, tuple(linker.issues))


@dataclass
class _Linker:
    text: MvText
    tables: Tables | None
    strict: bool
    leaves: list[MvJoinSource] = field(default_factory=list)
    issues: list[MvIssue] = field(default_factory=list)
    next_number: int = 0

    def query(self, query: MvQuery, outer: Scope | None) -> MvQuery:
        """The query, linked; `outer` is the scope around it where it may use columns from there."""
        scope = Scope(outer, later=tuple(source.alias for source in query.sources))
        linked_sources: list[MvJoinSource] = []
        shown: list[tuple[str, MvReference]] = []
        for source in query.sources:
            linked, shown = self._source(source, scope, shown)
            linked_sources.append(linked)
        self._aliases_differ(linked_sources)
        scope.later = ()
        columns: list[MvColumn] = []
        for column in query.columns:
            columns += self._column(column, scope, columns, shown)
        return replace(
            query,
            sources=tuple(linked_sources),
            where=tuple(self._condition(c, scope, ELSEWHERE) for c in query.where),
            columns=tuple(columns),
            groups=self._groups(query, columns, scope),
            having=tuple(self._condition(c, scope, ELSEWHERE, columns) for c in query.having),
            windows=tuple(self._window(w, scope, columns) for w in query.windows),
            others=tuple(self._computation(c, scope, ELSEWHERE, columns) for c in query.others),
        )

    # --- sources ------------------------------------------------------------------------------------------------------

    def _source(
        self, source: MvJoinSource, scope: Scope, shown: list[tuple[str, MvReference]]
    ) -> tuple[MvJoinSource, list[tuple[str, MvReference]]]:
        """The linked source, and all columns that `*` stands for up to it."""
        number, self.next_number = self.next_number, self.next_number + 1
        info = self.tables.find(source.table) if self.tables is not None and source.table is not None else None
        query = None if source.query is None else self.query(source.query, None)
        if query is not None and source.renamed:
            query = self._renamed(query, source)
        before = list(scope.seen())
        found = replace(source, number=number, info=info, query=query)
        named = Named(found, _columns(found))
        scope.sources.append(named)
        scope.later = scope.later[1:]
        using = tuple(self._using(reference, named, before, scope) for reference in source.using)
        conditions = tuple(self._condition(c, scope, IN_CONDITION, (), named) for c in source.conditions)
        found = replace(found, conditions=(*using, *conditions))
        scope.sources[-1] = replace(named, source=found)
        if source.table is not None:
            self.leaves.append(found)
        return found, self._shown(found, named.columns, shown)

    def _renamed(self, query: MvQuery, source: MvJoinSource) -> MvQuery:
        """The query with the names of its columns as in `AS t(a, b)`."""
        if any(column.star is not None for column in query.columns):
            return query
        if len(query.columns) != len(source.renamed):
            message = f"'{source.alias}' names {len(source.renamed)} columns, its query has {len(query.columns)}"
            self._say(ELSEWHERE, message, source.place)
            return query
        columns = zip(query.columns, source.renamed, strict=True)
        return replace(query, columns=tuple(replace(column, name=name) for column, name in columns))

    def _shown(
        self, source: MvJoinSource, columns: tuple[str, ...] | None, shown: list[tuple[str, MvReference]]
    ) -> list[tuple[str, MvReference]]:
        if not source.kind.is_seen:
            return shown
        merged = {reference.words[0].casefold() for reference in source.using}
        first = [pair for pair in shown if pair[0].casefold() in merged]
        rest = [pair for pair in shown if pair[0].casefold() not in merged]
        own = [
            (name, MvReference((source.alias, name), source.place, source.number, name))
            for name in columns or ()
            if name.casefold() not in merged
        ]
        return [*first, *rest, *own]

    def _using(self, reference: MvReference, joined: Named, before: Sequence[Named], scope: Scope) -> MvJoinCondition:
        name = reference.words[0]
        mine = joined.column(name)
        homes = [named for named in before if named.columns is None or named.column(name) is not None]
        merged = scope.merged.get(name.casefold())
        homes = [named for named in homes if named.source.number == merged] if merged is not None else homes
        if mine is None or not homes:
            without = joined.source.alias if mine is None else "what stands before it"
            self._say(IN_CONDITION, f"USING ({name}): {without} has no such column", reference.place)
            homes = list(before)
        home = homes[0]
        scope.merged[name.casefold()] = home.source.number
        left = replace(reference, source=joined.source.number, column=mine or name)
        right = replace(reference, source=home.source.number, column=home.column(name) or name)
        text = reference.place.of(self.text.text)
        computation = MvComputation(text, reference.place, f"using {name.casefold()}", (left, right))
        return MvJoinCondition(computation, left, right, rejects_null=True)

    def _aliases_differ(self, sources: Sequence[MvJoinSource]) -> None:
        seen: set[str] = set()
        for source in sources:
            alias = source.alias.casefold()
            if alias and alias in seen:
                self._say("DuplicateAlias", f"two tables have the alias '{source.alias}'", source.alias_place)
            seen.add(alias)

    # --- columns and groups -------------------------------------------------------------------------------------------

    def _column(
        self, column: MvColumn, scope: Scope, before: Sequence[MvColumn], shown: Sequence[tuple[str, MvReference]]
    ) -> list[MvColumn]:
        if column.star is not None:
            return self._star(column, scope, shown)
        if isinstance(column.value, MvReference):
            value = self._output(column.value, scope, before)
            return [replace(column, value=value)]
        if isinstance(column.value, MvLiteral):
            return [column]
        return [replace(column, value=self._computation(column.value, scope, ELSEWHERE, before))]

    def _output(self, reference: MvReference, scope: Scope, before: Sequence[MvColumn]) -> MvValue:
        """A plain column; where it is no column, one of the columns before it, which Spark lets be used by name."""
        earlier = _by_name(before, reference)
        found = scope.find(reference, None, strict=self.strict)
        if earlier is not None and not isinstance(found, Found):
            return earlier.value
        linked = self._reference(reference, scope, IN_OUTPUT)
        if not linked.is_field:
            return linked
        text = reference.place.of(self.text.text)
        return MvComputation(text, reference.place, " . ".join(reference.words).casefold(), (linked,))

    def _star(self, column: MvColumn, scope: Scope, shown: Sequence[tuple[str, MvReference]]) -> list[MvColumn]:
        if any(named.columns is None for named in scope.seen()):
            return [column]
        left_out = {name.casefold() for name in column.except_}
        found = list(shown)
        if column.star:
            named = next((n for n in scope.seen() if n.alias == str(column.star).casefold()), None)
            if named is None:
                self._say("UnknownAlias", f"there is no table '{column.star}' here", column.place)
                return []
            found = [
                (name, MvReference((named.source.alias, name), column.place, named.source.number, name))
                for name in named.columns or ()
            ]
        return [
            MvColumn(name, replace(reference, place=column.place), column.place, of_star=True)
            for name, reference in found
            if name.casefold() not in left_out
        ]

    def _groups(self, query: MvQuery, columns: Sequence[MvColumn], scope: Scope) -> tuple[MvComputation, ...] | None:
        if query.group_all:
            values = [as_computation(column, self.text.text) for column in columns]
            return tuple(value for value in values if not value.aggregates)
        if query.groups is None:
            return None
        return tuple(self._group(group, columns, scope) for group in query.groups)

    def _group(self, group: MvComputation, columns: Sequence[MvColumn], scope: Scope) -> MvComputation:
        reference = group.plain
        if reference is not None:
            output = _by_name(columns, reference)
            found = scope.find(reference, None, strict=self.strict)
            is_column = isinstance(found, Found) and (
                found.named.columns is not None or output is None or isinstance(output.value, MvReference)
            )
            if output is not None and not is_column:
                return as_computation(output, self.text.text)
        return self._computation(group, scope, ELSEWHERE)

    def _window(self, window: MvWindow, scope: Scope, columns: Sequence[MvColumn]) -> MvWindow:
        found = tuple(self._computation(c, scope, ELSEWHERE, columns) for c in window.partition)
        return replace(window, partition=found)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _condition(
        self,
        condition: MvJoinCondition,
        scope: Scope,
        kind: str,
        columns: Sequence[MvColumn] = (),
        joined: Named | None = None,
    ) -> MvJoinCondition:
        computation = self._computation(condition.computation, scope, kind, columns, joined)
        linked = iter(computation.references)
        sides = [next(linked) if isinstance(s, MvReference) else s for s in (condition.left, condition.right)]
        if any(isinstance(side, MvReference) and side.is_field for side in sides):
            return replace(condition, computation=computation, left=None, right=None)
        return replace(condition, computation=computation, left=sides[0], right=sides[1])

    def _computation(
        self,
        computation: MvComputation,
        scope: Scope,
        kind: str,
        columns: Sequence[MvColumn] = (),
        joined: Named | None = None,
    ) -> MvComputation:
        """The expression, linked. `columns` are output columns that it may use by name where nothing else has it."""
        references = tuple(self._reference(r, scope, kind, columns, joined) for r in computation.references)
        declared = computation.declared
        if declared is not None:
            declared = tuple(self._reference(r, scope, ELSEWHERE) for r in declared)
        queries = tuple(self._subquery(subquery, scope, kind, joined) for subquery in computation.queries)
        return replace(computation, references=references, declared=declared, queries=queries)

    def _subquery(self, subquery: MvSubquery, scope: Scope, kind: str, joined: Named | None) -> MvSubquery:
        left = tuple(None if r is None else self._reference(r, scope, kind, (), joined) for r in subquery.left)
        return replace(subquery, left=left, query=self.query(subquery.query, scope))

    def _reference(
        self,
        reference: MvReference,
        scope: Scope,
        kind: str,
        columns: Sequence[MvColumn] = (),
        joined: Named | None = None,
    ) -> MvReference:
        found = scope.find(reference, joined, strict=self.strict)
        if isinstance(found, Found):
            return replace(reference, source=found.named.source.number, column=found.column, level=found.level)
        if found is not None and _by_name(columns, reference) is None:
            self._trouble(found, reference, kind)
        return reference

    def _trouble(self, trouble: Trouble, reference: MvReference, kind: str) -> None:
        if trouble.what == "forward":
            message = f"'{reference.words[0]}' is joined only later: a condition names tables before it, and its own"
            self._say("ForwardReference", message, reference.place)
        elif trouble.what == "alias":
            message = f"there is no table '{reference.words[0]}' here; "
            known = did_you_mean(reference.words[0], trouble.candidates, "aliases")
            self._say("UnknownAlias", message + known, reference.place)
        elif trouble.what == "several":
            listed = ", ".join(f"'{alias}'" for alias in trouble.candidates)
            self._say(kind, f"'{reference.shown}' is a column of {listed}: write which one", reference.place)
        else:
            where = f"'{trouble.named.source.alias}' has" if trouble.named else "the tables here have"
            name = reference.words[1] if trouble.named else reference.words[0]
            known = did_you_mean(name, trouble.candidates, "columns")
            self._say(kind, f"{where} no column '{name}'; {known}", reference.place)

    def _say(self, kind: str, message: str, place: MvPlace) -> None:
        self.issues.append(issue_in(kind, message, self.text, place.start))


def _by_name(columns: Sequence[MvColumn], reference: MvReference) -> MvColumn | None:
    if len(reference.words) != 1:
        return None
    return next((c for c in columns if c.name.casefold() == reference.words[0].casefold()), None)


def _number(source: MvJoinSource) -> int:
    return source.number


def _columns(source: MvJoinSource) -> tuple[str, ...] | None:
    """The names of a source's columns, None while they are not known."""
    if source.query is not None:
        if any(column.star is not None for column in source.query.columns):
            return None
        return tuple(column.name for column in source.query.columns)
    if source.info is None:
        return None
    return source.info.columns
