"""Tables at any width: no word is broken, a row takes few lines, and nothing that fits is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from seamark.cli.grid import LINES_PER_ROW, Column, Grid, cut, grid, lay_out, wrapped

WORDS = st.text("abcdefghij_>:/'", min_size=1, max_size=34)
CELLS = st.lists(WORDS, min_size=0, max_size=25).map(" ".join)


def lines_of(made: Grid, width: int) -> list[str]:
    return [line.plain.replace("\u00a0", " ") for line in lay_out(made.columns, made.rows, width)]


@st.composite
def tables(draw):
    flags = draw(st.lists(st.sampled_from(["", ">", "~"]), min_size=1, max_size=7))
    made = grid(*[f"{flag}c{number}" for number, flag in enumerate(flags)])
    for _ in range(draw(st.integers(0, 5))):
        # only columns that may wrap hold long texts: the others hold a name or a number
        made.add_row(*[draw(CELLS if flag == "~" else WORDS) for flag in flags])
    return made


@pytest.mark.scenario("C47")
@given(tables())
def test_at_100_columns_no_word_is_broken_and_no_line_too_long(made):
    lines = lines_of(made, 100)

    words = {word for row in made.rows for cell in row for word in cell.plain.split()}
    known = words | {column.header for column in made.columns} | {f"{column.header}:" for column in made.columns}
    for line in lines:
        assert len(line) <= 100
        shown = [word for word in line.split() if not set(word) <= {"─"}]
        assert all(word in known or word.endswith("…") for word in shown), line


@pytest.mark.scenario("C47")
@given(tables())
def test_a_row_takes_at_most_three_lines(made):
    for row in made.rows:
        one = Grid(made.columns, [row])
        lines = lines_of(one, 100)
        rule = next(number for number, line in enumerate(lines) if set(line) <= {"─"})
        assert len(lines) - rule - 1 <= LINES_PER_ROW


@pytest.mark.scenario("C47")
@given(tables())
def test_with_room_enough_each_row_is_one_line_and_whole(made):
    lines = lines_of(made, 100_000)
    assert len(lines) == 2 + len(made.rows)
    for row, line in zip(made.rows, lines[2:], strict=True):
        assert [word for cell in row for word in cell.plain.split()] == line.split()


def test_a_long_text_wraps_then_goes_below_its_row():
    made = grid("step", ">keys", "~error")
    made.add_row("process_posts", "2", "a few words only")
    assert lines_of(made, 60) == [
        "step            keys   error",
        "───────────────────────────────────────",
        "process_posts      2   a few words only",
    ]
    made.rows.clear()
    made.add_row("process_posts", "2", "an error that is a little longer than the line")
    assert lines_of(made, 60)[2:] == [
        "process_posts     2  an error that is a little longer than",
        "                     the line",
    ]
    made.rows.clear()
    made.add_row("process_posts", "2", " ".join(["word"] * 60))
    assert lines_of(made, 60)[2:] == [
        "process_posts      2",
        "  error: " + " ".join(["word"] * 10),
        "  " + " ".join(["word"] * 11) + " …",
    ]


def test_names_that_leave_no_room_get_a_line_of_their_own():
    made = grid("step", "mode", ">keys")
    made.add_row("a_name_of_a_step_that_is_long", "all keys", "2")
    assert lines_of(made, 30) == [
        "step",
        "  mode      keys",
        "─────────────────────────────",
        "a_name_of_a_step_that_is_long",
        "  all keys     2",
    ]


def test_a_cut_ends_between_words_where_it_can():
    assert cut(Text("three words here"), 13).plain == "three words …"
    assert cut(Text("three words here"), 12).plain == "three …"
    assert cut(Text("three words here"), 16).plain == "three words here"
    assert cut(Text("oneverylongword"), 5).plain == "onev…"
    assert [line.plain for line in wrapped(Text("a bb\nccc dd"), 4)] == ["a bb", "ccc", "dd"]
    assert Column("x") == grid("x").columns[0]


def test_what_is_not_wrapped_keeps_its_colour_in_one_piece():
    made = grid("state")
    made.add_row(Text("not run", "yellow"))
    (line,) = lay_out(made.columns, made.rows, 100)[2:]
    assert [(span.start, span.end) for span in line.spans] == [(0, 7)]
