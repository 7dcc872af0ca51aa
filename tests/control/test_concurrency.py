"""Several writers at once: no commit is lost, nobody waits in a circle, nobody starves."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from sqlalchemy import text
from tests.support import SUPPORT

from seamark import DataStore, faults
from seamark.control import Control, Mode
from seamark.errors import CommitConflict, LeaseHeld, SchemaChangeRefused, StagedFilesGone
from seamark.tables.read.source import TableSource
from seamark.tables.write.change import LocalChange, appended_rows
from seamark.tables.write.conflicts import until_committed
from seamark.tables.write.write_change import write_change


def records(store: DataStore, table: str) -> list[tuple[int, int]]:
    """Offset and number of every record, in the order of the chain."""
    files = store.table(table).source.context.files(table)
    found = []
    for entry in store.control.index.slices(table, after=None, upto=None):
        piece = pq.read_table(files.data.path(entry.slice_hash))
        found += zip(piece["offset"].to_pylist(), piece["number"].to_pylist(), strict=True)
    return found


@pytest.mark.scenario("T30")
def test_two_processes_append_fifty_times_each(control_url, warehouse, open_store):
    worker = SUPPORT / "append_worker.py"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([sys.executable, worker, control_url, warehouse, str(first), "50"], **pipes)
        for first in (0, 1000)
    ]
    for process in started:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=200) for process in started]

    assert [errors for _, errors in told] == ["", ""]
    offsets = sorted(offset for output, _ in told for offset in json.loads(output))
    assert offsets == list(range(100))
    store = open_store()
    assert [offset for offset, _ in records(store, "clicks")] == list(range(100))
    assert sorted(number for _, number in records(store, "clicks")) == [*range(50), *range(1000, 1050)]
    assert len(store.control.index.runs(newest=1000)) == 100
    assert store.verify().ok


def test_eight_threads_append_to_three_tables(postgres_url, warehouse, clicks_of):
    tables = ("clicks", "likes", "shares")
    together = threading.Barrier(8)
    with DataStore(postgres_url, warehouse) as store:
        for name in tables:
            store.table(name, "number long")

        def append(thread: int) -> None:
            together.wait()
            for turn in range(6):
                store.table(tables[(thread + turn) % 3]).append(clicks_of(100 * thread + turn))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(append, range(8)))

        found = {name: records(store, name) for name in tables}
        for name in tables:
            assert [offset for offset, _ in found[name]] == list(range(len(found[name])))
        numbers = sorted(number for name in tables for _, number in found[name])
        assert numbers == sorted(100 * thread + turn for thread in range(8) for turn in range(6))
        assert deadlocks(store.control) == 0
        assert store.verify().ok


def deadlocks(control: Control) -> int:
    """How often PostgreSQL had to break a circle: Seamark tries again then, so that nobody would notice."""
    with control.database.read() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        asked = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(connection.execute(asked).scalar_one())


def test_eight_threads_commit_to_several_tables_in_opposite_order(postgres_url, commits):
    control = Control(postgres_url)
    tables = ("comments", "likes", "posts")
    control.commit(commits.request(*[commits.append(name) for name in tables]))
    together = threading.Barrier(8)

    def commit(thread: int) -> int:
        order = tables if thread % 2 else tables[::-1]
        together.wait()
        conflicts = 0
        for turn in range(10):
            while True:
                heads = control.index.heads()
                appends = [commits.append(name, after=heads[name], by=f"{thread}.{turn}") for name in order]
                try:
                    control.commit(commits.request(*appends, run_id=f"{thread}.{turn}"))
                    break
                except CommitConflict:
                    conflicts += 1
        return conflicts

    with ThreadPoolExecutor(8) as pool:
        conflicts = sum(pool.map(commit, range(8)))

    assert conflicts > 0
    assert {head.sequence for head in control.index.heads().values()} == {80}
    for name in tables:
        assert [entry.sequence for entry in control.index.blocks(name)] == list(range(80, -1, -1))
    assert len(control.index.runs(newest=1000)) == 81
    assert deadlocks(control) == 0
    control.close()


# --- a slow writer among quick ones -----------------------------------------------------------------------------------


@pytest.mark.scenario("T51")
def test_a_slow_writer_gets_through_after_two_conflicts_and_the_quick_one_loses_nothing(open_store, clicks_of):
    slow, quick = open_store(), open_store()
    slow.table("clicks", "number long")
    clicks = quick.table("clicks", "number long")
    clicks.append(clicks_of(0))
    quick_waits = threading.Event()
    wait_until_free = quick.control.leases.wait_until_free

    def waits(name: str, wait: float) -> None:
        if quick.control.leases.holder(name) is not None:
            quick_waits.set()
        wait_until_free(name, wait)

    quick.control.leases.wait_until_free = waits
    attempts, threads = [], []

    def slowly(planned):
        attempts.append(planned.next_offset)
        number = len(attempts)
        if number <= 2:  # the quick one is faster
            clicks.append(clicks_of(number))
        else:  # the quick one tries again, but the table is reserved
            threads.append(threading.Thread(target=clicks.append, args=[clicks_of(number)]))
            threads[-1].start()
            assert quick_waits.wait(10)
        return LocalChange(appended_rows(clicks_of(100)))

    done = write_change(slow.table("clicks").source, Mode.REPLACE, slowly)
    for thread in threads:
        thread.join(30)

    assert attempts == [1, 2, 3]
    assert (done.first_offset, done.last_offset) == (3, 3)
    assert records(slow, "clicks") == [(0, 0), (1, 1), (2, 2), (3, 100), (4, 3)]
    assert slow.control.leases.holder("write:clicks") is None


@pytest.mark.scenario("T51")
def test_a_write_that_was_ready_when_the_table_was_reserved_waits_and_plans_again(open_store, clicks_of):
    store, other = open_store(), open_store()
    store.table("clicks", "number long").append(clicks_of(0))
    attempts = []

    def reserved_meanwhile(planned):
        attempts.append(planned.next_offset)
        if len(attempts) == 1:  # the lease is for one commit that comes first, and is then over
            lease = other.control.leases.acquire("write:clicks", holder="another")
            free_when_waited_for(store, other, lease)
        return LocalChange(appended_rows(clicks_of(1)))

    write_change(store.table("clicks").source, Mode.APPEND, reserved_meanwhile)

    assert attempts == [1, 1]
    assert records(store, "clicks") == [(0, 0), (1, 1)]


def free_when_waited_for(store: DataStore, other: DataStore, lease) -> None:
    wait_until_free: Callable[[str, float], None] = store.control.leases.wait_until_free

    def waits(name: str, wait: float) -> None:
        assert store.control.leases.holder(name) == "another"
        other.control.leases.release(lease)
        wait_until_free(name, wait)

    store.control.leases.wait_until_free = waits


def impatient(source: TableSource) -> TableSource:
    return replace(source, context=replace(source.context, write_wait=0))


@pytest.mark.timeout(30)
def test_waiting_for_a_reserved_table_ends(open_store, clicks_of):
    store = open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(0))
    store.control.leases.acquire("write:clicks", holder="one that never ends")
    with pytest.raises(LeaseHeld, match="one that never ends"):
        write_change(impatient(clicks.source), Mode.APPEND, lambda _: LocalChange(appended_rows(clicks_of(1))))
    assert clicks.head.offset == 0


def test_a_column_can_be_added_when_a_table_was_reserved(open_store, clicks_of):
    store, other = open_store(), open_store()
    store.table("clicks", "number long").append(clicks_of(0))
    lease = other.control.leases.acquire("write:clicks", holder="another")
    free_when_waited_for(store, other, lease)
    grown = store.table("clicks", "number long, page string")
    store.run()
    assert grown.head.sequence == 3
    assert store.verify().ok


@pytest.mark.scenario("T51")
def test_a_column_is_added_after_two_conflicts_however_busy_the_table_is(open_store, clicks_of, monkeypatch):
    grows, quick = open_store(), open_store()
    clicks = quick.table("clicks", "number long")
    clicks.append(clicks_of(0))
    numbers, reached, kept_off = iter(range(1, 11)), faults.reached, []

    def quick_is_first(point: str) -> None:
        reached(point)
        if point == "blocks-staged" and (number := next(numbers, None)) is not None:
            with monkeypatch.context() as patched:
                patched.setattr(faults, "reached", reached)
                try:
                    write_change(
                        impatient(clicks.source), Mode.APPEND, lambda _: LocalChange(appended_rows(clicks_of(number)))
                    )
                except LeaseHeld:
                    kept_off.append(number)

    grown = grows.table("clicks", "number long, page string")
    monkeypatch.setattr(faults, "reached", quick_is_first)
    grows.run()

    assert kept_off == [3]
    assert grown.head.offset == 2  # what the quick one wrote first stands
    assert quick.control.leases.holder("write:clicks") is None
    assert "page" in open_store().table("clicks").schema.names
    assert grows.verify().ok


def test_a_write_whose_files_are_taken_away_all_the_time_ends(open_store, clicks_of):
    store, attempts = open_store(), []
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(0))

    def attempt(leases) -> None:
        attempts.append([lease.name for lease in leases])
        raise StagedFilesGone("they are gone")

    with pytest.raises(StagedFilesGone):
        until_committed(clicks.source.context, ["clicks"], attempt)
    assert attempts == [[], [], *[["write:clicks"]] * 3]
    assert store.control.leases.holder("write:clicks") is None


def test_a_writer_that_does_not_know_of_a_new_column_does_not_take_it_away(open_store, clicks_of):
    store, other = open_store(), open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(0))

    def grown_meanwhile(_planned):
        other.table("clicks", "number long, page string")
        other.run()
        return LocalChange(appended_rows(clicks_of(1)))

    with pytest.raises(SchemaChangeRefused, match="page"):
        write_change(clicks.source, Mode.APPEND, grown_meanwhile)
    assert other.table("clicks").schema.names == ("number", "page")
    assert records(other, "clicks") == [(0, 0)]
