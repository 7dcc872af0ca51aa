"""Watermarks, event time and source states: data events without data."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from seamark.control import Mode
from seamark.errors import ChainRuleBroken
from seamark.ledger import AddData, OffsetInterval, SourceState
from seamark.ledger.chain import ChainDraft
from seamark.tables.write.change import LocalChange, NoRecords, appended_rows
from seamark.tables.write.publish import plan_table
from seamark.tables.write.write_change import Advance, write_change


def day(number, year=2020):
    return datetime(year, 1, number, tzinfo=UTC)


@pytest.fixture
def clicks(dry):
    return dry.table("clicks", "url string, at timestamp", event_time="at")


def events(table):
    context = table.source.context
    blocks = reversed(context.control.index.blocks(table.name))
    return [context.files(table.name).block(block.hash).event for block in blocks]


def watermark(table):
    return events(table)[-1].new_watermark


@pytest.mark.scenario("T50", "L19")
def test_a_watermark_moves_forward_only(clicks):
    counts = []
    for number in (2, 3, 3, 2):
        commit = clicks.set_watermark(day(number))
        counts.append((len(events(clicks)), commit is not None))

    assert counts == [(3, True), (4, True), (4, False), (4, False)]  # Seed, SetDataSchema, then one block a move
    assert watermark(clicks) == day(3)
    assert events(clicks)[-1].new_data is None
    assert clicks.head.offset is None


@pytest.mark.scenario("T50", "L20")
def test_late_rows_do_not_lower_it(clicks, arrow):
    clicks.append(arrow(clicks, ("/a", day(1)), ("/b", day(2)), ("/c", None)))
    assert watermark(clicks) == day(2)

    clicks.append(arrow(clicks, ("/late", day(31, 2019))))
    last = events(clicks)[-1]
    assert (last.new_watermark, last.prev_offset, last.new_data.num_records) == (day(2), 2, 1)

    planned, next_one = plan_table(clicks.source.context, "clicks"), OffsetInterval(4, 4)
    for stale in (None, day(31, 2019)):
        draft = ChainDraft(planned.state, planned.state.system_time)
        with pytest.raises(ChainRuleBroken, match=r"(?i)watermark"):
            draft.add(
                AddData(prev_offset=3, new_data=replace(last.new_data, offset_interval=next_one), new_watermark=stale)
            )


@pytest.mark.scenario("T50")
def test_a_row_without_an_event_time_does_not_move_it(clicks, arrow, slices):
    clicks.append(arrow(clicks, ("/a", None)))
    assert watermark(clicks) is None
    clicks.append(arrow(clicks, ("/b", day(1)), ("/c", None)))
    assert watermark(clicks) == day(1)
    assert slices(clicks)[1].column("event_time").to_pylist() == [day(1), clicks.head.system_time]


@pytest.mark.scenario("T50")
def test_event_time_is_cut_to_milliseconds_and_may_be_a_date(dry, clicks, arrow, slices):
    old = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    clicks.append(arrow(clicks, ("/a", old)))
    assert slices(clicks)[0].column("event_time").to_pylist() == [old.replace(microsecond=999_000)]
    assert slices(clicks)[0].column("at").to_pylist() == [old]

    days = dry.table("days", "d date", event_time="d")
    days.append(arrow(days, (date(2020, 1, 2),)))
    assert watermark(days) == day(2)


def poll(table, rows=None, **advance):
    """What a feed does at every poll."""
    return write_change(
        table.source,
        Mode.FEED,
        lambda _: NoRecords() if rows is None else LocalChange(appended_rows(rows)),
        Advance(**advance),
    )


def etag(value):
    return SourceState("files", "odf/etag", value)


@pytest.mark.scenario("L16", "L17", "L18")
def test_a_feed_writes_a_block_only_when_something_moved(clicks, arrow):
    poll(clicks, arrow(clicks, ("/a", day(1))), source_state=etag("a"))
    assert events(clicks)[-1].new_source_state == etag("a")

    poll(clicks, source_state=etag("b"))
    moved = events(clicks)[-1]
    assert len(events(clicks)) == 4
    assert (moved.new_data, moved.prev_offset, moved.new_watermark, moved.new_source_state) == (
        None,
        0,
        day(1),
        etag("b"),
    )

    for _ in range(2):
        assert poll(clicks, watermark=day(1), source_state=etag("b")) is None
    assert len(events(clicks)) == 4
    planned = plan_table(clicks.source.context, "clicks")
    with pytest.raises(ChainRuleBroken):
        ChainDraft(planned.state, planned.state.system_time).add(moved)

    clicks.set_watermark(day(5))
    assert (watermark(clicks), events(clicks)[-1].new_source_state) == (day(5), etag("b"))
    dropped = AddData(prev_offset=0, new_watermark=day(6))
    planned = plan_table(clicks.source.context, "clicks")
    with pytest.raises(ChainRuleBroken, match=r"(?i)source"):
        ChainDraft(planned.state, planned.state.system_time).add(dropped)
    clicks.append(arrow(clicks, ("/b", day(2))))
    assert events(clicks)[-1].new_source_state == etag("b")


@pytest.mark.scenario("L17")
def test_a_feed_may_begin_without_rows(clicks):
    assert poll(clicks, source_state=etag("a")).sequence == 2
    assert poll(clicks, source_state=etag("a")) is None
    assert clicks.head.offset is None
