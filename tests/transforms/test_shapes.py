"""Deletes and shapes: one to one, one to many, many to one, filters and one global result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.tables.small import SMALL_RECORDS

Row = tuple[Any, ...]


def write(table: sm.Table, *rows: Row) -> None:
    table.upsert(_frame(table, table.schema.names, rows))


def delete(table: sm.Table, *keys: Any) -> None:
    table.delete(_frame(table, table.key, [key if isinstance(key, tuple) else (key,) for key in keys]))


def _frame(table: sm.Table, names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [table.schema.column(name).type for name in names]
    return pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(names))


def rows(table: sm.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.rows().toArrow().to_pylist())


def offset(ds: sm.DataStore, step: str, table: str) -> int | None:
    return ds.offset_table.get_record_offsets(step)[table]


def is_idle(ds: sm.DataStore) -> bool:
    """Whether a further run does nothing."""
    heads = ds.heads()
    return not ds.run().did_something and ds.heads() == heads


# --- one to one -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X25")
def test_a_deleted_post_takes_its_line_with_it_and_what_was_made_of_the_line(blog):
    loud = blog.store.table("loud", "post_id long, line string", key="post_id")

    @blog.store.transform(inputs=["feed"], outputs=["loud"])
    def shout(feed):
        return feed.selectExpr("post_id", "upper(line) AS line")

    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.store.run()
    assert rows(loud) == [(1, "ALICE: HELLO"), (2, "BOB: HI")]
    before = blog.feed.head.offset

    blog.delete_posts(1)
    report = blog.store.run()

    assert (report.steps["process_posts"].retracted, report.steps["shout"].retracted) == (1, 1)
    told = blog.feed.changes(after=before).select("op", "post_id", "line").collect()
    assert [tuple(record) for record in told] == [(int(sm.Op.RETRACT), 1, "Alice: hello")]
    assert rows(loud) == [(2, "BOB: HI")]
    assert blog.is_settled()


@pytest.mark.scenario("X26")
def test_a_post_that_goes_and_comes_back_has_its_line_before_a_run_and_across_one(blog):
    blog.write_posts((1, 100, "hello"), (2, 100, "stays"))
    blog.run()

    blog.delete_posts(1)
    blog.write_posts((1, 100, "hello"))
    assert blog.run().rows_out == 0
    assert blog.lines() == [(1, "?: hello"), (2, "?: stays")]

    blog.delete_posts(1)
    assert blog.run().retracted == 1
    blog.write_posts((1, 100, "hello"))
    assert blog.run().appended == 1
    assert blog.is_settled()


@pytest.mark.scenario("X29")
@pytest.mark.hazard("H17")
def test_a_run_with_deletes_only_moves_the_offset_and_the_next_one_is_idle(blog, count_jobs):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"))
    blog.run()

    blog.delete_posts(1, 2)
    assert blog.run().retracted == 2

    assert offset(blog.store, "process_posts", "posts") == blog.posts.head.offset
    with count_jobs() as counted:
        assert not blog.store.run().did_something
    assert counted.jobs == 0
    assert blog.lines() == []


@pytest.mark.scenario("X31")
def test_a_table_that_is_emptied_empties_what_was_made_of_it(blog, monkeypatch):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"))
    blog.run()
    blog.posts.replace(_frame(blog.posts, blog.posts.schema.names, []))

    def disk_full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("seamark.tables.write.transaction.publish", disk_full)
        report = blog.store.run()
    assert not report.ok
    assert isinstance(report.steps["process_posts"].error, OSError)
    assert blog.lines() == [(1, "?: hello"), (2, "?: hi")]
    assert offset(blog.store, "process_posts", "posts") < blog.posts.head.offset

    assert blog.run().retracted == 2
    assert blog.lines() == []
    assert blog.is_settled()


# --- one to many ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X27")
@pytest.mark.parametrize("pandas", [False, True])
def test_a_document_with_fewer_words_loses_the_rows_of_those_that_went(ds, pandas):
    docs = ds.table("docs", "doc long, text string", key="doc")
    words = ds.table("words", "doc long, n long, word string", key=["doc", "n"])

    def cut(docs):
        return docs.selectExpr("doc", "posexplode(split(text, ' ')) AS (n, word)").selectExpr(
            "doc", "bigint(n) n", "word"
        )

    def cut_pandas(docs):
        split = docs.assign(word=docs.text.str.split(" ")).explode("word")
        return split.assign(n=split.groupby("doc").cumcount())[["doc", "n", "word"]]

    function = cut_pandas if pandas else cut
    ds.add(sm.BatchTransform(function, [docs], [words], name="cut", transform_keys=["doc"], pandas=pandas))
    write(docs, (1, "so it goes"), (2, "yes"))
    ds.run()
    assert rows(words) == [(1, 0, "so"), (1, 1, "it"), (1, 2, "goes"), (2, 0, "yes")]

    write(docs, (1, "so"))
    report = ds.run().steps["cut"]

    assert (report.keys, report.appended, report.corrected, report.retracted) == (1, 0, 0, 2)
    assert rows(words) == [(1, 0, "so"), (2, 0, "yes")]
    assert is_idle(ds)


# --- many to one ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X28")
def test_a_sum_follows_its_posts_and_goes_with_the_last_of_them(ds):
    posts = ds.table("posts", "post_id long, user_id long, n long", key="post_id")
    totals = ds.table("totals", "user_id long, total long", key="user_id")

    @ds.transform(inputs=[posts], outputs=[totals])
    def add_up(posts):
        return posts.where("user_id IS NOT NULL").groupBy("user_id").sum("n").toDF("user_id", "total")

    write(posts, (1, 100, 5), (2, 100, 7), (3, 200, 1), (4, None, 9))
    ds.run()
    assert rows(totals) == [(100, 12), (200, 1)]

    delete(posts, 1)
    assert ds.run().steps["add_up"].keys == 1
    assert rows(totals) == [(100, 7), (200, 1)]

    delete(posts, 2)
    assert ds.run().steps["add_up"].retracted == 1
    assert rows(totals) == [(200, 1)]

    write(posts, (3, 100, 1))  # it moves: the sum that it left is computed as well
    report = ds.run().steps["add_up"]
    assert (report.keys, report.appended, report.retracted) == (2, 1, 1)
    assert rows(totals) == [(100, 1)]

    write(posts, (4, None, 10))  # a key that is NULL is computed once, and gives no row
    assert ds.run().steps["add_up"].keys == 1
    assert rows(totals) == [(100, 1)]
    assert is_idle(ds)


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X30")
def test_a_filter_that_leaves_nothing_of_a_batch_moves_the_offset_and_retracts(ds):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    large = ds.table("large", "post_id long, n long", key="post_id")

    @ds.transform(inputs=[posts], outputs=[large])
    def only_large(posts):
        return posts.where("n > 10")

    write(posts, (1, 11), (2, 12), (3, 1))
    ds.run()
    assert rows(large) == [(1, 11), (2, 12)]

    write(posts, (1, 1), (3, 2))
    report = ds.run().steps["only_large"]

    assert (report.keys, report.retracted) == (2, 1)
    assert rows(large) == [(2, 12)]
    assert offset(ds, "only_large", "posts") == posts.head.offset
    assert is_idle(ds)


@pytest.mark.scenario("X30")
def test_a_filter_that_leaves_little_of_a_batch_of_very_many_keys(ds):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    large = ds.table("large", "post_id long, n long", key="post_id")

    @ds.transform(inputs=[posts], outputs=[large])
    def only_large(posts):
        return posts.where("n > 10")

    write(posts, (-1, 11))
    ds.run()
    many = SMALL_RECORDS + 2  # more keys than a driver has at hand
    posts.upsert(pa.table({"post_id": pa.array(range(many)), "n": pa.array([20, *[0] * (many - 1)])}))

    report = ds.run().steps["only_large"]

    assert (report.error, report.keys, report.appended) == (None, many, 1)
    assert rows(large) == [(-1, 11), (0, 20)]


# --- one global result ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X32")
def test_without_transform_keys_any_change_recomputes_the_one_result(ds):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    units = ds.table("units", "id long, factor long", key="id")
    figures = ds.table("figures", "name string, value long", key="name")

    @ds.transform(inputs=[posts, units], outputs=[figures], transform_keys=[])
    def count_all(posts, units):
        scaled = posts.crossJoin(units.selectExpr("sum(factor) AS factor")).selectExpr("n * factor AS n")
        return scaled.selectExpr("stack(2, 'sum', sum(n), 'count', count(*)) AS (name, value)").where("value > 0")

    assert not ds.run().did_something  # nothing has rows yet

    write(posts, (1, 5), (2, 6))
    ds.run()
    assert rows(figures) == [("count", 2)]
    write(units, (1, 10))
    assert ds.run().steps["count_all"].keys == 1
    assert rows(figures) == [("count", 2), ("sum", 110)]
    delete(posts, 1)
    ds.run()
    assert rows(figures) == [("count", 1), ("sum", 60)]
    delete(posts, 2)
    assert ds.run().steps["count_all"].retracted == 2
    assert rows(figures) == []
    assert is_idle(ds)


@pytest.mark.scenario("X79")
def test_the_one_result_is_computed_once_where_several_batches_are_committed_at_once(ds):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    figures = ds.table("figures", "name string, value long", key="name")
    calls: list[int] = []

    @ds.transform(inputs=[posts], outputs=[figures], transform_keys=[], commit="run", batch_rows=1)
    def add_up(posts):
        calls.append(1)
        return posts.selectExpr("'sum' AS name", "sum(n) AS value")

    write(posts, (1, 5))
    ds.run()
    write(posts, (2, 6))
    write(posts, (3, 7))
    calls.clear()

    assert ds.run().steps["add_up"].error is None

    assert rows(figures) == [("sum", 18)]
    assert calls == [1]
    assert is_idle(ds)


@pytest.mark.scenario("X49")
def test_the_one_result_stands_while_it_cannot_be_computed(ds, clock):
    posts = ds.table("posts", "post_id long, n long", key="post_id")
    figures = ds.table("figures", "name string, value long", key="name")
    broken = {"now": False}

    @ds.transform(inputs=[posts], outputs=[figures], transform_keys=[])
    def add_up(posts):
        if broken["now"]:
            raise ValueError("bad luck")
        return posts.selectExpr("'sum' AS name", "sum(n) AS value")

    write(posts, (1, 5))
    ds.run()
    broken["now"] = True
    write(posts, (1, 6))
    assert ds.run().steps["add_up"].failed == 1
    assert rows(figures) == [("sum", 5)]

    broken["now"] = False
    clock.advance(days=1)
    assert ds.run().ok
    assert rows(figures) == [("sum", 6)]
    assert is_idle(ds)
    assert ds.verify(replay=True).ok


# --- all keys in ranges -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("X86")
def test_a_pass_that_was_cut_off_keeps_its_first_ranges_when_the_rest_is_committed_at_once(open_store):
    broken = {"now": True}

    def double(posts):
        if broken["now"] and posts.where("post_id = 3").count():
            raise ValueError("bad luck")
        return posts.selectExpr("post_id", "2 * n AS n")

    def opened(commit: str) -> tuple[sm.DataStore, sm.Table, sm.Table]:
        ds = open_store()
        posts, doubled = (ds.table(name, "post_id long, n long", key="post_id") for name in ("posts", "doubled"))
        ds.add(sm.BatchTransform(double, [posts], [doubled], batch_keys=2, commit=commit, fail_fast=True, version="1"))
        return ds, posts, doubled

    ds, posts, doubled = opened("batch")
    write(posts, *[(n, n) for n in range(1, 7)])
    assert not ds.run().ok
    assert rows(doubled) == [(1, 2), (2, 4)]

    broken["now"] = False
    ds, posts, doubled = opened("run")
    report = ds.run().steps["double"]

    assert (report.error, report.keys, report.appended, report.retracted) == (None, 4, 4, 0)
    assert rows(doubled) == [(n, 2 * n) for n in range(1, 7)]
    assert is_idle(ds)
    assert ds.verify(replay=True).ok
