"""What runs do besides rows: they fold long tails, carry watermarks on, and leave alone what has nothing new."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException

import seamark as sm
from seamark.control import leases
from seamark.errors import TableError
from seamark.ledger import ExecuteTransform
from seamark.tables.care import fold


def day(number: int) -> datetime:
    return datetime(2020, 1, number, tzinfo=UTC)


def last_event(table: sm.Table):
    return table.source.context.files(table.name).block(table.head.block_hash).event


def watermark(table: sm.Table) -> datetime | None:
    return last_event(table).new_watermark


# --- tails ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T27")
def test_a_run_folds_a_tail_of_many_slices_by_itself_and_no_shorter_one(make_blog, monkeypatch):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SLICES", "3")
    blog = make_blog()
    for number in range(3):
        blog.write_posts((number, 100, "x"))
    assert blog.store.run().folded == ()
    assert blog.store.control.index.all_bases() == {}

    blog.write_posts((3, 100, "x"))
    assert blog.store.run().folded == ("posts",)  # feed has two slices
    assert blog.store.run().folded == ()
    assert blog.lines() == blog.oracle()
    assert len(blog.lines()) == 4
    assert blog.is_settled()


@pytest.mark.scenario("T27")
def test_a_run_folds_a_tail_that_is_a_large_share_of_the_base(make_blog, monkeypatch):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SHARE", "0.5")
    blog = make_blog()
    blog.write_posts(*[(number, 100, "x") for number in range(4)])
    assert blog.store.run().folded == ()  # without a base there is no share of it
    blog.store.fold()

    blog.write_posts((4, 100, "x"), (5, 100, "x"))
    assert blog.store.run().folded == ()
    blog.write_posts((6, 100, "x"))
    assert blog.store.run().folded == ("feed", "posts")
    assert blog.lines() == blog.oracle()
    assert blog.is_settled()


@pytest.mark.scenario("T57")
def test_a_run_leaves_a_table_to_the_process_that_folds_it(make_blog, monkeypatch):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SLICES", "1")
    blog = make_blog()
    blog.write_posts((1, 100, "x"))
    blog.write_posts((2, 100, "x"))
    another = blog.store.control.leases.acquire("fold:posts", "another process")

    class Waiting:
        def wait(self, _seconds: float) -> None:
            raise AssertionError("the run waits")

    with monkeypatch.context() as patched:
        patched.setattr(leases, "_pause", Waiting())
        report = blog.store.run()

    assert (report.ok, report.folded) == (True, ())
    assert report.not_folded == {"posts": "another process folds it now, or removes its old versions"}
    assert blog.lines() == blog.oracle()

    blog.store.control.leases.release(another)
    report = blog.store.run()  # nothing has moved since; what was left is looked at again
    assert (report.folded, report.not_folded) == (("posts",), {})


@pytest.mark.scenario("T57")
@pytest.mark.parametrize("trouble", [PySparkException("no room"), OSError("no room"), TableError("no room")])
def test_trouble_with_a_fold_stands_in_the_report_of_a_run(make_blog, monkeypatch, trouble, caplog):
    monkeypatch.setenv("SEAMARK_ROWS_FOLD_SLICES", "1")
    blog = make_blog()
    blog.write_posts((1, 100, "x"))
    blog.write_posts((2, 100, "x"))

    def failing(*_args: object) -> None:
        raise trouble

    with monkeypatch.context() as patched:
        patched.setattr(fold, "_rewrite", failing)
        report = blog.store.run()

    assert (report.ok, report.folded, list(report.not_folded)) == (True, (), ["posts"])
    assert "no room" in report.not_folded["posts"]
    assert "table 'posts' was not folded" in caplog.text
    assert blog.lines() == blog.oracle()
    assert blog.store.run().folded == ("posts",)


# --- watermarks -------------------------------------------------------------------------------------------------------


class Joined:
    """Clicks and views, both with event times, and the step that joins them."""

    def __init__(self, store: sm.DataStore, frame, **options) -> None:
        self.store, self._frame = store, frame
        self.clicks = store.table("clicks", "n long, at timestamp", key="n", event_time="at")
        self.views = store.table("views", "n long, at timestamp", key="n", event_time="at")
        self.both = store.table("both", "n long", key="n")
        self.meanwhile = None

        def join(clicks, views):
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            return clicks.select("n").union(views.select("n")).distinct()

        store.add(sm.BatchTransform(join, inputs=[self.clicks, self.views], outputs=[self.both], **options))

    def write(self, table: sm.Table, *rows) -> None:
        table.upsert(self._frame(table, rows))

    def run(self) -> bool:
        report = self.store.run()
        assert report.ok, report
        return report.did_something


@pytest.fixture
def joined(open_store, frame) -> Joined:
    return Joined(open_store(), frame)


@pytest.mark.scenario("T50")
def test_a_derived_watermark_is_the_least_of_the_inputs(joined, rows):
    joined.write(joined.clicks, (1, day(5)))
    joined.run()
    assert watermark(joined.both) is None  # views has none yet

    joined.write(joined.views, (1, day(3)))
    joined.run()
    assert watermark(joined.both) == day(3)

    joined.write(joined.clicks, (2, day(9)), (3, day(1)))
    joined.run()
    assert watermark(joined.both) == day(3)

    joined.views.set_watermark(day(7))  # without a record: a block without data follows from it
    end = joined.both.head
    assert joined.run()
    assert (watermark(joined.both), joined.both.head.offset) == (day(7), end.offset)
    assert joined.both.head.sequence == end.sequence + 1
    assert last_event(joined.both).new_data is None
    assert not joined.run()

    joined.views.set_watermark(day(30))
    joined.run()
    assert watermark(joined.both) == day(9)
    joined.views.set_watermark(day(31))  # the least stays the clicks': nothing to say
    end = joined.both.head
    joined.run()
    assert (watermark(joined.both), joined.both.head.offset) == (day(9), end.offset)
    assert not joined.run()
    assert rows(joined.both) == [(1,), (2,), (3,)]
    assert joined.store.verify(replay=True).ok


@pytest.mark.scenario("T50")
def test_a_watermark_is_never_ahead_of_the_rows_that_were_read(open_store, frame):
    joined = Joined(open_store(), frame, batch_rows=1)
    joined.write(joined.clicks, (1, day(2)))
    joined.write(joined.views, (1, day(2)))
    joined.run()
    joined.write(joined.clicks, (2, day(3)))
    joined.write(joined.views, (2, day(3)))

    def others_write() -> None:
        joined.write(joined.clicks, (3, day(20)))
        joined.write(joined.views, (3, day(20)))

    joined.meanwhile = others_write
    seen = []
    joined.store.step("join").run_full(on_batch=lambda *_: seen.append(watermark(joined.both)))
    assert seen == [day(2), day(3)]  # with the first batch only the clicks are incorporated
    joined.run()
    assert watermark(joined.both) == day(20)


# --- nothing new ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L31")
def test_with_nothing_new_three_runs_add_no_block(blog):
    blog.write_posts((1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    heads, runs = blog.store.heads(), len(blog.store.control.index.runs())
    blocks = sorted(path.name for path in blog.store.warehouse.rglob("blocks/*"))
    for _ in range(3):
        assert not blog.store.run().did_something
    assert blog.store.heads() == heads
    assert sorted(path.name for path in blog.store.warehouse.rglob("blocks/*")) == blocks
    assert len(blog.store.control.index.runs()) == runs


@pytest.mark.scenario("L34")
def test_an_empty_input_makes_no_data_block_until_its_first_record_comes(blog, frame):
    store = blog.store
    for _ in range(2):
        assert not store.run().did_something
    assert (blog.feed.head.sequence, blog.feed.head.offset) == (-1, None)

    blog.write_posts((1, 100, "gone before anybody looked"))
    blog.delete_posts(1)
    blog.run()  # rows there are none, but records
    assert blog.lines() == []
    event = last_event(blog.feed)
    assert (event.new_data, event.prev_offset) == (None, None)
    assert not store.run().did_something


@pytest.mark.scenario("L34")
def test_the_first_record_of_an_input_is_taken_from_the_beginning(open_store, frame, rows):
    store = open_store()
    empty = store.table("others", "n long", key="n")
    copied = store.table("copied", "n long", key="n")

    @store.transform(inputs=[empty], outputs=[copied])
    def copy(others):
        return others

    assert not store.run().did_something
    assert copied.head.sequence == -1

    empty.upsert(frame(empty, [(7,)]))
    assert store.run().steps["copy"].appended == 1
    event = last_event(copied)
    assert isinstance(event, ExecuteTransform)
    (taken,) = event.query_inputs
    assert (taken.prev_block_hash, taken.new_block_hash) == (None, empty.head.block_hash)
    assert (taken.prev_offset, taken.new_offset) == (None, 0)
    assert (event.prev_offset, event.new_data.offset_interval.start, event.new_data.offset_interval.end) == (None, 0, 0)
    assert rows(copied) == [(7,)]
    assert store.verify(replay=True).ok
    assert not store.run().did_something


@pytest.mark.scenario("L34")
def test_a_reference_that_was_empty_is_taken_from_the_beginning_when_its_first_record_comes(blog):
    blog.write_posts((1, 100, "hello"))
    blog.run()
    assert blog.profiles.head.offset is None
    (_, before) = last_event(blog.feed).query_inputs
    assert before.new_offset is None

    blog.write_profiles((100, "Alice"))
    assert blog.run().keys == 1
    (_, taken) = last_event(blog.feed).query_inputs
    assert (taken.prev_offset, taken.new_offset, taken.new_block_hash) == (None, 0, blog.profiles.head.block_hash)
    assert blog.lines() == [(1, "Alice: hello")]
    assert blog.store.verify(replay=True).ok
    assert blog.is_settled()
