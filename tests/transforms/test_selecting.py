"""Which keys a run computes: those that changes lead to, each once, however the changes came about."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import seamark as sm


class Stopped(Exception):
    """The process ends here."""


def stop(_report: sm.StepReport, _left: int) -> None:
    raise Stopped


def offset_of(blog, table: str = "posts") -> int | None:
    return blog.store.offset_table.get_record_offsets("process_posts").get(table)


# --- nothing to do ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X12")
def test_the_first_run_sees_every_key_once_and_the_second_starts_no_job(blog, count_jobs):
    blog.write_posts(*[(n, n % 7, f"post {n}") for n in range(1000)])
    blog.write_profiles((1, "Alice"))

    first = blog.run()
    assert (first.keys, first.appended, first.failed) == (1000, 1000, 0)
    assert blog.calls() == [list(range(1000))]

    heads = blog.store.heads()
    with count_jobs() as counted:
        second = blog.store.run()
    assert (counted.jobs, second.did_something, second.steps["process_posts"].keys) == (0, False, 0)
    assert blog.calls() == []
    assert blog.store.heads() == heads
    assert blog.lines() == blog.oracle()


@pytest.mark.scenario("X12")
def test_a_program_that_finds_nothing_to_do_never_starts_spark(blog, tmp_path):
    blog.write_posts((1, 100, "hello"))
    blog.run()
    # what the program declares is what the fixture declares, so that its definition is the one that the rows have
    script = f"""
        from pathlib import Path
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        def refuse(*_, **__):
            raise AssertionError("a Spark session was asked for")

        SparkSession.__init__ = SparkContext.__init__ = refuse
        import conftest
        import seamark as sm

        with sm.DataStore("sqlite:///{tmp_path / "control.db"}", {str(tmp_path / "warehouse")!r}) as store:
            blog = conftest.Blog(store, Path({str(tmp_path / "calls")!r}))
            report = store.run()
            assert report.ok and not report.did_something, report
            assert blog.step.get_changed_idx_count() == 0
            assert store.plan()["process_posts"].is_settled
        assert SparkContext._gateway is None and SparkSession._instantiatedSession is None
        print("nothing to do")
    """
    folder = str(__file__).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"PYTHONPATH": folder, "PATH": ""},  # without a path there is no Java to be found, either
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("nothing to do\n", 0), done.stderr


@pytest.mark.scenario("X14")
def test_a_rewrite_with_equal_values_selects_nothing_here_and_downstream(blog, rows, count_jobs):
    store = blog.store
    digest = store.table("digest", "post_id long, length long", key="post_id")

    @store.transform(inputs=[blog.feed], outputs=[digest])
    def measure(feed):
        return feed.selectExpr("post_id", "length(line) AS length")

    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"))
    store.run()
    heads = store.heads()

    blog.write_posts((2, 200, "hi"), (1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    with count_jobs() as counted:
        report = store.run()
    assert (counted.jobs, report.did_something, store.heads()) == (0, False, heads)

    blog.write_profiles((100, "Aline"))  # a line that changes, and as long as it was
    report = store.run()
    assert [(step.keys, step.rows_out) for step in report.steps.values()] == [(1, 1), (1, 0)]
    assert rows(digest) == [(1, 12), (2, 5)]
    assert blog.is_settled()


# --- what changed -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X13", "X23")
def test_exactly_the_changed_keys_are_computed_and_looking_changes_nothing(blog):
    blog.write_posts(*[(n, 100, f"post {n}") for n in range(20)])
    blog.write_profiles((100, "Alice"))
    blog.run()
    blog.calls()

    blog.write_posts(*[(n, 100, "new") for n in (50, 51, 52, 53, 54)])
    blog.write_posts(*[(n, 100, "updated") for n in (3, 4, 5)])

    changed = [3, 4, 5, 50, 51, 52, 53, 54]
    heads, offset = blog.store.heads(), offset_of(blog)
    for _ in range(2):
        assert sorted(row.post_id for row in blog.step.get_changed_idx().collect()) == changed
        assert blog.step.get_changed_idx_count() == 8
    assert (blog.store.heads(), offset_of(blog), blog.calls()) == (heads, offset, [])
    assert blog.store.control.index.runs("process_posts")[0].mode == "all keys"  # looking left no run row

    report = blog.run()
    assert (report.keys, report.appended, report.corrected, report.retracted) == (8, 5, 3, 0)
    assert report.rows_in == 5 + 2 * 3  # a correction is two records
    assert blog.calls() == [changed]
    assert blog.step.get_changed_idx_count() == 0
    assert blog.step.get_changed_idx().collect() == []
    assert blog.is_settled()


@pytest.mark.scenario("X23")
def test_before_the_first_run_every_key_is_one_that_a_run_would_take(blog):
    blog.write_posts((1, 100, "hello"), (2, None, "hi"))
    assert sorted(row.post_id for row in blog.step.get_changed_idx().collect()) == [1, 2]
    assert blog.step.get_changed_idx_count() == 2
    assert blog.feed.head.offset is None
    assert blog.run().keys == 2


@pytest.mark.scenario("X15", "X16")
def test_a_key_that_changed_several_times_is_computed_once_from_its_newest_row(blog):
    blog.write_posts((1, 100, "A"), (2, 100, "A"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    blog.calls()
    end = blog.feed.head.offset

    blog.write_posts((1, 100, "B"))
    blog.write_posts((1, 100, "A"))
    assert blog.run().keys <= 1
    assert blog.calls() in ([], [[1]])
    assert blog.feed.head.offset == end  # back where it was: no record
    assert blog.is_settled()

    blog.write_posts((2, 100, "B"))
    blog.write_posts((2, 100, "C"))
    report = blog.run()
    assert (report.keys, report.corrected) == (1, 1)
    assert blog.calls() == [[2]]
    assert blog.lines() == [(1, "Alice: A"), (2, "Alice: C")]
    assert blog.is_settled()


@pytest.mark.scenario("X29")
@pytest.mark.hazard("H17")
def test_a_run_with_deletes_only_moves_the_offset(blog):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"))
    blog.run()
    blog.delete_posts(2)

    report = blog.run()
    assert (report.retracted, report.rows_out) == (1, 1)
    assert offset_of(blog) == blog.posts.head.offset == 2
    assert blog.is_settled()


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X18")
@pytest.mark.parametrize("blocks", [5, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("first_run", [True, False], ids=["first run", "by changes"])
def test_a_process_that_is_stopped_after_every_batch_computes_each_key_once(
    make_blog, frame, rows, open_store, blocks, first_run
):
    store = open_store()
    stamped = store.table("stamped", "n long, at timestamp", key="n", event_time="at")
    copied = store.table("copied", "n long", key="n")
    seen: list[int] = []

    def copy(stamped):
        seen.extend(row.n for row in stamped.select("n").collect())
        return stamped.select("n")

    store.add(sm.BatchTransform(copy, inputs=[stamped], outputs=[copied], batch_rows=100, batch_keys=100))
    one_time = store.clock.now().replace(microsecond=0)
    if not first_run:
        stamped.upsert(frame(stamped, [(-1, one_time)]))
        store.run()
        seen.clear()
    for block in range(blocks):
        stamped.upsert(frame(stamped, [(n, one_time) for n in range(100 * block, 100 * block + 100)]))

    for _ in range(blocks):
        with pytest.raises(Stopped):
            store.step("copy").run_full(on_batch=stop)
    assert not store.run().did_something
    assert sorted(seen) == list(range(100 * blocks))
    assert [n for (n,) in rows(copied) if n >= 0] == sorted(seen)


@pytest.mark.hazard("H14")
def test_the_result_is_the_same_in_whatever_order_keys_come_and_are_taken(open_store, frame, rows):
    store = open_store()
    posts = [(n, f"post {n}") for n in (7, -3, 0, 12, 5, -8)]
    results = []
    for name, ordered, options in [
        ("as_they_come", posts, {}),
        ("backwards", posts[::-1], {"batch_rows": 1, "batch_keys": 2}),
        ("sorted", sorted(posts), {"commit": "run", "batch_keys": 2}),
    ]:
        source = store.table(f"{name}_posts", "n long, content string", key="n")
        lines = store.table(name, "n long, line string", key="n")

        def tell(posts):
            return posts.selectExpr("n", "concat(n, ': ', content) AS line")

        store.add(sm.BatchTransform(tell, name=f"tell_{name}", inputs=[source], outputs=[lines], **options))
        for post in ordered[:4]:
            source.upsert(frame(source, [post]))
        assert store.run().ok
        for post in ordered[4:]:
            source.upsert(frame(source, [post]))
        store.step(f"tell_{name}").run_full(sm.RunConfig(limit=1))  # keys are taken in another order than they came
        assert store.run().ok
        assert not store.run().did_something
        results.append(rows(lines))
    assert results[0] == results[1] == results[2] == [(n, f"{n}: {text}") for n, text in sorted(posts)]


@pytest.mark.hazard("H18")
def test_a_steady_backlog_over_the_limit_is_worked_off_from_its_old_end(blog):
    blog.write_posts((1000, 100, "first"))
    blog.run()
    started = offset_of(blog)
    for number in range(1, 5):  # each run leaves something: two keys come, and one may be computed
        blog.write_posts((1000 + 2 * number, 100, "x"), (1001 + 2 * number, 100, "y"))
        assert blog.run(limit=1).keys == 1
    assert blog.store.offset_table.get_statistics()[0]["pending_records"] == 4
    assert offset_of(blog) == started + 4  # two of the four blocks are done
    blog.run()
    assert blog.is_settled()


@pytest.mark.hazard("H18")
def test_a_steady_backlog_over_the_limit_moves_the_offset_whatever_the_order_of_keys(blog):
    blog.write_posts((1000, 100, "first"))
    blog.run()
    started = offset_of(blog)
    for number in range(4):  # of the two keys that come each time the first in order is taken
        blog.write_posts((10 + number, 100, "x"), (20 + number, 100, "y"))
        assert blog.run(limit=1).keys == 1
    assert offset_of(blog) > started


# --- how much is read -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X24")
@pytest.mark.parametrize(
    "processed", [1_000, 10_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_only_the_new_change_records_are_read_however_many_were_processed(blog, spark, processed):
    blog.write_profiles((100, "Alice"))
    blog.posts.upsert(spark.range(processed).selectExpr("id AS post_id", "100L AS user_id", "'old' AS content"))
    blog.run()
    blog.store.fold()
    old = blog.store.control.index.slices("posts", after=None, upto=blog.posts.head.offset)
    blog.calls()

    blog.write_posts(*[(processed + n, 100, "new") for n in range(100)])
    for block in old:  # whoever reads an old change record finds no file
        blog.store._context.files("posts").data.path(block.slice_hash).rename(f"{blog._calls}.{block.sequence}")
    report = blog.run()

    assert (report.keys, report.rows_in, report.appended) == (100, 100, 100)
    assert blog.calls() == [list(range(processed, processed + 100))]
    assert blog.feed.rows().count() == processed + 100


# --- given keys -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X63")
@pytest.mark.hazard("H9")
def test_a_changelist_is_computed_though_the_offsets_have_passed_its_keys(blog):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"), (3, 100, "again"))
    blog.run()
    blog.calls()
    blog.write_posts((9, 100, "waits"))
    offset = offset_of(blog)

    report = blog.step.run_changelist(sm.ChangeList({"posts": [{"post_id": 1}, {"post_id": 3}]}))
    assert (report.keys, blog.calls(), offset_of(blog)) == (2, [[1, 3]], offset)
    assert blog.run().keys == 1
    assert blog.calls() == [[9]]
    assert blog.is_settled()
