"""Writers that come while a run works, commit late, or whose clocks are wrong: nothing is lost, nothing taken twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import seamark as sm
from seamark import faults

WAIT = 60  # seconds that a thread waits for another: only a broken test waits that long


class ShiftedClock:
    """A clock that is ahead of another, or behind it."""

    def __init__(self, clock: Any, by: timedelta) -> None:
        self._clock, self._by = clock, by

    def now(self) -> Any:
        return self._clock.now() + self._by

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


def other_writer(open_store: Callable[..., sm.DataStore], **options: Any) -> dict[str, sm.Table]:
    store = open_store(**options)
    return {name: store.table(name) for name in ("posts", "profiles")}


@pytest.fixture
def slow_writer(monkeypatch) -> Iterator[Callable[[Callable[[], object]], Callable[[], None]]]:
    """Starts a write that stops right before its commit; gives back what lets it commit and waits until it has."""
    reached = faults.reached
    writers: dict[int, tuple[threading.Event, threading.Event]] = {}

    def pausing(point: str) -> None:
        mine = writers.get(threading.get_ident())
        if point == "blocks-staged" and mine is not None and not mine[0].is_set():
            mine[0].set()
            assert mine[1].wait(WAIT)
        reached(point)

    monkeypatch.setattr(faults, "reached", pausing)
    threads: list[tuple[threading.Thread, threading.Event]] = []

    def start(write: Callable[[], object]) -> Callable[[], None]:
        is_staged, may_commit = threading.Event(), threading.Event()

        def work() -> None:
            writers[threading.get_ident()] = (is_staged, may_commit)
            write()

        thread = threading.Thread(target=work)
        threads.append((thread, may_commit))
        thread.start()
        assert is_staged.wait(WAIT)

        def finish() -> None:
            may_commit.set()
            thread.join(WAIT)
            assert not thread.is_alive()

        return finish

    yield start
    for thread, may_commit in threads:
        may_commit.set()
        thread.join(WAIT)


# --- while a run computes ---------------------------------------------------------------------------------------------


@pytest.mark.scenario("X17")
@pytest.mark.hazard("H3")
def test_a_row_that_changes_while_the_run_computes_is_taken_by_the_next_run(blog, clock):
    blog.write_posts((1, 100, "as pinned"), (2, 100, "hi"))
    blog.write_profiles((100, "Alice"))

    def others_write() -> None:
        clock.advance(seconds=1)
        blog.write_posts((3, 100, "arrives in between"))
        clock.advance(seconds=1)
        blog.write_posts((1, 100, "changed again"))  # later than post 3: an offset taken from it would pass post 3

    blog.meanwhile = others_write
    first = blog.run()
    assert (first.keys, blog.calls()) == (2, [[1, 2]])
    assert blog.lines() == [(1, "Alice: as pinned"), (2, "Alice: hi")]
    assert blog.store.offset_table.get_record_offsets("process_posts")["posts"] == 1

    second = blog.run()
    assert (second.keys, blog.calls()) == (2, [[1, 3]])
    assert blog.lines() == [(1, "Alice: changed again"), (2, "Alice: hi"), (3, "Alice: arrives in between")]
    assert blog.is_settled()


@pytest.mark.scenario("X17")
def test_a_row_that_goes_while_the_run_computes_is_retracted_by_the_next_run(blog):
    blog.write_posts((1, 100, "hello"))
    blog.run()
    blog.write_posts((1, 100, "changed"), (2, 100, "hi"))
    blog.meanwhile = lambda: blog.delete_posts(2)
    blog.run()
    assert blog.lines() == [(1, "?: changed"), (2, "?: hi")]
    assert blog.run().retracted == 1
    assert blog.lines() == [(1, "?: changed")]
    assert blog.is_settled()


@pytest.mark.scenario("X43", "X44")
@pytest.mark.hazard("H4")
def test_profiles_that_change_while_the_run_works_on_other_posts_are_taken_by_the_next_run(blog):
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"), (3, 300, "hey"))
    blog.write_profiles((100, "Alice"), (200, "Bob"), (300, "Carol"))
    blog.run()
    blog.calls()

    blog.write_posts((4, 300, "again"), (5, 100, "me too"))
    blog.meanwhile = lambda: blog.write_profiles((100, "Alicia"), (200, "Bobby"))
    blog.run()
    assert blog.calls() == [[4, 5]]
    assert blog.lines() == [  # at the pins: post 5 does not know of Alicia yet
        (1, "Alice: hello"),
        (2, "Bob: hi"),
        (3, "Carol: hey"),
        (4, "Carol: again"),
        (5, "Alice: me too"),
    ]
    assert blog.store.offset_table.get_record_offsets("process_posts")["profiles"] == 2

    assert blog.run().keys == 3
    assert blog.calls() == [[1, 2, 5]]
    assert blog.lines() == blog.oracle()
    assert blog.is_settled()


@pytest.mark.scenario("X44")
def test_every_batch_of_a_run_reads_at_the_pins_of_the_run(make_blog):
    blog = make_blog(batch_rows=1)
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "hello"))
    blog.run()
    blog.write_posts((2, 100, "hi"))
    blog.write_posts((3, 100, "hey"))
    blog.calls()

    blog.meanwhile = lambda: (blog.write_profiles((100, "Alicia")), blog.write_posts((3, 100, "changed")))
    assert blog.run().batches == 2
    assert blog.calls() == [[2], [3]]
    assert blog.lines() == [(1, "Alice: hello"), (2, "Alice: hi"), (3, "Alice: hey")]

    blog.run()
    assert blog.lines() == [(1, "Alicia: hello"), (2, "Alicia: hi"), (3, "Alicia: changed")]
    assert blog.is_settled()


# --- late commits -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X21")
@pytest.mark.hazard("H1")
def test_a_writer_that_starts_before_a_run_and_commits_after_it_is_taken_by_the_next_run(
    blog, open_store, slow_writer, frame, clock
):
    blog.write_posts((1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    blog.calls()
    late = other_writer(open_store)

    commit_profile = slow_writer(lambda: late["profiles"].upsert(frame(late["profiles"], [(100, "Alicia")])))
    commit_post = slow_writer(lambda: late["posts"].upsert(frame(late["posts"], [(2, 100, "written long ago")])))
    clock.advance(seconds=30)
    blog.delete_posts(1)
    blog.write_posts((3, 100, "hi"))
    blog.run()  # settles on what is committed, all of it younger than what the writers have staged
    assert blog.lines() == [(3, "Alice: hi")]
    assert not blog.store.run().did_something
    commit_post()
    commit_profile()

    assert blog.run().keys == 2
    assert blog.lines() == [(2, "Alicia: written long ago"), (3, "Alicia: hi")]
    assert blog.is_settled()


@pytest.mark.scenario("X21")
@pytest.mark.hazard("H1")
def test_a_writer_that_commits_while_the_run_commits_is_taken_by_the_next_run(blog, open_store, slow_writer, frame):
    blog.write_posts((1, 100, "hello"))
    blog.run()
    late = other_writer(open_store)["posts"]
    commit = slow_writer(lambda: late.upsert(frame(late, [(2, 100, "hi")])))
    blog.write_profiles((100, "Alice"))
    blog.meanwhile = commit
    blog.run()
    assert blog.lines() == [(1, "Alice: hello")]
    blog.run()
    assert blog.lines() == [(1, "Alice: hello"), (2, "Alice: hi")]
    assert blog.is_settled()


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X20")
@pytest.mark.hazard("H2")
def test_rows_of_writers_with_wrong_clocks_are_taken_once_each(blog, open_store, frame, clock):
    blog.write_posts((1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    blog.calls()
    behind = other_writer(open_store, clock=ShiftedClock(clock, timedelta(hours=-1)))
    ahead = other_writer(open_store, clock=ShiftedClock(clock, timedelta(hours=1)))
    expected = {1: "hello"}

    for number, (writer, text) in enumerate([(behind, "slow"), (ahead, "fast"), (behind, "slow again")], start=2):
        clock.advance(seconds=1)
        writer["posts"].upsert(frame(writer["posts"], [(number, 100, text), (1, 100, text)]))
        expected |= {number: text, 1: text}
        assert blog.run().keys == 2
        assert blog.calls() == [[1, number]]
        assert blog.lines() == [(key, f"Alice: {content}") for key, content in sorted(expected.items())]
        assert not blog.store.run().did_something  # not taken again until the clock has passed the writer's

    behind["profiles"].upsert(frame(behind["profiles"], [(100, "Alicia")]))
    ahead["posts"].delete(frame(ahead["posts"], [(2,)], only_key=True))
    behind["posts"].upsert(frame(behind["posts"], [(9, 100, "after one from the future")]))
    blog.run()
    assert blog.lines() == blog.oracle()
    assert [key for key, _ in blog.lines()] == [1, 3, 4, 9]
    assert blog.is_settled()
    clock.advance(hours=3)
    assert not blog.store.run().did_something


@pytest.mark.scenario("X20")
@pytest.mark.hazard("H2")
def test_rows_with_event_times_of_ten_years_ago_are_taken_by_the_next_run(open_store, frame, rows, clock):
    store = open_store()
    clicks = store.table("clicks", "n long, at timestamp", key="n", event_time="at")
    years = store.table("years", "n long, year int", key="n")

    @store.transform(inputs=[clicks], outputs=[years])
    def year_of(clicks):
        return clicks.selectExpr("n", "year(at) AS year")

    now = clock.now().replace(microsecond=0)
    long_ago, some_day = now.replace(year=now.year - 10, day=1), now.replace(year=now.year + 1, day=1)
    clicks.upsert(frame(clicks, [(1, some_day)]))
    assert store.run().steps["year_of"].keys == 1
    clicks.upsert(frame(clicks, [(2, long_ago)]))
    assert store.run().steps["year_of"].keys == 1
    clicks.upsert(frame(clicks, [(3, now), (1, long_ago)]))
    assert store.run().steps["year_of"].keys == 2
    assert rows(years) == [(1, now.year - 10), (2, now.year - 10), (3, now.year)]
    assert not store.run().did_something


@pytest.mark.hazard("H2")
def test_a_run_whose_own_clock_is_wrong_takes_what_there_is(make_blog, open_store, clock):
    blog = make_blog()
    blog.write_posts((1, 100, "hello"))
    clock.advance(hours=-2)
    blog.run()
    blog.write_posts((2, 100, "hi"))
    clock.advance(hours=5)
    blog.run()
    clock.advance(hours=-4)
    blog.write_posts((1, 100, "changed"))
    assert blog.run().keys == 1
    assert blog.lines() == [(1, "?: changed"), (2, "?: hi")]
    assert blog.is_settled()
