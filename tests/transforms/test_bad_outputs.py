"""What a function must not give, and a function that is wrong as a whole: the step stops, and nothing is recorded."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import AnalysisException

import seamark as sm
from seamark.errors import BadOutput, TooManyFailures

# --- what the function gives ------------------------------------------------------------------------------------------

WRONG = {
    "a column that is not there": ("SELECT post_id, line AS text FROM {posts}", r"text"),
    "a missing column": ("SELECT post_id FROM {posts}", r"line"),
    "a NULL key": ("SELECT nullif(post_id, 2) AS post_id, line FROM {posts}", r"'post_id' is NULL in 1 row"),
    "a doubled key": ("SELECT p.* FROM {posts} p JOIN VALUES (1), (2) v(n) ON n = 1 OR post_id = 2", r"post_id=2 "),
    "a key of others": ("SELECT post_id + 1 AS post_id, line FROM {posts}", r"post_id=4,"),
}


@pytest.mark.scenario("X53")
@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_an_output_cannot_take_is_an_error_that_names_step_output_and_key(open_store, frame, rows, text, told):
    def open_with(text):
        ds = open_store()
        posts = ds.table("posts", "post_id long, line string", key="post_id")
        feed = ds.table("feed", "post_id long, line string", key="post_id")
        return posts, feed, ds.add(sm.BatchTransform(text, [posts], [feed], name="make_feed", version="1"))

    posts, feed, step = open_with("SELECT * FROM {posts}")
    posts.upsert(frame(posts, [(1, "one"), (2, "two")]))
    step.run_full()
    posts.upsert(frame(posts, [(1, "uno"), (2, "dos"), (3, "tres")]))
    standing = feed.head

    with pytest.raises(BadOutput, match=rf"(?s)'make_feed'.*'feed'.*{told}.*Nothing of this batch was written"):
        open_with(text)[-1].run_full()

    assert feed.head == standing
    assert step.failures().empty
    assert step.get_changed_idx_count() == 3
    assert step.run_full().ok
    assert rows(feed) == [(1, "uno"), (2, "dos"), (3, "tres")]


@pytest.mark.scenario("X53")
@pytest.mark.parametrize("wrong", ["doubled", "foreign", "null"])
def test_the_same_holds_for_outputs_too_large_for_the_driver(ds, spark, wrong):
    numbers = ds.table("numbers", "id long", key="id")
    doubles = ds.table("doubles", "id long, twice long", key="id")
    numbers.upsert(spark.range(60_000))

    @ds.transform(inputs=[numbers], outputs=[doubles])
    def double(numbers):
        told = {
            "doubled": numbers.selectExpr("explode(array(id, IF(id = 7, 7, 60001 + id))) AS id").where("id <= 60000"),
            "foreign": numbers.selectExpr("IF(id = 7, -7, id) AS id"),
            "null": numbers.selectExpr("nullif(id, 7) AS id"),
        }
        return told[wrong].selectExpr("id", "id * 2 AS twice")

    # one range of all keys takes every key there might be, so a row with a key of nobody is nobody's fault
    named = {"doubled": r"id\W+7", "foreign": "id=-7", "null": "'id'"}[wrong]
    chosen = sm.ChangeList({"numbers": spark.range(1, 55_000)}) if wrong == "foreign" else None
    with pytest.raises(BadOutput, match=rf"(?s)'double'.*'doubles'.*{named}"):
        ds.step("double").run_changelist(chosen) if chosen else ds.step("double").run_full()
    assert doubles.head.offset is None
    assert ds.step("double").failures().empty


@pytest.mark.scenario("X53")
def test_a_key_that_no_input_has_is_refused_on_a_first_run_too(ds, frame):
    posts = ds.table("posts", "post_id long, line string", key="post_id")
    feed = ds.table("feed", "post_id long, line string", key="post_id")
    text = "SELECT post_id + 1 AS post_id, line FROM {posts}"
    step = ds.add(sm.BatchTransform(text, [posts], [feed], name="make_feed"))
    posts.upsert(frame(posts, [(1, "one"), (2, "two")]))
    with pytest.raises(BadOutput, match=r"'make_feed'.*'feed'.*post_id=3"):
        step.run_full()


@pytest.mark.scenario("X53")
def test_where_inputs_share_no_key_rows_of_other_keys_are_dropped(ds, frame, rows):
    left, right = ds.table("left", "a long", key="a"), ds.table("right", "b long", key="b")
    pairs = ds.table("pairs", "a long, b long, total long", key=["a", "b"])

    @ds.transform(inputs=[left, right], outputs=[pairs], transform_keys=["a", "b"])
    def cross(left, right):
        return left.crossJoin(right).selectExpr("a", "b", "a + b AS total")

    left.upsert(frame(left, [(1,)]))
    right.upsert(frame(right, [(10,)]))
    ds.run(fail_fast=True)
    left.upsert(frame(left, [(2,)]))
    right.upsert(frame(right, [(20,)]))
    ds.run(fail_fast=True)

    assert rows(pairs) == [(1, 10, 11), (1, 20, 21), (2, 10, 12), (2, 20, 22)]
    assert not ds.run().did_something


# --- a function that is wrong as a whole ------------------------------------------------------------------------------


@pytest.mark.scenario("X78")
def test_a_column_that_is_not_there_stops_the_step_and_others_go_on(ds, frame, rows):
    posts = ds.table("posts", "post_id long, line string", key="post_id")
    feed = ds.table("feed", "post_id long, line string", key="post_id")
    copy = ds.table("copy", "post_id long, line string", key="post_id")
    mended = threading.Event()

    @ds.transform(inputs=[posts], outputs=[feed])
    def make_feed(posts):
        return posts.selectExpr("post_id", "line" if mended.is_set() else "lime AS line")

    ds.add(sm.BatchTransform("SELECT * FROM {posts}", [posts], [copy], name="copy_posts"))
    posts.upsert(frame(posts, [(1, "one"), (2, "two")]))

    report = ds.run()

    assert not report.ok
    assert isinstance(report.steps["make_feed"].error, AnalysisException)
    assert report.steps["copy_posts"].ok
    assert rows(copy) == [(1, "one"), (2, "two")]
    with pytest.raises(AnalysisException, match="lime"):
        ds.step("make_feed").run_full()
    assert ds.step("make_feed").failures().empty
    assert ds.offset_table.get_record_offsets("make_feed") == {}

    mended.set()
    assert ds.run().ok
    assert rows(feed) == [(1, "one"), (2, "two")]


@pytest.mark.scenario("X78")
@pytest.mark.parametrize("commit", ["batch", "run"])
def test_more_failures_than_allowed_stop_the_step_and_none_is_recorded(make_blog, commit):
    blog = make_blog(max_failed_keys=2, batch_keys=2 if commit == "run" else 10, commit=commit)
    blog.write_posts(*[(number, 100, "text") for number in range(6)])
    blog.broken = {0, 2, 4}

    with pytest.raises(TooManyFailures, match=r"3 keys failed, more than max_failed_keys=2.*post 0 is broken"):
        blog.step.run_full()

    assert blog.step.failures().empty
    assert blog.store.offset_table.get_record_offsets("process_posts") == {}
    assert blog.lines() == []
    blog.broken = {0, 2}
    assert blog.run().failed == 2
    blog.broken = set()
    assert blog.run().ok
    assert blog.is_settled()
