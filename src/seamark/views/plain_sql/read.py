"""From the text of a SELECT to the parts of a view. Spark runs the text as it is: nothing is written anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from seamark.views.model import DEFAULT_PART, MvJoinKind, MvJoinSource, MvPart, MvRefusal
from seamark.views.places import MvPlace, MvText, Paste
from seamark.views.plain_sql.query import QueryReader
from seamark.views.plain_sql.refusals import Refused, refusal
from seamark.views.plain_sql.signs import Signs, UnreadableSelect


@dataclass(frozen=True, slots=True)
class _Cut:
    """A text cut at its UNION ALLs: what stands before the first query, and the ranges of the queries."""

    queries: tuple[tuple[int, int], ...]
    definitions: tuple[int, int]
    refused: MvRefusal | None = None
    order: MvPlace | None = None


def read_select(text: MvText) -> tuple[MvPart, ...]:
    """The parts that a SELECT has, not yet linked; `UnreadableSelect` if it cannot be read.

    What has no unit is in `refusals` of the part: its text is read as far as it goes, and its tables are known.
    """
    try:
        return _read(text)
    except RecursionError:
        raise UnreadableSelect("the text is nested too deeply", 0) from None


def _read(text: MvText) -> tuple[MvPart, ...]:
    signs = Signs(text.text)
    if not len(signs):
        raise UnreadableSelect("a SELECT is expected here", 0)
    _check_statement(signs)
    end = next((sign.start for sign in signs.all if sign.kind is TokenType.SEMICOLON), None)
    if end is not None:
        return _read(text.part(MvPlace(0, end)))  # Spark takes no `;` behind a query
    _check_syntax(text.text)
    cut = _cut(signs)
    if cut.refused is not None:
        return (_unread(DEFAULT_PART, text, (cut.refused,)),)
    if len(cut.queries) == 1:
        return (read_part(DEFAULT_PART, text, signs),)
    pieces = [_part_text(text, signs, cut, lo, hi) for lo, hi in cut.queries]
    parts = [read_part(f"part_{number}", piece) for number, piece in enumerate(pieces, 1)]
    if cut.order is not None:
        parts[-1] = _with_note(parts[-1], text.origin(cut.order.start))
    return tuple(parts)


def _with_note(part: MvPart, at: int) -> MvPart:
    """The part with a note about something that stands behind the whole union, and in no part's text."""
    end = len(part.text.text)
    place = MvPlace(end, end + 1)
    text = replace(part.text, pieces=(*part.text.pieces, (place, at)))
    return replace(part, text=text, notes=(*part.notes, place))


def read_part(alias: str, text: MvText, signs: Signs | None = None) -> MvPart:
    """One SELECT as a part of a view; `signs` are those of the text where they are known."""
    signs = Signs(text.text) if signs is None else signs
    reader = QueryReader(signs)
    try:
        query = reader.query(0, len(signs), {})
    except Refused as found:
        return _unread(alias, text, (*reader.refusals, found.refusal))
    place = text.origin(signs[0].start)
    refusals = tuple(sorted(reader.refusals, key=lambda found: found.place))
    return MvPart(alias, text, query, (), refusals, tuple(dict.fromkeys(reader.orders)), place)


def _cut(signs: Signs) -> _Cut:
    end = len(signs)
    reader = QueryReader(signs)
    try:
        begin, _ = reader.definitions(0, end, {})
    except Refused as found:
        return _Cut((), (0, 0), found.refusal)
    ops = [i for i in signs.top_level(begin, end) if reader.is_set_operator(i)]
    for index in ops:
        name = reader.set_operator(index, inside=False)
        if name != "UNION ALL":
            return _Cut((), (0, 0), refusal(name, signs.place(index, index + 1)))
    pieces = list(zip([begin, *(i + 2 for i in ops)], [*ops, end], strict=True))
    order = None
    if ops:
        lo, hi = pieces[-1]
        tails = (TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.LIMIT, TokenType.OFFSET)
        for i in signs.top_level(lo, hi):
            if signs[i].kind in tails[2:]:
                return _Cut((), (0, 0), refusal(signs[i].word, signs.place(i, i + 1)))
            if signs[i].kind in tails and order is None:
                order = signs.place(i, hi)
                pieces[-1] = (lo, i)
    return _Cut(tuple(pieces), (0, begin), None, order)


def _part_text(text: MvText, signs: Signs, cut: _Cut, lo: int, hi: int) -> MvText:
    """One query of a union as a text of its own, behind the WITH of all."""
    if lo >= hi:
        raise UnreadableSelect("SELECT is expected here", signs[lo].start)
    while hi - lo > 2 and signs.partner.get(lo) == hi - 1:
        lo, hi = lo + 1, hi - 1
    paste = Paste(text.script)
    if cut.definitions[1]:
        paste.add(text, signs.place(*cut.definitions))
        paste.put("\n")
    paste.add(text, signs.place(lo, hi))
    return paste.done()


def _check_statement(signs: Signs) -> None:
    """Nothing, or `UnreadableSelect` for what begins like no query, or goes on behind its end."""
    if not signs.begins_query(0):
        raise UnreadableSelect("a SELECT is expected here", signs[0].start)
    ends = [i for i, sign in enumerate(signs.all) if sign.kind is TokenType.SEMICOLON]
    behind = next((i for i in range(ends[0], len(signs)) if i not in ends), None) if ends else None
    if behind is not None:
        raise UnreadableSelect("there is a second statement", signs[behind].start)


def _check_syntax(text: str) -> None:
    """Nothing, or `UnreadableSelect` where sqlglot's reading of Spark's SQL ends."""
    try:
        found = [statement for statement in sqlglot.parse(text, read="spark") if statement is not None]
    except ParseError as trouble:
        raise UnreadableSelect("the SELECT cannot be read from here", _offset(text, trouble)) from trouble
    except SqlglotError as trouble:
        raise UnreadableSelect("the SELECT cannot be read", 0) from trouble
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise UnreadableSelect("a SELECT is expected here", 0)


def _offset(text: str, trouble: ParseError) -> int:
    """Where an error of sqlglot's is: it gives the line, and the column after the sign that it names."""
    found = trouble.errors[0] if trouble.errors else {}
    line, column, highlight = found.get("line") or 1, found.get("col") or 1, found.get("highlight") or ""
    starts = [0, *(i + 1 for i, sign in enumerate(text) if sign == "\n")]
    start = starts[min(line, len(starts)) - 1] + column - max(1, len(highlight))
    return max(0, min(start, len(text) - 1))


# --- what is not read clause by clause --------------------------------------------------------------------------------


def _unread(alias: str, text: MvText, refusals: tuple[MvRefusal, ...]) -> MvPart:
    """A part of which only the tables are known: it can be computed as a whole."""
    tables = tuple(
        MvJoinSource(name, MvJoinKind.INNER, place, table=name, number=number)
        for number, (name, place) in enumerate(tables_of(text.text))
    )
    place = text.origin(refusals[0].place.start)
    return MvPart(alias, text, None, tables, refusals, (), place, tuple(_names(text.text)))


def _names(text: str) -> list[str]:
    """The names of a text's columns, by sqlglot; none where a star or an expression without name is among them."""
    tree = sqlglot.parse_one(text, read="spark")
    found = list(tree.named_selects) if isinstance(tree, exp.Query) else []
    return found if all(name and name != "*" for name in found) else []


def tables_of(text: str) -> list[tuple[str, MvPlace]]:
    """The tables that a text reads, by sqlglot: everything in FROM that no WITH defines."""
    found: dict[tuple[str, MvPlace], None] = {}
    for table in sqlglot.parse_one(text, read="spark").find_all(exp.Table):
        parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
        is_hint = table.find_ancestor(exp.Hint) is not None  # BROADCAST(c) names an alias
        if not parts or is_hint or (len(parts) == 1 and _is_defined(table)):
            continue
        begin, end = parts[0].meta.get("start"), parts[-1].meta.get("end")
        if begin is not None and end is not None:
            found[".".join(part.name for part in parts), MvPlace(begin, end + 1)] = None
    return sorted(found, key=lambda pair: pair[1])


def _is_defined(table: exp.Table) -> bool:
    """Whether a WITH around a name defines it. A query of WITH sees those before it, and itself if it is recursive."""
    inside: exp.Expr | None = table
    while inside is not None:
        around = inside.parent
        if isinstance(inside, exp.CTE) and isinstance(around, exp.With):
            before = around.expressions[: around.expressions.index(inside) + bool(around.recursive)]
            if _defines(before, table.name):
                return True
            query = around.parent  # whose WITH has been looked at
            inside = query.parent if query is not None else None
            continue
        found = inside.args.get("with_") or inside.args.get("with")
        if isinstance(found, exp.With) and _defines(found.expressions, table.name):
            return True
        inside = around
    return False


def _defines(definitions: list[exp.Expr], name: str) -> bool:
    return any(definition.alias.casefold() == name.casefold() for definition in definitions)
