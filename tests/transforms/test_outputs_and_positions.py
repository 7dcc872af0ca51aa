"""Positions, failed and covered keys count for the outputs that they were made with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

import seamark as sm
from seamark.control import outputs_key
from seamark.errors import DefinitionChanged
from seamark.metrics import metrics_text
from seamark.tables.care.rebuild import rebuild_control

pytestmark = pytest.mark.scenario("X90")


def upper(posts):
    return posts.selectExpr("post_id", "upper(content) AS line")


def twice(posts):
    lines = upper(posts)
    return lines, lines


class Program:
    """A program with the step `mk`, from `posts` to one output or two; opened again, as another process would."""

    def __init__(self, store: sm.DataStore, outputs: Sequence[str] = ("feed",), **options: Any) -> None:
        self.store = store
        self.posts = store.table("posts", "post_id long, content string", key="post_id")
        self.tables = [store.table(name, "post_id long, line string", key="post_id") for name in outputs]
        function = options.pop("function", upper if len(self.tables) == 1 else twice)
        store.transform(inputs=[self.posts], outputs=self.tables, name="mk", **options)(function)

    def write(self, *posts: tuple[int, str]) -> None:
        self.posts.upsert([{"post_id": number, "content": content} for number, content in posts])

    def run(self, **options: Any) -> sm.StepReport:
        report = self.store.run(**options).steps["mk"]
        if report.error is not None:
            raise report.error
        return report

    def plan(self) -> tuple[str, str]:
        plan = self.store.plan("mk")["mk"]
        return plan.mode, plan.reason

    def position(self) -> int | None:
        return self.store.offset_table.get_record_offsets("mk").get("posts")

    @property
    def is_settled(self) -> bool:
        heads = self.store.heads()
        return not self.store.run().did_something and self.store.heads() == heads


@pytest.fixture
def program(open_store: Any) -> Any:
    return lambda *args, **options: Program(open_store(), *args, **options)


def as_before_outputs(store: sm.DataStore) -> None:
    """Make the control database what an upgrade from an earlier version leaves: outputs are not known."""
    with store.control.database.write() as connection:
        for table in ("transform_input_offset", "transform_meta"):
            connection.execute(text(f"UPDATE {table} SET outputs = ''"))


# --- renamed outputs --------------------------------------------------------------------------------------------------


def test_an_output_that_is_renamed_is_filled_with_all_keys_and_plan_says_why(program: Any, rows: Any) -> None:
    old = program()
    old.write((1, "a"), (2, "b"))
    old.run()
    new = program(["feed2"])
    assert new.plan() == ("all keys", "first run into feed2: what 'mk' has read went into feed")
    assert (new.position(), new.store.step("mk").get_changed_idx_count()) == (None, 2)
    report = new.run()
    assert (report.mode, report.keys, rows(new.tables[0])) == ("all keys", 2, [(1, "A"), (2, "B")])
    assert new.is_settled
    new.write((1, "c"))
    assert new.run().keys == 1
    assert rows(new.tables[0]) == [(1, "C"), (2, "B")]

    back = program()  # and back: it goes on where it was
    assert back.plan() == ("changes", "records wait: 2 in 'posts'")
    assert back.run().keys == 1
    assert rows(back.tables[0]) == [(1, "C"), (2, "B")]
    assert back.is_settled
    assert back.store.verify(replay=False).ok


def test_one_of_two_outputs_renamed_and_one_taken_away(program: Any, rows: Any) -> None:
    old = program(["feed", "copy"])
    old.write((1, "a"), (2, "b"))
    old.run()
    new = program(["feed", "copy2"])
    assert new.plan() == ("recompute", "new output copy2")
    head = new.tables[0].head
    assert new.run().keys == 2
    assert rows(new.tables[1]) == [(1, "A"), (2, "B")]
    assert new.tables[0].head.offset == head.offset  # the other one got no record
    assert new.is_settled

    only = program(["feed"])
    with pytest.raises(DefinitionChanged, match="outputs: feed, copy2 -> feed"):
        only.run()
    assert only.store.verify().ok
    only.write((2, "c"))
    assert only.run(on_change="keep").keys == 1  # what was read for both was read for each of them
    assert rows(only.tables[0]) == [(1, "A"), (2, "C")]
    assert only.is_settled
    assert only.store.verify().ok
    again = program(["feed", "copy2"])  # which has missed a change since
    assert again.run().keys == 2
    assert rows(again.tables[1]) == [(1, "A"), (2, "C")]
    assert again.is_settled
    assert again.store.verify().ok


def test_a_key_that_failed_in_a_first_pass_that_was_cut_off_and_since_then(program: Any, rows: Any) -> None:
    """The keys of that pass stand without a position; those that are taken over are newer."""

    def line(posts: Any) -> Any:
        return posts.selectExpr("post_id", "IF(post_id < 3, raise_error('bad'), upper(content)) AS line")

    def line_until_5(posts: Any) -> Any:
        if 5 in {row.post_id for row in posts.select("post_id").collect()}:
            raise KeyboardInterrupt
        return line(posts)

    first = program(["feed"], function=line_until_5, batch_keys=2, on_change="keep")
    first.write((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"))
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert (first.position(), len(first.store.control.index.failed_keys("mk"))) == (None, 2)

    both = program(["feed", "copy"], function=lambda posts: (line(posts), line(posts)), on_change="recompute")
    assert both.run().failed == 2
    both.write((2, "later"), (4, "D"))
    only = program(["feed"], function=line, on_change="keep")
    only.run()
    assert rows(only.tables[0]) == [(3, "C"), (4, "D"), (5, "E")]
    own = [key for key in only.store.control.index.failed_keys("mk") if key.outputs == "feed"]
    assert sorted(key.key for key in own) == ['{"post_id":1}', '{"post_id":2}']
    assert only.store.verify(replay=False).ok


# --- two programs -----------------------------------------------------------------------------------------------------


def test_two_programs_with_a_step_of_one_name_do_not_touch_each_other(program: Any, rows: Any) -> None:
    one = program(["team1"])
    one.write((1, "a"), (13, "b"))
    one.run()

    def fails(posts):
        return posts.selectExpr("post_id", "IF(post_id = 13, raise_error('bad'), lower(content)) AS line")

    two = program(["team2"], function=fails)
    assert two.run().failed == 1
    assert rows(two.tables[0]) == [(1, "a")]
    assert one.is_settled
    assert one.store.step("mk").failures().empty
    assert len(two.store.step("mk").failures()) == 1
    assert (one.store.failed_key_counts(), two.store.failed_key_counts()) == ({"mk": 0}, {"mk": 1})

    two.write((2, "c"), (3, "d"))
    assert one.run(limit=1).keys == 1  # what one has computed ahead, the other has not
    assert two.store.step("mk").get_changed_idx_count() == 3
    two.store.offset_table.reset_offset("mk", "posts")
    assert (one.position(), two.position()) == (1, None)
    assert one.run().keys == 1
    assert rows(one.tables[0]) == [(1, "A"), (2, "C"), (3, "D"), (13, "B")]
    two.run()
    assert rows(two.tables[0]) == [(1, "a"), (2, "c"), (3, "d")]
    assert one.is_settled
    assert one.store.verify().ok

    for store in (one.store, two.store):  # a line for each input, and each measured once
        (line,) = store.offset_table.get_statistics("mk")
        assert line["pending_records"] == 0
        assert metrics_text(store).count('seamark_pending_records{input_table_name="posts"') == 1
        assert {totals.newest.outputs for totals in store.run_totals()} == {store.step("mk").spec.outputs_key}


def test_a_run_of_another_program_is_not_waited_for(program: Any, rows: Any) -> None:
    one, ran = program(["team1"]), []
    other = program(["team2"])

    def slow(posts):
        ran.append(other.run().keys)  # at the same time
        return upper(posts)

    three = program(["team3"], function=slow, version="1")
    one.write((1, "a"))
    assert three.run().keys == 1
    assert ran == [1]
    assert rows(other.tables[0]) == rows(three.tables[0]) == [(1, "A")]


# --- databases of earlier versions ------------------------------------------------------------------------------------


def test_positions_and_failed_keys_of_an_earlier_version_are_taken_over(program: Any, rows: Any) -> None:
    def fails(posts):
        return posts.selectExpr("post_id", "IF(post_id = 13, raise_error('bad'), content) AS line")

    old = program(function=fails)
    old.write((1, "a"), (2, "b"), (13, "c"))
    old.run()
    old.write((4, "d"), (5, "e"))
    old.run(limit=1)
    as_before_outputs(old.store)

    new = program(function=fails)
    assert (new.plan()[0], new.position(), new.store.failed_key_counts()) == ("changes", 2, {"mk": 1})
    assert len(new.store.step("mk").failures()) == 1
    assert sorted(row.post_id for row in new.store.step("mk").get_changed_idx().collect()) == [5, 13]
    assert new.store.verify().ok
    assert new.run().keys == 2  # what waits and what failed, and nothing else
    assert {position.outputs for position in new.store.control.index.positions("mk")} == {"feed"}
    assert {key.outputs for key in new.store.control.index.failed_keys("mk")} == {"feed"}
    assert rows(new.tables[0]) == [(1, "a"), (2, "b"), (4, "d"), (5, "e")]
    assert new.store.verify().ok


def test_a_settled_step_of_an_earlier_version_stays_settled(program: Any) -> None:
    old = program()
    old.write((1, "a"))
    old.run()
    as_before_outputs(old.store)
    new = program()
    assert new.plan()[0] == "settled"
    assert new.is_settled
    assert new.position() == 0
    new.store.offset_table.reset_offset("mk")
    assert (new.plan()[0], new.position()) == ("all keys", None)


def test_a_position_that_is_moved_or_reset_before_a_run_is_taken_over_first(program: Any, clock: Any) -> None:
    old = program()
    for number in (1, 2, 3):
        clock.advance(seconds=10)
        old.write((number, "a"))
        if number == 2:
            old.run()
    moment = old.posts.head.system_time.timestamp()
    as_before_outputs(old.store)
    new = program()
    new.store.offset_table.update_offset("mk", "posts", moment - 15)  # earlier than where it is: it stays
    assert new.position() == 1
    new.store.offset_table.update_offset("mk", "posts", moment + 1)
    assert new.position() == 2


def test_an_output_that_was_renamed_under_an_earlier_version_is_filled(program: Any, rows: Any) -> None:
    """Its positions were those of the former output: it stayed empty, and then got only what changed."""
    old = program()
    old.write((1, "a"), (2, "b"))
    old.run()
    as_before_outputs(old.store)
    new = program(["feed2"])
    assert (new.plan()[0], new.position()) == ("all keys", None)

    with new.store.control.database.write() as connection:  # what the earlier version did: it went on by changes
        connection.execute(text("UPDATE transform_input_offset SET outputs = 'feed2'"))
    new.write((2, "c"))
    new.run()
    assert rows(new.tables[0]) == [(2, "C")]
    as_before_outputs(new.store)
    mended = program(["feed2"])
    assert mended.plan()[0] == "all keys"
    mended.run()
    assert rows(mended.tables[0]) == [(1, "A"), (2, "C")]
    assert mended.is_settled


def test_two_programs_that_shared_positions_before_each_find_their_own(program: Any, rows: Any) -> None:
    one, two = program(["team1"]), program(["team2"])
    one.write((1, "a"))
    one.run()
    two.run()
    one.write((2, "b"))
    one.run()  # the position was one for both, so that the second never saw this record
    with one.store.control.database.write() as connection:
        connection.execute(text("DELETE FROM transform_input_offset WHERE outputs = 'team2'"))
        connection.execute(text("UPDATE transform_input_offset SET outputs = ''"))
    two = program(["team2"])
    assert two.plan() == ("changes", "records wait: 1 in 'posts'")
    assert two.run().keys == 1
    assert rows(two.tables[0]) == [(1, "A"), (2, "B")]
    one = program(["team1"])
    assert one.run().keys == 2  # whoever comes second begins anew: that is always right
    assert rows(one.tables[0]) == [(1, "A"), (2, "B")]


# --- rebuild ----------------------------------------------------------------------------------------------------------


def test_a_rebuild_restores_the_positions_of_each_output(program: Any, open_store: Any, rows: Any) -> None:
    one, two = program(["team1"]), program(["team2"])
    one.write((1, "a"))
    one.run()
    two.run()
    one.write((2, "b"))
    one.run()
    before = {(p.step, p.outputs, p.input_table, p.record_offset) for p in one.store.control.index.positions()}
    assert before == {("mk", "team1", "posts", 1), ("mk", "team2", "posts", 0)}
    rebuild_control(one.store.control, one.store.warehouse)
    after = {(p.step, p.outputs, p.input_table, p.record_offset) for p in one.store.control.index.positions()}
    assert after == before
    one, two = program(["team1"]), program(["team2"])
    assert one.is_settled
    assert two.run().keys == 1
    assert rows(two.tables[0]) == [(1, "A"), (2, "B")]


def test_outputs_are_named_in_one_order() -> None:
    assert outputs_key(["words", "feed"]) == outputs_key(("feed", "words")) == "feed,words"
    many = [f"an output with a long name, number {number}" for number in range(50)]
    assert outputs_key(many) == outputs_key(reversed(many)) != outputs_key(many[1:])
    assert len(outputs_key(many)) <= 200  # it is part of an index
