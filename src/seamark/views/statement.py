"""A view as one statement that can be read again, whichever way it was declared: chains hold it."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.views.lexer import statements
from seamark.views.model import MvQuery, MvRefresh, MvTarget
from seamark.views.paths.facts import quoted
from seamark.views.places import MvPlace


def statement_of(target: MvTarget) -> str:
    """The statement that defines a view: as it was written, or made of a SELECT and a key that were given.

    A comment for each `*` says which columns it stands for, so that one can see what has changed when these have.
    """
    return "\n".join([_statement(target), *_stars(target)])


def _statement(target: MvTarget) -> str:
    text = target.script.text
    if not target.is_select:
        found = next(s for s in statements(text) if s.place.start <= target.place < s.place.end)
        return found.place.of(text).strip()
    key = "" if target.key is None else f" PRIMARY KEY ({', '.join(map(quoted, target.key))})"
    refresh = "" if target.refresh is MvRefresh.INCREMENTAL else f" REFRESH {target.refresh.value.upper()}"
    return f"CREATE MATERIALIZED VIEW {quoted(target.name)}{key}{refresh} AS\n{text}"


def _stars(target: MvTarget) -> Iterator[str]:
    """A line for each `*` of the text, in its order."""
    for part in target.parts:
        found: dict[MvPlace, list[str]] = {}
        for query in _queries(part.query):
            for column in query.columns:
                if column.of_star and column.name not in found.setdefault(column.place, []):
                    found[column.place].append(column.name)
        for place, names in sorted(found.items()):
            star = " ".join(place.of(part.text.text).split())
            yield f"  -- {star} is {' '.join(', '.join(names).split())}"  # in one line, whatever the names are


def _queries(query: MvQuery | None) -> Iterator[MvQuery]:
    """A query and all that are inside of it."""
    if query is not None:
        yield query
        for inner in query.inner():
            yield from _queries(inner)
