"""Places in texts: where a sign of a view's SELECT stands in the script that a person wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True, order=True)
class MvPlace:
    """A piece of a text: its first sign, and the one after its last."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """The piece."""
        return text[self.start : self.end]


@dataclass(frozen=True)
class MvScript:
    """A text as somebody wrote it; `name` is its file or statement, or None."""

    text: str
    name: str | None = None

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a sign, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The line of this number, without its end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


@dataclass(frozen=True)
class MvText:
    """A SELECT with the place in the script that each piece of it comes from.

    In plain SQL it is a piece of the script. In the document's language it is put together from what stands there.
    `pieces` are pairs: a place in this text, and where that piece begins in the script.
    """

    text: str
    script: MvScript
    pieces: tuple[tuple[MvPlace, int], ...]

    @staticmethod
    def whole(script: MvScript) -> MvText:
        """The whole script as one SELECT."""
        return MvText(script.text, script, ((MvPlace(0, len(script.text)), 0),))

    @cached_property
    def _starts(self) -> list[int]:
        return [place.start for place, _ in self.pieces]

    def origin(self, offset: int) -> int:
        """Where in the script a sign of this text comes from; of one that was put in, where the next piece begins."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0:
            place, begins = self.pieces[index]
            if offset < place.end:
                return begins + offset - place.start
        if index + 1 < len(self.pieces):
            return self.pieces[index + 1][1]
        if not self.pieces:
            return 0
        place, begins = self.pieces[-1]
        return begins + max(0, place.end - place.start - 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the script of a sign of this text."""
        return self.script.position(self.origin(offset))

    def part(self, place: MvPlace) -> MvText:
        """A piece of this text, as a text of its own."""
        paste = Paste(self.script)
        paste.add(self, place)
        return paste.done()


class Paste:
    """Puts a text together from pieces of a script, and from words that stand nowhere."""

    def __init__(self, script: MvScript) -> None:
        self._script = script
        self._shown: list[str] = []
        self._length = 0
        self._pieces: list[tuple[MvPlace, int]] = []

    def put(self, text: str, at: int | None = None) -> MvPlace:
        """Append a text; `at` is where in the script it begins, None if it stands nowhere."""
        place = MvPlace(self._length, self._length + len(text))
        if at is not None and text:
            self._pieces.append((place, at))
        self._shown.append(text)
        self._length = place.end
        return place

    def add(self, text: MvText, place: MvPlace) -> None:
        """Append a piece of another text of the same script."""
        for piece, begins in text.pieces:
            start, end = max(piece.start, place.start), min(piece.end, place.end)
            if start < end:
                shift = self._length - place.start
                self._pieces.append((MvPlace(start + shift, end + shift), begins + start - piece.start))
        shown = place.of(text.text)
        self._shown.append(shown)
        self._length += len(shown)

    def done(self) -> MvText:
        """What was put together."""
        return MvText("".join(self._shown), self._script, tuple(self._pieces))
