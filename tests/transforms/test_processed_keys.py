"""The keys that a step knows as processed, where other outputs or inputs have gone by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import seamark as sm

Declare = Callable[..., sm.DataStore]


@pytest.fixture
def declare(open_store: Any) -> Declare:
    """Opens the store as another process would, with a step of one name and some inputs and output."""

    def declare_it(output: str, inputs: tuple[str, str] = ("posts", "likes")) -> sm.DataStore:
        store = open_store()
        for table in inputs:
            store.table(table, "post_id long, n long", key="post_id")
        store.table(output, "post_id long, n long, m long", key="post_id")
        sql = "SELECT post_id, p.n, l.n AS m FROM {posts} p LEFT JOIN {likes} l USING (post_id)"
        options: dict[str, Any] = {"algorithm": "v1", "track_keys": True, "on_change": "keep", "version": "1"}
        store.add(sm.BatchTransform(sql, list(inputs), [output], name="copy", **options))
        return store

    return declare_it


def write(store: sm.DataStore, table: str, *rows: tuple[int, int]) -> None:
    store.table(table).upsert([{"post_id": post, "n": n} for post, n in rows])


@pytest.mark.scenario("X22")
def test_keys_that_were_processed_into_another_output_are_not_processed_for_this_one(
    declare: Declare, rows: Any
) -> None:
    store = declare("first")
    write(store, "posts", (1, 1), (2, 2))
    store.run(fail_fast=True)
    store = declare("second")
    store.run(fail_fast=True)
    write(store, "posts", (1, 10))
    store.run(fail_fast=True)
    assert rows(store.table("second")) == [(1, 10, None), (2, 2, None)]

    store = declare("first")
    assert [row.post_id for row in store.step("copy").get_changed_idx().collect()] != []
    store.run(fail_fast=True)
    assert rows(store.table("first")) == [(1, 10, None), (2, 2, None)]
    write(store, "posts", (2, 20))
    store.run(fail_fast=True)
    assert rows(store.table("first")) == [(1, 10, None), (2, 20, None)]
    assert not store.run().did_something


@pytest.mark.scenario("X22")
def test_how_far_inputs_were_read_is_not_taken_for_that_of_others_when_their_order_changes(
    declare: Declare, rows: Any
) -> None:
    store = declare("first")
    write(store, "posts", (1, 1))
    for n in range(5):
        write(store, "posts", (2, n))
    write(store, "likes", (1, 1), (2, 1))
    store.run(fail_fast=True)

    store = declare("first", ("likes", "posts"))
    write(store, "likes", (1, 2))  # by record 3, and of the posts more than that were read
    store.run(fail_fast=True)
    assert rows(store.table("first")) == [(1, 1, 2), (2, 4, 1)]
