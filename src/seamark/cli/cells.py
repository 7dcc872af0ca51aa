"""The pieces that tables on the terminal are made of: cells, counts, times, and rows that are cut to the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from seamark.facts.plain import plain

HASH_LETTERS = 13  # the five that all hashes begin with, and eight more
DASH = Text("–", "dim")


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column of rows: its header, its values, and on which side they are aligned."""

    header: Text
    cells: tuple[Text, ...]
    is_right: bool

    @property
    def width(self) -> int:
        """What it takes to show all of it."""
        lines = [line.cell_len for text in (self.header, *self.cells) for line in text.split("\n")]
        return max(lines, default=1)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows, one a line, with the widest columns cut to the width that there is; then `when_cut` says so."""

    columns: tuple[FittedColumn, ...]
    when_cut: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gaps = 3 * (len(self.columns) - 1)
        widths = fitted([column.width for column in self.columns], options.max_width - gaps)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, width in zip(self.columns, widths, strict=True):
            justify: JustifyMethod = "right" if column.is_right else "left"
            table.add_column(column.header, justify=justify, width=width, no_wrap=True, overflow="ellipsis")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            table.add_row(*row)
        yield table
        is_cut = any(width < column.width for column, width in zip(self.columns, widths, strict=True))
        if is_cut and self.when_cut:
            yield Text(self.when_cut, "dim")


def fitted(widths: Sequence[int], available: int) -> list[int]:
    """The widths, the widest of them cut to one limit so that all fit; none is cut below a few letters."""
    limit = min(max(widths, default=0), max(available, _LEAST_WIDTH))
    while limit > _LEAST_WIDTH and sum(min(width, limit) for width in widths) > available:
        limit -= 1
    return [min(width, limit) for width in widths]


_LEAST_WIDTH = 4


def under(text: str | Text, style: str = "") -> Padding:
    """A line under a title, indented also where it wraps."""
    return Padding(text if isinstance(text, Text) else Text(text, style), (0, 0, 0, 2), expand=False)


def heading(text: str) -> Text:
    """The title of a section."""
    return Text(f"\n{text}", "bold")


def number(count: int | None) -> str | Text:
    """A count with commas between thousands, or a dash."""
    return DASH if count is None else f"{count:,}"


def moment(when: datetime | None, *, millis: bool = False) -> str | Text:
    """A time in UTC, or a dash."""
    if when is None:
        return DASH
    in_utc = when.astimezone(UTC)
    return f"{in_utc:%Y-%m-%d %H:%M:%S}" + (f".{in_utc.microsecond // 1000:03d}" if millis else "")


def age(seconds: float | None) -> str | Text:
    """How long ago, in the largest fitting unit."""
    if seconds is None:
        return DASH
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def short(block_hash: str) -> Text:
    """The beginning of a hash: enough to tell blocks apart, and accepted wherever a block is asked for."""
    return Text(block_hash[:HASH_LETTERS], "cyan")


def value(item: object) -> Text:
    """A value of a row in one line."""
    if item is None:
        return Text("NULL", "dim")
    shown = plain(item)
    text = shown if isinstance(shown, str) else str(shown).lower() if isinstance(shown, bool) else str(shown)
    return Text("".join(_visible(sign) for sign in text))


def _visible(sign: str) -> str:
    """Line breaks and control codes of a value must not reach the terminal as such."""
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")


def counted(count: int, what: str) -> str:
    """A count with the name of what is counted."""
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{count:,} {what if count == 1 else plural}"


def first_line(text: str) -> str:
    """The first line of an error: what happened, without plans and stack traces."""
    return text.strip().partition("\n")[0].rstrip()


def is_longer(text: str) -> bool:
    """Whether an error says more than a row of a table has room for."""
    return first_line(text) != text.strip() or len(first_line(text)) > _ROOM_FOR_AN_ERROR


_ROOM_FOR_AN_ERROR = 150
