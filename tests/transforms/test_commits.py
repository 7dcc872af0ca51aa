"""When a batch becomes true: whole blocks, one commit for all outputs, never behind the reader's back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F
from sqlalchemy import create_engine, make_url, text

import seamark as sm
from seamark.control import Mode
from seamark.errors import AlreadyRunning, ChainRuleBroken, ControlUnavailable, LeaseLost
from seamark.ledger import ExecuteTransform, Op
from seamark.steps.rows.scope import AllKeys
from seamark.steps.standing.known import Known
from seamark.transforms.backlog import backlog_of
from seamark.transforms.keys.strategies import covers_pins
from seamark.transforms.run import StepRun, Work


def events(table: sm.Table) -> list[ExecuteTransform]:
    """The data events of a derived table, oldest first."""
    index = table.source.context.control.index
    files = table.source.context.files(table.name)
    entries = reversed(index.blocks(table.name, kinds=["ExecuteTransform"]))
    return [files.block(entry.hash).event for entry in entries]


def checkpoints(table: sm.Table) -> list[dict[str, Any]]:
    files = table.source.context.files(table.name)
    return [json.loads(files.checkpoints.read(event.new_checkpoint.physical_hash)) for event in events(table)]


def taken(table: sm.Table, name: str) -> list[tuple[int | None, int]]:
    """The records (after, upto] of an input that each commit incorporated."""
    covered = []
    for event, checkpoint in zip(events(table), checkpoints(table), strict=True):
        place = list(checkpoint["read"]).index(name)
        interval = event.query_inputs[place]
        if interval.new_offset is not None:
            covered.append((interval.prev_offset, interval.new_offset))
    return covered


def records(table: sm.Table) -> list[tuple[Any, ...]]:
    """Operation and values of every record of a table, in order."""
    names = table.schema.names
    return [(Op(row.op), *[row[name] for name in names]) for row in table.changes().orderBy("offset").collect()]


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X54")
def test_batches_end_where_blocks_end_and_all_are_read_at_the_pins(make_blog):
    blog = make_blog(batch_rows=200)
    blog.write_posts(*[(number, number % 3, "old") for number in range(500)])
    blog.write_profiles((0, "Zoe"), (1, "Una"), (2, "Dora"))
    blog.run()
    for block in range(5):  # each is a block of 200 records: the old and the new row of a hundred posts
        blog.write_posts(*[(number, number % 3, f"new {block}") for number in range(block * 100, block * 100 + 100)])
    blog.write_posts(*[(number, 0, "large") for number in range(500, 750)])  # one block larger than a batch
    blog.write_profiles((1, "Ulla"))
    ends = {entry.last_offset for entry in blog.store.control.index.slices("posts", after=None, upto=None)}
    pins = {"posts": blog.posts.head.offset, "profiles": blog.profiles.head.offset}

    assert blog.run().batches == 7

    covered = taken(blog.feed, "posts")[1:]
    assert [upto - after for after, upto in covered] == [200, 200, 200, 200, 200, 250]
    assert {upto for _, upto in covered} <= ends
    assert taken(blog.feed, "profiles")[1:] == [(2, 4)]
    for told in checkpoints(blog.feed)[1:]:
        assert {table: at["offset"] for table, at in told["read"].items()} == pins
    assert blog.is_settled()


@pytest.mark.scenario("X58")
@pytest.mark.hazard("H22")
def test_after_every_batch_what_the_offset_has_passed_is_done_or_listed(make_blog):
    blog = make_blog(batch_rows=4)
    blog.write_posts(*[(number, 100, "old") for number in range(1, 7)])
    blog.run()
    for block in ([5, 6], [3, 4], [1, 2]):
        blog.write_posts(*[(number, 100, "new") for number in block])
    blog.broken = {4, 5}
    offset_of = {row[0]: row[1] for row in blog.posts.changes().groupBy("post_id").agg(F.max("offset")).collect()}
    after_each = []

    def look(_report, _left):
        offset = blog.store.offset_table.get_record_offsets("process_posts")["posts"]
        passed = {key for key, last in offset_of.items() if last <= offset}
        done = {key for key, line in blog.lines() if line == "?: new"}
        after_each.append((passed, done, set(blog.step.failures().post_id)))

    blog.store.run(on_batch=look)

    assert after_each == [
        ({5, 6}, {6}, {5}),
        ({3, 4, 5, 6}, {3, 6}, {4, 5}),
        ({1, 2, 3, 4, 5, 6}, {1, 2, 3, 6}, {4, 5}),
    ]
    blog.broken = set()
    blog.run()
    assert blog.is_settled()


@pytest.mark.scenario("X56")
@pytest.mark.scenario("X79")
def test_one_commit_for_the_whole_run_holds_each_key_once(make_blog):
    blog = make_blog(batch_rows=4, commit="run")
    blog.write_posts(*[(number, 100, "old") for number in range(1, 10)])
    blog.run()
    blog.calls()
    blog.write_posts((7, 100, "first"), (1, 100, "new"))
    blog.write_posts((2, 100, "new"), (3, 100, "new"))
    blog.write_posts((7, 100, "last"), (4, 100, "new"))
    before = blog.feed.head
    seen = []

    report = blog.store.run(on_batch=lambda report, left: seen.append(blog.feed.head != before))

    assert blog.calls() == [[1, 7], [2, 3], [4]]  # key 7 is read at the pins, so once is enough
    assert (report.steps["process_posts"].batches, seen) == (3, [True])
    commits = {entry.system_time for entry in blog.store.control.index.blocks("feed", kinds=["ExecuteTransform"])}
    assert len(commits) == 2
    new = records(blog.feed)[before.offset + 1 :]
    assert [line for op, key, line in new if key == 7] == ["?: old", "?: last"]
    assert sorted(key for op, key, _ in new if op == Op.CORRECT_TO) == [1, 2, 3, 4, 7]
    assert taken(blog.feed, "posts")[1:] == [(8, 20)]
    assert blog.is_settled()
    assert blog.store.verify("feed", replay=True).ok


@pytest.mark.scenario("X56")
def test_a_run_in_one_commit_that_fails_half_way_leaves_nothing(make_blog):
    blog = make_blog(batch_rows=2, commit="run", fail_fast=True)
    blog.write_posts((1, 100, "old"))
    blog.run()
    for number in (2, 3, 4):
        blog.write_posts((number, 100, "new"), (number + 10, 100, "new"))
    before = blog.feed.head
    blog.broken = {3}
    with pytest.raises(sm.SeamarkError, match="post 3 is broken"):
        blog.step.run_full()
    assert blog.feed.head == before
    blog.broken = set()
    blog.calls()
    assert blog.run().batches == 3
    assert blog.calls() == [[2, 12], [3, 13], [4, 14]]
    assert blog.is_settled()


@pytest.mark.scenario("X61")
def test_two_outputs_advance_in_one_commit(ds, frame, rows):
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    lines = ds.table("lines", "post_id long, content string", key="post_id")
    sizes = ds.table("sizes", "post_id long, size int", key="post_id")

    @ds.transform(inputs=[posts], outputs=[lines, sizes])
    def split(posts):
        return posts, posts.selectExpr("post_id", "length(content) AS size")

    posts.upsert(frame(posts, [(1, "one"), (2, "three")]))
    ds.run(fail_fast=True)
    posts.upsert(frame(posts, [(1, "two")]))  # as long as before: one output has nothing to say, and moves all the same
    ds.run(fail_fast=True)

    assert rows(lines) == [(1, "two"), (2, "three")]
    assert rows(sizes) == [(1, 3), (2, 5)]
    assert taken(lines, "posts") == taken(sizes, "posts") == [(None, 1), (1, 3)]
    times = [[e.system_time for e in ds.control.index.blocks(name)] for name in ("lines", "sizes")]
    assert times[0] == times[1]
    assert (lines.head.offset, sizes.head.offset) == (3, 1)
    assert ds.verify(replay=True).ok


# --- two runs at once -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X84")
def test_a_second_run_waits_then_says_who_holds_the_step(make_blog, open_store, monkeypatch):
    blog = make_blog()
    blog.write_posts((1, 100, "hello"))
    monkeypatch.setenv("SEAMARK_SCHEDULER_WAIT", "0.3")
    other = make_blog()
    with blog.store.control.leases.held("step:process_posts>feed", holder="somewhere:123"):
        with pytest.raises(AlreadyRunning, match=r"'process_posts' is already running: somewhere:123 .* 0.3 s"):
            other.step.run_full()
        report = other.store.run()
        assert isinstance(report.steps["process_posts"].error, AlreadyRunning)
    assert blog.feed.head.offset is None
    assert blog.calls() == []
    assert blog.store.control.index.runs("process_posts") == []
    assert blog.run().keys == 1
    assert blog.is_settled()


@pytest.mark.scenario("X59")
def test_a_slow_run_that_lost_its_step_to_a_quicker_one_changes_nothing(make_blog):
    slow, quick = make_blog(), make_blog()
    slow.write_posts((1, 100, "hello"), (2, 100, "hi"))

    def the_quick_one_overtakes():
        with slow.store.control.database.write() as connection:  # as if its process had been asleep for a minute
            connection.execute(text("UPDATE lease SET expires_at = 0 WHERE name = 'step:process_posts>feed'"))
        quick.write_posts((2, 100, "changed"), (3, 100, "new"))
        assert quick.run().keys == 3

    slow.meanwhile = the_quick_one_overtakes
    with pytest.raises((LeaseLost, ChainRuleBroken)):
        slow.step.run_full()

    assert quick.lines() == [(1, "?: hello"), (2, "?: changed"), (3, "?: new")]
    assert slow.store.offset_table.get_record_offsets("process_posts")["posts"] == quick.posts.head.offset == 4
    assert len(records(quick.feed)) == 3
    assert quick.is_settled()
    assert quick.store.verify("feed", replay=True).ok


@pytest.mark.scenario("X59")
def test_two_runs_at_the_same_time_do_the_work_once(make_blog):
    one, two = make_blog(), make_blog()
    one.write_posts(*[(number, 100, "text") for number in range(20)])
    inside, overtaken = threading.Event(), threading.Event()
    one.meanwhile = lambda: (inside.set(), overtaken.wait(60))
    reports: list[sm.StepReport] = []
    first = threading.Thread(target=lambda: reports.append(one.run()))
    first.start()
    assert inside.wait(60)
    two.write_posts((20, 100, "late"))
    second = threading.Thread(target=lambda: reports.append(two.run()))
    second.start()
    while second.is_alive() and one.store.control.leases.holder("step:process_posts>feed") is None:
        second.join(0.01)
    overtaken.set()
    first.join()
    second.join()

    assert [report.keys for report in reports] == [20, 1]  # the second waited for the first, and did the rest
    assert len(records(one.feed)) == 21
    assert one.is_settled()


@pytest.mark.scenario("X87")
def test_a_commit_that_read_an_input_at_an_older_position_is_refused_and_no_run_makes_one(blog, frame):
    blog.write_posts((1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    step, context = blog.step, blog.feed.source.context
    stale = backlog_of(context, step.spec, Known.of(context))
    blog.write_posts((1, 100, "changed"), (2, 100, "new"))
    blog.run()
    head = blog.feed.head

    def with_old_eyes(run: StepRun) -> None:
        run.do(stale, Work(AllKeys(run.keying.group), Mode.KEYS, covers=covers_pins(stale)))

    with pytest.raises(ChainRuleBroken, match=r"position at which input 'posts' was read.*block 3"):
        step._run(sm.RunConfig(), Mode.KEYS, with_old_eyes)
    assert blog.feed.head == head

    blog.step.run_idx(frame(blog.posts, [(1,)], only_key=True))
    blog.write_posts((3, 100, "more"), (4, 100, "more"))
    blog.step.run_full(sm.RunConfig(limit=1))
    blog.write_profiles((100, "Alicia"))
    blog.step.run_full(sm.RunConfig(filters={"post_id": 4}))
    blog.store.offset_table.reset_offset("process_posts", "posts")
    blog.run()
    assert blog.is_settled()
    for table in ("posts", "profiles"):
        read = [told["read"][table]["sequence"] for told in checkpoints(blog.feed)]
        assert read == sorted(read)


# --- the database -----------------------------------------------------------------------------------------------------


class Outage:
    """A PostgreSQL database that can be taken away and given back."""

    def __init__(self, url: str) -> None:
        self._name = make_url(url).database
        self._server = create_engine(make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")

    def set(self, away: bool) -> None:
        with self._server.connect() as connection:
            connection.execute(text(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS {'false' if away else 'true'}"))
            if away:
                told = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                connection.execute(text(told), {"name": self._name})

    def close(self) -> None:
        self.set(away=False)
        self._server.dispose()


@pytest.fixture
def outage(postgres_url):
    outage = Outage(postgres_url)
    yield outage
    outage.close()


@pytest.mark.scenario("X60")
@pytest.mark.scenario("X52")
@pytest.mark.hazard("H20")
def test_a_database_that_is_away_fails_the_run_loudly_and_nothing_is_scanned(
    postgres_url, outage, tmp_path, spark, frame, rows, count_jobs
):
    calls: list[int] = []
    meanwhile: list[Callable[[], None]] = []
    with sm.DataStore(postgres_url, tmp_path / "warehouse", spark=spark) as ds:
        posts = ds.table("posts", "post_id long, line string", key="post_id")
        feed = ds.table("feed", "post_id long, line string", key="post_id")

        @ds.transform(inputs=[posts], outputs=[feed], version="1")
        def copy(posts):
            calls.append(posts.count())
            for thing in meanwhile:
                thing()
            return posts

        posts.upsert(frame(posts, [(1, "one"), (2, "two")]))
        ds.run(fail_fast=True)
        posts.upsert(frame(posts, [(3, "three")]))
        outage.set(away=True)
        with count_jobs() as counted, pytest.raises(ControlUnavailable):
            ds.run()
        assert (counted.jobs, calls) == (0, [2])

        outage.set(away=False)
        meanwhile.append(lambda: outage.set(away=True))
        with pytest.raises(ControlUnavailable):
            ds.step("copy").run_full()
        meanwhile.clear()
        outage.set(away=False)
        assert rows(feed) == [(1, "one"), (2, "two")]
        assert ds.step("copy").failures().empty
        assert ds.offset_table.get_record_offsets("copy") == {"posts": 1}

        assert ds.run().ok
        assert calls == [2, 1, 1]  # only what changed, as if nothing had happened
        assert rows(feed) == [(1, "one"), (2, "two"), (3, "three")]


@pytest.mark.scenario("X60")
def test_a_database_file_that_is_none_fails_loudly(make_blog, tmp_path):
    blog = make_blog()
    blog.write_posts((1, 100, "hello"))
    blog.store.close()
    (tmp_path / "control.db").write_bytes(b"this is no database, " * 100)
    for rest in tmp_path.glob("control.db-*"):
        rest.unlink()
    with pytest.raises(ControlUnavailable, match="cannot be used"):
        blog.store.run()
    assert blog.calls() == []


# --- the record of runs -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("X62")
def test_a_report_says_the_seconds_that_are_on_record(blog, clock):
    blog.write_posts((1, 100, "hello"))
    blog.meanwhile = lambda: clock.advance(seconds=7)

    report = blog.run()

    (run,) = blog.store.control.index.runs("process_posts")
    assert (report.seconds, run.ended - run.started) == (7, 7)


@pytest.mark.scenario("X62")
def test_every_run_that_did_something_leaves_a_row_and_an_idle_one_none(make_blog, clock):
    blog = make_blog(batch_rows=2)
    begun = clock.now().timestamp()
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    blog.store.run()
    clock.advance(seconds=10)
    blog.write_posts((1, 100, "changed"))
    blog.write_posts((3, 100, "new"), (4, 100, "new"))
    blog.broken = {3}
    blog.run()
    blog.write_posts((5, 100, "more"))
    clock.advance(seconds=10)
    blog.broken = {5}
    with pytest.raises(sm.SeamarkError):
        blog.step.run_full(sm.RunConfig(fail_fast=True))
    blog.store.run("process_posts", fail_fast=False)

    told = list(reversed(blog.store.control.index.runs("process_posts")))
    assert [(run.step, run.mode, run.outcome) for run in told[:3]] == [
        ("process_posts", "all keys", "done"),
        ("process_posts", "changes", "done"),
        ("process_posts", "changes", "failed"),
    ]
    assert [(run.started - begun, run.ended - begun) for run in told[:3]] == [(0, 0), (10, 10), (20, 20)]
    assert [json.loads(run.pins) for run in told[:3]] == [
        {"posts": 1, "profiles": 0},
        {"posts": 5, "profiles": 0},
        {"posts": 6, "profiles": 0},
    ]
    assert [(run.rows_in, run.rows_out) for run in told[:3]] == [(3, 2), (4, 2), (0, 0)]
    assert "post 5 is broken" in told[2].error or "post 3 is broken" in told[2].error
    assert [run.error for run in told[:2]] == [None, None]
    assert len(told) == 4
