"""A small batch over large folded tables reads base and tail inside the process: Spark has only the function to run."""

from __future__ import annotations

import pytest

import seamark as sm


@pytest.fixture
def folded(open_store, frame):
    """Posts with their profiles joined into a feed, all three folded, and each with a short tail."""
    store = open_store()
    posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
    profiles = store.table("profiles", "id long, name string", key="id")
    feed = store.table("feed", "post_id long, line string", key="post_id")

    @store.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
    def process_posts(posts, profiles):
        joined = posts.join(profiles, posts.user_id == profiles.id, "left")
        return joined.selectExpr("post_id", "concat(name, ': ', content) AS line")

    posts.upsert(frame(posts, [(i, i % 50, f"c{i}") for i in range(500)]))
    profiles.upsert(frame(profiles, [(i, f"n{i}") for i in range(50)]))
    assert store.run().ok
    assert all(report.folded for report in store.fold())
    profiles.upsert(frame(profiles, [(1, "other")]))
    assert store.run().steps["process_posts"].keys == 10
    return store


def lines(store, *keys):
    found = store.table("feed").get_data([{"post_id": key} for key in keys])
    return [row.line for row in found.orderBy("post_id").collect()]


def test_changed_rows_with_a_join_take_two_jobs(folded, frame, count_jobs):
    posts = folded.table("posts")
    with count_jobs() as counted:
        posts.upsert(frame(posts, [(1, 1, "new"), (2, 2, "c2"), (7, 7, "new"), (1_000, 3, "new")]))
        assert folded.run().steps["process_posts"].keys == 3
    assert counted.jobs <= 2
    assert lines(folded, 1, 2, 7, 1_000) == ["other: new", "n2: c2", "n7: new", "n3: new"]


def test_a_changed_reference_takes_two_jobs(folded, frame, count_jobs):
    profiles = folded.table("profiles")
    with count_jobs() as counted:
        profiles.upsert(frame(profiles, [(7, "new")]))
        assert folded.run().steps["process_posts"].keys == 10
    assert counted.jobs <= 2
    assert lines(folded, 7, 8, 57) == ["new: c7", "n8: c8", "new: c57"]


def test_why_needs_no_spark_however_much_is_folded(folded, open_store, no_spark):
    row = open_store(spark=no_spark).why("feed", {"post_id": 1})
    assert row.row == {"post_id": 1, "line": "other: c1"}
    assert [(behind.table, behind.row) for behind in row.inputs] == [
        ("posts", {"post_id": 1, "user_id": 1, "content": "c1"}),
        ("profiles", {"id": 1, "name": "other"}),
    ]
    row = open_store(spark=no_spark).why("feed", {"post_id": 499})
    assert [behind.key for behind in row.inputs] == [{"post_id": 499}, {"id": 49}]
