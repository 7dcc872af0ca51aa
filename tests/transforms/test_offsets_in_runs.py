"""The offset table beside real runs: what a run leaves there, and what moving it by hand does to the next one."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, event, text

import seamark as sm
from seamark.metrics import metrics_text


def statistics(blog, table: str = "posts") -> dict:
    (line,) = [s for s in blog.store.offset_table.get_statistics("process_posts") if s["input_table_name"] == table]
    return line


def metric(blog, name: str, table: str = "posts") -> float:
    lines = metrics_text(blog.store).splitlines()
    labels = f'{{input_table_name="{table}",transformation_id="process_posts"}}'
    (value,) = [line.split()[-1] for line in lines if line.startswith(f"{name}{labels}")]
    return float(value)


def write_two_and_run(blog) -> None:
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    blog.write_profiles((100, "Alice"), (200, "Bob"))
    blog.run()
    blog.calls()


@pytest.fixture
def statements():
    """The statements that are sent to a database from now on."""
    sent: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


# --- what a run leaves ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X2")
def test_after_the_first_run_the_offsets_are_the_inputs_heads(blog, clock, statements):
    offsets = blog.store.offset_table
    blog.write_posts((1, 100, "hello"), (2, 200, "hi"))
    clock.advance(seconds=5)
    blog.write_profiles((100, "Alice"))
    clock.advance(seconds=5)
    blog.run()

    assert offsets.get_record_offsets("process_posts") == {"posts": 1, "profiles": 0}
    assert (blog.posts.head.offset, blog.profiles.head.offset) == (1, 0)
    times = offsets.get_offsets_for_transformation("process_posts")
    assert times == {
        "posts": blog.posts.head.system_time.timestamp(),
        "profiles": blog.profiles.head.system_time.timestamp(),
    }
    assert {type(time) for time in times.values()} == {float}

    statements.clear()
    assert not blog.store.run().did_something
    assert len([sent for sent in statements if "transform_input_offset" in sent]) == 1  # all inputs in one statement


@pytest.mark.scenario("X7", "X8")
@pytest.mark.hazard("H19")
def test_lag_is_that_of_the_oldest_waiting_record_and_nothing_when_none_waits(blog, clock):
    write_two_and_run(blog)
    clock.advance(days=1)
    settled = statistics(blog)
    assert list(settled) == [
        "transformation_id",
        "input_table_name",
        "update_ts_offset",
        "offset_age_seconds",
        "record_offset",
        "pending_records",
        "lag_seconds",
    ]
    assert (settled["pending_records"], settled["lag_seconds"]) == (0, 0.0)
    assert settled["offset_age_seconds"] == pytest.approx(86_400, abs=0.01)
    assert (metric(blog, "seamark_lag_seconds"), metric(blog, "seamark_pending_records")) == (0.0, 0.0)

    blog.write_posts((3, 100, "waits 90 s"))
    clock.advance(seconds=80)
    blog.write_posts((1, 100, "waits 10 s"))
    clock.advance(seconds=10)
    waiting = statistics(blog)
    assert waiting["pending_records"] == blog.posts.changes(after=waiting["record_offset"]).count() == 3
    assert waiting["lag_seconds"] == pytest.approx(90, abs=0.01)
    assert metric(blog, "seamark_lag_seconds") == waiting["lag_seconds"]
    assert metric(blog, "seamark_pending_records") == 3
    assert metric(blog, "seamark_offset_age_seconds") == waiting["offset_age_seconds"]
    assert metric(blog, "seamark_offset_value") == waiting["update_ts_offset"]
    assert statistics(blog, "profiles")["lag_seconds"] == metric(blog, "seamark_lag_seconds", "profiles") == 0.0

    blog.run()
    assert (statistics(blog)["pending_records"], metric(blog, "seamark_lag_seconds")) == (0, 0.0)


# --- taking offsets back ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("X5", "X6")
def test_a_reset_computes_every_key_again_and_equal_results_write_no_records(blog, rows):
    store = blog.store
    lengths = store.table("lengths", "post_id long, length long", key="post_id")

    @store.transform(inputs=[blog.posts], outputs=[lengths])
    def measure(posts):
        return posts.selectExpr("post_id", "length(content) AS length")

    write_two_and_run(blog)
    end, others = blog.feed.head.offset, store.offset_table.get_record_offsets("measure")

    for given in [("posts",), ("profiles",), ()]:
        store.offset_table.reset_offset("process_posts", *given)
        left = store.offset_table.get_record_offsets("process_posts")
        assert set(left) == {"posts", "profiles"} - set(given or ("posts", "profiles"))
        assert store.offset_table.get_record_offsets("measure") == others

        report = store.run()
        assert (report.steps["process_posts"].keys, report.steps["process_posts"].rows_out) == (2, 0)
        assert not report.steps["measure"].did_something
        assert blog.calls() == [[1, 2]]
        assert blog.feed.head.offset == end
        assert store.offset_table.get_record_offsets("process_posts") == {"posts": 1, "profiles": 1}
        assert blog.is_settled()
    assert store.verify().ok


@pytest.mark.scenario("X5")
def test_a_reset_and_a_row_that_is_no_longer_wanted(blog):
    """The rows that stand are part of what is gone through: a reset also finds a post that was deleted since."""
    write_two_and_run(blog)
    blog.delete_posts(2)
    blog.store.offset_table.reset_offset("process_posts", "posts")
    assert blog.run().retracted == 1
    assert blog.lines() == [(1, "Alice: hello")]
    assert blog.is_settled()


@pytest.mark.scenario("X73")
@pytest.mark.parametrize("table", ["posts", "profiles", None])
def test_a_reset_while_a_batch_is_in_flight_is_not_swallowed(blog, table):
    write_two_and_run(blog)
    blog.write_posts((3, 100, "again"))
    blog.meanwhile = lambda: blog.store.offset_table.reset_offset("process_posts", table)
    blog.run()
    if not blog.step.plan().is_settled:
        blog.run()

    calls = blog.calls()
    assert calls[0] == [3]
    assert [1, 2, 3] in calls[1:]
    assert blog.is_settled()


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X19")
def test_a_change_at_exactly_the_stored_time_is_taken(blog, clock):
    write_two_and_run(blog)
    clock.advance(seconds=10)
    clock._now = clock._now.replace(microsecond=0)
    now = clock.now().timestamp()
    blog.store.offset_table.update_offsets_bulk({("process_posts", "posts"): now, ("process_posts", "profiles"): now})

    blog.write_posts((3, 100, "again"))
    blog.write_profiles((200, "Bobby"))
    assert blog.posts.head.system_time.timestamp() == blog.profiles.head.system_time.timestamp() == now
    assert statistics(blog)["update_ts_offset"] == now

    assert blog.run().keys == 2
    assert blog.lines() == [(1, "Alice: hello"), (2, "Bobby: hi"), (3, "Alice: again")]
    assert blog.is_settled()


@pytest.mark.scenario("X19")
@pytest.mark.hazard("H15")
def test_a_change_in_the_millisecond_in_which_its_key_was_processed_is_taken(blog):
    write_two_and_run(blog)  # the clock stands still: all of this is one moment
    blog.write_posts((1, 100, "changed"))
    assert blog.run().keys == 1
    blog.write_posts((1, 100, "changed back"))
    assert blog.run().keys == 1
    assert blog.lines() == [(1, "Alice: changed back"), (2, "Bob: hi")]
    assert blog.is_settled()


@pytest.mark.scenario("X74")
def test_writing_back_the_time_of_a_step_hides_no_commit_of_the_same_millisecond(blog):
    write_two_and_run(blog)
    offsets = blog.store.offset_table
    read = offsets.get_offsets_for_transformation("process_posts")
    blog.write_posts((3, 100, "in the same millisecond"))  # the clock stands still

    offsets.update_offsets_bulk({("process_posts", table): time for table, time in read.items()})
    assert offsets.get_offsets_for_transformation("process_posts") == read
    assert blog.run().keys == 1
    assert blog.lines()[-1] == (3, "Alice: in the same millisecond")

    offsets.reset_offset("process_posts")  # the same floats, on rows that were emptied
    offsets.update_offsets_bulk({("process_posts", table): time for table, time in read.items()})
    blog.write_profiles((200, "Bobby"))
    blog.run()
    assert blog.lines()[1] == (2, "Bobby: hi")
    assert blog.is_settled()


# --- trouble is shown -------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X60")
@pytest.mark.hazard("H20")
def test_offsets_that_cannot_be_read_stop_the_run_and_nothing_is_scanned_instead(blog):
    write_two_and_run(blog)
    blog.write_posts((3, 100, "again"))
    database, heads = blog.store.control.database, blog.store.heads()
    with database.write() as connection:
        connection.execute(text("ALTER TABLE transform_input_offset RENAME TO hidden"))
    with pytest.raises(Exception, match="transform_input_offset"):
        blog.store.run()
    assert (blog.calls(), blog.store.heads()) == ([], heads)

    with database.write() as connection:
        connection.execute(text("ALTER TABLE hidden RENAME TO transform_input_offset"))
    assert blog.run().keys == 1
    assert blog.is_settled()


@pytest.mark.scenario("X52")
@pytest.mark.hazard("H20")
def test_an_offset_that_cannot_be_written_stops_the_run_and_no_row_is_written_without_it(blog):
    write_two_and_run(blog)
    blog.write_posts((3, 100, "again"))
    database, heads = blog.store.control.database, blog.store.heads()
    offsets = blog.store.offset_table.get_record_offsets("process_posts")
    refusal = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    with database.write() as connection:
        connection.execute(text(f"CREATE TRIGGER full BEFORE UPDATE ON transform_input_offset {refusal}"))

    report = blog.store.run().steps["process_posts"]
    assert "the disk is full" in str(report.error)
    assert (report.ok, blog.store.heads()) == (False, heads)
    assert blog.store.offset_table.get_record_offsets("process_posts") == offsets
    assert blog.step.failures().empty
    assert blog.store.control.index.runs("process_posts")[0].outcome == "failed"
    with pytest.raises(Exception, match="the disk is full"):
        blog.step.run_full()

    with database.write() as connection:
        connection.execute(text("DROP TRIGGER full"))
    assert blog.run().keys == 1
    assert blog.is_settled()


# --- first offsets ----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X9")
@pytest.mark.parametrize("track_keys", [True, False])
def test_initialising_a_step_that_never_ran_sets_nothing(make_blog, track_keys):
    blog = make_blog(track_keys=track_keys)
    offsets = blog.store.offset_table
    inputs = ["posts", blog.profiles]
    assert offsets.initialize_offsets_from_transform_meta("process_posts", inputs) == {}
    blog.write_posts((1, 100, "hello"))
    assert offsets.initialize_offsets_from_transform_meta("process_posts", inputs) == {}
    assert (offsets.get_statistics(), blog.store.control.index.runs("process_posts")) == ([], [])
    with pytest.raises(sm.SeamarkError, match=r"does not read table 'likes'"):
        offsets.initialize_offsets_from_transform_meta("process_posts", ["likes"])
    assert blog.run().keys == 1
