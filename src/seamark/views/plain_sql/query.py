"""Reading a query clause by clause: what is in its FROM, what it selects, by what it groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sqlglot.expressions as exp
from sqlglot import TokenType

from seamark.views.model import MvColumn, MvComputation, MvJoinCondition, MvLiteral, MvQuery, MvReference, MvRefusal
from seamark.views.places import MvPlace
from seamark.views.plain_sql.expressions import ExpressionReader, Read
from seamark.views.plain_sql.from_clause import FromReader
from seamark.views.plain_sql.refusals import Refused, refusal
from seamark.views.plain_sql.signs import Signs, UnreadableSelect
from seamark.views.plain_sql.windows import WindowReader

MOST_SOURCES = 2_000
MOST_DEPTH = 40

SET_OPERATORS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_CLAUSES = {
    TokenType.FROM: "FROM",
    TokenType.WHERE: "WHERE",
    TokenType.GROUP_BY: "GROUP BY",
    TokenType.HAVING: "HAVING",
    TokenType.WINDOW: "WINDOW",
    TokenType.QUALIFY: "QUALIFY",
    TokenType.ORDER_BY: "ORDER BY",
    TokenType.SORT_BY: "SORT BY",
    TokenType.CLUSTER_BY: "CLUSTER BY",
    TokenType.DISTRIBUTE_BY: "DISTRIBUTE BY",
    TokenType.LIMIT: "LIMIT",
    TokenType.OFFSET: "OFFSET",
}
_ALSO_NAMES = ("WINDOW", "OFFSET", "LIMIT", "QUALIFY")
_CONNECT = frozenset(
    {"WHERE", "AND", "OR", "NOT", "HAVING", "ON", "IN", "LIKE", "RLIKE", "BETWEEN", "GROUP BY", "ORDER BY", "SORT BY"}
)
_ORDERS = ("ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY")


@dataclass(frozen=True, slots=True)
class Definition:
    """A query that WITH gives a name to: its range of signs, and the names known there."""

    lo: int
    hi: int
    known: Mapping[str, Definition]
    renamed: tuple[str, ...] = ()


@dataclass
class QueryReader:
    """Reads the queries of one text. What has no unit is collected in `refusals`."""

    signs: Signs
    refusals: list[MvRefusal] = field(default_factory=list)
    orders: list[MvPlace] = field(default_factory=list)
    sources: int = 0
    depth: int = 0

    def refuse(self, what: str, index: int) -> None:
        """Note that a construct has no unit."""
        found = refusal(what, MvPlace(self.signs[index].start, self.signs[index].end))
        if found not in self.refusals:
            self.refusals.append(found)

    def query(self, lo: int, hi: int, known: Mapping[str, Definition]) -> MvQuery:
        """The query in a range, with its WITH and in any number of parentheses."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise UnreadableSelect("queries are nested too deeply", self.signs[lo].start)
        lo, hi = self._unwrapped(lo, hi)
        lo, known = self.definitions(lo, hi, known)
        lo, hi = self._unwrapped(lo, hi)
        cut = next((i for i in self.signs.top_level(lo, hi) if self.is_set_operator(i)), None)
        if cut is not None:
            raise Refused(refusal(self.set_operator(cut, inside=True), self.signs.place(cut, cut + 1)))
        found = self._select(lo, hi, known)
        self.depth -= 1
        return found

    def is_set_operator(self, index: int) -> bool:
        """Whether the word joins two queries: EXCEPT behind a star leaves out columns."""
        sign, before = self.signs[index], self.signs[index - 1]
        return sign.kind in SET_OPERATORS and before.kind not in (TokenType.STAR, TokenType.DOT)

    def set_operator(self, index: int, *, inside: bool) -> str:
        """The name of the operator between two queries."""
        word = self.signs[index].word
        if word == "UNION" and self.signs[index + 1].word == "ALL":
            return "UNION ALL in a subquery" if inside else "UNION ALL"
        return "EXCEPT" if word == "MINUS" else word

    def _unwrapped(self, lo: int, hi: int) -> tuple[int, int]:
        while hi - lo > 2 and self.signs.partner.get(lo) == hi - 1:
            lo, hi = lo + 1, hi - 1
        return lo, hi

    def definitions(self, lo: int, hi: int, known: Mapping[str, Definition]) -> tuple[int, Mapping[str, Definition]]:
        """Where the query behind WITH begins, and the names that are known in it."""
        if self.signs[lo].kind is not TokenType.WITH:
            return lo, known
        lo += 1
        if self.signs[lo].kind is TokenType.RECURSIVE:
            raise Refused(refusal("WITH RECURSIVE", self.signs.place(lo - 1, lo + 1)))
        while True:
            name, lo = self.signs[lo].text.casefold(), lo + 1
            renamed, lo = self.names(lo)
            lo += self.signs[lo].kind is TokenType.ALIAS
            end = self.signs.partner.get(lo)
            if end is None or end >= hi or not name:
                raise UnreadableSelect("WITH needs a name and a query in parentheses", self.signs[lo].start)
            known = {**known, name: Definition(lo + 1, end, known, renamed)}
            lo = end + 1
            if self.signs[lo].kind is not TokenType.COMMA:
                return lo, known
            lo += 1

    def names(self, lo: int) -> tuple[tuple[str, ...], int]:
        """The names in parentheses that begin here, if they do, and what follows them."""
        end = self.signs.partner.get(lo)
        if self.signs[lo].kind is not TokenType.L_PAREN or end is None:
            return (), lo
        return tuple(self.signs[begin].text for begin, _ in self.signs.split(lo + 1, end)), end + 1

    # --- one SELECT ---------------------------------------------------------------------------------------------------

    def _select(self, lo: int, hi: int, known: Mapping[str, Definition]) -> MvQuery:
        if self.signs[lo].kind is not TokenType.SELECT:
            self._refuse_other_queries(lo)
            raise UnreadableSelect("SELECT is expected here", self.signs[lo].start)
        clauses = self._clauses(lo, hi)
        expressions = ExpressionReader(self.signs, lambda begin, end: self.query(begin, end, known))
        begin, distinct = self._list_begins(lo)
        named = WindowReader.named(self.signs, clauses.get("WINDOW"))
        windows = WindowReader(self.signs, expressions, named)
        list_end = clauses["SELECT"][1]
        found = FromReader(self, expressions, known).read(*clauses["FROM"]) if "FROM" in clauses else ()
        if not found:
            raise Refused(refusal("a query without FROM", self.signs.place(lo, lo + 1)))
        pieces = self.signs.split(begin, self._list_end(begin, list_end))
        columns = tuple(column for piece in pieces for column in self._columns(*piece, expressions))
        groups, group_all = self._groups(clauses.get("GROUP BY"), expressions, columns)
        return MvQuery(
            place=self.signs.place(lo, hi),
            sources=found,
            where=self._conditions("WHERE", clauses, expressions),
            columns=columns,
            groups=groups,
            having=self._conditions("HAVING", clauses, expressions),
            windows=tuple(windows.read(begin, list_end)),
            distinct=distinct,
            group_all=group_all,
            others=tuple(self._others(clauses, expressions)),
            list_place=self.signs[begin].start,
            from_end=self.signs[clauses["WHERE" if "WHERE" in clauses else "FROM"][1] - 1].end,
            where_place=self.signs.place(*clauses["WHERE"]) if "WHERE" in clauses else None,
        )

    def _refuse_other_queries(self, lo: int) -> None:
        if self.signs[lo].word == "VALUES":
            raise Refused(refusal("VALUES", self.signs.place(lo, lo + 1)))
        if self.signs[lo].kind is TokenType.FROM:
            raise UnreadableSelect("a query begins with SELECT here, not with FROM", self.signs[lo].start)

    def _list_begins(self, lo: int) -> tuple[int, bool]:
        begin = lo + 1
        while self.signs[begin].kind is TokenType.HINT:
            begin += 1
        distinct = self.signs[begin].kind is TokenType.DISTINCT
        begin += distinct or self.signs[begin].word == "ALL"
        if self.signs[begin].word == "TRANSFORM" and self.signs[begin + 1].kind is TokenType.L_PAREN:
            end = self.signs.partner[begin + 1]
            if self.signs[end + 1].kind is TokenType.USING:
                raise UnreadableSelect("SELECT TRANSFORM runs a program, which a view cannot", self.signs[begin].start)
        return begin, distinct

    def _list_end(self, begin: int, end: int) -> int:
        """The end of the list, without a comma before FROM."""
        return end - 1 if end - begin > 1 and self.signs[end - 1].kind is TokenType.COMMA else end

    def _clauses(self, lo: int, hi: int) -> dict[str, tuple[int, int]]:
        """Each clause with the range behind its word. A LIMIT and its kind is refused."""
        cuts = [(lo, "SELECT")]
        for i in self.signs.top_level(lo + 1, hi):
            name = _CLAUSES.get(self.signs[i].kind)
            if name is None or self.signs[i - 1].kind is TokenType.DOT:
                if self.signs[i].kind is TokenType.PIPE_GT:
                    raise Refused(refusal("|>", self.signs.place(i, i + 1)))
                continue
            if name == "FROM" and (self.signs[i - 1].kind is TokenType.DISTINCT and self._is_comparison(i)):
                continue
            if not self._is_clause(name, i, {found for _, found in cuts}):
                continue
            if name in ("LIMIT", "OFFSET", "QUALIFY"):
                self.refuse(name, i)
            cuts.append((i, name))
        ends = [*(index for index, _ in cuts[1:]), hi]
        return {name: (index + 1, end) for (index, name), end in zip(cuts, ends, strict=True)}

    def _is_comparison(self, index: int) -> bool:
        before = self.signs[index - 2].word
        return before == "IS" or (before == "NOT" and self.signs[index - 3].word == "IS")

    def _is_clause(self, name: str, index: int, before: set[str]) -> bool:
        """Whether the word begins a clause here, and is not the name of a column."""
        if name in before:
            if name in _ALSO_NAMES:
                return False
            raise UnreadableSelect(f"{name} stands here a second time", self.signs[index].start)
        if name in _ALSO_NAMES and ("FROM" not in before or self._expects_operand(index)):
            return False
        return name != "WINDOW" or self.signs[index + 2].kind is TokenType.ALIAS

    def _expects_operand(self, index: int) -> bool:
        """Whether what stands before a word needs something behind it, so that the word must be a name."""
        before = self.signs[index - 1]
        if before.is_string or before.kind is TokenType.IDENTIFIER:
            return False
        return before.word in _CONNECT or not (before.text[-1:].isalnum() or before.text in (")", "]", "*"))

    def _conditions(
        self, name: str, clauses: Mapping[str, tuple[int, int]], expressions: ExpressionReader
    ) -> tuple[MvJoinCondition, ...]:
        return tuple(expressions.conditions(*clauses[name])) if name in clauses else ()

    def _others(self, clauses: Mapping[str, tuple[int, int]], expressions: ExpressionReader) -> list[MvComputation]:
        found: list[MvComputation] = []
        for name in _ORDERS:
            if name not in clauses:
                continue
            begin, end = clauses[name]
            self.orders.append(self.signs.place(begin - 1, end))
            for lo, hi in self.signs.split(begin, end):
                keys = [i for i in range(lo, hi) if self.signs[i].word not in ("ASC", "DESC", "NULLS", "FIRST", "LAST")]
                if keys and not (hi - lo == 1 and self.signs[lo].word == "ALL"):
                    found.append(expressions.value(lo, keys[-1] + 1).computation)
        return found

    # --- columns and groups -------------------------------------------------------------------------------------------

    def _columns(self, lo: int, hi: int, expressions: ExpressionReader) -> list[MvColumn]:
        place = self.signs.place(lo, hi)
        star = self._star(lo, hi)
        if star is not None:
            return [replace(star, place=place)]
        if hi - lo > 2 and self.signs[hi - 2].kind is TokenType.ALIAS and self._is_plain_name(hi - 1):
            read = expressions.value(lo, hi - 2)
            return [MvColumn(self.signs[hi - 1].text, read.plain or read.computation, place)]
        read = expressions.value(lo, hi)
        if read.tree is None:
            name = read.plain.words[-1] if isinstance(read.plain, MvReference) else ""
            return [MvColumn(name, read.plain or read.computation, place)]
        return self._aliased(lo, hi, read, expressions)

    def _is_plain_name(self, index: int) -> bool:
        return self.signs[index].is_name or self.signs[index].word.isidentifier()

    def _aliased(self, lo: int, hi: int, read: Read, expressions: ExpressionReader) -> list[MvColumn]:
        """The columns of an expression whose name stands behind it without AS, or of several names."""
        tree, place = read.tree, self.signs.place(lo, hi)
        if isinstance(tree, exp.Alias):
            shown = expressions.value(lo, hi - 1 - (self.signs[hi - 2].kind is TokenType.ALIAS))
            return [MvColumn(tree.alias, shown.plain or shown.computation, place)]
        if isinstance(tree, exp.Aliases):
            return [MvColumn(str(name), read.computation, place) for name in tree.aliases]
        if isinstance(tree, exp.Column | exp.Dot) and tree.name:
            return [MvColumn(tree.name, read.plain or read.computation, place)]
        return [MvColumn("", read.computation, place)]

    def _star(self, lo: int, hi: int) -> MvColumn | None:
        """`*`, `o.*`, either with EXCEPT (…)."""
        at = next((i for i in range(lo, min(hi, lo + 3)) if self.signs[i].kind is TokenType.STAR), None)
        if at not in (lo, lo + 2) or (at == lo + 2 and self.signs[lo + 1].kind is not TokenType.DOT):
            return None
        left_out: tuple[str, ...] = ()
        end = at + 1
        if self.signs[end].kind is TokenType.EXCEPT:
            left_out, end = self.names(end + 1)
        if end != hi:
            return None
        alias = "" if at == lo else self.signs[lo].text
        value = MvLiteral(0, "*")
        return MvColumn("*", value, MvPlace(0, 0), star=alias, except_=left_out)

    def _groups(
        self, found: tuple[int, int] | None, expressions: ExpressionReader, columns: tuple[MvColumn, ...]
    ) -> tuple[tuple[MvComputation, ...] | None, bool]:
        if found is None:
            return None, False
        lo, hi = found
        for i in range(lo, hi):
            name = self.signs[i].word
            if name in ("ROLLUP", "CUBE", "GROUPING SETS"):
                self.refuse(name, i)
                return (), False
        if hi - lo == 1 and self.signs[lo].word == "ALL":
            return None, True
        groups = [expressions.value(begin, end) for begin, end in self.signs.split(lo, hi)]
        return tuple(self._group(read, columns) for read in groups), False

    def _group(self, read: Read, columns: tuple[MvColumn, ...]) -> MvComputation:
        """The expression of a group; for a number, that of the column which stands there."""
        if not isinstance(read.plain, MvLiteral) or not isinstance(read.plain.value, int):
            return read.computation
        number = read.plain.value
        if not 1 <= number <= len(columns) or any(column.star is not None for column in columns[:number]):
            raise UnreadableSelect(f"there is no column {number} to group by", read.computation.place.start)
        return as_computation(columns[number - 1], self.signs.text)


def as_computation(column: MvColumn, text: str) -> MvComputation:
    """A column's value as an expression."""
    if isinstance(column.value, MvComputation):
        return column.value
    if isinstance(column.value, MvLiteral):
        return MvComputation(column.value.text, column.place, column.value.text)
    place = column.value.place
    return MvComputation(place.of(text), place, " . ".join(column.value.words).casefold(), (column.value,))
