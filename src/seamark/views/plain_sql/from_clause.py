"""Reading FROM: tables, subqueries and CTEs, each with how it is joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import TokenType

from seamark.views.model import MvJoinKind, MvJoinSource, MvReference
from seamark.views.plain_sql.expressions import ExpressionReader
from seamark.views.plain_sql.refusals import Refused, refusal
from seamark.views.plain_sql.signs import UnreadableSelect

if TYPE_CHECKING:
    from seamark.views.plain_sql.query import Definition, QueryReader

_JOIN_WORDS = frozenset({"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "SEMI", "ANTI", "NATURAL", "JOIN"})
_REFUSED = {
    "TABLESAMPLE": "TABLESAMPLE",
    "PIVOT": "PIVOT",
    "UNPIVOT": "UNPIVOT",
    "VERSION": "time travel",
    "TIMESTAMP": "time travel",
}
_KINDS: dict[tuple[str, ...], MvJoinKind] = {
    (): MvJoinKind.INNER,
    ("INNER",): MvJoinKind.INNER,
    ("CROSS",): MvJoinKind.CROSS,
    ("LEFT",): MvJoinKind.LEFT,
    ("LEFT", "OUTER"): MvJoinKind.LEFT,
    ("SEMI",): MvJoinKind.SEMI,
    ("LEFT", "SEMI"): MvJoinKind.SEMI,
    ("ANTI",): MvJoinKind.ANTI,
    ("LEFT", "ANTI"): MvJoinKind.ANTI,
}


class FromReader:
    """Reads the sources of one query."""

    def __init__(self, reader: QueryReader, expressions: ExpressionReader, known: Mapping[str, Definition]) -> None:
        self._reader = reader
        self._signs = reader.signs
        self._expressions = expressions
        self._known = known

    def read(self, lo: int, hi: int) -> tuple[MvJoinSource, ...]:
        """The sources in the order of the text."""
        found: list[MvJoinSource] = []
        kind, index = MvJoinKind.FROM, lo
        while True:
            end = self._item_end(index, hi)
            found.append(self._source(index, end, kind))
            if end >= hi:
                return tuple(found)
            kind, index = self._join(end)

    def _item_end(self, lo: int, hi: int) -> int:
        """Where the next join begins."""
        return next((i for i in self._signs.top_level(lo, hi) if i > lo and self._begins_join(i)), hi)

    def _begins_join(self, index: int) -> bool:
        sign = self._signs[index]
        if sign.kind is TokenType.COMMA:
            return True
        if sign.kind is TokenType.LATERAL:
            raise Refused(refusal("LATERAL", self._signs.place(index, index + 1)))
        # A name behind a point, or a function as in `left(x, 2)`, is no join.
        is_call = self._signs[index + 1].kind is TokenType.L_PAREN and sign.word != "JOIN"
        return sign.word in _JOIN_WORDS and not is_call and self._signs[index - 1].kind is not TokenType.DOT

    def _join(self, index: int) -> tuple[MvJoinKind, int]:
        """How the source behind a comma or the words of a join is joined, and where it begins."""
        if self._signs[index].kind is TokenType.COMMA:
            return MvJoinKind.CROSS, index + 1
        begin, words = index, []
        while self._signs[index].word in _JOIN_WORDS:
            words.append(self._signs[index].word)
            index += 1
        if words[-1] != "JOIN":
            raise UnreadableSelect(f"JOIN is expected behind {words[-1]}", self._signs[index].start)
        kind = tuple(words[:-1])
        if "NATURAL" in kind:
            raise Refused(refusal("NATURAL JOIN", self._signs.place(begin, begin + 1)))
        if kind and kind[0] in ("RIGHT", "FULL"):
            self._reader.refuse(f"{kind[0]} JOIN", begin)
            return MvJoinKind.LEFT, index
        if kind not in _KINDS:
            raise UnreadableSelect(f"there is no {' '.join(words)}", self._signs[begin].start)
        return _KINDS[kind], index

    def _source(self, lo: int, hi: int, kind: MvJoinKind) -> MvJoinSource:
        self._reader.sources += 1
        self._check(lo, hi)
        end = self._signs.partner[lo] + 1 if self._signs[lo].kind is TokenType.L_PAREN else self._name_end(lo)
        rest = self._behind(end, hi)
        alias, renamed = self._alias(end, rest)
        using = self._using(rest, hi)
        found = MvJoinSource(
            alias,
            kind,
            self._signs.place(lo, end),
            conditions=() if using or rest >= hi else tuple(self._expressions.conditions(rest + 1, hi)),
            using=using,
            has_alias=bool(alias),
            renamed=renamed,
            alias_place=self._signs.place(end, rest) if alias else self._signs.place(lo, end),
        )
        if self._signs[lo].kind is TokenType.L_PAREN:
            return replace(found, query=self._reader.query(lo + 1, end - 1, self._known))
        return self._named(found, [sign.text for sign in self._signs.all[lo:end:2]])

    def _named(self, found: MvJoinSource, words: list[str]) -> MvJoinSource:
        """The source as the table, or the query of WITH, that its words name."""
        alias = found.alias or words[-1]
        definition = self._known.get(words[0].casefold()) if len(words) == 1 else None
        if definition is None:
            if found.renamed:
                raise Refused(refusal("names for a table's columns", found.alias_place))
            return replace(found, alias=alias, table=".".join(words))
        query = self._reader.query(definition.lo, definition.hi, definition.known)
        return replace(found, alias=alias, query=query, renamed=found.renamed or definition.renamed)

    def _check(self, lo: int, hi: int) -> None:
        from seamark.views.plain_sql.query import MOST_SOURCES

        if self._reader.sources > MOST_SOURCES:
            raise UnreadableSelect(f"it reads more than {MOST_SOURCES} tables", self._signs[lo].start)
        if lo >= hi:
            raise UnreadableSelect("a table is expected here", self._signs[lo].start)
        sign = self._signs[lo]
        if sign.kind is TokenType.LATERAL:
            raise Refused(refusal("LATERAL", self._signs.place(lo, lo + 1)))
        inside = self._signs[lo + 1]
        if sign.kind is TokenType.L_PAREN and not self._signs.begins_query(lo + 1):
            what = "VALUES" if inside.word == "VALUES" else "a join in parentheses"
            raise Refused(refusal(what, self._signs.place(lo, lo + 1)))
        if sign.word == "VALUES" and inside.kind is TokenType.L_PAREN:
            raise Refused(refusal("VALUES", self._signs.place(lo, lo + 1)))
        if sign.kind is not TokenType.L_PAREN and inside.kind is TokenType.L_PAREN:
            raise Refused(refusal("a table function", self._signs.place(lo, lo + 1)))
        if sign.kind is not TokenType.L_PAREN and not sign.is_name and not sign.word.isidentifier():
            raise UnreadableSelect("a table is expected here", sign.start)

    def _name_end(self, lo: int) -> int:
        end = lo + 1
        while self._signs[end].kind is TokenType.DOT:
            end += 2
        return end

    def _behind(self, lo: int, hi: int) -> int:
        """Where ON or USING stands, or the source ends."""
        for i in self._signs.top_level(lo, hi):
            sign = self._signs[i]
            if sign.kind in (TokenType.ON, TokenType.USING):
                return i
            if sign.word in _REFUSED and (sign.word not in ("VERSION", "TIMESTAMP") or self._is_time_travel(i)):
                raise Refused(refusal(_REFUSED[sign.word], self._signs.place(i, i + 1)))
        return hi

    def _is_time_travel(self, index: int) -> bool:
        return self._signs[index + 1].kind is TokenType.ALIAS and self._signs[index + 2].word == "OF"

    def _alias(self, lo: int, hi: int) -> tuple[str, tuple[str, ...]]:
        lo += self._signs[lo].kind is TokenType.ALIAS and lo < hi
        if lo >= hi:
            return "", ()
        sign = self._signs[lo]
        renamed, end = self._reader.names(lo + 1)
        if not (sign.is_name or sign.word.isidentifier()) or end != hi:
            raise UnreadableSelect("this is not the alias of a table", sign.start)
        return sign.text, renamed

    def _using(self, lo: int, hi: int) -> tuple[MvReference, ...]:
        if lo >= hi or self._signs[lo].kind is not TokenType.USING:
            return ()
        end = self._signs.partner.get(lo + 1)
        if end != hi - 1:
            raise UnreadableSelect("USING needs columns in parentheses", self._signs[lo].start)
        return tuple(
            MvReference((self._signs[begin].text,), self._signs.place(begin, begin + 1))
            for begin, _ in self._signs.split(lo + 2, end)
        )
