"""The phase `analysis`: every query that a run would send is analysed by Spark, and what fails is blamed on its place.

A view is analysed on empty tables. When its SELECT fails, each of its expressions is tried without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.tables.schema.convert import convertible
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.schema.types import arrow_type, spark_name, spark_type
from seamark.views.analysis.calls import call_issues
from seamark.views.analysis.floats import float_issues
from seamark.views.analysis.scratch import RefusedQuery, Scratch, scratch_in
from seamark.views.checks.check import Analyse, Checked
from seamark.views.checks.key_checks import unit_type, unit_type_issues
from seamark.views.checks.metadata_phase import are_alike
from seamark.views.issues import MvIssue, issue_at, issue_in
from seamark.views.model import MvPart, MvTarget, MvUnitKind
from seamark.views.paths.actions import ActionSync, Paths, paths_of
from seamark.views.paths.keys import KeyChoice, key_of
from seamark.views.paths.units import unit_of
from seamark.views.places import MvPlace
from seamark.views.spec import AnalysedView
from seamark.views.sql.queries import path_query, refresh_query
from seamark.views.sql.texts import Changes, part_text, united, with_tables
from seamark.views.sql.units import units_query
from seamark.views.table_info import MvTableInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Types = Mapping[str, pa.DataType | None]
"""The columns that a part gives, each with its type as a table would hold it, or None if no table can."""

Known = Callable[[Checked], Mapping[str, AnalysedView]]
"""What was found of views before, by name, where it still holds."""


def analysis(session: Callable[[], SparkSession], known: Known = lambda _: {}) -> Analyse:
    """What checks call for the phase `analysis`. Spark is not asked of views that are known from before."""

    def analyse(checked: Checked) -> list[tuple[str, MvIssue]] | None:
        targets = [t for t in checked.context.in_order() if t.name not in checked.wrong_views]
        before = known(checked)
        if all(target.name in before for target in targets):
            return None if targets else []
        with scratch_in(session()) as scratch:
            found = list(_Analysis(checked, scratch, before).issues(targets))
        return [(view, replace(issue, phase="analysis")) for view, issue in found]  # some kinds are found before, too

    return analyse


@dataclass(frozen=True)
class _Masked:
    """An expression that can be left out of a query: where it is, what stands for it, and what is blamed on it."""

    place: MvPlace
    instead: str
    kind: str
    named: str


class _Analysis:
    def __init__(self, checked: Checked, scratch: Scratch, before: Mapping[str, AnalysedView]) -> None:
        self._checked = checked
        self._scratch = scratch
        self._before = before
        self._known: set[str] = set()  # the tables and views that queries can read

    @cached_property
    def _own_functions(self) -> frozenset[str]:
        return self._scratch.own_functions()

    def issues(self, targets: list[MvTarget]) -> Iterator[tuple[str, MvIssue]]:
        """The issues of some views, with the view of each, after those that it reads."""
        views = {target.name for target in self._checked.context.targets}
        for target in targets:
            for name in target.tables:
                if name not in self._known and name not in views:
                    self._add(name, self._info(name).schema.spark_read())
            if target.name in self._before:
                self._add(target.name, self._rows_of(target, self._before[target.name].columns))
            elif set(target.tables) <= self._known:  # else it reads a view with errors
                yield from ((target.name, issue) for issue in self._view(target))

    def _info(self, name: str) -> MvTableInfo:
        info = self._checked.tables.find(name)
        assert info is not None, f"table '{name}' was not checked"
        return info

    def _add(self, name: str, columns: StructType) -> None:
        self._scratch.add(name, columns)
        self._known.add(name)

    def _tables(self, part: MvPart) -> dict[int, str]:
        return self._scratch.relations.by_number(part)

    def _view(self, target: MvTarget) -> Iterator[MvIssue]:
        found: list[MvIssue] = []
        types: list[Types] = []
        for part in target.parts:
            issues = list(call_issues(part, lambda: self._own_functions, self._scratch.is_registered))
            if not any(issue.kind == "TemporaryFunction" for issue in issues):
                try:
                    types.append(_types(self._scratch.types_of(with_tables(part, self._tables(part)))))
                except RefusedQuery as refusal:
                    issues += self._blamed(target, part, refusal)
            found += issues
        if len(types) == len(target.parts):
            together = self._together(target, types)
            found += self._outputs(target, types, together)
            if not any(issue.is_error for issue in found):
                found += self._further(target)
                self._add(target.name, self._rows_of(target, together))
        yield from found

    def _together(self, target: MvTarget, types: list[Types]) -> Types:
        """The columns of all parts together: in a type that all of them fit, also those that are only NULL."""
        if len(types) == 1:
            return types[0]
        try:
            return _types(self._scratch.types_of(united([with_tables(p, self._tables(p)) for p in target.parts])))
        except RefusedQuery:  # the parts do not fit: each pair of columns is looked at
            return types[0]

    def _rows_of(self, target: MvTarget, types: Types) -> StructType:
        """The columns of a view as another view reads them."""
        declared = self._checked.declared.find(target.name)
        return _as_columns(types) if declared is None else declared.schema.spark_read()

    # --- who is to blame ----------------------------------------------------------------------------------------------

    def _blamed(self, target: MvTarget, part: MvPart, refusal: RefusedQuery) -> Iterator[MvIssue]:
        whole = issue_at("SqlUnexpectedError", f"view '{target.name}': {refusal.message}", target.script, target.place)
        masked = list(_masked(part)) if part.query is not None else []
        if not masked or not self._scratch.takes(self._with_only(part, masked, None)):
            yield whole
            return
        blamed = False
        for one in masked:
            try:
                self._scratch.types_of(self._with_only(part, masked, one))
            except RefusedQuery as trouble:
                blamed = True
                yield issue_in(one.kind, f"{one.named}: {trouble.message}", part.text, one.place.start)
        if not blamed:
            yield whole

    def _with_only(self, part: MvPart, masked: list[_Masked], kept: _Masked | None) -> str:
        """The SELECT without its expressions, or with one of them."""
        expressions = {one.place: one.instead for one in masked if one is not kept}
        return part_text(part, Changes(self._tables(part), expressions=expressions))

    # --- what it gives ------------------------------------------------------------------------------------------------

    def _outputs(self, target: MvTarget, types: list[Types], together: Types) -> Iterator[MvIssue]:
        """The columns against those of the table and of the other parts."""
        table = self._checked.declared.find(target.name)
        for part, given in zip(target.parts, types, strict=True):
            for (name, kind), of_all in zip(given.items(), together.values(), strict=False):
                wanted = table.column(name) if table is not None else None
                given_as = of_all if wanted is None and _is_null(kind) else kind
                why = _misfit(given_as, wanted.type if wanted is not None else None)
                if why is not None:
                    message = f"view '{target.name}': column '{name}' {why}"
                    yield issue_in("TypeMismatch", message, part.text, _place_of(part, name))
            yield from float_issues(part, self._scratch)
        for part, given in zip(target.parts[1:], types[1:], strict=True):
            yield from _union_issues(target, part, types[0], given)

    # --- the other queries --------------------------------------------------------------------------------------------

    def _further(self, target: MvTarget) -> Iterator[MvIssue]:
        """The queries that find units and refresh them."""
        if target.is_full:
            return  # it has no units
        unfit = list(unit_type_issues(target, self._key(target), [self._unit_types(part) for part in target.parts]))
        if unfit:
            yield from unfit
            return
        for part in target.parts:
            if part.query is None:
                continue
            paths = paths_of(part)
            for what, text, place in self._queries(part, paths):
                try:
                    self._scratch.types_of(text)
                except RefusedQuery as refusal:
                    message = f"view '{target.name}': {what} cannot be run: {refusal.message}"
                    yield issue_in("SqlUnexpectedError", message, part.text, place)
                    break

    def _queries(self, part: MvPart, paths: Paths) -> Iterator[tuple[str, str, int]]:
        """Each query with a name for people and the place that it is blamed on."""
        unit, begin = paths.unit, part.leftmost.place.start
        if unit.kind is MvUnitKind.ALL:
            return
        relations = self._scratch.relations
        self._scratch.set_keys(self._leftmost_key(paths))
        if not unit.is_owner:
            text = units_query(paths, relations.by_number(part), keys=relations.keys)
            yield "the query from left-most rows to units", text, begin
            self._scratch.set_keys(self._scratch.types_of(text))
        yield "the query that refreshes units", refresh_query(part, unit, relations, with_owners=True), begin
        for action in paths.actions:
            if isinstance(action, ActionSync):
                continue
            self._scratch.set_changed(self._info(action.table).schema.spark_read())
            source = part.source(action.source)
            what = f"the query from '{source.alias}' to units ({action.kind})"
            yield what, path_query(paths, action, relations), source.place.start

    def _key(self, target: MvTarget) -> KeyChoice:
        declared = self._checked.declared.find(target.name)
        return key_of(target, declared.schema.key if declared is not None else None)

    def _unit_types(self, part: MvPart) -> list[pa.DataType | None]:
        """The types of a part's unit; Spark tells those of groups and partitions, owners are columns of tables."""
        unit = unit_of(part)
        known = [unit_type(part, column) for column in unit.columns]
        if unit.is_owner or unit.kind is MvUnitKind.ALL:
            return known
        try:
            columns = self._scratch.types_of(units_query(paths_of(part), self._tables(part), keys=None))
        except RefusedQuery:  # said of the query itself
            return known
        return [arrow_type(field.dataType) or pa.null() for field in columns.fields]

    def _leftmost_key(self, paths: Paths) -> StructType:
        info = paths.facts.lineage.leftmost.info
        assert info is not None
        names = list(info.schema.key or info.columns)
        return TableSchema(tuple(info.schema.column(name) for name in names)).spark_read()


# --- leaving expressions out ------------------------------------------------------------------------------------------


def _masked(part: MvPart) -> Iterator[_Masked]:
    """The expressions of a part's own query that a person wrote and that may be wrong by themselves."""
    assert part.query is not None
    for column in part.columns:
        computed = column.computation
        if computed is not None and computed.plain is None and column.star is None:
            yield _Masked(computed.place, "NULL", "SqlCustomColumnError", f"column '{column.name}'")
    for clause, conditions in (("WHERE", part.query.where), ("HAVING", part.query.having)):
        for condition in conditions:
            yield _Masked(condition.computation.place, "true", "SqlCustomFilterError", clause)


# --- columns ----------------------------------------------------------------------------------------------------------


def _types(columns: StructType) -> Types:
    from pyspark.sql.types import NullType

    found: dict[str, pa.DataType | None] = {}
    for field in columns.fields:
        found[field.name] = pa.null() if isinstance(field.dataType, NullType) else arrow_type(field.dataType)
    return found


def _is_null(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_null(kind))


def _as_columns(types: Types) -> StructType:
    """What a part gives, as columns that another view reads."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, spark_type(kind)) for name, kind in types.items() if kind is not None])


def _misfit(given: pa.DataType | None, wanted: pa.DataType | None) -> str | None:
    """Why a column of a type cannot be written, or None if it can."""
    if given is None:
        return "is of a type that no table can hold"
    if wanted is None:
        return "is NULL and has no type: write CAST(NULL AS …)" if _is_null(given) else None
    if convertible(given, wanted):
        return None
    return f"is {spark_name(given)}, and the table has {spark_name(wanted)}"


def _union_issues(target: MvTarget, part: MvPart, first: Types, given: Types) -> Iterator[MvIssue]:
    """Parts whose types Spark found to differ. A column that is only NULL takes the type of the other part."""
    for (name, one), (other_name, other) in zip(first.items(), given.items(), strict=False):
        if one is None or other is None or _is_null(one) or _is_null(other):
            continue
        if not are_alike(one, other):
            alias = target.parts[0].alias
            message = f"column '{other_name}' is {spark_name(one)} in part '{alias}', {spark_name(other)} here"
            yield issue_in("UnionMismatch", message, part.text, _place_of(part, name))


def _place_of(part: MvPart, name: str) -> int:
    """Where a column is selected; where the query begins, if a `*` stands for it."""
    found = part.query.column(name) if part.query is not None else None
    if found is not None:
        return found.place.start
    return part.query.place.start if part.query is not None else 0
