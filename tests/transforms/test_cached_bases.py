"""Bases that a long-lived process keeps in Spark's cache: steps see what they would see without it."""

from __future__ import annotations

import pytest

import seamark as sm


@pytest.fixture
def posts(open_store, spark, monkeypatch, set_small, frame):
    """Thirty posts that answer one another, folded and kept in the cache, in a store for which ten are many."""
    monkeypatch.setenv("SEAMARK_ROWS_CACHE_ROWS", "1000")
    set_small(monkeypatch, 10)
    store = open_store(spark=spark)
    posts = store.table("posts", "post_id long, parent long, content string", key="post_id")
    posts.upsert(frame(posts, [(i, i - 1 if i else None, f"c{i}") for i in range(30)]))
    posts.fold()
    return store, posts


@pytest.mark.scenario("T63")
def test_a_table_is_joined_with_itself_in_a_step(posts, frame, rows):
    store, posts = posts
    answers = store.table("answers", "post_id long, content string, asked string", key="post_id")

    @store.transform(inputs=[posts, sm.JoinSpec(posts, join_keys={"parent": "post_id"})], outputs=[answers])
    def answer(posts, parents):
        joined = posts.join(parents, posts.parent == parents.post_id, "left")
        return joined.select(posts.post_id, posts.content, parents.content.alias("asked"))

    assert store.run("answer").steps["answer"].error is None
    assert set(rows(answers)) == {(i, f"c{i}", f"c{i - 1}" if i else None) for i in range(30)}
    assert store._context.cache.rows == 30

    posts.upsert(frame(posts, [(i, None if i == 3 else i - 1, f"d{i}") for i in range(1, 20)]))
    assert store.run("answer").ok
    found = {row.post_id: row.asked for row in answers.rows().collect()}
    assert (found[3], found[4], found[20], found[21]) == (None, "d3", "d19", "c20")


@pytest.mark.scenario("T63")
def test_frames_of_one_table_can_be_joined_by_their_columns(posts):
    _, posts = posts
    one, other, third = posts.rows(), posts.rows(), posts.get_data(posts.rows())

    joined = one.join(other, one.parent == other.post_id).join(third, other.parent == third.post_id)

    assert joined.select(third.content).where(one.post_id == 5).collect() == [("c3",)]
