"""Provenance: from a row to its block and to the input records behind it, down to the roots."""

import pytest

import seamark as sm
from seamark.errors import FrameMismatch, NoSuchRow, UnknownColumn, UnknownTable


def block_of(store, table, offset):
    return store.control.index.slices(table, after=offset - 1, upto=offset)[0].hash


@pytest.mark.scenario("X72")
def test_a_row_names_its_block_and_the_records_of_its_post_and_profile(blog):
    store = blog.store
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.write_posts((1, 100, "one"), (2, 200, "two"), (3, 100, "three"))
    blog.run()

    row = store.why("feed", {"post_id": 1})

    assert (row.table, dict(row.key), row.step) == ("feed", {"post_id": 1}, "process_posts")
    assert row.row == {"post_id": 1, "line": "Alice: one"}
    assert row.block == block_of(store, "feed", row.offset)
    assert [(i.table, dict(i.key), i.offset, i.step, i.inputs) for i in row.inputs] == [
        ("posts", {"post_id": 1}, 0, None, ()),
        ("profiles", {"id": 100}, 0, None, ()),
    ]
    assert [i.block for i in row.inputs] == [block_of(store, "posts", 0), block_of(store, "profiles", 0)]
    assert "def process_posts(posts" in row.definition
    assert (row.mode, row.omitted) == ("all keys", 0)


@pytest.mark.scenario("X72")
def test_a_row_is_told_from_the_records_that_it_was_made_of_though_they_changed_since(blog):
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"))
    blog.run()
    blog.write_profiles((100, "Alicia"))
    before = blog.store.why("feed", {"post_id": 1})
    assert [(i.table, i.row) for i in before.inputs] == [
        ("posts", {"post_id": 1, "user_id": 100, "content": "one"}),
        ("profiles", {"id": 100, "name": "Alice"}),
    ]

    blog.run()

    after = blog.store.why("feed", {"post_id": 1})
    assert after.row["line"] == "Alicia: one"
    assert [(i.table, i.offset) for i in after.inputs] == [("posts", 0), ("profiles", 2)]
    assert after.inputs[1].row == {"id": 100, "name": "Alicia"}
    assert (before.offset, after.offset, after.mode) == (0, 2, "changes")
    blog.write_posts((2, 777, "nobody's"))
    blog.run()
    assert [i.table for i in blog.store.why("feed", {"post_id": 2}).inputs] == ["posts"]


@pytest.mark.scenario("X72")
def test_an_unknown_key_a_key_in_part_and_a_table_without_a_key_are_told_apart(blog):
    store = blog.store
    blog.write_posts((1, 100, "one"), (2, 100, "two"))
    blog.run()
    blog.delete_posts(2)
    blog.run()
    for gone in (2, 99):
        with pytest.raises(NoSuchRow, match=f"table 'feed' has no row with post_id={gone}"):
            store.why("feed", {"post_id": gone})
    with pytest.raises(UnknownColumn, match="'post'"):
        store.why("feed", {"post": 1})
    with pytest.raises(FrameMismatch, match="more columns: post_id"):
        store.why("feed", {})
    with pytest.raises(FrameMismatch, match=r"a mapping of columns to values, and not 1\..*'post_id': …"):
        store.why("feed", 1)
    with pytest.raises(UnknownTable):
        store.why("nothing", {"post_id": 1})
    store.table("clicks", "n long").append([{"n": 1}])
    with pytest.raises(FrameMismatch, match="append-only"):
        store.why("clicks", {"n": 1})
    store.table("empty", "id long", key="id")
    with pytest.raises(NoSuchRow):
        store.why("empty", {"id": 1})


@pytest.mark.scenario("X72")
def test_provenance_goes_down_to_the_roots_and_follows_only_so_many(blog):
    store = blog.store
    digest = store.table("digest", "name string, lines long", key="name")
    text = "SELECT split(line, ':')[0] AS name, count(*) AS lines FROM {feed} GROUP BY 1"
    store.add(sm.BatchTransform(text, [blog.feed], [digest], name="count_lines", transform_keys=[]))
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"), (2, 100, "two"), (3, 100, "three"))
    store.run()

    row = store.why("digest", {"name": "Alice"})

    assert (row.step, row.definition) == ("count_lines", text)
    assert [(i.table, dict(i.key), i.step) for i in row.inputs] == [
        ("feed", {"post_id": n}, "process_posts") for n in (1, 2, 3)
    ]
    told = [(entry.table, tuple(entry.key.values())) for entry in row.walk()]
    assert told[:4] == [("digest", ("Alice",)), ("feed", (1,)), ("posts", (1,)), ("profiles", (100,))]
    assert len(told) == 1 + 3 * 3
    few = store.why("digest", {"name": "Alice"}, most=1)
    assert (len(few.inputs), few.omitted) == (1, 2)


@pytest.mark.scenario("X72")
def test_a_row_of_a_sum_names_the_rows_that_were_summed(ds):
    posts = ds.table("posts", "post_id long, user_id long, likes long", key="post_id")
    sums = ds.table("sums", "user_id long, likes long", key="user_id")
    text = "SELECT user_id, sum(likes) AS likes FROM {posts} GROUP BY user_id"
    ds.add(sm.BatchTransform(text, [posts], [sums], name="add_up", transform_keys=["user_id"]))
    posts.upsert([{"post_id": n, "user_id": 100 + n % 2, "likes": n} for n in (1, 2, 3)])
    ds.run()
    posts.upsert([{"post_id": 5, "user_id": 101, "likes": 5}])
    ds.run()

    assert [i.key["post_id"] for i in ds.why("sums", {"user_id": 101}).inputs] == [1, 3, 5]
    assert [(i.key["post_id"], i.offset) for i in ds.why("sums", {"user_id": 100}).inputs] == [(2, 1)]


@pytest.mark.scenario("X72")
def test_a_row_that_was_computed_by_given_keys_is_told_from_what_that_run_read(blog):
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"), (2, 100, "two"))
    blog.run()
    blog.write_posts((1, 100, "eins"))
    blog.step.run_idx([{"post_id": 1}])

    row = blog.store.why("feed", {"post_id": 1})

    assert (row.mode, row.row["line"]) == ("keys", "Alice: eins")
    assert [(i.table, i.offset) for i in row.inputs] == [("posts", 3), ("profiles", 0)]
