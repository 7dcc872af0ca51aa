"""Scans of views: their cursors become true with the blocks of their pages, or not at all."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from seamark import faults
from seamark.control import RunRecord, Scan, ScanId, ScanKind
from seamark.control.schema import lease as lease_table
from seamark.errors import CommitConflict, LeaseLost
from seamark.ledger import DatasetKind
from seamark.tables.care.rebuild import rebuild_control
from seamark.tables.write.change import LocalChange, appended_rows
from seamark.tables.write.publish import Progress, add_data
from seamark.tables.write.transaction import Transaction
from seamark.tables.write.writing import writing

SCAN = ScanId("handler", "orders_v", "main", ScanKind.SCAN)
FILTERED = replace(SCAN, filter="5d41402a")
PASS = ScanId("handler", "orders_v", "main", ScanKind.DICTIONARY)
OTHER = ScanId("handler", "customers_v", "main", ScanKind.SCAN)


def end(control, name):
    with control.database.write() as connection:
        connection.execute(update(lease_table).where(lease_table.c.name == name).values(expires_at=0.0))


def begun(scan, at=1.0, **rest):
    return Scan(scan, started_at=at, **rest)


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_scan_is_kept_as_it_was_written(control):
    lease = control.leases.acquire("scan:orders_v")
    assert control.scans.find(SCAN) is None
    whole = Scan(
        PASS,
        started_at=1.5,
        position='{"id":7}',
        interval='{"region":[3,9]}',
        rows_done=5_000_000_000,
        rate=0.5,
        done_at=2.5,
    )
    for scan in (begun(SCAN), whole):
        control.scans.keep(lease, scan)
        assert control.scans.find(scan.id) == scan
    control.scans.keep(lease, begun(PASS, at=3.0))
    assert control.scans.find(PASS) == begun(PASS, at=3.0)  # replaced as a whole


def test_scans_are_told_apart_by_kind_filter_and_view(control):
    lease = control.leases.acquire("scan:orders_v")
    ids = [OTHER, SCAN, FILTERED, PASS, replace(SCAN, part="archive"), replace(SCAN, job="other")]
    scans = [begun(scan, at=float(number)) for number, scan in enumerate(ids)]
    for scan in reversed(scans):
        control.scans.keep(lease, scan)
    assert control.scans.all() == scans
    assert control.scans.all("orders_v") == scans[1:]

    control.scans.drop(lease, SCAN)
    control.scans.drop(lease, SCAN)

    assert control.scans.all() == [scans[0], *scans[2:]]


@pytest.mark.parametrize("taken_over", [False, True])
def test_without_the_lease_no_scan_changes(control, taken_over):
    lease = control.leases.acquire("scan:orders_v")
    control.scans.keep(lease, begun(SCAN))
    end(control, "scan:orders_v")
    if taken_over:
        control.leases.acquire("scan:orders_v", holder="you")
    with pytest.raises(LeaseLost, match="'scan:orders_v'"):
        control.scans.keep(lease, begun(SCAN, rows_done=5))
    with pytest.raises(LeaseLost, match="'scan:orders_v'"):
        control.scans.drop(lease, SCAN)
    assert control.scans.all() == [begun(SCAN)]


# --- in a commit ------------------------------------------------------------------------------------------------------


def test_pages_move_the_cursor_with_their_blocks(control, commits):
    first = commits.append("orders_v")
    at_1 = begun(SCAN, position="1", rows_done=1)
    control.commit(commits.request(first, scans=(at_1, begun(PASS))))
    assert control.scans.all() == [begun(PASS), at_1]

    done = replace(at_1, position="2", rows_done=2, done_at=9.0)
    control.commit(commits.request(commits.append("orders_v", first.new_head), scans=(done,), dropped_scans=(PASS,)))

    assert control.scans.all() == [done]
    assert control.index.head("orders_v").sequence == 1


def test_a_commit_that_is_refused_leaves_the_cursor_where_it_was(control, commits):
    lease = control.leases.acquire("step:orders_v")
    first = commits.append("orders_v")
    stands = (begun(SCAN, position="1"), begun(PASS))
    control.commit(commits.request(first, scans=stands))
    moved = {"scans": (begun(SCAN, position="2"), begun(OTHER)), "dropped_scans": (PASS,)}

    with pytest.raises(CommitConflict):  # another has written meanwhile
        control.commit(commits.request(commits.append("orders_v"), leases=(lease,), **moved))
    end(control, "step:orders_v")
    second = commits.append("orders_v", first.new_head)
    with pytest.raises(LeaseLost, match="'step:orders_v'"):  # fenced like everything else
        control.commit(commits.request(second, leases=(lease,), **moved))

    assert sorted(control.scans.all(), key=str) == sorted(stands, key=str)
    assert control.index.head("orders_v") == first.new_head

    lease = control.leases.acquire("step:orders_v")
    control.commit(commits.request(second, leases=(lease,), **moved))
    assert {scan.id: scan.position for scan in control.scans.all()} == {SCAN: "2", OTHER: None}


# --- through a transaction --------------------------------------------------------------------------------------------


@pytest.fixture
def store(open_store):
    opened = open_store()
    opened.table("orders_v", "number long")
    return opened


@pytest.fixture
def write_page(store, clicks_of):
    """Commits a page of one row, with what it moves besides; `meanwhile` is called right before the commit."""

    def write(number, progress, *, leases=(), meanwhile=lambda: None):
        with writing(store._context) as run:
            transaction = Transaction(store._context, run, leases=leases)
            part = transaction.table(store.table("orders_v").source)
            staged = part.stage(LocalChange(appended_rows(clicks_of(number))))
            add_data(part.draft(DatasetKind.ROOT), staged.slices)
            meanwhile()
            transaction.commit(RunRecord(run.run_id, "orders_v", "append", 0.0), progress=progress)

    return write


def test_the_progress_of_a_step_has_its_scans(store, write_page):
    write_page(1, Progress(scans=(begun(SCAN, position="1", rows_done=1), begun(PASS))))
    assert {scan.id: scan.rows_done for scan in store.control.scans.all()} == {SCAN: 1, PASS: 0}

    write_page(2, Progress(scans=(begun(SCAN, position="2", rows_done=2),), dropped_scans=(PASS,)))

    assert store.control.scans.all() == [begun(SCAN, position="2", rows_done=2)]
    assert store.table("orders_v").head.offset == 1
    assert store.verify().ok


@pytest.mark.parametrize("trouble", ["conflict", "lease", "broken off"])
def test_rows_and_scans_become_true_together_or_not_at_all(store, write_page, monkeypatch, trouble):
    lease = store.control.leases.acquire("step:orders_v")
    write_page(1, Progress(scans=(begun(SCAN, position="1"), begun(PASS))))
    head = store.table("orders_v").head
    moved = Progress(scans=(begun(SCAN, position="2"), begun(OTHER)), dropped_scans=(PASS,))

    def break_off(point):
        if point == "in-transaction":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if trouble == "broken off":
            patched.setattr(faults, "reached", break_off)
        expected = {"conflict": CommitConflict, "lease": LeaseLost, "broken off": KeyboardInterrupt}[trouble]
        doing = {"conflict": lambda: write_page(7, Progress()), "lease": lambda: end(store.control, lease.name)}
        with pytest.raises(expected):
            write_page(2, moved, leases=[lease], meanwhile=doing.get(trouble, lambda: None))

    assert sorted(store.control.scans.all(), key=str) == sorted([begun(PASS), begun(SCAN, position="1")], key=str)
    if trouble != "conflict":
        assert store.table("orders_v").head == head
    write_page(3, moved)
    assert {scan.id: scan.position for scan in store.control.scans.all()} == {SCAN: "2", OTHER: None}
    assert store.verify().ok


def test_after_a_rebuild_scans_begin_again_and_pauses_stand(store, write_page, warehouse):
    """A cursor may be past pages that older chains lack: it would leave out their rows."""
    write_page(1, Progress(scans=(begun(SCAN, position="1"),)))
    store.control.views.pause("orders_v", 5.0)

    report = rebuild_control(store.control, warehouse)

    assert store.control.scans.all() == []
    assert store.control.views.find("orders_v").is_paused
    assert "pauses and scans of views" in report.not_restored
