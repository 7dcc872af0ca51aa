"""A real process is killed in the middle of a diff: the next run leaves the records that an undisturbed one leaves."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import SUPPORT, diff_program

import seamark as sm

PROGRAM = SUPPORT / "diff_program.py"

POINTS = ["slices-staged", "blocks-staged", "in-transaction", "committed", "mirrored", "fold-begins", "fold-written"]
TABLES = ("visits_state", "visits_visit_log_slow")
Row = tuple[Any, ...]


@dataclass
class Site:
    """A store in a folder, the diff in it, and processes that run the diff and are killed."""

    folder: Path
    spark: Any

    def open(self) -> sm.DataStore:
        store = sm.DataStore(f"sqlite:///{self.folder / 'control.db'}", self.folder / "warehouse", spark=self.spark)
        diff_program.declare(store)
        return store

    def write(self, visits: Sequence[Row] = (), conversions: Sequence[Row] = (), gone: Sequence[int] = ()) -> None:
        with self.open() as store:
            for name, rows in (("joined_visits", visits), ("joined_conversions", conversions)):
                table = store.table(name)
                if rows:
                    fields = zip(zip(*rows, strict=True), table.schema.arrow, strict=True)
                    arrays = [pa.array(values, field.type) for values, field in fields]
                    frame = pa.Table.from_arrays(arrays, names=table.schema.names)
                    (table.upsert if table.key else table.append)(frame)
            if gone:
                store.table("joined_visits").delete(pa.table({"VisitID": list(gone)}))

    def run(self) -> sm.StepReport:
        with self.open() as store:
            step = store.run().steps["visits"]
        if step.error is not None:
            raise step.error
        return step

    def kill(self, at: str) -> None:
        """Run the diff in a process of its own that is killed at a point."""
        command = [sys.executable, PROGRAM, f"sqlite:///{self.folder / 'control.db'}", self.folder / "warehouse"]
        environment = os.environ | {"SEAMARK_KILL_AT": at}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)
        assert told.returncode == -signal.SIGKILL, told.stdout + told.stderr

    def records(self) -> dict[str, list[Row]]:
        """The records of the state and of the diff, read from their files, without the times."""
        found = {}
        with self.open() as store:
            for table in TABLES:
                names = ["offset", "op", *store.table(table).schema.names]
                slices = store.control.index.slices(table, after=None, upto=None)
                files = [self.folder / "warehouse" / table / "data" / entry.slice_hash for entry in slices]
                rows = [row for file in files for row in pq.read_table(file).to_pylist()]
                found[table] = [tuple(row[name] for name in names) for row in rows]
        return found

    def facts(self) -> tuple[dict[str, int], list[tuple[int, str]]]:
        """How far the logs are read, and which visits failed."""
        with self.open() as store:
            failed = store.step("visits").failures()
            offsets = store.offset_table.get_record_offsets("visits")
        return offsets, list(zip(failed.VisitID, failed.error, strict=True))

    def copy(self, folder: Path) -> Site:
        """The same store somewhere else, for a run that nobody disturbs."""
        shutil.copytree(self.folder, folder)
        return Site(folder, self.spark)


@pytest.fixture
def site(tmp_path, spark, monkeypatch) -> Site:
    monkeypatch.setenv("SEAMARK_SCHEDULER_LEASE", "2")  # a killed run's lease is free again after so many seconds
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site", spark)


def check_killed_at(site: Site, tmp_path: Path, point: str) -> None:
    undisturbed = site.copy(tmp_path / "undisturbed")
    before = (site.records(), site.facts())
    undisturbed.run()
    wanted = (undisturbed.records(), undisturbed.facts())
    assert all(wanted[0][table] != before[0][table] for table in TABLES)

    site.kill(point)

    # the state, the records, the positions and the failed visits: all of it or nothing
    happened = point in POINTS[3:]
    assert (site.records(), site.facts()) == (wanted if happened else before)
    site.run()
    assert site.records() == wanted[0]
    assert site.facts() == wanted[1]
    site.run()  # the failed visit is tried again at once; nothing comes of it
    assert not site.run().did_something
    assert site.records() == wanted[0]
    with site.open() as store:
        report = store.verify(replay=True)
    assert report.ok, report.findings


def write_two_days(site: Site) -> None:
    """Visits of a first run; and a second day with all that a day may bring."""
    site.write(visits=[(1, 2, "X"), (2, 2, "X"), (3, 2, "X")], conversions=[(3, 2, 1)])
    site.run()
    site.write(visits=[(1, 2, "Y"), (2, 3, "Y"), (4, 1, "new"), (5, 1000, "bad")], gone=[3])
    site.write(conversions=[(1, 1, 10), (2, 2, 20), (4, 1, 30), (2, 3, 40)])


@pytest.mark.scenario("D15")
@pytest.mark.scenario("D23")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["in-transaction", pytest.param("committed", marks=pytest.mark.long)])
def test_killed_at_a_point_of_the_commit_the_next_run_leaves_the_same_records(site, tmp_path, point):
    write_two_days(site)
    check_killed_at(site, tmp_path, point)


@pytest.mark.long
@pytest.mark.scenario("D15")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_the_next_run_leaves_the_same_records(site, tmp_path, point):
    write_two_days(site)
    check_killed_at(site, tmp_path, point)


@pytest.mark.long
@pytest.mark.scenario("D15")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(6))
def test_killed_again_and_again_the_records_are_those_of_undisturbed_runs(site, tmp_path, seed):
    """Random days, each begun by a process that is killed somewhere; beside it a store where nobody is."""
    chance = random.Random(seed)
    (tmp_path / "undisturbed").mkdir()
    undisturbed = Site(tmp_path / "undisturbed", site.spark)
    newest: dict[int, int] = {}
    for day in range(3):
        visits, conversions = [], []
        for visit in chance.sample(range(8), 4):
            newest[visit] = newest.get(visit, 0) + chance.choice([0, 1, 1, 2])
            visits.append((visit, newest[visit], chance.choice("abc") + str(day)))
        for _ in range(4):
            visit = chance.choice(list(newest))
            conversions.append((visit, chance.randint(0, newest[visit]), chance.randint(1, 9)))
        for each in (site, undisturbed):
            each.write(visits=visits, conversions=conversions)
        site.kill(chance.choice(POINTS))
        site.run()
        undisturbed.run()
    assert site.records() == undisturbed.records()
    with site.open() as store:
        assert store.verify(replay=True).ok
