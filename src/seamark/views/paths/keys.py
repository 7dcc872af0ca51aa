"""The key of a view: given, declared, or found; and which joins give several rows for one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinSource,
    MvPart,
    MvQuery,
    MvReference,
    MvTarget,
    MvUnitKind,
)
from seamark.views.paths.lineage import Lineage, same_expression
from seamark.views.paths.units import MvUnit, unit_of
from seamark.views.plain_sql.query import as_computation


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """A view's key. `origin` is "given", "declared", "groups" or "left-most"; without columns none was found."""

    columns: tuple[str, ...]
    origin: str

    @property
    def is_chosen(self) -> bool:
        """Whether somebody wrote it down."""
        return self.origin in ("given", "declared")


def key_of(target: MvTarget, declared: tuple[str, ...] | None) -> KeyChoice:
    """The key of a linked view; `declared` is that of the table of its name, None if there is no such table."""
    if target.key is not None:
        return KeyChoice(target.key, "given")
    if declared:
        return KeyChoice(declared, "declared")
    part = target.parts[0]
    if target.is_full or part.query is None:
        return KeyChoice((), "left-most")
    unit, lineage = unit_of(part), Lineage(part)
    if unit.kind is MvUnitKind.GROUP:
        return KeyChoice(unit_outputs(lineage, unit) or (), "groups")
    if next(multiplied(lineage), None) is not None or next(lineage.generators(), None) is not None:
        return KeyChoice((), "left-most")
    names = identifying(lineage, lineage.top)
    return KeyChoice(tuple(names or ()), "left-most")


def unit_outputs(lineage: Lineage, unit: MvUnit) -> tuple[str, ...] | None:
    """The output columns of the part that hold its unit, or None if one of them is not selected."""
    found = []
    for column in unit.columns:
        expression = column.expression
        if expression is not None and lineage.unit_query is lineage.top:
            name = _output_of(lineage, lineage.top, expression)
        elif column.leaf is not None:
            name = next((c.name for c in lineage.top.columns if lineage.column(c.value) == column.leaf), None)
        else:
            name = _through(lineage, expression)
        if name is None:
            return None
        found.append(name)
    return tuple(found)


def _through(lineage: Lineage, expression: MvComputation | None) -> str | None:
    """The output column at the top that gives on a computed unit of a left-most subquery."""
    name = None if expression is None else _output_of(lineage, lineage.unit_query, expression)
    for query in reversed(lineage.chain[:-1]):
        if name is None:
            return None
        name = passed_on(lineage, query, query.sources[0].number, name)
    return name


def _output_of(lineage: Lineage, query: MvQuery, expression: MvComputation) -> str | None:
    text = lineage.part.text.text
    return next((c.name for c in query.columns if same_expression(as_computation(c, text), expression)), None)


def passed_on(lineage: Lineage, query: MvQuery, number: int, name: str) -> str | None:
    """The output column of a query that is this column of one of its sources."""

    def is_it(column: MvColumn) -> bool:
        reference = as_computation(column, lineage.part.text.text).plain
        return reference is not None and reference.source == number and reference.column.casefold() == name.casefold()

    return next((column.name for column in query.columns if is_it(column)), None)


# --- several rows -----------------------------------------------------------------------------------------------------


def identifying(lineage: Lineage, query: MvQuery) -> tuple[str, ...] | None:
    """The output columns that tell a query's rows apart, or None if there are none."""
    if query.kind is MvUnitKind.GROUP:
        names = [_output_of(lineage, query, unit) for unit in lineage.unit_of(query)]
        return tuple(name for name in names if name is not None) if names and None not in names else None
    if next(_multiplied(lineage, query), None) is not None:
        return None
    first = query.sources[0]
    inner = identifying_columns(lineage, first)
    if inner is None:
        return None
    outputs = [passed_on(lineage, query, first.number, name) for name in inner]
    return tuple(name for name in outputs if name is not None) if None not in outputs else None


def identifying_columns(lineage: Lineage, source: MvJoinSource) -> tuple[str, ...] | None:
    """The columns of a source that tell its rows apart, or None."""
    if source.query is not None:
        return identifying(lineage, source.query)
    key = source.info.schema.key if source.info is not None else ()
    return key or None


def multiplied(lineage: Lineage) -> Iterator[tuple[MvQuery, MvJoinSource]]:
    """The sources of which several rows may join one row before, from the top down to the query of the units."""
    for query in lineage.chain:
        if query.kind is not MvUnitKind.GROUP:
            for source in _multiplied(lineage, query):
                yield query, source


def _multiplied(lineage: Lineage, query: MvQuery) -> Iterator[MvJoinSource]:
    for source in query.sources[1:]:
        if not source.kind.is_seen:
            continue
        names = identifying_columns(lineage, source)
        fixed = set(_fixed(query, source))
        if names is None or not {name.casefold() for name in names} <= fixed:
            yield source


def _fixed(query: MvQuery, source: MvJoinSource) -> Iterator[str]:
    """The columns of a source that a row before it, or a constant, decides."""
    others = {other.number for other in query.sources if other is not source and other.number < source.number}
    for condition in (*source.conditions, *query.where):
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if not isinstance(one, MvReference) or one.source != source.number or other is None:
                continue
            if not isinstance(other, MvReference) or other.source in others:
                yield one.column.casefold()


def holds_key_of(lineage: Lineage, key: tuple[str, ...], query: MvQuery, source: MvJoinSource) -> bool:
    """Whether a view's key holds what tells the rows of a source apart, beside what the row before decides."""
    names = identifying_columns(lineage, source)
    if names is None:
        return False
    open_columns = [name for name in names if name.casefold() not in set(_fixed(query, source))]
    wanted = {name.casefold() for name in key}
    for name in open_columns:
        leaf = lineage.column(MvReference((source.alias, name), source.place, source.number, name))
        outputs = [c.name.casefold() for c in lineage.top.columns if leaf and lineage.column(c.value) == leaf]
        if not wanted & set(outputs):
            return False
    return True


def transform_keys(part: MvPart, unit: MvUnit, key: tuple[str, ...]) -> tuple[str, ...] | None:
    """The key columns that hold the unit of a view's only part; None where rows need `_part` and `_owner`."""
    names = unit_outputs(Lineage(part), unit) if part.query is not None and unit.columns else None
    wanted = {name.casefold() for name in key}
    return names if names and all(name.casefold() in wanted for name in names) else None
