"""Looking at a control database of an older version: it needs no right to write and is in nobody's way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, text
from tests.support.older_database import LONG_KEY, make_version_1, plain_engine, plainly, reader_of, version_on_disk

from seamark.control import Adoption, Control
from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema, transform_input_offset
from seamark.errors import ControlUnavailable

pytestmark = pytest.mark.scenario("T62")

OLDER_RUN = "INSERT INTO run (run_id, step, mode, started, outcome) VALUES ('r-9', 'feed', 'changes', 5.0, 'done')"


@pytest.fixture
def version_1(control_url: str) -> str:
    return make_version_1(control_url, full=True)


@pytest.fixture
def opened() -> Iterator[Callable[..., Control]]:
    """Opens control databases, and closes them after the test."""
    controls: list[Control] = []

    def open_it(url: str, **options: Any) -> Control:
        controls.append(Control(url, **options))
        return controls[-1]

    yield open_it
    for control in controls:
        control.close()


def all_that_is_read(control: Control) -> dict[str, Any]:
    """What each question to a control database is answered with."""
    index, moment = control.index, control.snapshots.now()
    with control.database.read() as connection:
        rows = {name: sorted(map(str, connection.execute(select(table)))) for name, table in metadata.tables.items()}
    del rows[seamark_schema.name]
    return {
        "heads": index.heads(),
        "bases": (index.all_bases(), index.bases("posts"), index.distrusted_bases("posts"), index.tail_sizes()),
        "positions": (index.positions(), index.positions("feed"), control.offsets.backlogs()),
        "failed keys": sorted(index.failed_keys(), key=str),
        "counts": index.failed_key_counts(),
        "covered keys": (index.covered_keys("feed"), index.covered_keys("feed", "")),
        "runs": (index.runs(), index.runs("feed", outputs="feed"), index.run_modes("feed", 0.0, "feed")),
        "totals": (index.run_totals(["feed"]), index.run_totals({"feed": "feed"})),
        "live": control.live.all(),
        "views": (control.views.all(), control.views.find("v"), control.scans.all()),
        "sinks": (control.sinks.all(), control.sinks.backlog("ch", "posts", "a target")),
        "snapshot": [
            sorted(map(str, getattr(moment, name))) for name in ("heads", "bases", "positions", "keys", "sinks")
        ],
        "rows": rows,
    }


def test_all_that_is_read_is_what_it_will_be_once_it_is_brought_up(version_1, opened):
    looks = opened(version_1)
    before = all_that_is_read(looks)
    assert version_on_disk(version_1) == 1
    assert LONG_KEY in {failed.key for failed in looks.index.failed_keys()}
    assert {failed.outputs for failed in looks.index.failed_keys()} == {""}

    writes = opened(version_1)
    writes.staging.revive("r-7")
    writes.staging._forget_run("r-7")

    assert version_on_disk(version_1) == SCHEMA_VERSION
    assert all_that_is_read(looks) == before


def test_an_older_seamark_that_is_committing_is_not_waited_for(version_1, opened):
    looks = opened(version_1, lease_seconds=1)
    with plainly(version_1) as older:
        older.execute(text(OLDER_RUN))
        assert [run.run_id for run in looks.index.runs()] == ["r-2", "r-1"]
        assert len(looks.snapshots.now().keys) == 3
    assert [run.run_id for run in looks.index.runs()] == ["r-9", "r-2", "r-1"]


@pytest.mark.parametrize("how", ["read", "read_at_once"])
def test_an_older_seamark_can_commit_while_somebody_looks(version_1, opened, how):
    looks, engine = opened(version_1), plain_engine(version_1)
    with getattr(looks.database, how)() as reading:
        for table in metadata.sorted_tables:
            reading.execute(select(table)).all()
        with engine.begin() as older:
            older.execute(
                text("SET lock_timeout = '1s'" if older.dialect.name != "sqlite" else "PRAGMA busy_timeout = 1")
            )
            older.execute(text(OLDER_RUN))
    engine.dispose()
    assert len(looks.index.runs()) == 3


def test_whoever_may_only_select_can_look(postgres_url, opened):
    make_version_1(postgres_url, full=True)
    wanted = all_that_is_read(opened(postgres_url))
    may_select = reader_of(postgres_url)

    looks = opened(may_select)

    assert all_that_is_read(looks) == wanted
    with pytest.raises(ControlUnavailable, match=r"permission denied .* Hint: give the user the right") as refused:
        looks.leases.acquire("step:other")
    assert "open-sesame" not in str(refused.value)
    assert version_on_disk(postgres_url) == 1


def positions_of(connection: Any) -> list[str]:
    return list(connection.execute(select(transform_input_offset.c.outputs)).scalars())


def wait_for_lock(url: str, table: str, waits: threading.Thread) -> None:
    """Return when somebody waits for a lock on a table, or the thread has ended instead."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = cast(:table AS regclass)")
    engine = plain_engine(url)
    with engine.connect() as watching:
        while waits.is_alive() and not watching.execute(waiting, {"table": table}).scalar_one():
            watching.rollback()
    engine.dispose()


def test_whoever_brings_it_up_waits_for_those_who_look(postgres_url, opened):
    """Else they would read tables of the new version as if they were of the old one."""
    make_version_1(postgres_url, full=True)
    looks, writes = opened(postgres_url), opened(postgres_url)
    adopts = threading.Thread(target=lambda: writes.offsets.adopt(Adoption("feed", "", "feed")))

    with looks.database.read() as reading:
        adopts.start()
        wait_for_lock(postgres_url, "seamark_schema", adopts)
        assert positions_of(reading) == [""]
        assert adopts.is_alive()
    adopts.join()

    with looks.database.read() as reading:
        assert positions_of(reading) == ["feed"]


@pytest.mark.parametrize("how", ["read", "read_at_once"])
def test_whoever_looks_while_it_is_brought_up_sees_it_brought_up(postgres_url, opened, monkeypatch, how):
    """A transaction whose one state is from before would find the new tables empty."""
    make_version_1(postgres_url, full=True)
    looks, writes, seen = opened(postgres_url), opened(postgres_url), []
    monkeypatch.setattr(looks.database, "_version_on_disk", lambda: 1)  # it was looked at just before

    def look() -> None:
        with getattr(looks.database, how)() as reading:
            seen.extend(positions_of(reading))

    threads = [threading.Thread(target=lambda: writes.leases.acquire("step:other")), threading.Thread(target=look)]
    with plainly(postgres_url) as older:
        older.execute(text(OLDER_RUN))
        for thread, table in zip(threads, ("run", "seamark_schema"), strict=True):
            thread.start()
            wait_for_lock(postgres_url, table, thread)
        assert [thread.is_alive() for thread in threads] == [True, True]
    for thread in threads:
        thread.join()

    assert seen == [""]
    assert version_on_disk(postgres_url) == SCHEMA_VERSION


@pytest.mark.parametrize("how", ["read", "read_at_once"])
def test_what_was_brought_up_a_moment_ago_is_read_as_it_is(version_1, opened, monkeypatch, how):
    looks, writes = opened(version_1), opened(version_1)
    writes.offsets.adopt(Adoption("feed", "", "feed"))
    monkeypatch.setattr(looks.database, "_version_on_disk", lambda: 1)  # it was looked at just before
    with getattr(looks.database, how)() as reading:
        assert positions_of(reading) == ["feed"]
