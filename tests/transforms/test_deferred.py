"""Deferred inputs: every run reads them at their heads, and only runs over all keys take their changes."""

from __future__ import annotations

import pytest

import seamark as sm
from seamark.control import Mode
from seamark.transforms.declare.spec import StepSpec


@pytest.fixture
def deferring(blog, monkeypatch):
    """A blog in which the changes of profiles wait."""
    monkeypatch.setattr(StepSpec, "deferred", frozenset({"profiles"}))
    blog.write_posts((1, 100, "hello"))
    blog.write_profiles((100, "Alice"))
    blog.run()
    return blog


def pending(blog) -> dict[str, int]:
    """The records that wait in each input, as a plan shows them."""
    return {entry.table: entry.pending_records for entry in blog.step.plan().inputs}


def test_changes_of_a_deferred_input_are_read_but_lead_to_no_key_until_all_are_computed(deferring):
    blog = deferring
    assert pending(blog) == {"posts": 0, "profiles": 0}  # the first run has taken both

    blog.write_profiles((100, "Alicia"))
    plan = blog.step.plan()
    assert (plan.mode, plan.keys, plan.batches, pending(blog)["profiles"]) == (Mode.SETTLED, 0, 0, 2)
    assert blog.run().mode is Mode.SETTLED

    blog.write_posts((2, 100, "new"), (3, 100, "newer"))
    assert blog.step.run_full(sm.RunConfig(limit=1)).keys == 1
    assert blog.run().keys == 1
    assert blog.lines() == [(1, "Alice: hello"), (2, "Alicia: new"), (3, "Alicia: newer")]
    assert pending(blog) == {"posts": 0, "profiles": 2}

    blog.store.offset_table.reset_offset("process_posts", "posts")
    assert blog.run().mode is Mode.ALL_KEYS
    assert blog.lines() == blog.oracle()
    assert pending(blog) == {"posts": 0, "profiles": 0}
