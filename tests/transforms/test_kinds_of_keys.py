"""Keys by which a step is computed where its inputs have only parts of them; keys of another shape; odd names."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import seamark as sm
from seamark.errors import InvalidStep


@pytest.fixture
def pairs(ds: sm.DataStore) -> sm.DataStore:
    """A step whose inputs have one half of the key each; it fails where `b` is 13."""
    left, right = ds.table("left", "a long", key="a"), ds.table("right", "b long, n long", key="b")
    tied = ds.table("tied", "a long, b long, n long", key=["a", "b"])

    @ds.transform(inputs=[left, right], outputs=[tied], transform_keys=["a", "b"])
    def tie(left, right):
        return left.crossJoin(right).where("n <> 13 OR raise_error('unlucky')").select("a", "b", "n")

    left.upsert([{"a": 1}, {"a": 2}])
    right.upsert([{"b": 1, "n": 1}, {"b": 2, "n": 2}])
    ds.run(fail_fast=True)
    right.upsert([{"b": 1, "n": 13}, {"b": 2, "n": 13}])
    assert ds.run().steps["tie"].failed == 2
    return ds


def test_keys_that_failed_by_a_part_of_the_key_are_retried_and_given_up_by_it(pairs: sm.DataStore, rows: Any) -> None:
    step, right = pairs.step("tie"), pairs.table("right")
    assert step.failures().b.tolist() == [1, 2]
    assert not step.retry().ok  # still there: it fails again
    assert step.failures().attempts.tolist() == [2, 2]

    assert step.give_up([{"b": 2}]) == 1
    assert step.failures().b.tolist() == [1]
    right.upsert([{"b": 1, "n": 3}, {"b": 2, "n": 4}])
    assert step.run_idx(pd.DataFrame({"b": [2]})).ok
    assert rows(pairs.table("tied")) == [(1, 1, 1), (1, 2, 4), (2, 1, 1), (2, 2, 4)]
    assert step.retry(keys=step.failures()).ok  # the frame has the other half of the key, too, and nothing in it
    assert rows(pairs.table("tied")) == [(1, 1, 3), (1, 2, 4), (2, 1, 3), (2, 2, 4)]
    assert step.failures().empty


def test_failed_keys_are_not_forgotten_when_rows_are_kept_under_other_transform_keys(
    open_store: Any, rows: Any
) -> None:
    def declare(keys: list[str], **options: Any) -> sm.DataStore:
        store = open_store()
        posts = store.table("posts", "post_id long, user_id long, n long", key="post_id")
        out = store.table("out", "post_id long, user_id long, n long", key=["post_id", "user_id"])
        sql = "SELECT post_id, user_id, n FROM {posts} WHERE n <> 13 OR raise_error('unlucky')"
        store.add(sm.BatchTransform(sql, [posts], [out], name="copy", transform_keys=keys, version="1", **options))
        return store

    store = declare(["post_id"])
    store.table("posts").upsert([{"post_id": p, "user_id": 10 * p, "n": p} for p in (1, 2)])
    store.run(fail_fast=True)
    store.table("posts").upsert([{"post_id": 2, "user_id": 20, "n": 13}])
    assert store.run().steps["copy"].failed == 1

    store = declare(["user_id"], on_change="keep")
    store.table("posts").upsert([{"post_id": 1, "user_id": 10, "n": 5}])
    store.run()
    assert rows(store.table("out")) == [(1, 10, 5), (2, 20, 2)]
    assert store.step("copy").failures().error.str.contains("unlucky").tolist() == [True]  # what is stale is known

    store = declare(["user_id"], on_change="recompute")
    store.table("posts").upsert([{"post_id": 2, "user_id": 20, "n": 6}])
    store.offset_table.reset_offset("copy")
    assert store.run().ok
    assert rows(store.table("out")) == [(1, 10, 5), (2, 20, 6)]
    assert store.step("copy").failures().empty


def test_a_change_list_of_an_input_that_concerns_every_key_computes_every_key(ds: sm.DataStore, rows: Any) -> None:
    posts = ds.table("posts", "post_id long, user_id long, n long", key="post_id")
    profiles = ds.table("profiles", "id long, region string", key="id")
    settings = ds.table("settings", "name string, factor long", key="name")
    sums = ds.table("sums", "region string, n long", key="region")
    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})

    @ds.transform(inputs=[posts, reference, settings], outputs=[sums], transform_keys=["region"])
    def add_up(posts, profiles, settings):
        joined = posts.join(profiles, posts.user_id == profiles.id).crossJoin(settings.select("factor"))
        return joined.groupBy("region").agg({"factor": "sum"}).toDF("region", "n")

    posts.upsert([{"post_id": n, "user_id": n, "n": n} for n in (1, 2)])
    profiles.upsert([{"id": 1, "region": "n"}, {"id": 2, "region": "s"}])
    settings.upsert([{"name": "f", "factor": 2}])
    ds.run(fail_fast=True)
    settings.upsert([{"name": "f", "factor": 3}])
    for change in ([{"name": "f", "factor": 3}], [{"name": "f"}]):
        assert ds.step("add_up").run_changelist(sm.ChangeList({"settings": change})).ok
        assert rows(sums) == [("n", 3), ("s", 3)]


@pytest.mark.parametrize("key", ["offset_max", "0_max", "0"])
def test_a_key_may_be_called_what_is_computed_of_it(ds: sm.DataStore, rows: Any, key: str) -> None:
    parts = ds.table("parts", f"id long, `{key}` long, n long", key=["id", key])
    sums = ds.table("sums", f"`{key}` long, n long", key=key)
    sql = f"SELECT `{key}`, sum(n) AS n FROM {{parts}} GROUP BY `{key}`"
    ds.add(sm.BatchTransform(sql, [parts], [sums], name="add", transform_keys=[key]))
    parts.upsert([{"id": n, key: n % 2, "n": n} for n in range(4)])
    ds.run(fail_fast=True)
    parts.upsert([{"id": 0, key: 0, "n": 7}, {"id": 2, key: 0, "n": 8}])
    ds.run(fail_fast=True)
    assert rows(sums) == [(0, 15), (1, 4)]


@pytest.mark.parametrize("key", ["_key", "_read_at"])
def test_a_key_called_like_a_column_of_the_table_of_processed_keys_is_refused(ds: sm.DataStore, key: str) -> None:
    parts, copy = ds.table("parts", f"{key} long", key=key), ds.table("copy", f"{key} long", key=key)
    step = sm.BatchTransform("SELECT * FROM {parts}", [parts], [copy], name="s", track_keys=True)
    with pytest.raises(InvalidStep, match=f"'s': track_keys keeps a table that has a column '{key}' of its own"):
        ds.add(step)
