"""A SELECT cut into its words and signs, as Spark's dialect of sqlglot cuts it, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from seamark.views.places import MvPlace

_STRINGS = (
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BYTE_STRING,
    TokenType.BIT_STRING,
    TokenType.NATIONAL_STRING,
)


class UnreadableSelect(Exception):
    """The text cannot be read at a place. `is_lexical` says that it cannot even be cut into words."""

    def __init__(self, message: str, offset: int, *, is_lexical: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.is_lexical = is_lexical


@dataclass(frozen=True, slots=True)
class Sign:
    """A word, name, number, text or sign. `word` is it in capitals, empty for quoted names and texts."""

    kind: TokenType
    text: str
    start: int
    end: int
    word: str

    @property
    def is_name(self) -> bool:
        """Whether it can be a name without being one of SQL's own words."""
        return self.kind in (TokenType.VAR, TokenType.IDENTIFIER)

    @property
    def is_string(self) -> bool:
        """Whether it is a text in quotes."""
        return self.kind in _STRINGS


class Signs:
    """The signs of a text, with the partner of each parenthesis."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all = [_sign(token, text) for token in _tokens(text)]
        self.partner = _partners(self.all)

    def __getitem__(self, index: int) -> Sign:
        return self.all[index] if 0 <= index < len(self.all) else self._end

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def _end(self) -> Sign:
        return Sign(TokenType.SENTINEL, "", len(self.text), len(self.text), "")

    def place(self, lo: int, hi: int) -> MvPlace:
        """Where the signs from `lo` up to `hi`, which is not among them, stand in the text."""
        if lo >= hi:
            return MvPlace(self[lo].start, self[lo].start)
        return MvPlace(self[lo].start, self[hi - 1].end)

    def top_level(self, lo: int, hi: int) -> Iterator[int]:
        """The places of the signs that stand in no parentheses within a range; the parentheses themselves are given."""
        index = lo
        while index < hi:
            yield index
            index = self.partner.get(index, index) if self.all[index].text == "(" else index
            index += 1

    def split(self, lo: int, hi: int, kind: TokenType = TokenType.COMMA) -> list[tuple[int, int]]:
        """The pieces of a range between signs of one kind."""
        cuts = [i for i in self.top_level(lo, hi) if self.all[i].kind is kind]
        return list(zip([lo, *(cut + 1 for cut in cuts)], [*cuts, hi], strict=True))

    def bare(self, lo: int, hi: int) -> tuple[int, int]:
        """The range without the parentheses around all of it; those around a query stay."""
        while hi - lo > 2 and self.partner.get(lo) == hi - 1 and not self.begins_query(lo + 1):
            lo, hi = lo + 1, hi - 1
        return lo, hi

    def begins_query(self, index: int) -> bool:
        """Whether a query begins here: with SELECT or WITH, in any number of parentheses."""
        while self[index].kind is TokenType.L_PAREN:
            index += 1
        return self[index].kind in (TokenType.SELECT, TokenType.WITH)

    def spelled(self, lo: int, hi: int) -> str:
        """The range without layout, comments and quotes of names, and without the case of what is no text."""
        lo, hi = self.bare(lo, hi)
        return " ".join(
            self.text[sign.start : sign.end] if sign.is_string else sign.text.casefold() for sign in self.all[lo:hi]
        )


def _tokens(text: str) -> list[Token]:
    from sqlglot.dialects.spark import Spark

    try:
        return list(Spark().tokenize(text))
    except TokenError as trouble:
        raise UnreadableSelect(
            "a text, a quoted name or a comment is not closed", _unclosed(text), is_lexical=True
        ) from trouble


def _unclosed(text: str) -> int:
    """Where the quote or comment begins that is not closed: the last sign of the text if none is found."""
    from seamark.views.lexer import unclosed

    found = unclosed(text)
    return max(0, len(text) - 1) if found is None else found


def _sign(token: Token, text: str) -> Sign:
    is_word = token.token_type is not TokenType.IDENTIFIER and token.token_type not in _STRINGS
    return Sign(
        token.token_type, token.text, token.start, min(token.end + 1, len(text)), token.text.upper() if is_word else ""
    )


def _partners(signs: list[Sign]) -> dict[int, int]:
    found: dict[int, int] = {}
    opened: list[int] = []
    for index, sign in enumerate(signs):
        if sign.kind is TokenType.L_PAREN:
            opened.append(index)
        elif sign.kind is TokenType.R_PAREN:
            if not opened:
                raise UnreadableSelect("a parenthesis is closed that was not opened", sign.start)
            begin = opened.pop()
            found[begin], found[index] = index, begin
    if opened:
        raise UnreadableSelect("a parenthesis is not closed", signs[opened[-1]].start)
    return found
