"""Corners where a small run and a large one, or two ways to the same rows, might part."""

from __future__ import annotations

import pandas as pd
import pytest

import seamark as sm
from seamark.errors import InvalidStep
from seamark.tables.small import SMALL_RECORDS


@pytest.mark.scenario("X76")
def test_rows_without_a_whole_key_are_nobodys_in_a_large_first_run_too(ds, spark, frame):
    images = ds.table("images", "image_id long, url string", key="image_id")
    boxes = ds.table("boxes", "image_id long, box_id long", key=["image_id", "box_id"])
    labels = ds.table("labels", "image_id long, box_id long, url string", key=["image_id", "box_id"])

    @ds.transform(inputs=[images, boxes], outputs=[labels], transform_keys=["image_id", "box_id"])
    def label(images, boxes):
        return images.join(boxes, "image_id", "left").select("image_id", "box_id", "url")

    many = SMALL_RECORDS + 10
    images.upsert(frame(images, [(1, "a"), (2, "without a box")]))
    boxes.replace(spark.range(many).selectExpr("1L AS image_id", "id AS box_id"))

    report = ds.step("label").run_full()

    assert report.appended == many
    assert labels.rows().where("image_id = 2").count() == 0
    assert not ds.run().did_something


@pytest.mark.scenario("X70")
def test_a_key_that_failed_under_other_transform_keys_stands_until_all_keys_are_computed(open_store, frame, rows):
    def declared(keys, bad):
        ds = open_store()
        pairs = ds.table("pairs", "a long, b long", key=["a", "b"])
        sums = ds.table("sums", "a long, b long", key=["a", "b"])

        def step(pairs):
            if bad:
                raise ValueError("not today")
            return pairs

        options = {"name": "step", "transform_keys": keys, "on_change": "keep", "version": str(keys)}
        return ds, pairs, ds.add(sm.BatchTransform(step, [pairs], [sums], **options))

    ds, pairs, step = declared(["a"], bad=True)
    pairs.upsert(frame(pairs, [(1, 2)]))
    assert step.run_full().failed == 1

    ds, pairs, step = declared(["b"], bad=False)
    step.run_full()

    # Rows are kept, and there is none of this key: forgotten, nobody would ever compute it.
    assert list(step.failures().error) == ["ValueError: not today"]
    assert not ds.run().did_something
    ds.offset_table.reset_offset("step")
    ds.run(fail_fast=True)
    assert step.failures().empty
    assert rows(ds.table("sums")) == [(1, 2)]


@pytest.mark.scenario("X63")
def test_given_changes_of_an_input_that_concerns_everything_compute_everything(ds, frame, rows):
    posts = ds.table("posts", "post_id long", key="post_id")
    total = ds.table("total", "name string, posts long", key="name")

    @ds.transform(inputs=[posts], outputs=[total], transform_keys=[])
    def count(posts):
        return (
            posts.selectExpr("'posts' AS name", "post_id").groupBy("name").count().withColumnRenamed("count", "posts")
        )

    posts.upsert(frame(posts, [(1,), (2,)]))

    report = ds.step("count").run_changelist(sm.ChangeList({"posts": pd.DataFrame({"post_id": [1]})}))

    assert report.keys == 1
    assert rows(total) == [("posts", 2)]


@pytest.mark.scenario("X22")
def test_processed_keys_are_kept_for_inputs_that_have_the_key_as_key_and_as_column(ds, frame, rows):
    posts = ds.table("posts", "id long, text string", key="id")
    likes = ds.table("likes", "like long, id long", key="like")
    both = ds.table("both", "id long, likes long", key="id")

    @ds.transform(inputs=[posts, likes], outputs=[both], track_keys=True)
    def count_likes(posts, likes):
        counted = likes.groupBy("id").count()
        return posts.join(counted, "id", "left").selectExpr("id", "coalesce(count, 0) AS likes")

    posts.upsert(frame(posts, [(1, "one"), (2, "two")]))
    likes.upsert(frame(likes, [(10, 1), (11, 1)]))
    ds.run(fail_fast=True)

    assert rows(both) == [(1, 2), (2, 0)]
    assert ds.table("count_likes__keys").rows().count() == 2


@pytest.mark.scenario("X45")
def test_two_columns_are_not_joined_to_one(ds):
    posts = ds.table("posts", "post_id long, author long, editor long", key="post_id")
    users = ds.table("users", "id long, name string", key="id")
    feed = ds.table("feed", "post_id long, line string", key="post_id")
    both = sm.JoinSpec(users, join_keys={"author": "id", "editor": "id"})
    with pytest.raises(InvalidStep, match=r"several columns of 'posts' to 'users.id'.*once for each"):
        ds.add(sm.BatchTransform("SELECT 1 FROM {posts}", [posts, both], [feed], name="step"))


@pytest.mark.parametrize("keys", [[], ["region"]])
def test_processed_keys_need_keys_that_the_inputs_have(ds, keys):
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    users = ds.table("users", "id long, region string", key="id")
    sums = ds.table("sums", "region string, posts long", key="region")
    reference = sm.JoinSpec(users, join_keys={"user_id": "id"})
    declared = sm.BatchTransform(
        "SELECT 1 FROM {posts}", [posts, reference], [sums], name="s", transform_keys=keys, track_keys=True
    )
    with pytest.raises(InvalidStep, match="track_keys needs transform keys that each plain input has"):
        ds.add(declared)
