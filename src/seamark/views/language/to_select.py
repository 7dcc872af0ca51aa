"""The SELECT that Spark runs for a part in the document's language, and the model of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sqlglot import TokenType

from seamark.views.language import tree
from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinCondition,
    MvJoinKind,
    MvPart,
    MvQuery,
    MvReference,
)
from seamark.views.places import MvPlace, MvScript, MvText, Paste
from seamark.views.plain_sql.expressions import ExpressionReader
from seamark.views.plain_sql.query import as_computation
from seamark.views.plain_sql.read import read_part
from seamark.views.plain_sql.signs import Signs, UnreadableSelect

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_JOINS = {MvJoinKind.INNER: "JOIN", MvJoinKind.LEFT: "LEFT JOIN"}
_STANDS_FOR = "NULL"  # what is read where an expression cannot be


@dataclass(frozen=True, slots=True)
class _Pasted:
    """An expression with its place in the SELECT, parentheses included."""

    expression: tree.Expression
    place: MvPlace
    is_readable: bool


def make_part(part: tree.Part, script: MvScript) -> MvPart:
    """The part as a SELECT with its model, not yet linked."""
    writer = _Writer(script)
    text = writer.select(part.select)
    seen = list(text.text)
    for pasted in writer.pasted:
        if not pasted.is_readable:
            begin, end = pasted.place.start, pasted.place.end
            seen[begin + 1 : end - 1] = _STANDS_FOR.ljust(end - begin - 2)
    read = read_part(part.alias.text, MvText("".join(seen), script, text.pieces))
    finished = _with_expressions(read, writer.pasted, writer.declared, text.text)
    return replace(finished, text=text, place=part.alias.place)


@dataclass
class _Writer:
    script: MvScript
    pasted: list[_Pasted] = field(default_factory=list)
    declared: dict[int, tuple[MvReference, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._paste = Paste(self.script)
        self._asides: list[tuple[tree.Expression, MvPlace]] = []

    def select(self, select: tree.Select) -> MvText:
        """The SELECT's text."""
        self._paste.put("SELECT ", select.place)
        for number, column in enumerate(select.columns):
            self._paste.put(",\n       " if number else "")
            self._value(column.value)
            self._paste.put(" AS ")
            self._name(column.name)
        for source in select.sources:
            self._source(source)
        if select.where is not None:
            self._paste.put("\nWHERE ")
            self._value(select.where)
        if select.groups is not None:
            self._paste.put("\nGROUP BY ")
            self._value(select.groups)
        return self._with_asides(self._paste.done())

    def _source(self, source: tree.Source) -> None:
        self._paste.put("\nFROM " if source.kind is MvJoinKind.FROM else f"\n{_JOINS[source.kind]} ")
        self._name(source.table)
        self._paste.put(" AS ")
        self._name(source.alias)
        for number, condition in enumerate(source.conditions):
            self._paste.put(" AND " if number else " ON ")
            self._value(condition.left)
            self._paste.put(" = ")
            self._value(condition.right)

    def _value(self, value: tree.Value) -> None:
        if isinstance(value, tree.Reference):
            self._name(value.alias)
            self._paste.put(".")
            self._name(value.column)
        elif isinstance(value, tree.Constant):
            self._paste.put(value.literal.text, value.place)
        elif value.is_opaque:
            self._opaque(value)
        else:
            self._paste.put(value.text, value.place)

    def _opaque(self, value: tree.Expression) -> None:
        begin = self._paste.put("(", value.blamed).start
        self._paste.put(value.text, value.place)
        # A line comment would take the parenthesis with it, and there must be room for what stands for the expression.
        end = "\n)" if "--" in value.text else ")"
        place = MvPlace(begin, self._paste.put(" " * max(0, len(_STANDS_FOR) - len(value.text)) + end).end)
        readable = is_readable(value.text)
        self.pasted.append(_Pasted(value, place, readable))
        if value.declared is not None:
            self._asides.append((value, place))

    def _name(self, name: tree.Name) -> None:
        if is_plain_name(name.text):
            self._paste.put(name.text, name.place)
        else:
            self._paste.put("`")
            self._paste.put(name.text.replace("`", "``"), name.place)
            self._paste.put("`")

    def _with_asides(self, text: MvText) -> MvText:
        """The text with places behind its end for COMPUTE ON, which Spark does not get to see."""
        pieces, end = list(text.pieces), len(text.text)
        for expression, place in self._asides:
            found = []
            for reference in expression.declared or ():
                length = max(1, len(reference.column.text))
                pieces.append((MvPlace(end, end + length), reference.alias.place))
                words = (reference.alias.text, reference.column.text)
                found.append(MvReference(words, MvPlace(end, end + length)))
                end += length
            self.declared[place.start] = tuple(found)
        return replace(text, pieces=tuple(pieces))


@lru_cache(maxsize=4096)
def is_plain_name(name: str) -> bool:
    """Whether Spark reads a name without backticks as that name."""
    return _PLAIN_NAME.fullmatch(name) is not None and Signs(name)[0].is_name


@lru_cache(maxsize=4096)
def is_balanced(text: str) -> bool:
    """Whether an expression closes what it opens: if not, it would take in what stands around it."""
    try:
        signs = Signs(text)
    except UnreadableSelect:
        return False
    return len(signs) > 0 and not any(sign.kind is TokenType.SEMICOLON for sign in signs.all)


@lru_cache(maxsize=4096)
def is_readable(text: str) -> bool:
    """Whether it can be found out which columns an expression uses."""

    def no_query(lo: int, hi: int) -> MvQuery:
        return MvQuery(MvPlace(lo, hi), ())

    try:
        signs = Signs(text)
        ExpressionReader(signs, no_query).value(0, len(signs))
    except (UnreadableSelect, RecursionError):
        return False
    return True


# --- what the brackets say --------------------------------------------------------------------------------------------


def _with_expressions(
    part: MvPart, pasted: list[_Pasted], declared: dict[int, tuple[MvReference, ...]], text: str
) -> MvPart:
    """The part with its expressions marked as such: what they declare, and whether they could be read."""
    if part.query is None or not pasted:
        return part

    def marked(computation: MvComputation) -> MvComputation:
        for found in pasted:
            place = found.place
            if not place.start <= computation.place.start <= computation.place.end <= place.end:
                continue
            says = declared.get(place.start)
            if found.is_readable:
                return replace(computation, is_opaque=True, declared=says)
            words = MvComputation(found.expression.text, place, found.expression.text.strip())
            return replace(words, declared=says, is_readable=False, is_opaque=True)
        return computation

    def column(found: MvColumn) -> MvColumn:
        around = next((p for p in pasted if p.place.start == found.place.start), None)
        if around is None:
            return found
        if isinstance(found.value, MvComputation):
            return replace(found, value=marked(found.value))
        # A plain column or constant in brackets is an expression too.
        value = replace(as_computation(found, text), is_opaque=True, declared=declared.get(around.place.start))
        return replace(found, value=value)

    def condition(found: MvJoinCondition) -> MvJoinCondition:
        computation = marked(found.computation)
        return found if computation is found.computation else replace(found, computation=computation)

    query = replace(
        part.query,
        columns=tuple(map(column, part.query.columns)),
        where=tuple(map(condition, part.query.where)),
    )
    return replace(part, query=query)
