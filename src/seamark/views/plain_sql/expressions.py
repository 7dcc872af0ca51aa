"""Reading one expression: the columns it uses, the queries in it, and what a condition says of NULL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from seamark.views.model import (
    MvComputation,
    MvJoinCondition,
    MvLiteral,
    MvQuery,
    MvReference,
    MvSubquery,
    MvSubqueryKind,
)
from seamark.views.places import MvPlace
from seamark.views.plain_sql.functions import AGGREGATES, GENERATORS
from seamark.views.plain_sql.refusals import Refused, refusal
from seamark.views.plain_sql.signs import Signs, UnreadableSelect

_BEHIND_CALL = ("FILTER", "WITHIN GROUP", "WITHIN", "GROUP", "IGNORE", "RESPECT", "NULLS")

ReadQuery = Callable[[int, int], MvQuery]
Plain = MvReference | MvLiteral


@dataclass(frozen=True, slots=True)
class Read:
    """An expression with sqlglot's tree of it; None where a plain column or constant needed none."""

    computation: MvComputation
    plain: Plain | None
    tree: exp.Expression | None
    queries: tuple[MvSubquery, ...]


class ExpressionReader:
    """Reads pieces of one SELECT. `read_query` reads a query that stands in parentheses."""

    def __init__(self, signs: Signs, read_query: ReadQuery) -> None:
        self._signs = signs
        self._read_query = read_query

    def value(self, lo: int, hi: int, tree: exp.Expression | None = None) -> Read:
        """The expression between two signs; `tree` is sqlglot's where it is known already."""
        if lo >= hi:
            raise UnreadableSelect("an expression is missing", self._signs[lo].start)
        inner_lo, inner_hi = self._signs.bare(lo, hi)
        place = self._signs.place(lo, hi)
        text, signs = place.of(self._signs.text), self._signs.spelled(lo, hi)
        plain = self._plain(inner_lo, inner_hi)
        if plain is not None:
            references = (plain,) if isinstance(plain, MvReference) else ()
            return Read(MvComputation(text, place, signs, references), plain, None, ())
        reduced = self._reduced(inner_lo, inner_hi)
        tree = reduced.parsed()
        self._refuse_unnamed_columns(lo, hi, tree)
        queries = tuple(self._subqueries(reduced, tree))
        computation = MvComputation(
            text,
            place,
            signs,
            tuple(reduced.references(tree)),
            queries,
            aggregates=tuple(self._aggregates(lo, hi)),
            generates=any(self._calls(i) in GENERATORS for i in range(lo, hi)),
        )
        return Read(computation, None, tree, queries)

    def conditions(self, lo: int, hi: int) -> list[MvJoinCondition]:
        """The conditions that a range joins by AND, each by itself."""
        lo, hi = self._signs.bare(lo, hi)
        return [condition for begin, end in self._conjuncts(lo, hi) for condition in self._condition(begin, end)]

    def _condition(self, lo: int, hi: int) -> list[MvJoinCondition]:
        inner_lo, inner_hi = self._signs.bare(lo, hi)
        if len(self._conjuncts(inner_lo, inner_hi)) > 1:
            return self.conditions(inner_lo, inner_hi)
        sides = self._sides(inner_lo, inner_hi)
        if sides is not None:
            place = self._signs.place(lo, hi)
            used = tuple(side for side in sides if isinstance(side, MvReference))
            computation = MvComputation(place.of(self._signs.text), place, self._signs.spelled(lo, hi), used)
            return [MvJoinCondition(computation, *sides, rejects_null=bool(used))]
        read = self.value(lo, hi)
        return [MvJoinCondition(read.computation, rejects_null=read.tree is None or rejects_null(read.tree))]

    def _sides(self, lo: int, hi: int) -> tuple[Plain, Plain] | None:
        """The two sides of an `=` between plain columns and constants."""
        at = next((i for i in self._signs.top_level(lo, hi) if self._signs[i].kind is TokenType.EQ), None)
        if at is None:
            return None
        left = self._plain(*self._signs.bare(lo, at))
        right = self._plain(*self._signs.bare(at + 1, hi))
        return None if left is None or right is None else (left, right)

    def _conjuncts(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """The pieces between ANDs; all of it where an OR, which binds less than AND, is among them."""
        cuts: list[int] = []
        between = cases = 0
        for i in self._signs.top_level(lo, hi):
            kind = self._signs[i].kind
            cases += (kind is TokenType.CASE) - (kind is TokenType.END and cases > 0)
            if cases:
                continue
            if kind in (TokenType.OR, TokenType.XOR):
                return [(lo, hi)]
            if kind is TokenType.BETWEEN:
                between += 1
            elif kind is TokenType.AND and between:
                between -= 1
            elif kind is TokenType.AND:
                cuts.append(i)
        return list(zip([lo, *(cut + 1 for cut in cuts)], [*cuts, hi], strict=True))

    def _refuse_unnamed_columns(self, lo: int, hi: int, tree: exp.Expression) -> None:
        """Refuse what uses columns without their names: nobody would see that they are used."""
        if any(self._calls(i) == "identifier" for i in range(lo, hi)):
            raise Refused(refusal("IDENTIFIER", self._signs.place(lo, hi)))
        if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
            raise Refused(refusal("a * in an expression", self._signs.place(lo, hi)))

    # --- plain columns and constants ----------------------------------------------------------------------------------

    def _plain(self, lo: int, hi: int) -> Plain | None:
        signs = self._signs.all[lo:hi]
        if not signs:
            return None
        if all(sign.kind is TokenType.STRING for sign in signs):
            touching = all(one.end == other.start for one, other in pairwise(signs))
            value = "'".join(sign.text for sign in signs)  # sqlglot takes a doubled quote for the end of a text
            return MvLiteral(value, self._signs.place(lo, hi).of(self._signs.text)) if touching else None
        number = signs[1:] if signs[0].kind is TokenType.DASH else signs
        if len(number) == 1 and number[0].kind is TokenType.NUMBER and number[0].text.isascii():
            return self._number(lo, hi, number[0].text, negative=number is not signs)
        if not signs[0].is_name or len(signs) % 2 == 0:
            return None
        dots = all(sign.kind is TokenType.DOT for sign in signs[1::2])
        names = all(sign.is_name or sign.word.isidentifier() for sign in signs[2::2])
        if not dots or not names:
            return None
        return MvReference(tuple(sign.text for sign in signs[::2]), self._signs.place(lo, hi))

    def _number(self, lo: int, hi: int, digits: str, *, negative: bool) -> MvLiteral | None:
        if not digits.isdigit() or len(digits) > 38:
            return None
        return MvLiteral(-int(digits) if negative else int(digits), self._signs.place(lo, hi).of(self._signs.text))

    # --- queries and calls inside -------------------------------------------------------------------------------------

    def _queries_inside(self, lo: int, hi: int) -> Iterator[int]:
        """The parentheses of the queries inside, from left to right."""
        index = lo
        while index < hi:
            if self._signs[index].kind is TokenType.L_PAREN and self._signs.begins_query(index + 1):
                yield index
                index = self._signs.partner[index]
            index += 1

    def _reduced(self, lo: int, hi: int) -> _Reduced:
        reduced = _Reduced(self._signs.text)
        begin = self._signs[lo].start
        for number, index in enumerate(self._queries_inside(lo, hi)):
            end = self._signs.partner[index]
            reduced.keep(begin, self._signs[index].end)
            reduced.put(f"SELECT {number}")
            reduced.inside.append((index, end))
            begin = self._signs[end].start
        reduced.keep(begin, self._signs[hi - 1].end)
        return reduced

    def _subqueries(self, reduced: _Reduced, tree: exp.Expression) -> Iterator[MvSubquery]:
        conjunct = _membership(tree)
        for number, (begin, end) in enumerate(reduced.inside):
            query = self._read_query(begin + 1, end)
            before = self._signs[begin - 1].kind
            if before is TokenType.EXISTS:
                yield MvSubquery(MvSubqueryKind.EXISTS, query)
            elif before is TokenType.IN:
                left = tuple(map(reduced.reference, conjunct[1])) if conjunct and conjunct[0] == number else ()
                negated = self._signs[begin - 2].kind is TokenType.NOT
                yield MvSubquery(MvSubqueryKind.IN, query, negated, left, bool(left) and not negated)
            else:
                yield MvSubquery(MvSubqueryKind.SCALAR, query)

    def _calls(self, index: int) -> str:
        """The function whose name stands here, in small letters; empty if none is called."""
        if self._signs[index + 1].kind is not TokenType.L_PAREN or self._signs[index - 1].kind is TokenType.DOT:
            return ""
        return self._signs[index].text.casefold()

    def _aggregates(self, lo: int, hi: int) -> Iterator[MvPlace]:
        """Where aggregates are called, those of queries inside and of windows left out."""
        inside = [(index, self._signs.partner[index]) for index in self._queries_inside(lo, hi)]
        for index in range(lo, hi):
            if any(begin < index < end for begin, end in inside) or self._calls(index) not in AGGREGATES:
                continue
            after = self._signs.partner[index + 1] + 1
            while self._signs[after].word in _BEHIND_CALL:
                after = self._signs.partner.get(after + 1, after) + 1
            if self._signs[after].kind is not TokenType.OVER:
                yield MvPlace(self._signs[index].start, self._signs[index].end)


class _Reduced:
    """An expression in which `SELECT 0`, `SELECT 1` stand for the queries inside."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown: list[str] = ["SELECT "]
        self._length = len("SELECT ")
        self._pieces: list[tuple[int, int, int]] = []
        self.inside: list[tuple[int, int]] = []

    def keep(self, begin: int, end: int) -> None:
        self._pieces.append((self._length, self._length + end - begin, begin))
        self._shown.append(self._text[begin:end])
        self._length += end - begin

    def put(self, text: str) -> None:
        self._shown.append(text)
        self._length += len(text)

    def origin(self, offset: int) -> int:
        """The place in the whole text."""
        for begin, end, origin in self._pieces:
            if begin <= offset < end:
                return origin + offset - begin
        return self._pieces[-1][2]

    def parsed(self) -> exp.Expression:
        """The tree of the expression as sqlglot reads it, or `UnreadableSelect`."""
        tree = _only_expression("".join(self._shown))
        if tree is None:
            raise UnreadableSelect("this cannot be read as one expression", self._pieces[0][2])
        return tree

    def references(self, tree: exp.Expression) -> Iterator[MvReference]:
        """The columns that are used, parameters of lambdas left out, in the order of the text."""
        found = [c for c in tree.find_all(exp.Column) if not isinstance(c.this, exp.Star) and not _is_parameter(c)]
        read = [self.reference(column) for column in found]
        yield from sorted((r for r in read if r is not None), key=lambda reference: reference.place)

    def reference(self, column: exp.Expression) -> MvReference | None:
        """The reference that a column of the tree is; None for anything else."""
        column = _bare(column)
        if not isinstance(column, exp.Column) or not all(isinstance(part, exp.Identifier) for part in column.parts):
            return None
        begin, end = column.parts[0].meta.get("start"), column.parts[-1].meta.get("end")
        if begin is None or end is None:
            raise UnreadableSelect("a column's place cannot be found", self._pieces[0][2])
        words = tuple(part.name for part in column.parts)
        return MvReference(words, MvPlace(self.origin(begin), self.origin(end) + 1))


@lru_cache(maxsize=2048)
def _only_expression(select: str) -> exp.Expression | None:
    """The tree of the only column of a SELECT, or None if it is anything else. Nobody changes a tree."""
    try:
        found = sqlglot.parse(select, read="spark")
    except SqlglotError:
        return None
    tree = found[0] if len(found) == 1 else None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return None
    if any(value for name, value in tree.args.items() if name not in ("expressions", "hint", "kind")):
        return None
    only: exp.Expression = tree.expressions[0]
    return only


def _bare(tree: exp.Expression) -> exp.Expression:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _is_parameter(column: exp.Column) -> bool:
    """Whether a name is the parameter of a lambda around it."""
    name = column.parts[0].name.casefold()
    around = column.find_ancestor(exp.Lambda)
    while around is not None:
        if any(parameter.name.casefold() == name for parameter in around.expressions):
            return True
        around = around.find_ancestor(exp.Lambda)
    return False


def _membership(tree: exp.Expression) -> tuple[int, list[exp.Expression]] | None:
    """The number of the query of an IN that is the whole condition, and what stands before it."""
    tree = _bare(tree)
    if not isinstance(tree, exp.In) or tree.args.get("query") is None:
        return None
    number = next(tree.args["query"].find_all(exp.Literal), None)
    left = _bare(tree.this)
    members = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    return (int(number.name), members) if number is not None and number.name.isdigit() else None


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.RegexpLike)
_STRICT = (exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.Upper, exp.Lower, exp.Abs, exp.Length, exp.Paren)


def rejects_null(tree: exp.Expression) -> bool:
    """Whether a condition is never true where all its columns are NULL. When in doubt it is not said to be."""
    tree = _bare(tree)
    if isinstance(tree, exp.And):
        return rejects_null(tree.this) or rejects_null(tree.expression)
    if isinstance(tree, exp.Or):
        return rejects_null(tree.this) and rejects_null(tree.expression)
    if isinstance(tree, exp.Not):
        inner = _bare(tree.this)
        if isinstance(inner, exp.Is):
            return isinstance(inner.expression, exp.Null) and _is_strict(inner.this)
        return isinstance(inner, (*_COMPARISONS, exp.Between, exp.In)) and _unknown_for_null(inner)
    return isinstance(tree, (*_COMPARISONS, exp.Between, exp.In)) and _unknown_for_null(tree)


def _unknown_for_null(tree: exp.Expression) -> bool:
    """Whether a comparison is NULL where all its columns are."""
    if isinstance(tree, exp.In) and (tree.args.get("query") is not None or not tree.expressions):
        return False
    return _is_strict(tree.this) or (isinstance(tree, _COMPARISONS) and _is_strict(tree.expression))


def _is_strict(tree: exp.Expression | None) -> bool:
    """Whether an expression is NULL where all its columns are."""
    if isinstance(tree, exp.Column):
        return True
    if not isinstance(tree, _STRICT):
        return False
    return _is_strict(tree.this) or (isinstance(tree, exp.Binary) and _is_strict(tree.expression))
