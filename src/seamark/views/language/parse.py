"""Reading one statement with lark: its values, or where and why it cannot be read."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from seamark.views.context import MvHandler, MvHandlerView, MvInput
from seamark.views.language import tree
from seamark.views.language.tokens import StatementLexer
from seamark.views.model import DEFAULT_PART, MvJoinKind, MvLiteral, MvRefresh
from seamark.views.places import MvScript

_KINDS = {"INNER": MvJoinKind.INNER, "LEFT": MvJoinKind.LEFT}
_SHOWN = {
    "COMMA": "','",
    "DOT": "'.'",
    "EQUALS": "'='",
    "LEFT_PARENTHESIS": "'('",
    "RIGHT_PARENTHESIS": "')'",
    "NAME": "a name",
    "INTEGER": "a whole number",
    "STRING": "a text",
    "OPAQUE": "#[ … ]#",
    "PLAIN": "a condition",
    "REST": "a SELECT",
    "$END": "the end",
}
# The words that may be a name: what is expected there is called so.
_WORDS_AS_NAMES = """
    ASYNC MATERIALIZED VIEW HANDLER PROCESS INPUT STREAM BATCH CHANGEFEED CONSUMER PRIMARY KEY REFRESH FULL AUTO
    INCREMENTAL DESTINATION QUOTED
"""
_NAMES = frozenset(_WORDS_AS_NAMES.split())


class Unreadable(Exception):
    """A statement that cannot be read, and the place in it."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files("seamark.views.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer=StatementLexer, maybe_placeholders=True)


def parse_statement(text: str, at: int, script: MvScript) -> tree.Statement:
    """The statement that `text` is, which stands at a place of the script; or `Unreadable`."""
    try:
        found = _parser().parse(text)
    except UnexpectedToken as trouble:
        raise Unreadable(_message(trouble), _offset(trouble.token, text)) from trouble
    except UnexpectedInput as trouble:
        raise Unreadable("this statement cannot be read", trouble.pos_in_stream or 0) from trouble
    return _Values(at, script).statement(_first(found))


def _offset(token: Token, text: str) -> int:
    if token.type == "$END":
        return max(0, len(text.rstrip()) - 1)
    return token.start_pos or 0


def _message(trouble: UnexpectedToken) -> str:
    expected = set(trouble.accepts or trouble.expected or ())
    if "NAME" in expected:
        expected -= _NAMES
    listed = [_SHOWN.get(kind, kind) for kind in sorted(expected)]
    token = trouble.token
    found = "the statement ends" if token.type == "$END" else f"'{token}' stands"
    wanted = " or ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)
    return f"{found} where {wanted} is expected"


class _Values:
    """Makes values of lark's tree. `at` is where the statement begins in the script."""

    def __init__(self, at: int, script: MvScript) -> None:
        self._at = at
        self._script = script

    def statement(self, found: Tree[Token]) -> tree.Statement:
        match found.data:
            case "handler":
                return self._handler(found)
            case "plain_view":
                return self._plain_view(found)
            case _:
                return self._view(found)

    def _view(self, found: Tree[Token]) -> tree.View:
        name, destination = self._name(_one(found, "name")), _maybe(found, "destination")
        select, parts = _maybe(found, "select"), _maybe(found, "parts")
        read: list[tree.Part] = []
        if select is not None:
            read.append(tree.Part(self._select(select), tree.Name(DEFAULT_PART, name.place)))
        for part in _all(parts, "part") if parts is not None else ():
            read.append(tree.Part(self._select(_one(part, "select")), self._name(_one(part, "name"))))
        target = self._name(_one(destination, "name")) if destination is not None else None
        return tree.View(name, self._key(found), target, tuple(read))

    def _plain_view(self, found: Tree[Token]) -> tree.View:
        rest, refresh = found.children[-1], _maybe(found, "refresh")
        mode = MvRefresh(str(refresh.children[-1]).lower()) if refresh else MvRefresh.INCREMENTAL
        select = tree.Name(str(rest), self._place(rest))
        return tree.View(self._name(_one(found, "name")), self._key(found), None, (), mode, select)

    def _key(self, found: Tree[Token]) -> tuple[tree.Name, ...] | None:
        key = _maybe(found, "primary_key")
        return None if key is None else tuple(self._name(name) for name in _all(key, "name"))

    def _handler(self, found: Tree[Token]) -> MvHandler:
        name, consumer = self._name(_one(found, "name")), _maybe(found, "consumer")
        views = [self._name(_one(part, "name")) for part in _all(found, "process")]
        return MvHandler(
            name.text,
            self._script,
            name.place,
            tuple(MvHandlerView(view.text, view.place) for view in views),
            tuple(self._input(part) for part in _all(found, "input")),
            self._name(_one(consumer, "name")).text if consumer else None,
        )

    def _input(self, found: Tree[Token]) -> MvInput:
        table, feed = (self._name(name) for name in _all(found, "name"))
        is_batch = _token(found.children[-1]).type == "BATCH"
        return MvInput(table.text, feed.text, is_batch, table.place, feed.place)

    # --- SELECT -------------------------------------------------------------------------------------------------------

    def _select(self, found: Tree[Token]) -> tree.Select:
        where, group, first = _maybe(found, "where"), _maybe(found, "group"), _one(found, "from_source")
        table, alias = (self._name(name) for name in _all(first, "name"))
        joins = tuple(self._join(join) for join in _all(found, "join"))
        return tree.Select(
            tuple(self._column(column) for column in _all(found, "column")),
            (tree.Source(table, alias), *joins),
            None if where is None else self._expression(where.children[-1]),
            None if group is None else self._expression(group.children[-1]),
            self._place(found.children[0]),
        )

    def _column(self, found: Tree[Token]) -> tree.Column:
        return tree.Column(self._value(found.children[0]), self._name(_all(found, "name")[-1]))

    def _join(self, found: Tree[Token]) -> tree.Source:
        kind = _maybe(found, "kind")
        table, alias = (self._name(name) for name in _all(found, "name"))
        sort = _KINDS[str(kind.children[0]).upper()] if kind else MvJoinKind.INNER
        return tree.Source(table, alias, sort, tuple(self._condition(c) for c in _all(found, "condition")))

    def _condition(self, found: Tree[Token]) -> tree.Condition:
        sides = [self._value(child) for child in found.children if isinstance(child, Tree)]
        left, right = (side for side in sides if not isinstance(side, tree.Expression))
        return tree.Condition(left, right)

    def _value(self, found: Any) -> tree.Value:
        match found.data:
            case "reference":
                alias, column = (self._name(name) for name in _all(found, "name"))
                return tree.Reference(alias, column)
            case "literal":
                return self._constant(_token(found.children[0]))
            case _:
                return self._expression(found)

    def _constant(self, token: Token) -> tree.Constant:
        text = str(token)
        if token.type == "INTEGER":
            return tree.Constant(MvLiteral(int(text), text), self._place(token))
        body = text[:-1] if text[-1] != "'" else text
        return tree.Constant(MvLiteral(_unescaped(body[1:-1]), body), self._place(token))

    def _expression(self, found: Any) -> tree.Expression:
        if isinstance(found, Token):
            return tree.Expression(str(found), self._place(found), self._place(found), is_opaque=False)
        compute, token = _maybe(found, "compute"), _token(found.children[-1])
        place = self._place(token)
        declared = None
        if compute is not None:
            references = [self._value(child) for child in _all(compute, "reference")]
            declared = tuple(r for r in references if isinstance(r, tree.Reference)) or None
        blamed = self._place(compute.children[0]) if compute is not None else place
        return tree.Expression(str(token)[2:-2], place + 2, blamed, declared)

    def _name(self, found: Tree[Token]) -> tree.Name:
        token = _token(found.children[0])
        text = str(token)
        return tree.Name(text[1:-1].replace("``", "`") if token.type == "QUOTED" else text, self._place(token))

    def _place(self, token: Any) -> int:
        return self._at + (_token(token).start_pos or 0)


def _first(found: Tree[Token]) -> Tree[Token]:
    child = found.children[0]
    assert isinstance(child, Tree)
    return child


def _token(found: Any) -> Token:
    assert isinstance(found, Token)
    return found


def _all(found: Tree[Token], data: str) -> list[Tree[Token]]:
    return [child for child in found.children if isinstance(child, Tree) and child.data == data]


def _maybe(found: Tree[Token], data: str) -> Tree[Token] | None:
    return next(iter(_all(found, data)), None)


def _one(found: Tree[Token], data: str) -> Tree[Token]:
    return _all(found, data)[0]


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def _unescaped(text: str) -> str:
    """A text's value: a doubled quote is one, and what a backslash stands before is itself or a sign not seen."""

    def sign(found: re.Match[str]) -> str:
        return _ESCAPES.get(found[1], found[1]) if found[1] else "'"

    return re.sub(r"(?s)\\(.)|''", sign, text)
