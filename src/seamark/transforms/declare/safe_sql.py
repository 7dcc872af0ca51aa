"""Whether SQL that somebody else wrote can be run: one query, over the given inputs and nothing else.

A definition in a chain is text from a stranger. It is read word by word, and refused unless every word is understood:
what is where a table is expected must be an input or a name that the query itself defines, and every function must
be one that looks at its arguments only. What passes is run as `SELECT * FROM (…)`, where Spark takes only a query.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seamark.transforms.declare.sql_functions import ALLOWED, BEFORE_PARENTHESIS, NEVER_THE_SAME, TABLE_FUNCTIONS


class UnsafeSql(ValueError):
    """The text is not run, for the reason that the error gives."""


def checked_query(text: str, inputs: Collection[str]) -> str:
    """The text as a query that can be run, in which inputs are named in braces; `UnsafeSql` if it should not be."""
    tokens = _tokens(text, inputs)
    words = [token for token in tokens if token.kind != "space"]
    while words and words[-1].text == ";":
        words.pop()
    _Reader(words).check()
    last = words[-1]
    kept = tokens[: tokens.index(last) + 1] if last in tokens else tokens
    plain = "".join(" " if token.kind == "space" else token.text for token in kept)
    return f"SELECT * FROM ({plain.strip()})"


# --- words ------------------------------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    text: str
    place: int

    @property
    def word(self) -> str:
        """A bare word in lower case; empty for anything else."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """What a bare or quoted name stands for, in lower case; empty for anything else."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`").lower()
        return self.word


# As Spark's own lexer cuts a text. What it might cut in another way, as a comment within a comment, is not matched.
_LEXER = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ | --(?:[^\r\n\\]|\\(?![\r\n]))*(?=[\r\n]|\Z)
             | /\*(?!\+)(?:(?!\*/|/\*).)*\*/ | /\*\+[\w\s(),.]*\*/ )
  | (?P<string> [rR]'[^']*' | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|"")*" )
  | (?P<quoted> `(?:[^`]|``)+` )
  | (?P<input> \{[^{}]*\} )
  | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[LlSsYyDdFf]|[Bb][Dd])?(?![A-Za-z0-9_]) )
  | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<sign> ->|=>|::|<=>|<>|!=|<=|>=|\|\||[-+*/%&|^~!=<>.,;:()\[\]?] )
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACES = re.compile(r"\{\{|\}\}|[{}]")


def _tokens(text: str, inputs: Collection[str]) -> list[_Token]:
    if "${" in text:
        raise UnsafeSql("it names a setting or variable of the surroundings (${…})")
    found: list[_Token] = []
    place = 0
    while place < len(text):
        match = _LEXER.match(text, place)
        if match is None:
            raise UnsafeSql(f"it cannot be read at {text[place : place + 20]!r}")
        kind, piece = str(match.lastgroup), match.group()
        if kind == "input" and piece[1:-1] not in inputs:
            raise UnsafeSql(f"{piece} is not one of the step's inputs")
        # Where Python puts the inputs in, braces are special in every place.
        if kind != "input" and any(brace in "{}" for brace in _BRACES.findall(piece)):
            raise UnsafeSql(f"there is a brace in {piece[:40]!r}")
        found.append(_Token(kind, piece, place))
        place = match.end()
    return found


# --- the query --------------------------------------------------------------------------------------------------------

_NEVER_AN_OPERAND = BEFORE_PARENTHESIS | {"with", "order", "sort", "cluster", "distribute", "partition", "window"}
_TAKES_FROM = ("extract", "trim", "substring", "substr", "overlay")
_LISTED_BY = ("group", "order", "sort", "cluster", "distribute", "partition")
_JOINS_QUERIES = ("union", "except", "intersect", "minus")
# What a text means where Spark makes a date or moment of it.
_MOMENT = re.compile(r"[rR]?['\"]\s*(now|today|tomorrow|yesterday)\b.*['\"]", re.IGNORECASE | re.DOTALL)
_UNFIT = {"table": "a table by its name", "recursive": "itself", "into": "a target", "identifier": "a name in a text"}


@dataclass(slots=True)
class _Frame:
    """What is known between two parentheses: whether a query is there, and whether a comma leads to another table."""

    called: str = ""  # the word before the parenthesis
    may_begin_query: bool = True
    is_query: bool = False
    expects_table: bool = False
    in_from: bool = False
    in_list: bool = False  # behind GROUP BY and its like: commas continue with expressions
    in_view: bool = False  # behind LATERAL VIEW: commas continue with names of columns
    defines: str = ""  # the name that a WITH gives the query in it


@dataclass
class _Reader:
    """Goes through the words of a query once, and refuses the first that is not understood."""

    words: Sequence[_Token]
    defined: set[str] = field(default_factory=set)
    place: int = 0

    def check(self) -> None:
        """Nothing, or `UnsafeSql`."""
        if not self.words:
            raise UnsafeSql("it is empty")
        # The text will be where a table could: it must begin with a query, or with a table that it may read.
        stack = [_Frame(called="a table", expects_table=True, in_from=True)]
        if self._at(0).word == "with":
            self._begin_definition(stack)
        while self.place < len(self.words):
            self._take(stack)
            self.place += 1
        if len(stack) != 1:
            raise UnsafeSql("a parenthesis is not closed")
        if stack[0].expects_table:
            raise UnsafeSql("it ends where a table should be")

    def _at(self, by: int) -> _Token:
        place = self.place + by
        return self.words[place] if 0 <= place < len(self.words) else _Token("end", "", place)

    def _take(self, stack: list[_Frame]) -> None:
        token, frame = self._at(0), stack[-1]
        begins, frame.may_begin_query = frame.may_begin_query, False
        if token.text == "(":
            self._open(stack)
        elif token.text == ")":
            self._close(stack)
        elif frame.expects_table:
            self._table(frame)
        elif token.text == ",":
            self._comma(frame)
        elif token.kind == "word":
            self._word(frame, begins=begins)
        elif token.kind == "string" and _MOMENT.fullmatch(token.text):
            raise UnsafeSql(f"{token.text[:40]} may mean the moment at which it is asked")
        elif token.text == ";" or (token.text == "|" and self._at(1).text == ">"):
            raise UnsafeSql(f"it has a '{token.text}' within")

    def _word(self, frame: _Frame, *, begins: bool) -> None:
        word = self._at(0).word
        if word in _UNFIT:
            raise UnsafeSql(f"with {word.upper()} it names {_UNFIT[word]}")
        if word in NEVER_THE_SAME and self._at(-1).text != "." and self._at(-1).word != "as":
            raise UnsafeSql(f"{word.upper()} gives something else each time, or to somebody else")
        if word == "with" or (word == "using" and self._at(1).text != "("):
            raise UnsafeSql(f"it has {word.upper()} in an unusual place")
        if word == "select":
            self._select(frame, begins=begins)
        elif word == "values" and begins:
            frame.is_query = True
        elif word == "from":
            self._from(frame, begins=begins)
        elif word == "join":
            frame.expects_table = True
        elif word == "lateral":
            self._lateral(frame)
        elif word == "by":
            frame.in_list = frame.in_list or self._at(-1).word in _LISTED_BY
        elif word in _JOINS_QUERIES and frame.in_from:
            follows = self._at(2) if self._at(1).word in ("all", "distinct") else self._at(1)
            if follows.word != "select" and follows.text != "(":
                raise UnsafeSql(f"{word.upper()} is not followed by a query")

    def _select(self, frame: _Frame, *, begins: bool) -> None:
        before = self._at(-1).word if self._at(-1).word not in ("all", "distinct") else self._at(-2).word
        if not begins and before not in _JOINS_QUERIES:
            raise UnsafeSql("it has SELECT in an unusual place")
        frame.is_query, frame.in_from, frame.in_list, frame.in_view = True, False, False, False

    def _from(self, frame: _Frame, *, begins: bool) -> None:
        if self._is_comparison() or (not frame.is_query and not begins and frame.called in _TAKES_FROM):
            return
        if not frame.is_query:
            raise UnsafeSql("it has FROM in an unusual place")
        frame.in_from = frame.expects_table = True
        frame.in_list = frame.in_view = False

    def _is_comparison(self) -> bool:
        """Whether this FROM is that of IS [NOT] DISTINCT FROM: what is compared must be something that can be."""
        if self._at(-1).word != "distinct":
            return False
        by = -3 if self._at(-2).word == "not" else -2
        left = self._at(by - 1)
        is_operand = left.text == ")" or left.kind in ("quoted", "number", "string")
        return self._at(by).word == "is" and (is_operand or bool(left.word and left.word not in _NEVER_AN_OPERAND))

    def _lateral(self, frame: _Frame) -> None:
        if self._at(1).word != "view":
            frame.expects_table = True
            return
        by = 3 if self._at(2).word == "outer" else 2
        if self._at(by).word not in TABLE_FUNCTIONS or self._at(by + 1).text != "(":
            raise UnsafeSql(f"LATERAL VIEW is not followed by one of {', '.join(sorted(TABLE_FUNCTIONS))}")
        frame.in_view = True

    def _comma(self, frame: _Frame) -> None:
        if not frame.in_from or frame.in_list:
            return
        if not frame.in_view:
            frame.expects_table = True
        elif not self._at(1).name or self._at(2).text in (".", "("):
            raise UnsafeSql("LATERAL VIEW is followed by something else than names")

    def _table(self, frame: _Frame) -> None:
        """A word where a table is expected."""
        token, follows = self._at(0), self._at(1)
        is_ours = token.kind == "input" or (token.name in self.defined and follows.text not in (".", "("))
        unfolds = token.word in TABLE_FUNCTIONS and follows.text == "("
        if token.word == "lateral":
            return
        if token.word == "select" and frame.called == "a table":
            frame.expects_table, frame.is_query, frame.in_from = False, True, False
            return
        if not is_ours and not unfolds and self.place == 0:
            raise UnsafeSql(f"it is not a query: it begins with {token.text}")
        if not is_ours and not unfolds:
            raise UnsafeSql(f"it reads '{token.text}', which is not one of the step's inputs")
        frame.expects_table = False

    # --- parentheses --------------------------------------------------------------------------------------------------

    def _open(self, stack: list[_Frame]) -> None:
        frame, before = stack[-1], self._at(-1)
        if frame.expects_table:
            frame.expects_table = False
            stack.append(_Frame(called="a table", expects_table=True, in_from=True))
            return
        self._refuse_function(before)
        stack.append(_Frame(called=before.word))

    def _refuse_function(self, before: _Token) -> None:
        if before.kind == "quoted" or (before.kind == "word" and before.word not in BEFORE_PARENTHESIS):
            if (self._at(-2).word == "as" and self._is_list_of_names()) or (
                before.word in ALLOWED and self._at(-2).text != "."
            ):
                return
            raise UnsafeSql(f"it calls '{before.text}', which is not known to look at its arguments only")
        if before.kind in ("input", "string"):
            raise UnsafeSql(f"{before.text[:40]} is called like a function")

    def _is_list_of_names(self) -> bool:
        """Whether this parenthesis holds names and commas: those of the columns of an alias."""
        by = 1
        while self._at(by).name and self._at(by + 1).text == ",":
            by += 2
        return bool(self._at(by).name) and self._at(by + 1).text == ")"

    def _close(self, stack: list[_Frame]) -> None:
        closed = stack.pop()
        if closed.expects_table:
            raise UnsafeSql("a table is missing")
        if not stack:
            raise UnsafeSql("a parenthesis is closed that was not opened")
        if closed.defines:
            self.defined.add(closed.defines)
            self._after_definition(stack)

    # --- WITH ---------------------------------------------------------------------------------------------------------

    def _begin_definition(self, stack: list[_Frame]) -> None:
        """Take `WITH name (columns) AS (` or `, name (columns) AS (`; what it defines is known once it is closed."""
        name = self._at(1).name
        self.place += 2
        if self._at(0).text == "(":
            while self._at(0).text not in (")", ""):
                self.place += 1
            self.place += 1
        if not name or self._at(0).word != "as" or self._at(1).text != "(":
            raise UnsafeSql("its WITH is not followed by a name and a query")
        self.place += 2
        stack.append(_Frame(called="a definition", defines=name))

    def _after_definition(self, stack: list[_Frame]) -> None:
        if self._at(1).text == ",":
            self.place += 1
            self._begin_definition(stack)
            self.place -= 1  # the loop goes on by one
