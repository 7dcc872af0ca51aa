"""A real process is killed while it sends: the next run goes on, and every record has counted once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support import SUPPORT, sink_program

import seamark as sm

PROGRAM = SUPPORT / "sink_program.py"

POINTS = ["sink-block-read", "sink-block-sent", "sink-block-marked", "sink-position-kept"]


@dataclass
class Site:
    """A store with two sinks, and processes that run them and are killed."""

    folder: Path
    spark: Any

    @property
    def places(self) -> list[str]:
        control, warehouse = f"sqlite:///{self.folder / 'control.db'}", str(self.folder / "warehouse")
        return [control, warehouse, f"chdb:///{self.folder / 'clickhouse'}"]

    def open(self) -> sm.DataStore:
        control, warehouse, url = self.places
        store = sm.DataStore(control, warehouse, spark=self.spark)
        sink_program.declare(store, url)
        return store

    def write(self, store: sm.DataStore, round_: int) -> None:
        """One block of each table: users change, go and come back, and each visit gets a new version."""
        users, log = store.table("users"), store.table("visits_log")
        if round_ % 3 == 2:
            users.delete(pa.table({"id": [round_ % 2]}))
        else:
            users.upsert(pa.table({"id": [0, 1, 2 + round_], "name": [f"name {round_ % 2}", "always", None]}))
        signs = pa.array([1] if round_ == 0 else [-1, 1], pa.int8())
        versions = [1] if round_ == 0 else [round_, round_ + 1]
        log.append(pa.table({"VisitID": [7] * len(versions), "Sign": signs, "Version": versions}))

    def start(self, at: str = "") -> subprocess.Popen[str]:
        command, environment = [sys.executable, PROGRAM, *self.places], os.environ | {"SEAMARK_KILL_AT": at}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def kill(self, at: str) -> None:
        """Run the sinks in a process of its own that is killed at a point."""
        with self.start(at) as process:
            _, told = process.communicate(timeout=100)
        assert process.returncode == -signal.SIGKILL, told

    def kill_after(self, words: int) -> None:
        """Run the sinks in a process of its own, and kill it when it has said so many words, wherever it is then."""
        with self.start() as process:
            for _ in range(words):
                process.stdout.readline()
            process.kill()

    def check(self, rounds: int) -> None:
        """The next run sends the rest, a further one nothing, and both targets are right."""
        with self.open() as store:
            store.run(fail_fast=True)
            assert not any(report.did_something for report in store.run(fail_fast=True).sinks.values())
            target = store.sinks()["users"].outlet
            copied = {row["id"]: row["name"] for row in target.query("SELECT id, name FROM users FINAL")}
            assert copied == {row.id: row.name for row in store.table("users").rows().collect()}
            sums = target.query("SELECT Version, sum(Sign) AS net FROM visits GROUP BY Version ORDER BY Version")
            assert [row for row in sums if row["net"] != 0] == [{"Version": rounds, "net": 1}]
            assert [row["Version"] for row in target.query("SELECT Version FROM visits FINAL")] == [rounds]


@pytest.fixture
def site(tmp_path, spark, monkeypatch) -> Site:
    monkeypatch.setenv("SEAMARK_SCHEDULER_LEASE", "1")  # a killed run's lease is free again after so many seconds
    return Site(tmp_path, spark)


@pytest.mark.scenario("F43")
@pytest.mark.scenario("F51")
@pytest.mark.timeout(600)
def test_killed_at_any_point_every_record_counts_once(site):
    """Killed at each point in turn; a run in between gets a block further, so that both sinks are hit."""
    rounds = 0
    for turn, point in enumerate(POINTS):
        with site.open() as store:
            for _ in range(2):
                site.write(store, rounds)
                rounds += 1
            if turn % 2:
                store.run("users", fail_fast=True)  # then it is the other sink that is killed
        site.kill(point)
    site.check(rounds)


@pytest.mark.long
@pytest.mark.scenario("F43")
@pytest.mark.timeout(600)
def test_killed_ten_times_at_random_every_record_counts_once(site):
    chance, rounds = random.Random(43), 0
    for _ in range(10):
        with site.open() as store:
            for _ in range(2):
                site.write(store, rounds)
                rounds += 1
        site.kill_after(words=chance.randint(1, 4))
    site.check(rounds)


@pytest.mark.scenario("F41")
@pytest.mark.timeout(300)
def test_killed_between_two_blocks_of_a_commit_the_next_run_goes_on_with_the_second(site, spark):
    control, warehouse, _ = site.places
    with sm.DataStore(control, warehouse, spark=spark, block_rows=2) as store:
        store.table("visits_log", "VisitID long, Sign tinyint, Version long").append(
            pa.table({"VisitID": [1, 2, 3, 4, 5], "Sign": pa.array([1] * 5, pa.int8()), "Version": [1] * 5})
        )
    site.kill("sink-position-kept")
    with site.open() as store:
        report = store.run(fail_fast=True).sinks["visits"]
        assert (report.blocks, report.records) == (2, 3)
        target = store.sinks()["visits"].outlet
        assert [row["VisitID"] for row in target.query("SELECT VisitID FROM visits ORDER BY 1")] == [1, 2, 3, 4, 5]
