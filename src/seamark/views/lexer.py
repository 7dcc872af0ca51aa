"""Where a text's quotes, comments and expressions begin and end, and where its statements are cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seamark.views.places import MvPlace

_PIECES = re.compile(
    r"""
    (?P<opaque> \#\[.*?\]\# )
  | (?P<comment> --[^\r\n]* | /\*.*?\*/ )
  | (?P<quoted> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*` )
  | (?P<open> \#\[ | /\* | ['"`] )
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
OPENINGS = {"#[": "]#", "/*": "*/", "'": "'", '"': '"', "`": "`"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script, without the `;`; `unclosed` is where a quote or comment begins that does not end."""

    place: MvPlace
    unclosed: int | None = None


def unclosed(text: str) -> int | None:
    """Where a quote, a comment or `#[` begins that is not closed; None if there is none."""
    return next((found.start() for found in _PIECES.finditer(text) if found.lastgroup == "open"), None)


def statements(text: str) -> list[Statement]:
    """The statements of a script, those without a word left out."""
    found: list[Statement] = []
    begin, place = 0, 0
    while (match := _PIECES.search(text, place)) is not None:
        place = match.end()
        if match.lastgroup == "open":
            found.append(Statement(MvPlace(begin, len(text)), match.start()))
            return found
        if match.lastgroup == "end":
            found.append(Statement(MvPlace(begin, match.start())))
            begin = match.end()
    found.append(Statement(MvPlace(begin, len(text))))
    return [statement for statement in found if has_words(statement.place.of(text))]


def has_words(text: str) -> bool:
    """Whether a text is more than layout and comments."""
    return bool(without_comments(text).strip())


def without_comments(text: str) -> str:
    """The text with blanks in place of comments, so that every sign keeps its place."""
    return _PIECES.sub(lambda found: " " * len(found[0]) if found.lastgroup == "comment" else found[0], text)
