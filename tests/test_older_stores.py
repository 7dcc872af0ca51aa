"""Stores that earlier versions wrote: they open in another folder, show their rows, continue, verify and replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.older_store import LEFT_AT, STORES, OlderStore, SetClock, frame, unpacked

import seamark as sm
from seamark.errors import SeamarkWarning

pytestmark = pytest.mark.scenario("T62")

FEED = [(1, "Alicia: hello"), (2, "Bob: hi again"), (3, "Alicia: bad words")]
LOUD = [(1, "HELLO"), (2, "HI AGAIN")]
POSTS = [(1, 100, "hello, all"), (2, 200, "hi again"), (3, 100, "bad words"), (5, 300, "not computed yet")]
STATE = [(42, 3, 2, "Shop", 5), (43, 1, 1, "News", None)]

# A diff of version 1 had no tables of visits that left and of visits by time: its next run makes them, and its commits
# from before were made by another definition.
MODE_OF_DIFF = {"version_1": "expire", "version_2": "settled"}
NOT_REPLAYABLE = {"version_1": {"visits_state", "visits_visit_log_slow"}, "version_2": set()}


@pytest.fixture(params=sorted(STORES))
def version(request: pytest.FixtureRequest) -> str:
    """The version of the control database that an older store has."""
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    """An older store, unpacked into a folder in which it never was."""
    return unpacked(STORES[version], tmp_path / "moved")


@pytest.fixture
def opened(folder: Path, spark: Any) -> Iterator[Callable[[], OlderStore]]:
    """Opens the store, each time as another process would."""
    stores: list[OlderStore] = []

    def open_it() -> OlderStore:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeamarkWarning)  # a log without a time of its own is meant
            stores.append(OlderStore(folder, SetClock(LEFT_AT), spark))
        return stores[-1]

    yield open_it
    for store in stores:
        store.ds.close()


def state_of(store: OlderStore) -> list[tuple[Any, ...]]:
    """The diff's state without its times."""
    names = ("VisitID", "y_VisitVersion", "SlowVersion", "title", "revenue")
    return sorted(tuple(row) for row in store.diff.state.rows().select(*names).collect())


def test_it_shows_the_rows_that_it_had(opened):
    store = opened()
    assert store.rows("posts") == POSTS
    assert store.rows("feed") == FEED
    assert store.rows("loud") == LOUD
    assert state_of(store) == STATE
    assert store.versions(42) == [-1002, -3, -2, 2, 1002, 2003]
    assert store.ds.step("shout").failures()["post_id"].tolist() == [3]
    assert [row.post_id for row in store.posts.rows(as_of=3).sort("post_id").collect()] == [1, 2, 3, 4]


def test_its_definitions_are_those_of_the_same_program(opened, version):
    modes = {name: (plan.mode, plan.keys) for name, plan in opened().ds.plan().items()}
    assert modes == {"process_posts": ("changes", 2), "shout": ("changes", 2), "visits": (MODE_OF_DIFF[version], 0)}


def test_it_is_verified_and_computed_again(opened, version):
    store = opened()
    heads = store.ds.heads()
    report = store.ds.verify(replay=True, rows=True)
    assert report.findings == ()
    assert {skipped.table for skipped in report.skipped} == NOT_REPLAYABLE[version]
    assert all(skipped.reason.startswith("it was made by another definition") for skipped in report.skipped)
    assert report.replayed == {"version_1": 4, "version_2": 12}[version]
    assert store.ds.heads() == heads


def test_it_continues(opened):
    store = opened()
    continue_it(store)
    assert store.ds.verify(replay=True, rows=True).findings == ()


def continue_it(store: OlderStore) -> None:
    """Change inputs and run: only what changed is computed, and the rows are right."""
    store.posts.upsert(frame(post_id=[3], user_id=[100], content=["good words"]))
    store.posts.delete(frame(post_id=[2]))
    store.profiles.upsert(frame(id=[300], name=["Carol"]))
    store.conversions.append(frame(VisitID=[43], y_VisitVersion=[1], revenue=[7]))
    report = store.ds.run()
    assert {name: (step.keys, step.error) for name, step in report.steps.items()} == {
        "process_posts": (4, None),
        "shout": (4, None),
        "visits": (1, None),
    }
    assert report.ok
    assert store.rows("feed") == [(1, "Alicia: hello, all"), (3, "Alicia: good words"), (5, "Carol: not computed yet")]
    assert store.rows("loud") == [(1, "HELLO, ALL"), (3, "GOOD WORDS"), (5, "NOT COMPUTED YET")]
    assert state_of(store) == [(42, 3, 2, "Shop", 5), (43, 1, 2, "News", 7)]
    assert store.versions(43) == [-1001, -1, 1001, 2001]
    assert store.ds.step("shout").failures().empty
    assert {plan.mode for plan in store.ds.plan().values()} == {"settled"}


def test_its_control_database_is_built_again_from_its_chains(opened, folder):
    before = opened()
    heads = before.ds.heads()
    before.ds.close()
    (folder / "control.db").unlink()

    sm.DataStore.rebuild(f"sqlite:///{folder}/control.db", folder / "warehouse")

    store = opened()
    assert store.ds.heads() == heads
    assert (store.rows("posts"), store.rows("feed"), state_of(store)) == (POSTS, FEED, STATE)
    continue_it(store)
