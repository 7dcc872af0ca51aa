"""Scans of views: their cursors become true with the blocks of their pages, or not at all."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from seamark.control import Scan, ScanId, ScanKind
from seamark.control.schema import lease as lease_table
from seamark.errors import CommitConflict, LeaseLost

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
