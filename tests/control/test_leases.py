"""Leases: one holder at a time, by the database's clock."""

import threading

import pytest
from sqlalchemy import select, update

from seamark.control import Keeper, Lease
from seamark.control.schema import lease as lease_table
from seamark.errors import ControlUnavailable, LeaseHeld, LeaseLost


def seconds_left(control, name):
    with control.database.read() as connection:
        row = connection.execute(select(lease_table).where(lease_table.c.name == name)).one()
        return row.expires_at - control.database.now(connection)


def turn_end(control, name, seconds):
    """Let a lease end that many seconds from now, by the database's clock."""
    with control.database.write() as connection:
        end = control.database.now(connection) + seconds
        connection.execute(update(lease_table).where(lease_table.c.name == name).values(expires_at=end))


def test_a_lease_has_one_holder(control):
    lease = control.leases.acquire("step:feed", holder="me")
    assert lease == Lease("step:feed", "me", epoch=1)
    assert control.leases.acquire("step:feed", holder="you") is None
    assert control.leases.holder("step:feed") == "me"
    assert control.leases.holder("step:other") is None
    assert 25 < seconds_left(control, "step:feed") <= 30


def test_a_lease_that_ran_out_is_taken_over_with_a_new_epoch(control):
    control.leases.acquire("step:feed", holder="me")
    turn_end(control, "step:feed", 0)
    assert control.leases.holder("step:feed") is None
    assert control.leases.acquire("step:feed", holder="you") == Lease("step:feed", "you", epoch=2)


def test_renewing_keeps_a_lease(control):
    lease = control.leases.acquire("step:feed")
    turn_end(control, "step:feed", 5)
    control.leases.renew(lease)
    assert seconds_left(control, "step:feed") > 25


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_lease_that_is_no_longer_ours_cannot_be_renewed(control, taken_over):
    lease = control.leases.acquire("step:feed")
    turn_end(control, "step:feed", -1)
    if taken_over:
        control.leases.acquire("step:feed", holder="you")
    with pytest.raises(LeaseLost, match="'step:feed' ran out or was taken over"):
        control.leases.renew(lease)
    assert control.leases.holder("step:feed") == ("you" if taken_over else None)


def test_a_released_lease_is_free_and_its_epoch_goes_on(control):
    lease = control.leases.acquire("step:feed")
    control.leases.release(lease)
    assert control.leases.holder("step:feed") is None
    with pytest.raises(LeaseLost):
        control.leases.renew(lease)
    assert control.leases.acquire("step:feed").epoch == 2


def test_releasing_a_lease_that_another_has_changes_nothing(control):
    former = control.leases.acquire("step:feed")
    turn_end(control, "step:feed", -1)
    control.leases.acquire("step:feed", holder="you")
    control.leases.release(former)
    assert control.leases.holder("step:feed") == "you"


def test_a_block_holds_a_lease_and_gives_it_back_also_after_an_error(control):
    def work():
        with control.leases.held("step:feed", holder="me"):
            assert control.leases.holder("step:feed") == "me"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert control.leases.holder("step:feed") is None


def test_whoever_waits_in_vain_is_told_who_has_it(control):
    control.leases.acquire("step:feed", holder="host-1")
    with (
        pytest.raises(LeaseHeld, match="'step:feed' is already running: host-1 holds its lease"),
        control.leases.held("step:feed", wait=0),
    ):
        pytest.fail("two hold one lease")
    with pytest.raises(LeaseHeld, match="host-1"):
        control.leases.wait_until_free("step:feed", wait=0)


def test_whoever_waits_gets_the_lease_when_it_is_given_back(control):
    first = control.leases.acquire("step:feed", holder="first")
    asked = threading.Event()
    acquire = control.leases.acquire

    def asks(*args):
        granted = acquire(*args)
        asked.set()
        return granted

    control.leases.acquire = asks
    got = []

    def second():
        with control.leases.held("step:feed", holder="second") as lease:
            got.append(lease)

    waiting = threading.Thread(target=second)
    waiting.start()
    assert asked.wait(10)
    assert got == []
    control.leases.release(first)
    waiting.join(10)
    assert got == [Lease("step:feed", "second", epoch=2)]


def test_nobody_waits_for_a_free_lease(control):
    control.leases.wait_until_free("write:posts", wait=0)
    assert control.leases.holder("write:posts") is None


def test_eight_threads_that_want_one_lease_get_it_one_at_a_time(control):
    together = threading.Barrier(8)
    granted = []

    def want():
        together.wait()
        granted.append(control.leases.acquire("step:feed"))

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([lease for lease in granted if lease is not None]) == 1


# --- kept alive in the background -------------------------------------------------------------------------------------


class Renewals:
    """A renewal that meets these errors, one after another, and then none; `enough` is set when it was called often."""

    def __init__(self, *errors, enough):
        self.errors = list(errors)
        self.calls = 0
        self.wanted = enough
        self.enough = threading.Event()

    def __call__(self):
        self.calls += 1
        if self.calls >= self.wanted:
            self.enough.set()
        if self.errors:
            raise self.errors.pop(0)


def test_a_keeper_renews_until_its_block_ends():
    renew = Renewals(enough=3)
    with Keeper(renew, every=0.001):
        assert renew.enough.wait(10)
    after = renew.calls
    assert not any(thread.name == "seamark-keeper" for thread in threading.enumerate())
    assert renew.calls == after


def test_a_keeper_goes_on_after_a_database_that_was_away_for_a_moment():
    renew = Renewals(ControlUnavailable("away"), enough=3)
    with Keeper(renew, every=0.001):
        assert renew.enough.wait(10)


def test_a_keeper_stops_when_the_lease_is_lost():
    renew = Renewals(LeaseLost("gone"), enough=1)
    keeper = Keeper(renew, every=0.001)
    with keeper:
        keeper._thread.join(10)
        assert not keeper._thread.is_alive()
    assert renew.calls == 1
