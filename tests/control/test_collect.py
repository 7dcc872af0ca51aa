"""Housekeeping beside writers and folds: nothing goes that a chain, a live run or the next fold needs."""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from seamark import faults
from seamark.control import GRACE_SECONDS, BaseVersion, LiveRun, step_lease_name
from seamark.control.staging import count_registered
from seamark.ledger.objects import Objects
from seamark.tables.care.collect import bases_to_keep


def make_old(folder: Path) -> None:
    """As if every file had been written long ago."""
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))


# --- commits meanwhile ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T48")
def test_what_is_committed_after_the_candidates_were_listed_is_not_collected(
    open_store, warehouse, clicks_of, monkeypatch
):
    store, cleaner = open_store(), open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    listed = cleaner.control.index.blocks("clicks")
    clicks.append(clicks_of(2))
    make_old(warehouse)
    monkeypatch.setattr(cleaner.control.index, "blocks", lambda _table: listed)  # as the index was before the commit

    assert cleaner.gc(dry_run=True).count == 0
    assert cleaner.gc().count == 0
    assert store.verify().ok


def test_the_candidates_that_chains_name_are_kept_each_by_its_table_and_kind(open_store, clicks_of):
    store = open_store()
    for name in ("posts", "users"):
        store.table(name, "number long").append(clicks_of(1))
    [entry] = store.control.index.slices("posts", after=None, upto=None)
    block, slice_ = entry.hash, entry.slice_hash
    named = {f"posts/blocks/{block}", f"posts/data/{slice_}"}
    strange = {f"users/blocks/{block}", f"posts/data/{block}", f"posts/checkpoints/{slice_}"}
    found = []

    store.control.staging.collect(lambda _, kept: found.append(kept), sorted(named | strange))

    assert found == [named]


@pytest.mark.scenario("T48")
def test_nobody_collects_between_a_commits_check_and_its_end(control):
    control.staging.register("run", ["posts/data/1"])
    collected = threading.Event()

    def collect() -> None:
        control.staging.collect(lambda *_: collected.set())

    collector = threading.Thread(target=collect)
    with control.database.write() as connection:
        assert count_registered(connection, "run", ("posts/data/1", "posts/data/2")) == 1
        collector.start()
        assert not collected.wait(0.5)
    assert collected.wait(10)
    collector.join()


# --- the grace --------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T48")
def test_a_live_run_is_alive_whatever_the_grace(open_store, warehouse, clicks_of, clock, monkeypatch):
    store, cleaner = open_store(clock=clock), open_store(clock=clock)
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    found = []

    def collect_meanwhile(point: str) -> None:
        if point in ("slices-staged", "blocks-staged"):
            make_old(warehouse)
            clock.advance(seconds=GRACE_SECONDS / 3)
            found.append(cleaner.gc(grace=0).count)

    monkeypatch.setattr(faults, "reached", collect_meanwhile)
    written = clicks.append(clicks_of(2))

    assert found == [0, 0]
    assert written.first_offset == 1
    assert store.verify().ok


@pytest.mark.scenario("T43")
def test_an_orphan_goes_with_grace_zero_and_what_a_dead_run_registered_an_hour_later(
    open_store, warehouse, clicks_of, clock
):
    store = open_store(clock=clock)
    store.table("clicks", "number long").append(clicks_of(1))
    orphan, left = (warehouse / "clicks" / "data" / ("f1620" + digit * 64) for digit in "01")
    for path in (orphan, left):
        path.write_bytes(b"nobody's")
    store.control.staging.register("a killed run", ["", f"clicks/data/{left.name}"])
    clock.advance(minutes=1)

    assert [gone.path for gone in store.gc(grace=0).removed] == [f"clicks/data/{orphan.name}"]
    clock.advance(hours=1)
    assert [gone.path for gone in store.gc(grace=0).removed] == [f"clicks/data/{left.name}"]


def test_an_unfinished_file_may_be_a_live_runs_for_an_hour(open_store, warehouse, clicks_of, clock):
    store = open_store(clock=clock)
    store.table("clicks", "number long").append(clicks_of(1))
    pending = warehouse / "clicks" / "blocks" / ".pending-00"
    pending.write_bytes(b"half a blo")
    clock.advance(minutes=1)
    assert store.gc(grace=0).count == 0
    clock.advance(hours=1)
    assert [gone.path for gone in store.gc(grace=0).removed] == ["clicks/blocks/.pending-00"]


# --- bases ------------------------------------------------------------------------------------------------------------


class Folded:
    """A table with a made-up base: version n of it has the file n.parquet and nothing else."""

    def __init__(self, store, versions: int) -> None:
        self.store = store
        self.folder = Path(store.table("clicks").source.base_folder)
        (self.folder / "_delta_log").mkdir(parents=True)
        for version in range(versions):
            self.write(version)
            self.remember(version)

    def write(self, version: int) -> None:
        """What a fold writes before it tells the database."""
        actions = [{"add": {"path": f"{version}.parquet"}}]
        if version:
            actions.append({"remove": {"path": f"{version - 1}.parquet"}})
        (self.folder / f"{version}.parquet").write_bytes(b"rows")
        log = self.folder / "_delta_log" / f"{version:020d}.json"
        log.write_text("\n".join(json.dumps(action) for action in actions))
        make_old(self.folder)

    def remember(self, version: int) -> None:
        self.store.control.index.add_base(BaseVersion("clicks", version, version, version, 1))

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.parquet"))

    @property
    def bases(self) -> list[int]:
        return [version.delta_version for version in self.store.control.index.bases("clicks")]


@pytest.fixture
def folded(open_store, clicks_of, monkeypatch) -> Folded:
    """Four bases, of which two are kept."""
    monkeypatch.setenv("SEAMARK_ROWS_KEEP_BASES", "2")
    store = open_store()
    store.table("clicks", "number long").append(clicks_of(1))
    return Folded(store, versions=4)


def test_bases_that_are_not_kept_go_and_the_newest_stay(folded):
    would = folded.store.gc(dry_run=True)
    assert (folded.files, folded.bases) == (["0.parquet", "1.parquet", "2.parquet", "3.parquet"], [3, 2, 1, 0])
    did = folded.store.gc()
    assert would.removed == did.removed
    assert [gone.path for gone in did.removed] == ["clicks/rows/0.parquet", "clicks/rows/1.parquet"]
    assert (folded.files, folded.bases) == (["2.parquet", "3.parquet"], [3, 2])
    assert folded.store.gc().count == 0


@pytest.mark.scenario("T44")
def test_what_a_killed_fold_has_written_is_not_collected(folded):
    folded.write(4)  # and then it is killed: the next fold remembers it
    folded.store.gc()
    assert folded.files == ["2.parquet", "3.parquet", "4.parquet"]


def test_a_base_is_forgotten_before_its_files_go(folded, monkeypatch):
    unlink = Path.unlink

    def unlink_forgotten(path: Path, *args, **options) -> None:
        if path.suffix == ".parquet":
            assert int(path.stem) not in folded.bases
        unlink(path, *args, **options)

    monkeypatch.setattr(Path, "unlink", unlink_forgotten)
    assert folded.store.gc().count == 2


def test_a_collection_that_was_killed_is_ended_by_the_next(folded, monkeypatch):
    def killed(*_args, **_options) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            folded.store.gc()
    assert folded.bases == [3, 2]
    folded.store.gc()
    assert folded.files == ["2.parquet", "3.parquet"]


def test_bases_are_left_alone_while_somebody_folds(folded, monkeypatch):
    with folded.store.control.leases.held("fold:clicks"):
        assert folded.store.gc().count == 0
    assert (folded.files, folded.bases) == (["0.parquet", "1.parquet", "2.parquet", "3.parquet"], [3, 2, 1, 0])

    held = []
    leases = folded.store.control.leases
    hold = leases.held

    @contextmanager
    def watched(name: str, **options):
        with hold(name, **options) as lease:
            held.append((name, leases.holder(name) is not None))
            yield lease

    monkeypatch.setattr(leases, "held", watched)
    assert folded.store.gc().count == 2
    assert held == [("fold:clicks", True)]


# --- bases that somebody reads ----------------------------------------------------------------------------------------


@pytest.mark.scenario("T56")
@pytest.mark.parametrize(
    ("written", "newest", "since", "kept"),
    [
        ([40, 30, 20, 10], 2, 99, [True, True, False, False]),
        ([40, 30, 20, 10], 1, 99, [True, False, False, False]),
        ([40, 30, 20, 10], 1, 25, [True, True, True, False]),  # the third was the newest until the second came, at 30
        ([40, 30, 20, 10], 1, 0, [True, True, True, True]),
        ([40, None, 20, 10], 1, 15, [True, True, False, True]),
        ([], 2, 99, []),
    ],
)
def test_a_base_is_kept_while_somebody_may_have_begun_to_read_it(written, newest, since, kept):
    assert bases_to_keep(written, newest=newest, since=since) == kept


@contextmanager
def run_at_work(store, step: str, pins: dict[str, int | None], started: float, outputs: str = "sums"):
    with store.control.leases.held(step_lease_name(step, outputs)) as lease:
        store.control.live.begin(LiveRun(f"run of {step} to {outputs}", step, lease, "changes", started, pins))
        yield


@pytest.mark.scenario("T56")
@pytest.mark.parametrize("grace", [GRACE_SECONDS, 0.0])
def test_a_live_run_keeps_the_bases_that_it_may_read(folded, grace):
    began = 0.0  # before any base was replaced: `make_old` sets every file back to then
    makers = folded.store._context.makers
    makers["sums"] = "add"
    with run_at_work(folded.store, "add", {"clicks": 3}, began):
        assert folded.store.gc(grace=grace).count == 0
    makers["clicks"] = "count"
    with run_at_work(folded.store, "count", {"visits": 3}, began):  # it writes the table, and so reads it
        assert folded.store.gc(grace=grace).count == 0
    with run_at_work(folded.store, "another program's", {"visits": 3}, began):
        assert folded.store.gc(grace=grace).count == 0
    with run_at_work(folded.store, "add", {"visits": 3}, began, outputs="clicks"):  # a step of that name elsewhere
        assert folded.store.gc(grace=grace).count == 0
    assert folded.bases == [3, 2, 1, 0]

    with run_at_work(folded.store, "add", {"visits": 3}, began):  # neither reads nor writes it
        assert folded.store.gc(grace=grace).count == 2


@pytest.mark.scenario("T56")
def test_a_run_that_began_later_or_is_dead_keeps_nothing(folded):
    folded.store._context.makers["sums"] = "add"
    with run_at_work(folded.store, "add", {"clicks": 3}, started=GRACE_SECONDS + 1):
        assert folded.store.gc(dry_run=True).count == 2
    with run_at_work(folded.store, "add", {"clicks": 3}, started=0.0):
        assert folded.store.gc(dry_run=True).count == 0
    assert folded.store.gc().count == 2  # its lease is over, so it is not alive


@pytest.mark.scenario("T56")
def test_a_run_that_begins_while_a_base_is_forgotten_can_read_it(folded, monkeypatch):
    index, drop = folded.store.control.index, folded.store.control.index.drop_bases
    folded.store._context.makers["sums"] = "add"
    with ExitStack() as running:

        def drop_and_begin(table: str, versions: list[int]) -> None:
            running.enter_context(run_at_work(folded.store, "add", {"clicks": 0}, started=0.0))
            drop(table, versions)

        monkeypatch.setattr(index, "drop_bases", drop_and_begin)
        assert folded.store.gc().count == 0
    assert folded.store.gc().count == 2


def test_a_file_that_is_gone_since_it_was_listed_is_left_to_whoever_took_it(open_store, clicks_of, monkeypatch):
    store = open_store()
    store.table("clicks", "number long").append(clicks_of(1))
    listed = store.warehouse / "clicks" / "data" / ".pending-0123456789abcdef"
    monkeypatch.setattr(Objects, "pending", lambda _: iter([listed]))

    assert store.gc(grace=0).removed == ()
