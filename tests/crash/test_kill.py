"""A real process is killed on its way through a commit: the next to open the store finds all of it or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import SUPPORT

from seamark import DataStore, faults
from seamark.ledger.objects import ChainFiles

BEFORE = ["slices-staged", "blocks-staged", "in-transaction"]
AFTER = ["committed", "mirrored"]
ROWS = 2500  # in blocks of 1000


@dataclass
class Site:
    """A store with a table of clicks, and processes that write to it."""

    control: str
    warehouse: Path
    clock: object

    def open(self) -> DataStore:
        store = DataStore(self.control, self.warehouse, block_rows=1000, clock=self.clock)
        store.table("clicks", "number long")
        return store

    def append(self, first: int, count: int):
        with self.open() as store:
            return store.table("clicks").append(numbers(first, count))

    def run_writer(self, first: int, count: int, *, at: str = "", after: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, SUPPORT / "writer.py", self.control, self.warehouse]
        command += [str(number) for number in (first, count, after)]
        environment = os.environ | {"SEAMARK_KILL_AT": at}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)

    def kill_writer(self, first: int, count: int, at: str) -> None:
        told = self.run_writer(first, count, at=at)
        assert told.returncode == -signal.SIGKILL, told.stderr

    @property
    def mirrored_head(self) -> str | None:
        return ChainFiles(self.warehouse / "clicks").head()

    def objects(self) -> set[str]:
        """The files of the chain, committed or not."""
        folders = [self.warehouse / "clicks" / kind for kind in ("blocks", "data", "checkpoints")]
        return {str(path.relative_to(self.warehouse)) for folder in folders for path in folder.glob("*")}


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"number": pa.array(range(first, first + count), pa.int64())})


def committed(store: DataStore) -> set[str]:
    """The files that the chain names."""
    found = set()
    for entry in store.control.index.blocks("clicks"):
        found.add(f"clicks/blocks/{entry.hash}")
        if entry.slice_hash:
            found.add(f"clicks/data/{entry.slice_hash}")
    return found


def intervals(store: DataStore) -> list[tuple[int, int, int]]:
    """Sequence, first and last offset of each block with data."""
    return [
        (b.sequence, b.first_offset, b.last_offset) for b in store.control.index.slices("clicks", after=None, upto=None)
    ]


def values(store: DataStore) -> list[int]:
    """The number of each record, in the order of the chain."""
    folder = store.warehouse / "clicks" / "data"
    slices = store.control.index.slices("clicks", after=None, upto=None)
    return [n for entry in slices for n in pq.read_table(folder / entry.slice_hash)["number"].to_pylist()]


@pytest.fixture
def site(control_url, tmp_path, clock) -> Site:
    return Site(control_url, tmp_path / "warehouse", clock)


@pytest.mark.scenario("L42")
@pytest.mark.scenario("L44")
@pytest.mark.scenario("T43")
@pytest.mark.parametrize("first_commit", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("point", BEFORE)
def test_killed_before_the_end_of_the_transaction_nothing_has_happened(site, point, first_commit):
    if not first_commit:
        site.append(0, 10)
    standing = 0 if first_commit else 10
    blocks = 0 if first_commit else 3
    mirrored = site.mirrored_head

    site.kill_writer(standing, ROWS, at=point)

    with site.open() as store:
        clicks = store.table("clicks")
        assert (clicks.head.sequence, clicks.head.block_hash) == (blocks - 1, mirrored)
        assert values(store) == list(range(standing))
        assert site.mirrored_head == mirrored
        assert store.verify().ok

        orphans = site.objects() - committed(store)
        staged_blocks = 0 if point == "slices-staged" else 5 if first_commit else 3
        assert len(orphans) == 3 + staged_blocks
        assert store.gc().count == 0  # nobody knows yet that the writer is dead
        site.clock.advance(hours=2)
        size = sum((site.warehouse / orphan).stat().st_size for orphan in orphans)
        would = store.gc(dry_run=True)
        collected = store.gc()
        assert would.removed == collected.removed
        assert {gone.path for gone in collected.removed if not gone.path.startswith(".staging")} == orphans
        assert collected.bytes == size
        assert site.objects() == committed(store)
        assert store.gc().count == 0
        assert store.verify().ok

        written = clicks.append(numbers(standing, ROWS))
        assert (written.first_offset, written.last_offset, written.blocks) == (standing, standing + ROWS - 1, 3)
        assert values(store) == list(range(standing + ROWS))
        assert store.verify().ok


@pytest.mark.scenario("L42")
@pytest.mark.parametrize("point", BEFORE)
def test_killed_before_the_end_the_same_write_gets_the_same_offsets_at_once(site, point):
    site.append(0, 10)
    site.kill_writer(10, ROWS, at=point)
    written = site.append(10, ROWS)
    assert (written.sequence, written.first_offset, written.last_offset) == (5, 10, 10 + ROWS - 1)
    with site.open() as store:
        assert values(store) == list(range(10 + ROWS))
        assert store.verify().ok


@pytest.mark.scenario("L42")
@pytest.mark.scenario("L44")
@pytest.mark.parametrize("first_commit", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("point", AFTER)
def test_killed_after_the_transaction_the_change_is_whole(site, point, first_commit):
    if not first_commit:
        site.append(0, 10)
    standing = 0 if first_commit else 10
    mirrored = site.mirrored_head

    site.kill_writer(standing, ROWS, at=point)

    if point == "committed":
        assert site.mirrored_head == mirrored
    with site.open() as store:
        clicks = store.table("clicks")
        assert [healed.table for healed in store.healed] == (["clicks"] if point == "committed" else [])
        assert clicks.head.block_hash == site.mirrored_head != mirrored
        first = 2 if first_commit else 3
        ends = [(standing, standing + 999), (standing + 1000, standing + 1999), (standing + 2000, standing + 2499)]
        assert intervals(store)[-3:] == [(first + place, *end) for place, end in enumerate(ends)]
        assert values(store) == list(range(standing + ROWS))
        assert store.verify().ok

        site.clock.advance(hours=2)
        collected = store.gc()
        assert [gone.path for gone in collected.removed if not gone.path.startswith(".staging")] == []
        assert site.objects() == committed(store)
        assert clicks.append(numbers(standing + ROWS, 1)).first_offset == standing + ROWS
        assert store.verify().ok


@pytest.mark.scenario("T48")
def test_files_of_a_live_write_are_not_collected_and_its_commit_succeeds(site, monkeypatch):
    site.append(0, 10)
    with site.open() as store, site.open() as cleaner:
        found = []

        def collect_meanwhile(point: str) -> None:
            if point in ("slices-staged", "blocks-staged"):
                for path in site.warehouse.rglob("f1620*"):  # as if they had been written long ago
                    os.utime(path, (0, 0))
                found.append(cleaner.gc())

        monkeypatch.setattr(faults, "reached", collect_meanwhile)
        written = store.table("clicks").append(numbers(10, ROWS))
        monkeypatch.undo()

        assert [report.count for report in found] == [0, 0]
        assert written.last_offset == 9 + ROWS
        assert store.verify().ok


@pytest.mark.scenario("T48")
def test_a_write_that_was_taken_for_dead_is_done_again(site, monkeypatch):
    site.append(0, 10)
    with site.open() as store, site.open() as cleaner:
        reports = []

        def jump_and_collect(point: str) -> None:
            if point == "blocks-staged" and not reports:
                site.clock.advance(hours=2)
                reports.append(cleaner.gc())

        monkeypatch.setattr(faults, "reached", jump_and_collect)
        written = store.table("clicks").append(numbers(10, ROWS))
        monkeypatch.undo()

        assert reports[0].count >= 6
        assert (written.first_offset, written.last_offset) == (10, 9 + ROWS)
        assert values(store) == list(range(10 + ROWS))
        assert store.verify().ok


@pytest.fixture
def writers(site):
    """Starts a writer, given its first number, how many, and after how many steps it is killed; gives its exit code."""
    command = [sys.executable, SUPPORT / "writer.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def write(*numbers: int) -> int:
            server.stdin.write(" ".join([site.control, str(site.warehouse), *map(str, numbers)]) + "\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        yield write
        server.stdin.close()


@pytest.mark.long
@pytest.mark.scenario("L42")
@pytest.mark.timeout(600)
def test_killed_at_any_step_all_or_nothing(site, writers):
    """Every statement, every file: kill there, look, and go on with the same write until it stands."""
    site.append(0, ROWS)
    steps = int(site.run_writer(ROWS, ROWS).stdout)
    assert steps > 50
    standing, outcomes = 2 * ROWS, set()
    for after in range(1, steps + 1):
        ended = writers(standing, ROWS, after)
        with site.open() as store:
            found = values(store)
            whole = len(found) > standing
            assert found == list(range(standing + (ROWS if whole else 0))), f"killed at step {after}"
            assert store.table("clicks").head.block_hash == site.mirrored_head
            assert store.verify().ok
            outcomes.add((whole, ended))
            standing = len(found)
    assert outcomes >= {(False, -signal.SIGKILL), (True, -signal.SIGKILL)}
