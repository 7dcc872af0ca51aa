"""Tables on the terminal that stay readable at any width: no word is broken, and a row takes few lines.

What fits on one line is on one line. Otherwise columns that may wrap do so between words; what needs more room than
that goes to a line below its row; and as the last resort the first column gets a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from seamark.cli.cells import fitted

LINES_PER_ROW = 3
KEPT_TOGETHER = "\u00a0"  # a space at which no line ends; it is printed as a plain one
_GAPS = (3, 2)  # spaces between columns: a little closer before anything is wrapped
_INDENT = "  "
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its header, on which side its values are aligned, and whether they may wrap."""

    header: str
    is_right: bool = False
    may_wrap: bool = False


@dataclass(slots=True)
class Grid:
    """Rows under headers, laid out for the width that there is when they are printed."""

    columns: tuple[Column, ...]
    rows: list[tuple[Text, ...]] = field(default_factory=list)
    indent: int = 0

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Add a row; columns that are not given stay empty."""
        given = [_as_text(cell, style) for cell in cells]
        self.rows.append((*given, *[Text()] * (len(self.columns) - len(given))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in lay_out(self.columns, self.rows, options.max_width - self.indent):
            yield _printed(Text(" " * self.indent).append_text(line))


def grid(*headers: str, indent: int = 0) -> Grid:
    """An empty table with these columns. `>` before a name puts its values to the right, `~` lets long ones wrap."""
    return Grid(
        tuple(Column(name.lstrip(">~"), name.startswith(">"), name.startswith("~")) for name in headers),
        indent=indent,
    )


def _as_text(cell: str | Text, style: str) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    indent = len(text.plain) - len(text.plain.lstrip(" "))
    text.plain = KEPT_TOGETHER * indent + text.plain[indent:]
    if style:
        text.stylize_before(style)
    return text


def _printed(line: Text) -> Text:
    plain = line.plain.replace(KEPT_TOGETHER, " ")
    return Text(plain, style=line.style, spans=list(line.spans), no_wrap=True, overflow="ignore")


# --- layout -----------------------------------------------------------------------------------------------------------


def lay_out(columns: Sequence[Column], rows: Sequence[tuple[Text, ...]], width: int) -> list[Text]:
    """The lines of a table: header, rule and rows, none wider than `width`."""
    sheet = _Sheet(tuple(columns), tuple(rows), width)
    below: tuple[int, ...] = ()  # the columns that are shown below their rows
    while True:
        inline = tuple(place for place in range(len(columns)) if place not in below)
        for gap in _GAPS:
            widths = sheet.widths(inline, gap, LINES_PER_ROW - (2 if below else 0))
            if widths is not None:
                return sheet.side_by_side(inline, widths, gap, below)
        movable = [place for place in inline[1:] if columns[place].may_wrap]
        if not movable:
            return sheet.name_first(inline, below)
        below = tuple(sorted((*below, max(movable, key=sheet.natural))))


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Columns and rows on a page of some width."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    width: int

    def natural(self, place: int) -> int:
        """How wide a column is when nothing in it wraps."""
        cells = [line.cell_len for row in self.rows for line in row[place].split("\n")]
        return max([len(self.columns[place].header), *cells])

    def least(self, place: int) -> int:
        """How narrow a column can be without a broken word."""
        if not self.columns[place].may_wrap:
            return self.natural(place)
        words = [cell_len(word) for row in self.rows for word in row[place].plain.replace("\n", " ").split(" ")]
        return max([len(self.columns[place].header), *words])

    def widths(self, inline: Sequence[int], gap: int, most_lines: int) -> list[int] | None:
        """A width for each column so that they fit side by side in so many lines per row; None if there is none."""
        widths, least = [self.natural(place) for place in inline], [self.least(place) for place in inline]
        room = self.width - gap * (len(inline) - 1)
        if sum(widths) > room and gap != _GAPS[-1]:
            return None
        while sum(widths) > room:
            wider = [n for n in range(len(widths)) if widths[n] > least[n]]
            if not wider:
                return None
            widest = max(wider, key=lambda n: widths[n])
            widths[widest] -= min(widths[widest] - least[widest], sum(widths) - room)
        for row in self.rows:
            if any(len(wrapped(row[place], size)) > most_lines for place, size in zip(inline, widths, strict=True)):
                return None
        return widths

    def side_by_side(self, inline: Sequence[int], widths: Sequence[int], gap: int, below: Sequence[int]) -> list[Text]:
        """All lines, with these columns beside each other and the others below their rows."""
        headers = [Text(self.columns[place].header, "dim") for place in inline]
        rule = Text("─" * (sum(widths) + gap * (len(widths) - 1)))
        lines = [self._line(headers, inline, widths, gap), rule]
        for row in self.rows:
            cells = [wrapped(row[place], size) for place, size in zip(inline, widths, strict=True)]
            for number in range(max(len(cell) for cell in cells)):
                pieces = [cell[number] if number < len(cell) else Text() for cell in cells]
                lines.append(self._line(pieces, inline, widths, gap))
            lines += self._below(row, below, LINES_PER_ROW - 1)
        return lines

    def name_first(self, inline: Sequence[int], below: Sequence[int]) -> list[Text]:
        """Each row's first cell on a line of its own, the others under it; if even that is too much they are cut."""
        first, others, gap = inline[0], inline[1:], _GAPS[-1]
        room = self.width - len(_INDENT) - gap * max(0, len(others) - 1)
        widths = fitted([self.natural(place) for place in others], room)
        headers = [Text(self.columns[place].header, "dim") for place in others]
        total = max(self.natural(first), len(_INDENT) + sum(widths) + gap * (len(widths) - 1))
        lines = [Text(self.columns[first].header, "dim"), _indented(self._line(headers, others, widths, gap))]
        lines.append(Text("─" * min(self.width, total)))
        for row in self.rows:
            lines.append(cut(row[first], self.width))
            if any(row[place].plain for place in others):
                cells = [cut(_one_line(row[place]), size) for place, size in zip(others, widths, strict=True)]
                lines.append(_indented(self._line(cells, others, widths, gap)))
            lines += self._below(row, below, LINES_PER_ROW - 2)
        return lines

    def _below(self, row: tuple[Text, ...], below: Sequence[int], most_lines: int) -> list[Text]:
        """What is shown below a row: each value after its column's name, in so many lines, cut if there is more."""
        parts = [
            Text(f"{self.columns[place].header}:{KEPT_TOGETHER}", "dim").append_text(_one_line(_undimmed(row[place])))
            for place in below
            if row[place].plain
        ]
        room = self.width - len(_INDENT)
        lines = wrapped(Text("  ").join(parts), room) if parts else []
        if len(lines) > most_lines:
            lines = [*lines[: most_lines - 1], Text(" ").join(lines[most_lines - 1 :])]
        return [_indented(cut(line, room)) for line in lines]

    def _line(self, cells: Sequence[Text], places: Sequence[int], widths: Sequence[int], gap: int) -> Text:
        line = Text()
        for number, (cell, place, size) in enumerate(zip(cells, places, widths, strict=True)):
            room = " " * max(0, size - cell.cell_len)
            line.append(" " * gap if number else "")
            is_right = self.columns[place].is_right
            line.append(room if is_right else "").append_text(cell).append("" if is_right else room)
        line.rstrip()
        return line


def _undimmed(text: Text) -> Text:
    """The text with its own style, so that it does not take the style of what comes before it."""
    text = text.copy()
    text.stylize_before("not dim")
    return text


def _indented(line: Text) -> Text:
    return Text(_INDENT).append_text(line)


def _one_line(text: Text) -> Text:
    return Text(" ").join(text.split("\n")) if "\n" in text.plain else text


def cut(text: Text, width: int) -> Text:
    """The text on one line, with a sign where it was cut: between words, unless the first one alone is too long."""
    if text.cell_len <= width:
        return text
    shorter = text.copy()
    shorter.truncate(max(0, width - len(_CUT)))
    space = shorter.plain.rfind(" ")
    if space > 0:
        shorter.truncate(cell_len(shorter.plain[: space + 1]))
    return shorter.append(_CUT)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines that end between words; a word that is longer than a line has one to itself."""
    lines: list[Text] = []
    for paragraph in text.split("\n", allow_blank=True):
        if paragraph.cell_len <= width:
            lines.append(paragraph)
            continue
        line = Text()
        for word in paragraph.split(" "):
            if line.plain and line.cell_len + 1 + word.cell_len > width:
                lines.append(line)
                line = word
            else:
                line = Text(" ").join([line, word]) if line.plain else word
        lines.append(line)
    return lines
