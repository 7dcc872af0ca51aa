"""Inputs without which a key is not computed, whatever else the step reads."""

from __future__ import annotations

from typing import Any

import pytest

import seamark as sm

pytestmark = pytest.mark.scenario("X92")


def is_idle(ds: sm.DataStore) -> bool:
    heads = ds.heads()
    return not ds.run().did_something and ds.heads() == heads


def test_a_required_first_input_with_a_required_reference_beside_another_input(ds: sm.DataStore, rows: Any) -> None:
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    likes = ds.table("likes", "post_id long, n long", key="post_id")
    profiles = ds.table("profiles", "id long", key="id")
    out = ds.table("out", "post_id long, user_id long, n long", key="post_id")
    required = sm.ComputeInput(profiles, join_type="inner", join_keys={"user_id": "id"})

    @ds.transform(inputs=[sm.ComputeInput(posts, join_type="inner"), likes, required], outputs=[out])
    def count(posts, likes, profiles):
        return posts.join(likes, "post_id", "full").select("post_id", "user_id", "n")

    posts.upsert([{"post_id": 1, "user_id": 1}, {"post_id": 2, "user_id": 2}])
    likes.upsert([{"post_id": n, "n": 10 * n} for n in (1, 2, 3)])
    profiles.upsert([{"id": 1}])
    ds.run()
    assert rows(out) == [(1, 1, 10)]
    profiles.delete([{"id": 1}])
    ds.run()
    assert rows(out) == []
    assert is_idle(ds)


@pytest.mark.parametrize("in_spark", [False, True], ids=["local", "in Spark"])
def test_a_key_without_its_required_reference_is_computed_from_no_input(
    ds: sm.DataStore, rows: Any, set_small: Any, monkeypatch: pytest.MonkeyPatch, in_spark: bool
) -> None:
    if in_spark:
        set_small(monkeypatch, 0)
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    stats = ds.table("stats", "post_id long, views long", key="post_id")
    profiles = ds.table("profiles", "id long, name string", key="id")
    seen = ds.table("seen", "post_id long, user_id long, views long", key="post_id")
    required = sm.ComputeInput(profiles, join_type="inner", join_keys={"user_id": "id"})

    @ds.transform(inputs=[posts, stats, required], outputs=[seen])
    def look(posts, stats, profiles):
        return posts.join(stats, "post_id", "full").select("post_id", "user_id", "views")

    posts.upsert([{"post_id": 1, "user_id": 1}, {"post_id": 2, "user_id": 2}])
    stats.upsert([{"post_id": 1, "views": 10}, {"post_id": 2, "views": 20}, {"post_id": 3, "views": 30}])
    profiles.upsert([{"id": 1, "name": "a"}])
    ds.run()
    assert rows(seen) == [(1, 1, 10)]  # post 2 has no profile, and nobody can tell whose post 3 is

    profiles.upsert([{"id": 2, "name": "b"}])
    ds.run()
    assert rows(seen) == [(1, 1, 10), (2, 2, 20)]
    profiles.delete([{"id": 1}])
    stats.upsert([{"post_id": 1, "views": 11}])
    ds.run()
    assert rows(seen) == [(2, 2, 20)]
    assert is_idle(ds)


def test_a_required_input_without_a_shared_key_that_is_empty_leaves_nothing(ds: sm.DataStore, rows: Any) -> None:
    posts = ds.table("posts", "post_id long, text string", key="post_id")
    settings = ds.table("settings", "name string, value string", key="name")
    told = ds.table("told", "post_id long, text string", key="post_id")
    calls: list[int] = []

    @ds.transform(inputs=[posts, sm.ComputeInput(settings, join_type="inner")], outputs=[told])
    def tell(posts, settings):
        calls.append(1)
        return posts

    posts.upsert([{"post_id": 1, "text": "x"}])
    assert ds.run().steps["tell"].keys == 0
    assert (rows(told), calls) == ([], [])
    posts.upsert([{"post_id": 2, "text": "y"}])  # and by changes
    ds.run()
    assert (rows(told), calls) == ([], [])

    settings.upsert([{"name": "a", "value": "b"}])
    ds.run()
    assert rows(told) == [(1, "x"), (2, "y")]
    settings.delete([{"name": "a"}])
    ds.run()
    assert rows(told) == []
    assert is_idle(ds)
    assert ds.verify(replay=True).ok


def test_a_required_input_counts_by_all_key_columns_that_it_shares(ds: sm.DataStore, rows: Any) -> None:
    """Image and box share the image only, and so does what they are computed by; the box must be there all the same."""
    image = ds.table("image", "image_id long, n long", key="image_id")
    box = ds.table("box", "image_id long, box_id long, m long", key=["image_id", "box_id"])
    mark = ds.table("mark", "image_id long, box_id long, k long", key=["image_id", "box_id"])
    found = ds.table("found", "image_id long, box_id long, total long", key=["image_id", "box_id"])

    @ds.transform(
        inputs=[image, box, sm.ComputeInput(mark, join_type="inner")],
        outputs=[found],
        transform_keys=["image_id", "box_id"],
    )
    def find(image, box, mark):
        both = box.join(mark, ["image_id", "box_id"], "full").join(image, "image_id", "left")
        return both.selectExpr("image_id", "box_id", "coalesce(n, 0) + coalesce(m, 0) + coalesce(k, 0) AS total")

    image.upsert([{"image_id": 1, "n": 1}])
    box.upsert([{"image_id": 1, "box_id": 1, "m": 10}, {"image_id": 1, "box_id": 2, "m": 20}])
    mark.upsert([{"image_id": 1, "box_id": 2, "k": 100}])
    ds.run()
    assert rows(found) == [(1, 2, 121)]
    mark.upsert([{"image_id": 1, "box_id": 1, "k": 200}])
    ds.run()
    assert rows(found) == [(1, 1, 211), (1, 2, 121)]
    mark.delete([{"image_id": 1, "box_id": 2}])
    ds.run()
    assert rows(found) == [(1, 1, 211)]
    assert is_idle(ds)


@pytest.mark.parametrize("pandas", [False, True], ids=["for Spark", "for pandas"])
@pytest.mark.parametrize("in_spark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["local", "in Spark"])
def test_a_key_put_together_from_parts_is_computed_only_if_the_required_input_has_all_of_it(
    ds: sm.DataStore, rows: Any, set_small: Any, monkeypatch: pytest.MonkeyPatch, in_spark: bool, pandas: bool
) -> None:
    """Every part of (1, 2) is a part of a key that is there: 1 of (1, 1), 2 of (2, 2)."""
    if in_spark:
        set_small(monkeypatch, 0)
    left, right = ds.table("left", "a long, n long", key="a"), ds.table("right", "b long", key="b")
    pair = ds.table("pair", "a long, b long", key=["a", "b"])
    out = ds.table("out", "a long, b long, n long", key=["a", "b"])

    def tie(left, right, pair):
        return left.merge(right, how="cross") if pandas else left.crossJoin(right).select("a", "b", "n")

    def wanted() -> list[tuple[int, int, int]]:
        ns = dict(rows(left))
        return [(a, b, ns[a]) for a, b in rows(pair) if a in ns and (b,) in rows(right)]

    inputs = [left, right, sm.ComputeInput(pair, join_type="inner")]
    ds.add(sm.BatchTransform(tie, inputs, [out], transform_keys=["a", "b"], pandas=pandas))
    left.upsert([{"a": a, "n": 10 * a} for a in (1, 2)])
    right.upsert([{"b": 1}, {"b": 2}])
    pair.upsert([{"a": 1, "b": 1}, {"a": 2, "b": 2}])
    ds.run(fail_fast=True)
    assert rows(out) == wanted() == [(1, 1, 10), (2, 2, 20)]
    left.upsert([{"a": 1, "n": 11}])
    right.upsert([{"b": 3}])
    pair.upsert([{"a": 2, "b": 3}, {"a": 3, "b": 1}])
    ds.run(fail_fast=True)
    assert rows(out) == wanted() == [(1, 1, 11), (2, 2, 20), (2, 3, 20)]
    pair.delete([{"a": 2, "b": 2}])
    ds.run(fail_fast=True)
    assert rows(out) == wanted() == [(1, 1, 11), (2, 3, 20)]
    ds.offset_table.reset_offset("tie")
    report = ds.run(fail_fast=True).steps["tie"]
    assert (report.appended, report.corrected, report.retracted) == (0, 0, 0)
    assert is_idle(ds)
    assert ds.verify(replay=True).ok


def test_one_global_result_and_a_sum_by_a_reference_wait_for_a_required_input(ds: sm.DataStore, rows: Any) -> None:
    posts = ds.table("posts", "post_id long, user_id long, n long", key="post_id")
    profiles = ds.table("profiles", "id long, region string", key="id")
    switch = ds.table("switch", "name string", key="name")
    total = ds.table("total", "what string, n long", key="what")
    by_region = ds.table("by_region", "region string, n long", key="region")
    on = sm.ComputeInput(switch, join_type="inner")

    @ds.transform(inputs=[posts, on], outputs=[total], transform_keys=[])
    def add(posts, switch):
        return posts.selectExpr("'all' AS what", "n").groupBy("what").sum("n").toDF("what", "n")

    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})

    @ds.transform(inputs=[posts, reference, on], outputs=[by_region], transform_keys=["region"])
    def add_by_region(posts, profiles, switch):
        named = profiles.join(posts, posts.user_id == profiles.id, "left")  # a region has a row without posts, too
        return named.groupBy("region").sum("n").toDF("region", "n")

    posts.upsert([{"post_id": 1, "user_id": 1, "n": 5}])
    profiles.upsert([{"id": 1, "region": "north"}, {"id": 2, "region": "south"}])
    ds.run()
    assert (rows(total), rows(by_region)) == ([], [])
    switch.upsert([{"name": "on"}])
    ds.run()
    assert (rows(total), rows(by_region)) == ([("all", 5)], [("north", 5), ("south", None)])
    switch.delete([{"name": "on"}])
    ds.run()
    assert (rows(total), rows(by_region)) == ([], [])
    assert is_idle(ds)
