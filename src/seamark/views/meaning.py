"""What a view means, apart from how it is written: equal for two texts that say the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinCondition,
    MvJoinSource,
    MvLiteral,
    MvPart,
    MvQuery,
    MvReference,
    MvTarget,
    MvValue,
)

Meaning = tuple[object, ...]


def meaning(target: MvTarget) -> Meaning:
    """The model of a view without its text: layout, comments, quotes and the front end do not count."""
    key = None if target.key is None else tuple(name.casefold() for name in target.key)
    return (target.name, key, target.is_full, tuple(map(_part, target.parts)))


def digest(target: MvTarget) -> str:
    """A short form of a view's meaning, to be kept and compared."""
    return hashlib.sha256(repr(meaning(target)).encode()).hexdigest()


def _part(part: MvPart) -> Meaning:
    if part.query is None:
        return (part.alias, part.text.text)
    return (part.alias, _query(part.query))


def _query(query: MvQuery) -> Meaning:
    return (
        tuple(map(_source, query.sources)),
        _conditions(query.where),
        tuple(map(_column, query.columns)),
        None if query.groups is None else tuple(map(_computation, query.groups)),
        query.group_all,
        _conditions(query.having),
        tuple(tuple(map(_computation, window.partition)) for window in query.windows),
        query.distinct,
    )


def _source(source: MvJoinSource) -> Meaning:
    of = source.table if source.query is None else _query(source.query)
    return (source.kind.value, source.alias.casefold(), of, _conditions(source.conditions))


def _conditions(conditions: Iterable[MvJoinCondition]) -> Meaning:
    return tuple(_computation(condition.computation) for condition in conditions)


def _column(column: MvColumn) -> Meaning:
    return (column.name, column.star, _value(column.value))


def _value(value: MvValue) -> Meaning:
    if isinstance(value, MvReference):
        return (" . ".join(value.words).casefold(), _references((value,)), ())
    if isinstance(value, MvLiteral):
        return (value.text, (), ())
    return _computation(value)


def _computation(computation: MvComputation) -> Meaning:
    return (
        computation.signs,
        _references(computation.used),
        tuple(_query(subquery.query) for subquery in computation.queries),
    )


def _references(references: Iterable[MvReference]) -> Meaning:
    """The columns by number and name, each once: what COMPUTE ON declares and the text uses is one thing."""
    found = {(r.source, r.column.casefold()) if r.source is not None else (None, r.shown) for r in references}
    return tuple(sorted(found, key=repr))
