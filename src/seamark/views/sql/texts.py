"""A view's SELECT with its own words, and changes at given places: other tables, another condition, more columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamark.views.model import MvJoinSource, MvPart, MvQuery
from seamark.views.paths.facts import quoted
from seamark.views.places import MvPlace


@dataclass(frozen=True)
class Changes:
    """What is changed in a text: tables by the number of their occurrence, and a condition added to one query.

    `expressions` are other words for those at some places of the text.
    """

    tables: Mapping[int, str] = field(default_factory=dict)
    query: MvQuery | None = None
    condition: str = ""
    columns: str = ""  # put before those of the part
    expressions: Mapping[MvPlace, str] = field(default_factory=dict)


def part_text(part: MvPart, changes: Changes) -> str:
    """The SELECT of a part with changes. What WITH defines stands where it is used: each use may need other rows."""
    assert part.query is not None, "only the tables of this part are known"
    begins = MvPlace(part.query.list_place, part.query.list_place)
    more = {begins: f"{changes.columns}, "} if changes.columns else {}
    return _query_text(part, part.query, changes, more)


def with_tables(part: MvPart, tables: Mapping[int, str]) -> str:
    """A part's own text, with other names for its tables. WITH stays where it is."""
    by = {source.place: _named(source, tables[source.number]) for source in part.tables if source.number in tables}
    return _replaced(part.text.text, MvPlace(0, len(part.text.text)), by)


def _named(source: MvJoinSource, name: str) -> str:
    return name if source.has_alias else f"{name} AS {quoted(source.alias)}"


def _query_text(part: MvPart, query: MvQuery, changes: Changes, more: Mapping[MvPlace, str]) -> str:
    whole = query.place
    by = dict(more) | {p: t for p, t in changes.expressions.items() if whole.start <= p.start and p.end <= whole.end}
    for source in query.sources:
        by |= _source(part, source, changes)
    for computation in query.computations():
        for subquery in computation.queries:
            by[subquery.query.place] = _query_text(part, subquery.query, changes, {})
    if query is changes.query and changes.condition:
        by |= _with_condition(query, changes.condition)
    return _replaced(part.text.text, query.place, by)


def _source(part: MvPart, source: MvJoinSource, changes: Changes) -> dict[MvPlace, str]:
    text = part.text.text
    alias = "" if source.has_alias else f" AS {quoted(source.alias)}"
    if source.query is None:
        other = changes.tables.get(source.number)
        return {} if other is None else {source.place: _named(source, other)}
    inner = _query_text(part, source.query, changes, {})
    if source.place.of(text).startswith("("):
        return {source.query.place: inner}
    if source.renamed:
        inner = f"SELECT * FROM ({inner}) AS {quoted(source.alias)} ({', '.join(map(quoted, source.renamed))})"
    return {source.place: f"({inner}){alias}"}


def _with_condition(query: MvQuery, condition: str) -> dict[MvPlace, str]:
    """A condition more in WHERE: what stood there is put in parentheses, for an OR would bind less."""
    end = MvPlace(query.from_end, query.from_end)
    if query.where_place is None:
        return {end: f"\nWHERE {condition}"}
    start = MvPlace(query.where_place.start, query.where_place.start)
    return {start: "(", end: f"\n) AND {condition}"}


def _replaced(text: str, place: MvPlace, by: Mapping[MvPlace, str]) -> str:
    shown, last = [], place.start
    for piece, other in sorted(by.items(), key=lambda item: item[0]):
        if piece.start < last:
            continue  # inside a piece that is replaced as a whole
        shown += [text[last : piece.start], other]
        last = piece.end
    return "".join([*shown, text[last : place.end]])


def united(texts: Sequence[str]) -> str:
    """The SELECTs of a view's parts as one query."""
    # the last line of a text may be a comment
    return texts[0] if len(texts) == 1 else "\nUNION ALL\n".join(f"SELECT * FROM (\n{text}\n)" for text in texts)
