"""A process is killed in the second batch or page of a view: what is committed stays, and the rest follows once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import SUPPORT, view_program

import seamark as sm

POINTS = ["slices-staged", "blocks-staged", "in-transaction", "committed", "mirrored"]
ORDERS = range(1, 8)


@dataclass
class Site:
    """A store in a folder, with the view's tables, and processes that keep the view and are killed."""

    folder: Path
    spark: Any

    def open(self) -> sm.DataStore:
        store = sm.DataStore(f"sqlite:///{self.folder}/control.db", self.folder / "warehouse", spark=self.spark)
        view_program.declare(store)
        return store

    def fill(self, what: str) -> None:
        """Seven orders in blocks of their own; a pass finds a renamed region over a settled view."""
        with self.open() as store:
            store.table("region").upsert([{"id": 1, "title": "north"}])
            store.table("customer").upsert([{"id": 1, "name": "x", "region_id": 1}])
            if what == "run":  # a settled view, so that what follows are batches by changes
                store.run()
            for number in ORDERS:
                store.table("orders").upsert([{"id": number, "customer_id": 1, "note": f"n{number}"}])
            if what == "pass":
                store.run()
                store.table("region").upsert([{"id": 1, "title": "NORTH"}])

    def kill(self, what: str, point: str) -> None:
        command = [sys.executable, SUPPORT / "view_program.py", f"sqlite:///{self.folder}/control.db"]
        command += [self.folder / "warehouse", what, point]
        told = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=280)
        assert told.returncode == -signal.SIGKILL, told.stdout + told.stderr

    def records(self) -> list[tuple[Any, ...]]:
        """The records of the view's log, in order, without their times."""
        with self.open() as store:
            rows = store.table("v").changes().select("offset", "op", "id", "note", "name", "title")
            return sorted(map(tuple, rows.collect()))


@pytest.fixture
def sites(spark, tmp_path, monkeypatch) -> tuple[Site, Site]:
    """A store that is hit, and its twin that is not."""
    monkeypatch.setenv("SEAMARK_SCHEDULER_LEASE", "2")  # a killed run's lease is free again after so many seconds
    found = []
    for name in ("hit", "twin"):
        (tmp_path / name).mkdir()
        found.append(Site(tmp_path / name, spark))
    return found[0], found[1]


def check_killed(sites: tuple[Site, Site], what: str, point: str) -> None:
    hit, twin = sites
    for site in sites:
        site.fill(what)
    hit.kill(what, point)
    is_there = point in ("committed", "mirrored")
    with hit.open() as store:
        assert store.verify().ok
        position = store.offset_table.get_record_offsets("v").get("region")
        waits = what == "pass" and position is not None
        assert not waits or position < store.table("region").head.offset  # moved by the last page only
        store.control.leases.wait_until_free("scan:v", 30)  # a second scan does not wait for the first one
        report = view_program.work(store, what)
        assert report.keys == len(ORDERS) - (4 if is_there else 2)  # what was committed is not done again
        assert store.run().ok
        assert not store.run().did_something
        assert store.verify(replay=True).ok
    with twin.open() as store:
        view_program.work(store, what)
        store.run()
    assert hit.records() == twin.records()


@pytest.mark.scenario("V31")
@pytest.mark.scenario("V40")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("what", "point"), [("scan", "in-transaction"), ("pass", "committed")])
def test_killed_in_the_second_commit_the_rest_follows_and_nothing_is_written_twice(sites, what, point):
    check_killed(sites, what, point)


@pytest.mark.long
@pytest.mark.scenario("V31")
@pytest.mark.scenario("V40")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("what", ["run", "scan", "pass"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_the_rest_follows_and_nothing_is_written_twice(sites, what, point):
    check_killed(sites, what, point)
