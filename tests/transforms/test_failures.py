"""A key that the function fails on is recorded and tried again; it never holds up the others, and hides nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import seamark as sm
from seamark.errors import FunctionFailed
from seamark.steps.running.failures import pause_after


def failed(step: sm.Step) -> list[tuple[int, str, int]]:
    """Key, error and attempts of each failure."""
    found = step.failures()
    return list(zip(found.post_id.tolist(), found.error, found.attempts.tolist(), strict=True))


def offsets(blog) -> dict[str, int]:
    return blog.store.offset_table.get_record_offsets("process_posts")


# --- one key among many -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("X47")
@pytest.mark.scenario("X48")
def test_one_broken_post_of_a_thousand_is_recorded_and_tried_again_after_growing_pauses(blog, clock, frame):
    blog.write_posts(*[(number, 100, f"text {number}") for number in range(1000)])
    blog.write_profiles((100, "Alice"))
    blog.broken = {13}

    report = blog.store.run()

    assert not report.ok
    done = report.steps["process_posts"]
    assert (done.keys, done.appended, done.failed, done.error) == (1000, 999, 1, None)
    assert done.failures == (('{"post_id":13}', "ValueError: post 13 is broken"),)
    assert blog.lines() == [line for line in blog.oracle() if line[0] != 13]
    assert failed(blog.step) == [(13, "ValueError: post 13 is broken", 1)]
    assert offsets(blog) == {"posts": 999, "profiles": 0}
    assert len(blog.calls()) <= 25

    assert blog.run().failed == 1  # the next run tries it at once, and it alone
    assert blog.calls() == [[13]]
    assert failed(blog.step) == [(13, "ValueError: post 13 is broken", 2)]

    for attempts, pause in [(2, 60), (3, 300)]:
        clock.advance(seconds=pause - 1)
        assert not blog.store.run().did_something  # a key that waits does not keep the step from being settled
        clock.advance(seconds=1)
        blog.run()
        assert blog.calls() == [[13]]
        assert failed(blog.step) == [(13, "ValueError: post 13 is broken", attempts + 1)]

    key = frame(blog.posts, [(13,)], only_key=True)
    assert blog.step.retry().failed == 1
    assert blog.step.run_idx(key).failed == 1
    assert blog.step.run_changelist(sm.ChangeList({"posts": key})).failed == 1
    blog.write_posts((13, 100, "changed"))
    assert blog.run().failed == 1
    assert blog.calls() == [[13]] * 4  # none of these waited
    assert failed(blog.step) == [(13, "ValueError: post 13 is broken", 8)]

    blog.broken = set()
    assert blog.step.retry().ok
    assert (13, "Alice: changed") in blog.lines()
    assert failed(blog.step) == []
    assert blog.is_settled()


@pytest.mark.scenario("X48")
def test_the_pauses_grow_up_to_six_hours():
    assert [pause_after(attempts) / 60 for attempts in range(1, 9)] == [0, 1, 5, 30, 120, 360, 360, 360]


@pytest.mark.scenario("X48")
def test_giving_up_a_key_ends_its_retries_until_it_changes(blog, clock):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"), (3, 100, "hey"))
    blog.broken = {1, 3}
    blog.run()
    assert failed(blog.step) == [(1, "ValueError: post 1 is broken", 1), (3, "ValueError: post 3 is broken", 1)]

    assert blog.step.give_up([{"post_id": 1}]) == 1
    assert blog.step.give_up([{"post_id": 2}]) == 0

    assert [key for key, *_ in failed(blog.step)] == [3]
    assert blog.step.give_up() == 1
    clock.advance(days=1)
    blog.calls()
    assert not blog.store.run().did_something
    assert blog.calls() == []
    assert blog.lines() == [(2, "?: hi")]

    blog.broken = set()
    blog.write_posts((1, 100, "hello again"))
    blog.run()
    assert blog.lines() == [(1, "?: hello again"), (2, "?: hi")]
    assert blog.store.verify().ok


@pytest.mark.scenario("X49")
@pytest.mark.scenario("X51")
def test_a_failed_post_keeps_its_former_line_and_is_retried_with_its_profile_after_the_offset_moved_on(blog, clock):
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()

    blog.broken = {1, 2}
    blog.write_posts((1, 100, "changed"), (2, 200, "changed"))
    blog.run()
    assert blog.lines() == [(1, "Alice: hello"), (2, "Bob: hi")]

    for number in range(3, 6):
        blog.write_posts((number, 100, "new"))
    blog.write_profiles((100, "Alicia"))  # it speaks for post 1 too, which is tried again and fails again
    blog.run()
    assert offsets(blog) == {"posts": blog.posts.head.offset, "profiles": blog.profiles.head.offset}
    assert blog.lines()[:3] == [(1, "Alice: hello"), (2, "Bob: hi"), (3, "Alicia: new")]
    assert [key for key, *_ in failed(blog.step)] == [1, 2]

    blog.delete_posts(2)
    blog.broken = {1}
    blog.run()
    assert [line[0] for line in blog.lines()] == [1, 3, 4, 5]  # its input went, so its line and its failure go
    assert [key for key, *_ in failed(blog.step)] == [1]

    blog.broken = set()
    clock.advance(hours=7)
    blog.calls()
    blog.run()
    assert blog.calls() == [[1]]
    assert blog.lines()[0] == (1, "Alicia: changed")
    assert failed(blog.step) == []
    assert blog.is_settled()
    assert blog.store.verify("feed", replay=True).ok


@pytest.mark.scenario("X50")
def test_fail_fast_stops_at_the_first_key_and_leaves_nothing_of_its_batch(make_blog):
    blog = make_blog(batch_rows=2, fail_fast=True)
    blog.write_posts((1, 100, "old"))
    blog.run()
    for block in ([2, 3], [4, 5], [6, 7]):
        blog.write_posts(*[(number, 100, "new") for number in block])
    blog.broken = {5}

    with pytest.raises(
        FunctionFailed, match=r'process_posts.* failed on key {"post_id":5}: ValueError: post 5'
    ) as told:
        blog.step.run_full()

    assert isinstance(told.value.__cause__, ValueError)
    assert blog.lines() == [(1, "?: old"), (2, "?: new"), (3, "?: new")]
    assert offsets(blog)["posts"] == 2
    assert failed(blog.step) == []

    stopped = blog.store.run().steps["process_posts"]
    assert isinstance(stopped.error, FunctionFailed)
    with pytest.raises(FunctionFailed):
        blog.store.run(fail_fast=True)
    assert blog.step.run_full(sm.RunConfig(fail_fast=False)).failed == 1  # the run decides, where it says anything
    blog.broken = set()
    blog.run()
    assert blog.is_settled()


# --- trouble that no key is to blame for ------------------------------------------------------------------------------


@pytest.mark.scenario("X52")
@pytest.mark.hazard("H20")
@pytest.mark.parametrize("rows", [2, 60_000], ids=["read on the driver", "read by Spark"])
def test_a_missing_slice_stops_the_run_and_no_key_is_blamed(blog, spark, rows):
    blog.posts.upsert(spark.range(rows).selectExpr("id AS post_id", "100 AS user_id", "'text' AS content"))
    (entry,) = blog.store.control.index.slices("posts", after=None, upto=None)
    lost = blog.store.warehouse / "posts" / "data" / entry.slice_hash
    content = lost.read_bytes()
    lost.unlink()

    stopped = blog.store.run()

    assert not stopped.ok
    assert lost.name in str(stopped.steps["process_posts"].error)
    assert blog.store.step("process_posts").failures().empty
    assert offsets(blog) == {}
    assert blog.feed.head.offset is None
    (told,) = blog.store.control.index.runs("process_posts")
    assert (told.outcome, lost.name in told.error) == ("failed", True)
    with pytest.raises(type(stopped.steps["process_posts"].error), match=lost.name):
        blog.step.run_full()

    lost.write_bytes(content)
    assert blog.step.run_full().appended == rows


@pytest.mark.scenario("X52")
def test_a_cancelled_job_stops_the_run_but_a_key_that_speaks_of_cancelling_just_fails(ds, spark, tmp_path, frame):
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    feed = ds.table("feed", "post_id long, line string", key="post_id")
    began = tmp_path / "began"
    waits = threading.Event()
    waits.set()

    @ds.transform(inputs=[posts], outputs=[feed], version="1")
    def make_feed(posts):
        where = str(began) if waits.is_set() else None

        @F.udf("string")
        def line(content):
            if where is not None:
                Path(where).touch()
                while True:
                    time.sleep(0.02)  # until Spark ends this task
            if content == "bad":
                raise ValueError("the order was cancelled: No space left on device")
            return content

        return posts.select("post_id", line("content").alias("line"))

    posts.upsert(frame(posts, [(1, "good"), (2, "bad"), (3, "good")]))
    ended = threading.Event()

    def cancel_once_it_runs():
        while not began.exists() and not ended.wait(0.05):
            pass
        spark.sparkContext.cancelAllJobs()

    other = threading.Thread(target=cancel_once_it_runs)
    other.start()
    try:
        with pytest.raises((PySparkException, Py4JError), match="cancelled"):
            ds.step("make_feed").run_full()
    finally:
        ended.set()
        other.join()
    assert len(ds.step("make_feed").failures()) == 0
    assert ds.offset_table.get_record_offsets("make_feed") == {}

    waits.clear()
    assert ds.step("make_feed").run_full().failed == 1
    assert [row.post_id for row in feed.rows().orderBy("post_id").collect()] == [1, 3]
    assert failed(ds.step("make_feed")) == [(2, "ValueError: the order was cancelled: No space left on device", 1)]


# --- runs of some keys ------------------------------------------------------------------------------------------------


@pytest.mark.hazard("H6")
@pytest.mark.hazard("H13")
@pytest.mark.scenario("X65")
def test_a_filtered_run_leaves_other_keys_and_their_failures_alone(blog):
    blog.write_posts((1, 100, "a"), (2, 100, "b"), (3, 100, "c"))
    blog.broken = {2}
    blog.run()
    blog.write_posts((1, 100, "A"))
    blog.write_posts((3, 100, "C"))
    before = offsets(blog)
    blog.calls()

    blog.step.run_full(sm.RunConfig(filters={"post_id": 3}))

    assert blog.calls() == [[3]]
    assert blog.lines() == [(1, "?: a"), (3, "?: C")]
    assert failed(blog.step) == [(2, "ValueError: post 2 is broken", 1)]
    assert offsets(blog) == before
    blog.broken = set()
    blog.step.run_full(sm.RunConfig(filters={"post_id": 2}))
    assert (blog.calls(), failed(blog.step)) == ([[2]], [])
    blog.run()
    assert blog.is_settled()
