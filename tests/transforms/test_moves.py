"""What a step does next: one pure decision that `plan`, `run` and `status` share. No Spark."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.pending import NOON, waiting

import seamark as sm
from seamark.control import FailedKey, Mode, Position, TableHead
from seamark.errors import DefinitionChanged, SchemaChangeRefused
from seamark.steps.past.checkpoint import OpenPass, RangeMark
from seamark.transforms.backlog import Backlog
from seamark.transforms.declare.spec import StepSpec
from seamark.transforms.keys.batches import ALL_KEYS_FLOOR, cut_batches
from seamark.transforms.keys.strategies import covers_pins
from seamark.transforms.moves import decided, next_move

DUE = FailedKey("lines", '{"post_id":1}', 0.0, "no", 1)
BEGUN = RangeMark(("post_id",), None, (7,), {}, last=False)
NONE, FIRST, READ = (), (waiting("posts", [5]),), (waiting("posts", [5], done=1),)
NEWS = (waiting("posts", [5, 3], done=1),)
RESET = replace(READ[0], position=Position("lines", "posts", None, None, None, None, generation=1))
GREW = SchemaChangeRefused("table 'posts' grew.")


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moves")
    with sm.DataStore(f"sqlite:///{folder}/seamark.db", warehouse=folder / "warehouse") as store:
        posts = store.table("posts", "post_id long, content string", key="post_id")
        feed = store.table("feed", "post_id long, line string", key="post_id")

        @store.transform(inputs=[posts], outputs=[feed])
        def lines(posts):
            return posts.selectExpr("post_id", "content AS line")

        yield store.step("lines").spec


def head(table: str, last_offset: int | None) -> TableHead:
    return TableHead(table, f"id of {table}", "derivative", "h", 3, last_offset, NOON, None, None, None)


def backlog(spec, *, made_rows: bool = True, **others: Any) -> Backlog:
    """A step that has read all there is, and made rows of it."""
    settled = Backlog(
        spec=spec,
        heads={"feed": head("feed", 4 if made_rows else None)},
        pending=READ,
        missing=(),
        failed=(),
        due=(),
        older=None,
        new_outputs=(),
        unfinished=None,
        rows=5,
    )
    return replace(settled, **others)


def another(spec):
    """The definition of the step when its function was another one."""
    return replace(spec.definition, source="def lines(posts): ...", digest="another")


@pytest.mark.parametrize(
    ("mode", "reason", "others"),
    [
        (Mode.SETTLED, "nothing new", {}),
        (Mode.SETTLED, "no records yet in posts", {"pending": NONE, "missing": ("posts",)}),
        (Mode.ALL_KEYS, "first run", {"pending": FIRST}),
        (Mode.CHANGES, "records wait: 3 in 'posts'", {"pending": NEWS}),
        (Mode.CHANGES, "records wait", {"pending": NEWS, "due": (DUE,)}),
        (Mode.RETRY, "1 failed key is due", {"due": (DUE,), "failed": (DUE,)}),
        (Mode.SETTLED, "nothing new", {"failed": (DUE,)}),
        (Mode.RECOMPUTE, "new output tags", {"new_outputs": ("tags",)}),
        (Mode.ALL_KEYS, "continues where it was cut off", {"unfinished": OpenPass(Mode.ALL_KEYS, BEGUN)}),
        (Mode.RECOMPUTE, "continues where it was cut off", {"unfinished": OpenPass(Mode.RECOMPUTE, BEGUN)}),
        (Mode.WATERMARK, "watermarks moved", {"watermark_waits": True}),
        (Mode.REFUSED, "grew", {"outgrown": GREW, "watermark_waits": True}),
        (Mode.SETTLED, "nothing new", {"outgrown": GREW}),
    ],
)
def test_what_comes_next(spec, mode, reason, others):
    move = next_move(backlog(spec, **others), "ask")
    assert (move.mode, reason in move.reason) == (mode, True), move


def test_a_key_that_the_run_has_taken_already_is_not_taken_again(spec):
    assert next_move(backlog(spec, due=(DUE,)), "ask", {DUE.key}).mode is Mode.SETTLED


@pytest.mark.parametrize(
    ("policy", "made_rows", "mode"),
    [
        ("ask", True, Mode.REFUSED),
        ("ask", False, Mode.RECOMPUTE),
        ("keep", True, Mode.DEFINITION),
        ("recompute", True, Mode.RECOMPUTE),
        ("recompute", False, Mode.RECOMPUTE),
    ],
)
def test_a_changed_definition_is_asked_about_only_where_rows_stand(spec, policy, made_rows, mode):
    changed = backlog(spec, made_rows=made_rows, older=another(spec))
    move = next_move(changed, policy)
    assert move.mode is mode
    if mode is Mode.REFUSED:
        with pytest.raises(DefinitionChanged, match="the definition of step 'lines'"):
            move.raise_refusal()
        with pytest.raises(DefinitionChanged):
            decided(changed, policy)
    else:
        move.raise_refusal()
        to_come = decided(changed, policy).unfinished
        assert (to_come is not None and to_come.mode is Mode.RECOMPUTE) is (mode is Mode.RECOMPUTE)


def test_rows_made_from_another_chain_cannot_be_kept(spec):
    replaced = backlog(spec, older=spec.definition)  # the same definition, with an input that was made again
    assert [next_move(replaced, policy).mode for policy in ("ask", "keep", "recompute")] == [Mode.RECOMPUTE] * 3


# --- deferred inputs --------------------------------------------------------------------------------------------------


class Deferring(StepSpec):
    """A step that leaves the changes of `users` for later."""

    @property
    def deferred(self) -> frozenset[str]:
        return frozenset({"users"})


@pytest.fixture
def deferring(spec: StepSpec) -> Deferring:
    return Deferring(**{field.name: getattr(spec, field.name) for field in fields(spec)})


USERS = waiting("users", [2, 4], done=1)  # four records wait
BEFORE_ALL_KEYS = OpenPass(Mode.RECOMPUTE, replace(BEGUN, upto=None))


@pytest.mark.parametrize(
    ("mode", "reason", "covered", "others"),
    [
        (Mode.SETTLED, "nothing new", ["posts"], {"pending": (*READ, USERS)}),
        (Mode.CHANGES, "records wait: 3 in 'posts'", ["posts"], {"pending": (*NEWS, USERS)}),
        (Mode.RETRY, "1 failed key is due", ["posts"], {"pending": (*READ, USERS), "due": (DUE,)}),
        (Mode.WATERMARK, "watermarks moved", ["posts"], {"pending": (*READ, USERS), "watermark_waits": True}),
        (Mode.ALL_KEYS, "first run", ["posts", "users"], {"pending": (*FIRST, waiting("users", [2, 4]))}),
        (Mode.ALL_KEYS, "no position on users", ["posts", "users"], {"pending": (*READ, waiting("users", [2, 4]))}),
        (Mode.ALL_KEYS, "no position on posts", ["posts"], {"pending": (RESET, USERS)}),
        (
            Mode.RECOMPUTE,
            "continues",
            ["posts", "users"],
            {"pending": (*READ, USERS), "unfinished": BEFORE_ALL_KEYS},
        ),
    ],
)
def test_changes_of_a_deferred_input_wait_until_all_keys_are_computed(deferring, mode, reason, covered, others):
    found = backlog(deferring, **others)
    move = next_move(found, "ask")
    assert (move.mode, reason in move.reason) == (mode, True), move
    assert (move.mode is Mode.SETTLED) is found.is_settled
    assert [entry.table for entry in covers_pins(found)] == covered
    assert found.pins.keys() == found.read.keys() == {"posts", "users"}  # read like any other


def test_more_records_than_rows_in_a_deferred_input_are_no_reason_for_all_keys(deferring):
    many = waiting("users", [1, ALL_KEYS_FLOOR + 1], done=1)
    assert backlog(deferring, pending=(*NEWS, many)).all_keys_because() is None
    assert cut_batches(backlog(deferring, pending=(*NEWS, many)).waiting, 10) == [(NEWS[0].whole(),)]


@given(
    pending=st.sampled_from([NONE, FIRST, READ, NEWS]),
    due=st.booleans(),
    changed=st.booleans(),
    made_rows=st.booleans(),
    new_outputs=st.sampled_from([(), ("tags",)]),
    unfinished=st.sampled_from([None, OpenPass(Mode.ALL_KEYS, BEGUN)]),
    watermark_waits=st.booleans(),
    outgrown=st.sampled_from([None, GREW]),
    policy=st.sampled_from(["ask", "keep", "recompute"]),
)
def test_settled_is_what_waits_for_nothing_and_a_refusal_carries_its_error(
    spec, pending, due, changed, made_rows, new_outputs, unfinished, watermark_waits, outgrown, policy
):
    found = backlog(
        spec,
        made_rows=made_rows,
        pending=pending,
        missing=() if pending else ("posts",),
        due=(DUE,) if due else (),
        older=another(spec) if changed else None,
        new_outputs=new_outputs,
        unfinished=unfinished,
        watermark_waits=watermark_waits,
        outgrown=outgrown,
    )
    move = next_move(found, policy)
    assert (move.mode is Mode.SETTLED) is found.is_settled
    assert (move.refusal is not None) is (move.mode is Mode.REFUSED)
    assert move.reason
    if outgrown is not None and not found.is_settled:
        assert move.refusal is outgrown
