"""A run that is refused, or fails before its first commit, leaves no table behind."""

from __future__ import annotations

from typing import Any

import pytest

import seamark as sm
from seamark.errors import BadOutput, DefinitionChanged, FrameMismatch, SeamarkError, UnknownColumn

COPY = """SELECT posts.post_id, concat(max(content), coalesce(max(word), '')) AS line
          FROM {posts} AS posts LEFT JOIN {words} AS words USING (post_id) GROUP BY posts.post_id"""


def declared(store: sm.DataStore, function: Any = COPY, **options: Any) -> sm.Step:
    """A step that reads a table which nobody has ever written to."""
    posts = store.table("posts", "post_id long, content string", key="post_id")
    words = store.table("words", "post_id long, place long, word string", key=["post_id", "place"])
    feed = store.table("feed", "post_id long, line string", key="post_id")
    given = {"name": "step", "transform_keys": ["post_id"], **options}
    return store.add(sm.BatchTransform(function, [posts, words], [feed], **given))


def what_stands(store: sm.DataStore) -> tuple[dict[str, int], list[str]]:
    heads = {name: head.sequence for name, head in store.control.index.heads().items()}
    return heads, sorted(folder.name for folder in store.warehouse.iterdir() if not folder.name.startswith("."))


def wrong_output(posts: Any, words: Any) -> Any:
    return posts.selectExpr("post_id", "content")


def unresolved(posts: Any, words: Any) -> Any:
    return posts.select("no such column")


REFUSED = {
    "an unknown filter": (COPY, lambda step: step.run_full(sm.RunConfig(filters={"pots_id": 1})), UnknownColumn),
    "keys without a key": (COPY, lambda step: step.run_idx([{"id": 1}]), FrameMismatch),
    "a changelist without a key": (
        COPY,
        lambda step: step.run_changelist(sm.ChangeList({"posts": [{"id": 1}]})),
        SeamarkError,
    ),
    "another output": (wrong_output, lambda step: step.run_full(), BadOutput),
    "a query that cannot be": (unresolved, lambda step: step.run_full(), Exception),
}


@pytest.mark.scenario("T62")
@pytest.mark.parametrize("case", list(REFUSED))
def test_a_run_that_is_refused_leaves_no_table_behind(open_store, case):
    function, call, error = REFUSED[case]
    store = open_store()
    step = declared(store, function)
    store.table("posts").upsert([{"post_id": 1, "content": "hello"}])
    before = what_stands(store)
    assert before == ({"posts": 2}, ["posts"])

    with pytest.raises(error):
        call(step)

    assert what_stands(store) == before


@pytest.mark.scenario("T62")
def test_a_changed_definition_that_reads_a_new_table_leaves_none_behind(open_store, rows):
    store = open_store()
    posts = store.table("posts", "post_id long, content string", key="post_id")
    feed = store.table("feed", "post_id long, line string", key="post_id")
    store.add(sm.BatchTransform("SELECT post_id, content AS line FROM {posts}", [posts], [feed], name="step"))
    posts.upsert([{"post_id": 1, "content": "hello"}])
    assert store.run().ok
    changed = open_store()
    step = declared(changed)
    before = what_stands(store)

    with pytest.raises(DefinitionChanged):
        step.run_full()
    assert isinstance(changed.run().steps["step"].error, DefinitionChanged)
    assert what_stands(store) == before

    assert changed.run(on_change="recompute").ok
    assert set(what_stands(store)[0]) == {"posts", "words", "feed"}
    assert not changed.run().did_something
    assert store.verify().ok


@pytest.mark.scenario("T62")
def test_chains_that_begin_with_a_commit_are_read_like_any_other(open_store, rows):
    """An empty input, and an input that another step of the program would write, down to its own empty input."""
    store = open_store()
    declared(store)
    raw = store.table("raw", "post_id long, text string", key="post_id")
    store.add(sm.BatchTransform("SELECT post_id, 0L AS place, text AS word FROM {raw}", [raw], ["words"], name="split"))
    posts, words = store.table("posts"), store.table("words")
    posts.upsert([{"post_id": 1, "content": "hello"}, {"post_id": 2, "content": "hi"}])

    report = store.run("step")

    assert report.ok
    assert rows(store.table("feed")) == [(1, "hello"), (2, "hi")]
    assert {name: head.kind for name, head in store.control.index.heads().items()} == {
        "posts": "root",
        "raw": "root",
        "words": "derivative",
        "feed": "derivative",
    }
    assert (words.head.offset, raw.head.offset) == (None, None)
    assert not store.run().did_something
    raw.upsert([{"post_id": 2, "text": "!"}])
    assert store.run().steps["step"].keys == 1
    assert rows(store.table("feed")) == [(1, "hello"), (2, "hi!")]
    assert store.verify(replay=True).ok


@pytest.mark.scenario("T62")
def test_a_chain_that_somebody_else_begins_meanwhile_is_taken(open_store, rows):
    store, other = open_store(), open_store()
    meanwhile = []

    def compute(posts: Any, words: Any) -> Any:
        if not meanwhile:
            meanwhile.append(other.table("words", "post_id long, place long, word string", key=["post_id", "place"]))
            meanwhile[0].upsert([{"post_id": 1, "place": 0, "word": "!"}])
        joined = posts.join(words, "post_id", "left")
        return joined.selectExpr("post_id", "concat(content, coalesce(word, '')) AS line")

    declared(store, compute)
    store.table("posts").upsert([{"post_id": 1, "content": "hello"}])

    assert store.run().ok

    assert rows(store.table("feed")) == [(1, "hello!")]
    assert store.verify().ok
