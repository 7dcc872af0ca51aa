"""The words of one statement in the document's language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lark import Token
from lark.lexer import Lexer

_WORDS = """
    all and as async auto batch by changefeed compute consumer create destination from full group handler incremental
    inner input join key left materialized on outer primary process refresh select stream union view where
"""
WORDS = frozenset(_WORDS.split())
SIGNS = {",": "COMMA", ".": "DOT", "=": "EQUALS", "(": "LEFT_PARENTHESIS", ")": "RIGHT_PARENTHESIS"}
_PIECES = re.compile(
    r"""
    (?P<layout> \s+ | --[^\r\n]* | /\*.*?\*/ )
  | (?P<OPAQUE> \#\[.*?\]\# )
  | (?P<STRING> '(?:[^'\\]|\\.|'')*'(?:[su](?![\w$]))? )
  | (?P<QUOTED> `(?:[^`]|``)+` )
  | (?P<text> "(?:[^"\\]|\\.)*" )
  | (?P<INTEGER> -?\d+(?![\w.$]) )
  | (?P<number> \d[\w.]* )
  | (?P<NAME> [^\W\d](?:\w|\$)* | \$(?:\w|\$)* )
  | (?P<sign> [,.=()] )
  | (?P<other> [-+*/%<>!&|^~:\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_PLAIN_ENDS = ("GROUP", "UNION", "AS")


class UnknownSign(Exception):
    """A sign that no word of the language has, and where it is."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    text: str
    start: int
    end: int


def _pieces(text: str) -> Iterator[_Piece]:
    place = 0
    while place < len(text):
        found = _PIECES.match(text, place)
        if found is None:
            raise UnknownSign(place)
        place = found.end()
        kind, shown = str(found.lastgroup), found[0]
        if kind == "layout":
            continue
        if kind == "NAME" and shown.casefold() in WORDS:
            kind = shown.upper()
        elif kind == "sign":
            kind = SIGNS[shown]
        elif kind in ("other", "number", "text"):
            kind = "OTHER"
        yield _Piece(kind, shown, found.start(), place)


class StatementLexer(Lexer):
    """Gives lark the words of a statement. Spark SQL in it is one word, whatever it holds."""

    def __init__(self, _: object) -> None:
        """Lark's settings of its own lexer are not needed."""

    def lex(self, data: object, *_: object) -> Iterator[Token]:
        """The words, one after another."""
        text = str(data)
        # A view in plain SQL may hold signs that only Spark knows: they are not looked at.
        head = _plain_head(text)
        if head is not None:
            yield from map(_token, _pieces(text[:head]))
            if text[head:].strip():
                begin = head + len(text[head:]) - len(text[head:].lstrip())
                yield _token(_Piece("REST", text[begin:].rstrip(), begin, len(text.rstrip())))
            return
        yield from map(_token, _with_plain(list(_pieces(text)), text))


_PLAIN_VIEW = re.compile(r"(?:\s|--[^\r\n]*|/\*.*?\*/)*create(?:\s|--[^\r\n]*|/\*.*?\*/)+materialized\b", re.I | re.S)


def is_plain_view(text: str) -> bool:
    """Whether a statement is a view in plain SQL."""
    return _PLAIN_VIEW.match(text) is not None


def _plain_head(text: str) -> int | None:
    """Where the SELECT of a view in plain SQL begins: behind the first AS."""
    if not is_plain_view(text):
        return None
    place = 0
    while place < len(text):
        found = _PIECES.match(text, place)
        if found is None:
            return None
        place = found.end()
        if found.lastgroup == "NAME" and found[0].upper() == "AS":
            return place
    return None


def _with_plain(pieces: list[_Piece], text: str) -> Iterator[_Piece]:
    """The pieces, those of Spark SQL behind WHERE and GROUP BY as one."""
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        yield piece
        index += 1
        before = pieces[index - 2].kind if index > 1 else ""
        follows = pieces[index].kind if index < len(pieces) else ""
        begins = piece.kind == "WHERE" or (piece.kind == "BY" and before == "GROUP")
        if not begins or (piece.kind == "WHERE" and follows in ("OPAQUE", "COMPUTE")):
            continue
        end = _plain_end(pieces, index)
        if end > index:
            begin, stop = pieces[index].start, pieces[end - 1].end
            yield _Piece("PLAIN", text[begin:stop], begin, stop)
            index = end


def _plain_end(pieces: list[_Piece], index: int) -> int:
    depth = 0
    while index < len(pieces):
        kind = pieces[index].kind
        depth += (kind == "LEFT_PARENTHESIS") - (kind == "RIGHT_PARENTHESIS")
        if depth < 0 or (depth == 0 and kind in _PLAIN_ENDS):
            return index
        index += 1
    return index


def _token(piece: _Piece) -> Token:
    return Token(piece.kind, piece.text, start_pos=piece.start, end_pos=piece.end)
