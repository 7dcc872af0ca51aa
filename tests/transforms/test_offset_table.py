"""The offset table: times and records, raising and resetting, and what is pending. No Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import IntegrityError

from seamark import DataStore
from seamark.clock import to_millis
from seamark.control import CommitRequest, CoveredKey, FailedKey, Position, RunRecord
from seamark.control.offsets import first_millisecond_from
from seamark.errors import OffsetError, PositionConflict, UnknownStep, UnknownTable
from seamark.steps.standing.offsets import OffsetTable


@dataclass
class Blog:
    """Two inputs, and steps whose runs are made up: what a run computes does not matter here."""

    store: DataStore
    clock: Any
    initialised: list[tuple[str, list[str]]] = field(default_factory=list)
    _runs: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.offsets = OffsetTable(self.store.control, self.clock, self._initialise)
        self.tables = {name: self.store.table(name, "number long") for name in ("posts", "profiles")}

    def _initialise(self, step: str, tables: Sequence[str]) -> dict[str, float]:
        self.initialised.append((step, list(tables)))
        return dict.fromkeys(tables, 1.5)

    def write(self, table: str, *numbers: int) -> float:
        """Append records in one commit; its time."""
        self.tables[table].append(pa.table({"number": pa.array(numbers, pa.int64())}))
        return self.store.control.index.head(table).system_time.timestamp()

    def run(self, step: str, *tables: str, generation: int = 0) -> None:
        """Commit what a run of a step commits that has read these inputs to their heads."""
        heads = [self.store.control.index.head(table) for table in tables]
        self.commit(
            step,
            positions=tuple(
                Position(
                    step,
                    head.table,
                    head.system_time.timestamp(),
                    head.last_offset,
                    head.sequence,
                    head.head_hash,
                    generation,
                )
                for head in heads
            ),
        )

    def commit(self, step: str, **rest: Any) -> None:
        record = RunRecord(f"run-{next(self._runs)}", step, "changes", started=1.0, ended=2.0)
        self.store.control.commit(CommitRequest(run=record, appends=(), **rest))

    def position(self, step: str, table: str) -> Position:
        (found,) = [p for p in self.store.control.index.positions(step) if p.input_table == table]
        return found

    def statistics(self, step: str, table: str) -> dict[str, Any]:
        (found,) = [line for line in self.offsets.get_statistics(step) if line["input_table_name"] == table]
        return found


@pytest.fixture
def blog(control_url, tmp_path, clock) -> Iterator[Blog]:
    with DataStore(control_url, tmp_path / "warehouse", clock=clock) as store:
        yield Blog(store, clock)


@pytest.fixture
def queries() -> Iterator[list[str]]:
    """The SELECTs that are sent from now on."""
    sent: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        if statement.startswith("SELECT"):
            sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


# --- looking ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X1")
def test_an_unknown_step_has_no_offsets_and_no_statistics(blog):
    blog.write("posts", 1)
    blog.run("process_posts", "posts")
    assert blog.offsets.get_offsets_for_transformation("unknown") == {}
    assert blog.offsets.get_record_offsets("unknown") == {}
    assert blog.offsets.get_statistics("unknown") == []
    assert {line["transformation_id"] for line in blog.offsets.get_statistics()} == {"process_posts"}


def test_all_inputs_are_read_by_one_statement_and_so_are_all_statistics(blog, queries):
    posts_at, profiles_at = blog.write("posts", 1, 2, 3), blog.write("profiles", 1)
    blog.run("process_posts", "posts", "profiles")
    blog.run("count_posts", "posts")

    queries.clear()
    assert blog.offsets.get_offsets_for_transformation("process_posts") == {"posts": posts_at, "profiles": profiles_at}
    assert len(queries) == 1
    queries.clear()
    assert blog.offsets.get_record_offsets("process_posts") == {"posts": 2, "profiles": 0}
    assert len(queries) == 1
    queries.clear()
    assert len(blog.offsets.get_statistics()) == 3
    assert len(queries) == 1


@pytest.mark.scenario("X7")
def test_statistics_say_where_a_step_stands_and_what_is_pending(blog, clock):
    read_at = blog.write("posts", 1, 2)
    blog.run("process_posts", "posts")
    clock.advance(days=1)

    now = clock.now().timestamp()
    (settled,) = blog.offsets.get_statistics()
    assert settled == {
        "transformation_id": "process_posts",
        "input_table_name": "posts",
        "update_ts_offset": read_at,
        "offset_age_seconds": now - read_at,
        "record_offset": 1,
        "pending_records": 0,
        "lag_seconds": 0.0,
    }
    assert settled["offset_age_seconds"] == pytest.approx(86_400, abs=0.01)

    blog.write("posts", 3, 4, 5)
    assert blog.statistics("process_posts", "posts")["pending_records"] == 3
    blog.offsets.reset_offset("process_posts")
    after_reset = blog.statistics("process_posts", "posts")
    assert after_reset["pending_records"] == 5
    assert after_reset["lag_seconds"] == pytest.approx(86_400, abs=0.01)
    assert after_reset["update_ts_offset"] is after_reset["offset_age_seconds"] is after_reset["record_offset"] is None


@pytest.mark.scenario("X8")
def test_the_lag_is_that_of_the_oldest_pending_record(blog, clock):
    blog.write("posts", 1)
    blog.run("process_posts", "posts")
    clock.advance(hours=1)
    blog.write("posts", 2)
    clock.advance(seconds=80)
    blog.write("posts", 3)
    clock.advance(seconds=10)
    assert blog.statistics("process_posts", "posts")["lag_seconds"] == pytest.approx(90, abs=0.01)
    assert blog.statistics("process_posts", "posts")["pending_records"] == 2


def test_a_commit_ahead_of_the_clock_does_not_make_a_negative_lag(blog, clock):
    blog.write("posts", 1)
    blog.run("process_posts", "posts")
    blog.write("posts", 2)
    clock.advance(hours=-1)
    assert blog.statistics("process_posts", "posts")["lag_seconds"] == 0.0


def test_a_block_without_records_leaves_nothing_pending(blog, clock):
    blog.write("posts", 1)
    blog.run("process_posts", "posts")
    blog.tables["posts"].set_watermark(clock.now())
    assert blog.statistics("process_posts", "posts")["pending_records"] == 0
    assert blog.statistics("process_posts", "posts")["lag_seconds"] == 0.0


# --- raising ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X3")
@pytest.mark.parametrize("was_reset", [False, True], ids=["without a row", "with a row of NULLs"])
def test_an_offset_is_never_lowered(blog, was_reset):
    blog.write("posts", 1, 2)
    if was_reset:
        blog.run("process_posts", "posts")
        blog.offsets.reset_offset("process_posts")
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): 200.0})
    assert blog.position("process_posts", "posts") == Position(
        "process_posts", "posts", 200.0, None, None, None, generation=int(was_reset)
    )
    pending = blog.statistics("process_posts", "posts")["pending_records"]

    blog.offsets.update_offsets_bulk({("process_posts", "posts"): 150.0})

    assert blog.offsets.get_offsets_for_transformation("process_posts") == {"posts": 200.0}
    assert blog.statistics("process_posts", "posts")["pending_records"] == pending == 2


def test_a_time_stands_for_the_newest_commit_before_it(blog, clock):
    first = blog.write("posts", 1, 2)
    clock.advance(seconds=10)
    second = blog.write("posts", 3)
    clock.advance(seconds=10)

    def record_at(time: float) -> dict[str, int]:
        step = f"step at {time!r}"
        blog.offsets.update_offsets_bulk({(step, "posts"): time})
        return blog.offsets.get_record_offsets(step)

    assert record_at(first) == {}
    assert record_at(first + 0.0004) == {"posts": 1}
    assert record_at(second) == {"posts": 1}
    assert record_at(second + 0.001) == {"posts": 2}
    assert record_at(1e300) == {"posts": 2}
    assert record_at(-1e300) == {}
    (entry,) = blog.store.control.index.commit_holding("posts", 2)
    place = blog.position(f"step at {second + 0.001!r}", "posts")
    assert (place.block_sequence, place.block_hash) == (entry.sequence, entry.hash)


def test_a_commit_without_records_is_passed_with_the_records_before_it(blog, clock):
    blog.write("posts", 1, 2)
    clock.advance(seconds=1)
    blog.tables["posts"].set_watermark(clock.now())
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): clock.now().timestamp() + 1})
    place = blog.position("process_posts", "posts")
    head = blog.tables["posts"].head
    assert (place.record_offset, place.block_sequence, place.block_hash) == (1, head.sequence, head.block_hash)


def test_a_run_that_went_further_keeps_its_record(blog, clock):
    blog.write("posts", 1)
    clock.advance(seconds=1)
    last = blog.write("posts", 2)
    blog.run("process_posts", "posts")
    before = blog.position("process_posts", "posts")
    clock.advance(seconds=-60)  # the table's clock is ahead of whoever sets the offset

    blog.offsets.update_offsets_bulk({("process_posts", "posts"): last - 0.5})
    assert blog.position("process_posts", "posts") == before
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): last + 60})
    after = blog.position("process_posts", "posts")
    assert after.update_ts == last + 60
    assert (after.record_offset, after.block_hash) == (before.record_offset, before.block_hash)


def test_a_later_time_does_not_take_a_record_back(blog):
    """A run's position without a time, as a chain whose input is unknown gives it back."""
    blog.write("posts", 1)
    head = blog.store.control.index.head("posts")
    blog.commit(
        "process_posts", positions=(Position("process_posts", "posts", None, 0, head.sequence, head.head_hash),)
    )
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): 5.0})
    place = blog.position("process_posts", "posts")
    assert (place.update_ts, place.record_offset, place.block_sequence) == (5.0, 0, head.sequence)


@pytest.mark.scenario("X74")
def test_writing_back_the_float_of_the_first_of_two_commits_in_a_millisecond_hides_nothing(blog):
    first = blog.write("posts", 1)
    blog.run("process_posts", "posts")
    second = blog.write("posts", 2)  # the clock stands still
    assert to_millis(blog.store.control.index.head("posts").system_time) == round(first * 1000) + 1
    offsets = blog.offsets.get_offsets_for_transformation("process_posts")
    assert offsets == {"posts": first}

    blog.offsets.update_offsets_bulk({("process_posts", table): time for table, time in offsets.items()})
    assert blog.offsets.get_record_offsets("process_posts") == {"posts": 0}
    assert blog.statistics("process_posts", "posts")["pending_records"] == 1

    blog.offsets.update_offsets_bulk({("process_posts", "posts"): second})
    assert blog.statistics("process_posts", "posts")["pending_records"] == 1

    blog.offsets.reset_offset("process_posts")
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): first})
    assert blog.statistics("process_posts", "posts")["pending_records"] == 2


@pytest.mark.scenario("X4")
def test_a_bulk_of_which_one_fails_in_the_database_writes_nothing(blog):
    blog.write("posts", 1)
    blog.write("profiles", 1)
    with blog.store.control.database.write() as connection:
        connection.execute(text("CREATE UNIQUE INDEX one_time ON transform_input_offset (update_ts_offset)"))

    with pytest.raises(IntegrityError):
        blog.offsets.update_offsets_bulk({("process_posts", "posts"): 7.0, ("process_posts", "profiles"): 7.0})
    assert blog.store.control.index.positions() == []
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): 7.0, ("process_posts", "profiles"): 8.0})
    assert blog.offsets.get_offsets_for_transformation("process_posts") == {"posts": 7.0, "profiles": 8.0}


@pytest.mark.scenario("X4")
def test_two_steps_on_one_input_do_not_touch_each_other(blog, clock):
    time = blog.write("posts", 1)
    blog.run("count_posts", "posts")
    blog.offsets.update_offsets_bulk({("process_posts", "posts"): 9.0})
    assert blog.offsets.get_offsets_for_transformation("count_posts") == {"posts": time}
    assert blog.offsets.get_offsets_for_transformation("process_posts") == {"posts": 9.0}
    assert blog.offsets.get_record_offsets("process_posts") == {}


def test_an_unknown_table_is_refused_and_nothing_is_written(blog):
    blog.write("posts", 1)
    with pytest.raises(UnknownTable, match=r"there is no table 'post'.*did you mean 'posts'"):
        blog.offsets.update_offsets_bulk({("a_step", "posts"): 7.0, ("process_posts", "post"): 7.0})
    assert blog.store.control.index.positions() == []


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_time_is_refused(blog, time):
    blog.write("posts", 1)
    with pytest.raises(OffsetError, match=r"step 'process_posts' on 'posts' cannot be .* Nothing was changed"):
        blog.offsets.update_offsets_bulk({("process_posts", "posts"): time})
    assert blog.store.control.index.positions() == []


def test_an_empty_bulk_does_nothing(blog):
    blog.offsets.update_offsets_bulk({})
    assert blog.offsets.get_statistics() == []


@given(st.integers(-(2**41), 2**43))
def test_the_float_of_a_commit_leads_back_to_its_millisecond(millis):
    assert first_millisecond_from(millis / 1000) == millis


@given(st.floats(-1e11, 1e11), st.integers(-2, 2))
def test_commits_before_a_time_are_those_whose_float_is_smaller(seconds, step):
    millis = int(seconds * 1000) + step
    assert (millis < first_millisecond_from(seconds)) == (millis / 1000 < seconds)


# --- resetting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def read_blog(blog) -> Blog:
    """Two steps that have read all there is."""
    blog.write("posts", 1, 2)
    blog.write("profiles", 1)
    blog.run("process_posts", "posts", "profiles")
    blog.run("count_posts", "posts")
    return blog


def test_a_reset_of_one_input_leaves_the_others(read_blog):
    read_blog.offsets.reset_offset("process_posts", "posts")
    assert read_blog.offsets.get_record_offsets("process_posts") == {"profiles": 0}
    assert read_blog.offsets.get_record_offsets("count_posts") == {"posts": 1}
    empty = Position("process_posts", "posts", None, None, None, None, generation=1)
    assert read_blog.position("process_posts", "posts") == empty


def test_a_reset_of_a_step_takes_all_its_inputs(read_blog):
    read_blog.offsets.reset_offset("process_posts")
    read_blog.offsets.reset_offset("process_posts")
    assert read_blog.offsets.get_record_offsets("process_posts") == {}
    assert read_blog.offsets.get_offsets_for_transformation("process_posts") == {}
    assert {p.generation for p in read_blog.store.control.index.positions("process_posts")} == {2}
    assert read_blog.offsets.get_record_offsets("count_posts") == {"posts": 1}


def test_a_batch_in_flight_cannot_swallow_a_reset(read_blog):
    read_blog.write("posts", 3)
    read_blog.offsets.reset_offset("process_posts", "posts")
    with pytest.raises(PositionConflict):
        read_blog.run("process_posts", "posts")
    read_blog.run("process_posts", "posts", generation=1)
    assert read_blog.offsets.get_record_offsets("process_posts")["posts"] == 2


def test_a_reset_forgets_what_limited_runs_have_covered_and_keeps_failed_keys(read_blog):
    covered = [CoveredKey(step, "[1]", 5.0, '{"posts": 0}') for step in ("process_posts", "count_posts")]
    failed = FailedKey("process_posts", "[2]", 5.0, "boom", 1)
    read_blog.commit("process_posts", covered=tuple(covered), failed=(failed,))

    read_blog.offsets.reset_offset("process_posts", "posts")

    index = read_blog.store.control.index
    assert (index.covered_keys("process_posts"), index.covered_keys("count_posts")) == ([], [covered[1]])
    assert index.failed_keys() == [failed]


def test_resetting_an_input_that_the_step_has_not_read_names_those_that_it_has(read_blog):
    with pytest.raises(OffsetError) as refused:
        read_blog.offsets.reset_offset("process_posts", "profile")
    assert str(refused.value) == (
        "step 'process_posts' has no position on table 'profile'. Nothing was reset. Hint: did you mean 'profiles'? "
        "Inputs that 'process_posts' has positions on: posts, profiles."
    )


def test_an_input_that_has_no_position_yet_can_be_reset(read_blog):
    """A limited run may have covered another input only."""
    control = read_blog.store.control
    control.offsets.reset("count_posts", "profiles", inputs=["posts", "profiles"])
    assert read_blog.offsets.get_record_offsets("count_posts") == {"posts": 1}
    empty = Position("count_posts", "profiles", None, None, None, None, generation=1)
    assert read_blog.position("count_posts", "profiles") == empty


def test_resetting_a_step_that_nobody_knows_is_refused(read_blog):
    before = read_blog.store.control.index.positions()
    for table in ((), ("posts",)):
        with pytest.raises(UnknownStep, match="no step 'never_ran'"):
            read_blog.offsets.reset_offset("never_ran", *table)
    assert read_blog.store.control.index.positions() == before


# --- initialising -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_inputs_are_given_by_name_as_tables_or_as_pairs(blog):
    posts = blog.tables["posts"]
    inputs = ["profiles", posts, ("likes", object())]
    found = blog.offsets.initialize_offsets_from_transform_meta("process_posts", inputs)
    assert found == {"profiles": 1.5, "posts": 1.5, "likes": 1.5}
    assert blog.initialised == [("process_posts", ["profiles", "posts", "likes"])]
