"""A view as one statement that can be read again, whichever way it was declared: chains hold it."""

from __future__ import annotations

from seamark.views.lexer import statements
from seamark.views.model import MvRefresh, MvTarget
from seamark.views.paths.facts import quoted


def statement_of(target: MvTarget) -> str:
    """The statement that defines a view: as it was written, or made of a SELECT and a key that were given."""
    text = target.script.text
    if not target.is_select:
        found = next(s for s in statements(text) if s.place.start <= target.place < s.place.end)
        return found.place.of(text).strip()
    key = "" if target.key is None else f" PRIMARY KEY ({', '.join(map(quoted, target.key))})"
    refresh = "" if target.refresh is MvRefresh.INCREMENTAL else f" REFRESH {target.refresh.value.upper()}"
    return f"CREATE MATERIALIZED VIEW {quoted(target.name)}{key}{refresh} AS\n{text}"
