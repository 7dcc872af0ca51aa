"""A real process is killed in the middle of a step: the next run goes on, and the chains look as if it had not been."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import SUPPORT, step_program

import seamark as sm

PROGRAM = SUPPORT / "step_program.py"

POINTS = ["slices-staged", "blocks-staged", "in-transaction", "committed", "mirrored", "fold-begins", "fold-written"]
Row = tuple[Any, ...]


@dataclass
class Site:
    """A store in a folder, the step in it, and processes that run the step and are killed."""

    folder: Path
    spark: Any
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> sm.DataStore:
        store = sm.DataStore(f"sqlite:///{self.folder / 'control.db'}", self.folder / "warehouse", spark=self.spark)
        step_program.declare(store, self.folder / "calls", **self.options)
        return store

    def write(self, posts: list[Row] = (), profiles: list[Row] = ()) -> None:
        with self.open() as store:
            for name, rows in (("posts", posts), ("profiles", profiles)):
                table = store.table(name)
                if rows:
                    columns = list(zip(*rows, strict=True))
                    table.upsert(pa.table(dict(zip(table.schema.names, columns, strict=True))))

    def run(self) -> sm.StepReport:
        with self.open() as store:
            return store.run(fail_fast=True).steps["process_posts"]

    def kill(self, *, at: str = "", call: int = 0) -> None:
        """Run the step in a process of its own that is killed at a point, or when its function is called again."""
        command = [sys.executable, PROGRAM, f"sqlite:///{self.folder / 'control.db'}", self.folder / "warehouse"]
        command += [self.folder / "calls", json.dumps(self.options), str(call)]
        environment = os.environ | {"SEAMARK_KILL_AT": at}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
        assert told.returncode == -signal.SIGKILL, told.stdout + told.stderr

    def calls(self) -> list[list[int]]:
        """The keys of each finished call since this was last asked."""
        file = self.folder / "calls"
        told = [[int(word) for word in line.split()] for line in file.read_text().splitlines()] if file.exists() else []
        file.unlink(missing_ok=True)
        return told

    def records(self, table: str = "feed") -> list[Row]:
        """The records of a table, read from its files: offset, operation and values."""
        with self.open() as store:
            names = ["offset", "op", *store.table(table).schema.names]
            slices = store.control.index.slices(table, after=None, upto=None)
        files = [self.folder / "warehouse" / table / "data" / entry.slice_hash for entry in slices]
        return [tuple(row[name] for name in names) for file in files for row in pq.read_table(file).to_pylist()]

    def offsets(self) -> dict[str, int]:
        with self.open() as store:
            return store.offset_table.get_record_offsets("process_posts")

    def rows(self, table: str) -> list[Row]:
        """The rows that the records of a table leave standing."""
        standing: dict[int, Row] = {}
        for _, op, key, *values in self.records(table):
            if op in (sm.Op.APPEND, sm.Op.CORRECT_TO):
                assert key not in standing
                standing[key] = (key, *values)
            else:
                assert standing.pop(key) == (key, *values)
        return sorted(standing.values())

    def check(self) -> None:
        """Both outputs are right, a further run does nothing, and the chains are whole."""
        names = dict(self.rows("profiles"))
        lines = [(post, f"{names.get(user, '?')}: {content}") for post, user, content in self.rows("posts")]
        assert self.rows("feed") == lines
        assert self.rows("sizes") == [(post, len(line)) for post, line in lines]
        assert not self.run().did_something
        with self.open() as store:
            assert store.verify().ok

    def copy(self, folder: Path) -> Site:
        """The same store somewhere else, for a run that nobody disturbs."""
        shutil.copytree(self.folder, folder)
        return Site(folder, self.spark, self.options)


@pytest.fixture
def site(tmp_path, spark, monkeypatch) -> Site:
    monkeypatch.setenv("SEAMARK_SCHEDULER_LEASE", "2")  # a killed run's lease is free again after so many seconds
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site", spark)


def write_five_batches(site: Site) -> None:
    """A first run, and after it five blocks of two records each."""
    site.options |= {"batch_rows": 2}
    site.write(posts=[(number, 100, "old") for number in range(1, 6)], profiles=[(100, "Alice")])
    site.run()
    for number in range(1, 6):
        site.write(posts=[(number, 100, "new")])
    site.calls()


@pytest.mark.scenario("X55")
def test_killed_in_the_third_of_five_batches_the_next_run_does_the_other_three(site, tmp_path):
    write_five_batches(site)
    undisturbed = site.copy(tmp_path / "undisturbed")

    site.kill(call=3)

    assert site.rows("feed") == [(1, "Alice: new"), (2, "Alice: new"), *[(n, "Alice: old") for n in (3, 4, 5)]]
    assert site.offsets() == {"posts": 8, "profiles": 0}
    assert site.calls() == [[1], [2]]
    assert site.run().batches == 3
    assert site.calls() == [[3], [4], [5]]
    undisturbed.run()
    assert site.records() == undisturbed.records()
    assert site.records("sizes") == undisturbed.records("sizes")
    site.check()


@pytest.mark.long
@pytest.mark.scenario("X56")
def test_killed_in_the_third_of_five_batches_of_one_commit_nothing_is_there(site, tmp_path):
    site.options["commit"] = "run"
    write_five_batches(site)
    undisturbed = site.copy(tmp_path / "undisturbed")
    before = site.records()

    site.kill(call=3)

    assert site.records() == before
    assert site.offsets() == {"posts": 4, "profiles": 0}
    site.calls()
    assert site.run().batches == 5
    assert site.calls() == [[1], [2], [3], [4], [5]]
    undisturbed.run()
    assert site.records() == undisturbed.records()
    site.check()


def check_killed_at(site: Site, tmp_path: Path, point: str, *, first_run: bool) -> None:
    site.write(posts=[(1, 100, "one"), (2, 200, "two"), (3, 100, "three")], profiles=[(100, "Alice"), (200, "Bob")])
    if not first_run:
        site.run()
        site.write(posts=[(1, 200, "changed"), (4, 100, "new")], profiles=[(100, "Alicia")])
    undisturbed = site.copy(tmp_path / "undisturbed")
    before = {name: site.records(name) for name in ("feed", "sizes")} if not first_run else {"feed": [], "sizes": []}
    undisturbed.run()
    wanted = {name: undisturbed.records(name) for name in ("feed", "sizes")}
    assert all(wanted[name] != before[name] for name in wanted)

    site.kill(at=point)

    # both outputs or neither: never one without the other
    happened = point in POINTS[3:]
    assert {name: site.records(name) for name in wanted} == (wanted if happened else before)
    assert site.run().did_something is not happened
    assert {name: site.records(name) for name in wanted} == wanted
    site.check()


@pytest.mark.scenario("X57")
@pytest.mark.scenario("X61")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("slices-staged", marks=pytest.mark.long),
        "in-transaction",
        pytest.param("committed", marks=pytest.mark.long),
    ],
)
def test_killed_at_a_point_of_the_commit_the_next_run_leaves_the_same_records(site, tmp_path, point):
    check_killed_at(site, tmp_path, point, first_run=False)


@pytest.mark.long
@pytest.mark.scenario("X57")
@pytest.mark.scenario("X61")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first_run", [True, False], ids=["first run", "later run"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_the_next_run_leaves_the_same_records(site, tmp_path, point, first_run):
    check_killed_at(site, tmp_path, point, first_run=first_run)


@pytest.mark.long
@pytest.mark.scenario("X55")
@pytest.mark.scenario("X56")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit", ["batch", "run"])
@pytest.mark.parametrize("call", [1, 2, 4, 5])
def test_killed_in_any_batch_the_next_run_leaves_the_same_records(site, tmp_path, commit, call):
    site.options["commit"] = commit
    write_five_batches(site)
    undisturbed = site.copy(tmp_path / "undisturbed")
    site.kill(call=call)
    site.run()
    undisturbed.run()
    assert site.records() == undisturbed.records()
    site.check()


@pytest.mark.long
@pytest.mark.scenario("X86")
@pytest.mark.scenario("X89")
@pytest.mark.timeout(600)
def test_a_first_run_in_ranges_goes_on_where_it_was_killed_and_finds_what_changed_meanwhile(site):
    """Ten ranges, killed in the fourth; the pins of the first range decide what is still news after the last one."""
    site.options["batch_keys"] = 10
    site.write(
        posts=[(number, number // 10, "text") for number in range(100)],
        profiles=[(user, f"user {user}") for user in range(10)],
    )
    first_pins = {"posts": 99, "profiles": 9}

    site.kill(call=4)

    assert site.calls() == [list(range(start, start + 10)) for start in (0, 10, 20)]
    assert site.offsets() == {}  # the positions move with the last range
    assert [post for post, _ in site.rows("feed")] == list(range(30))

    site.write(posts=[(3, 0, "changed")], profiles=[(1, "renamed")])
    with site.open() as store:
        moved = []
        store.run(
            fail_fast=True,
            on_batch=lambda report, left: moved.append(store.offset_table.get_record_offsets("process_posts")),
        )
    calls = site.calls()
    assert calls[:7] == [list(range(start, start + 10)) for start in range(30, 100, 10)]  # each key once in all
    assert moved[:7] == [{}] * 6 + [first_pins]
    assert sorted(key for keys in calls[7:] for key in keys) == [3, *range(10, 20)]
    assert site.offsets() == {"posts": 101, "profiles": 11}
    site.check()
