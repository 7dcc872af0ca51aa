"""`why`: where a row came from."""

import pytest

from seamark import DataStore


@pytest.mark.scenario("C16")
def test_why_shows_the_step_the_block_and_the_records_behind_a_row(call, blog):
    told = call("why", "feed", "post_id=1", folder=blog)

    with DataStore(f"sqlite:///{blog / 'seamark.db'}", blog / "warehouse") as store:
        blocks = {name: head.block_hash[:13] for name, head in store.heads().items()}
    assert told.code == 0
    assert told.out.count("def process_posts(posts, profiles):") == 1
    assert told.out.endswith(
        f"feed post_id=1  offset 0, block {blocks['feed']}, by process_posts (all keys)\n"
        "line=Alice: hello\n"
        f"├── posts post_id=1  offset 0, block {blocks['posts']}\n"
        "│   user_id=100, content=hello\n"
        f"└── profiles id=100  offset 0, block {blocks['profiles']}\n"
        "    name=Alice\n"
    )
    assert told.out.startswith("step process_posts\n")


@pytest.mark.scenario("C16")
def test_why_tells_a_program_the_same(call, blog):
    document = call("why", "feed", "post_id=2", "--json", folder=blog).document

    assert list(document["definitions"]) == ["process_posts"]
    row = document["row"]
    assert (row["table"], row["key"], row["step"]) == ("feed", {"post_id": 2}, "process_posts")
    assert row["values"] == {"post_id": 2, "line": "Bob: hi"}
    assert [(behind["table"], behind["key"]) for behind in row["inputs"]] == [
        ("posts", {"post_id": 2}),
        ("profiles", {"id": 200}),
    ]
    assert call("why", "posts", "post_id=2", "--json").document["definitions"] == {}


@pytest.mark.scenario("C16")
def test_a_row_that_is_not_there_is_a_failure(call, blog):
    told = call("why", "feed", "post_id=99", folder=blog)
    assert (told.code, told.out) == (1, "")
    assert "table 'feed' has no row with post_id=99" in told.err


@pytest.mark.scenario("C16")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["feed", "post=1"], ["table 'feed' has no key column 'post'", "did you mean 'post_id'"]),
        (["feed", "line=x"], ["table 'feed' has no key column 'line'"]),
        (["feed", "post_id=one"], ["'one' is no value of the column 'post_id', which is bigint", "post_id=1"]),
        (["feed", "post_id=99999999999999999999"], ["is no value of the column 'post_id'"]),
        (["feed", "post_id"], ["'post_id' is not a column and its value"]),
        (["feed", "post_id=1", "post_id=2"], ["'post_id' is given twice"]),
        (["feeed", "post_id=1"], ["there is no table 'feeed'", "did you mean 'feed'"]),
        (["feed"], ["Missing argument"]),
    ],
)
def test_a_key_that_does_not_fit_is_used_wrongly(call, blog, words, told):
    found = call("why", *words, folder=blog)
    assert (found.code, found.out) == (2, "")
    assert all(word in found.err for word in told), found.err


@pytest.mark.scenario("C16")
def test_a_part_of_a_key_and_an_append_only_table_are_refused(call, empty_project):
    file = empty_project / "pipeline.py"
    file.write_text(file.read_text() + 'ds.table("visits", "day date, page string, n long", key=["day", "page"])\n')

    part = call("why", "visits", "day=2026-01-31", folder=empty_project)
    assert part.code == 2
    assert "the key of table 'visits' is day, page: page is not given" in part.err
    assert "`seamark why visits day=… page=…`" in part.err

    told = call("why", "clicks", "url=/")
    assert told.code == 2
    assert "append-only" in told.err

    whole = call("why", "visits", "day=2026-01-31", "page=/a=b")
    assert whole.code == 1
    assert "no row with day=2026-01-31, page=/a=b" in whole.err
