"""Several tables and several leases in one commit, as a feed that writes some tables from one source needs it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import update

from seamark import DataStore, Table
from seamark.control import Lease, Mode
from seamark.control.schema import lease as lease_table
from seamark.errors import LeaseLost, SchemaChangeRefused
from seamark.ledger import SourceState
from seamark.tables.write.change import LocalChange, NoRecords, appended_rows
from seamark.tables.write.publish import plan_table
from seamark.tables.write.transaction import Transaction
from seamark.tables.write.write_change import NOTHING_ELSE, Advance, TableWrite, write_changes
from seamark.tables.write.writing import writing


def read_to(place: str) -> Advance:
    """How far the source has been read."""
    return Advance(source_state=SourceState("shop", "odf/lsn", place))


def declare(store: DataStore) -> None:
    for name in ("orders", "clicks"):
        store.table(name, "number long")


@pytest.fixture
def store(open_store) -> DataStore:
    opened = open_store()
    declare(opened)
    return opened


@pytest.fixture
def write(store, clicks_of):
    """Appends numbers to both tables, read up to a place of the source; `meanwhile` is called while it is planned."""

    def write_it(orders, clicks, place, *, leases=(), meanwhile=lambda: None, through=None):
        def made(numbers):
            def change(_planned):
                meanwhile()
                return LocalChange(appended_rows(clicks_of(*numbers))) if numbers else NoRecords()

            return change

        opened = through or store
        # Not in the order of their names: leases are taken in that order all the same.
        given = {"orders": orders, "clicks": clicks}
        writes = [TableWrite(opened.table(n).source, made(numbers), read_to(place)) for n, numbers in given.items()]
        return write_changes(opened._context, "shop", Mode.FEED, writes, leases=leases)

    return write_it


def states(store: DataStore) -> dict[str, tuple[int | None, str | None]]:
    """The last record of each table, and the place that its source was read to."""
    planned = [plan_table(store._context, name) for name in ("orders", "clicks")]
    return {
        plan.table: (plan.last_offset, plan.state.source_state.value if plan.state.source_state else None)
        for plan in planned
        if plan.state
    }


def end(store: DataStore, name: str) -> None:
    """Let a lease run out: its time is the database's, which no test can turn."""
    with store.control.database.write() as connection:
        connection.execute(update(lease_table).where(lease_table.c.name == name).values(expires_at=0.0))


# --- several tables ---------------------------------------------------------------------------------------------------


def test_two_tables_and_how_far_their_source_was_read_become_true_together(store, write):
    store.table("orders").append([{"number": 1}])
    ahead = store.control.index.head("orders").system_time

    done = write([2, 3], [7], "0/A0")

    assert {name: (c.first_offset, c.last_offset, c.appended) for name, c in done.items()} == {
        "orders": (1, 2, 2),
        "clicks": (0, 0, 1),
    }
    heads = store.control.index.heads()
    assert heads["orders"].system_time == heads["clicks"].system_time > ahead
    assert states(store) == {"orders": (2, "0/A0"), "clicks": (0, "0/A0")}
    (run, _) = store.control.index.runs()
    assert (run.step, run.mode, run.rows_out) == ("shop", "feed", 3)
    assert store.verify().ok


def test_all_tables_of_a_commit_have_the_time_after_the_latest_of_their_heads(open_store, clock, clicks_of):
    store = open_store(clock=clock)
    orders, clicks = store.table("orders", "number long"), store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    clock.advance(seconds=10)
    orders.append(clicks_of(1))
    latest = store.control.index.head("orders").system_time
    clock.advance(seconds=-5)
    sources = [table.source for table in (clicks, orders)]
    writes = [TableWrite(source, lambda _: LocalChange(appended_rows(clicks_of(2)))) for source in sources]

    write_changes(store._context, "shop", Mode.FEED, writes)

    times = {head.system_time for head in store.control.index.heads().values()}
    assert times == {latest + timedelta(milliseconds=1)}


def test_a_table_in_which_nothing_differs_gets_no_block(store, write):
    write([1], [1], "0/A0")
    before = store.control.index.heads()

    def only(table: Table, place: str) -> list[TableWrite]:
        other = store.table("clicks" if table.name == "orders" else "orders")
        moved = TableWrite(table.source, lambda _: NoRecords(), read_to(place))
        return [moved, TableWrite(other.source, lambda _: NoRecords(), read_to("0/A0"))]

    assert list(write_changes(store._context, "shop", Mode.FEED, only(store.table("orders"), "0/B0"))) == ["orders"]
    assert store.control.index.heads()["clicks"] == before["clicks"]
    assert states(store) == {"orders": (0, "0/B0"), "clicks": (0, "0/A0")}
    nothing = [TableWrite(store.table(name).source, lambda _: NoRecords()) for name in ("orders", "clicks")]
    assert write_changes(store._context, "shop", Mode.FEED, nothing) == {}
    assert len(store.control.index.runs()) == 2


def test_columns_are_added_to_a_table_in_which_nothing_else_differs(store, open_store, write, clicks_of):
    write([1], [1], "0/A0")
    grown = open_store()
    orders, clicks = grown.table("orders", "number long, page string"), grown.table("clicks", "number long")
    writes = [
        TableWrite(orders.source, lambda _: NoRecords(), NOTHING_ELSE),
        TableWrite(clicks.source, lambda _: LocalChange(appended_rows(clicks_of(2))), NOTHING_ELSE),
    ]
    assert list(write_changes(grown._context, "shop", Mode.FEED, writes)) == ["clicks"]
    heads = grown.control.index.heads()
    assert (heads["orders"].sequence, heads["orders"].schema_block) == (3, heads["orders"].head_hash)
    assert heads["orders"].system_time == heads["clicks"].system_time
    with pytest.raises(SchemaChangeRefused, match="page"):
        write([2], [3], "0/B0")  # by a program that does not know the column: nothing of either table
    assert grown.control.index.heads() == heads
    assert grown.verify().ok


def test_a_table_takes_part_in_a_transaction_once(store):
    with writing(store._context) as run:
        transaction = Transaction(store._context, run)
        transaction.table(store.table("orders").source)
        with pytest.raises(AssertionError, match="'orders' takes part already"):
            transaction.table(store.table("orders").source)


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_a_conflict_on_one_table_plans_all_of_them_again(store, open_store, write, clicks_of):
    other = open_store()
    write([1], [1], "0/A0")
    asked = []

    def meanwhile():
        asked.append(len(asked))
        if len(asked) == 2:  # both tables have been planned
            other.table("clicks").append(clicks_of(100))

    done = write([2], [2], "0/B0", meanwhile=meanwhile)

    assert len(asked) == 4
    assert (done["orders"].first_offset, done["clicks"].first_offset) == (1, 2)
    assert states(store) == {"orders": (1, "0/B0"), "clicks": (2, "0/B0")}
    assert store.verify().ok


def test_after_two_conflicts_all_tables_are_reserved_and_a_reservation_that_is_lost_is_made_again(
    store, open_store, write, clicks_of, monkeypatch
):
    other, reserved, taken = open_store(), [], []
    write([1], [1], "0/A0")
    held = store.control.leases.held
    monkeypatch.setattr(store.control.leases, "held", lambda name, **rest: taken.append(name) or held(name, **rest))

    def meanwhile():
        reserved.append([lease.name for lease in store.control.leases.live()])
        if len(reserved) in (1, 3):
            other.table("clicks").append(clicks_of(100))
        if len(reserved) == 5:
            end(store, "write:orders")

    write([2], [2], "0/B0", meanwhile=meanwhile)

    both = ["write:clicks", "write:orders"]
    assert reserved[::2] == [[], [], both, both]
    assert taken == [*both, *both]
    assert states(store) == {"orders": (1, "0/B0"), "clicks": (3, "0/B0")}  # after the two of the other
    assert store.control.leases.live() == []


@pytest.mark.timeout(120)
def test_four_writers_of_two_tables_all_get_through(store, open_store, clicks_of):
    together = threading.Barrier(4)
    stores = [open_store() for _ in range(4)]
    for opened in stores:
        declare(opened)

    def append(thread: int) -> None:
        names = ("clicks", "orders") if thread % 2 else ("orders", "clicks")
        together.wait()
        for turn in range(5):
            rows = LocalChange(appended_rows(clicks_of(10 * thread + turn)))
            writes = [TableWrite(stores[thread].table(name).source, lambda _, rows=rows: rows) for name in names]
            write_changes(stores[thread]._context, "shop", Mode.FEED, writes)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))

    assert states(store) == {"orders": (19, None), "clicks": (19, None)}
    blocks = {name: store.control.index.blocks(name) for name in ("orders", "clicks")}
    assert [b.system_time for b in blocks["orders"]] == [b.system_time for b in blocks["clicks"]]
    assert store.verify().ok


# --- several leases ---------------------------------------------------------------------------------------------------


def test_a_write_is_fenced_by_every_lease_that_it_is_given(store, write):
    write([1], [1], "0/A0")
    names = ("feed:shop", "scheduler", "step:other")
    leases = [store.control.leases.acquire(name) for name in names]
    write([2], [2], "0/B0", leases=leases)
    heads, runs = store.control.index.heads(), store.control.index.runs()

    for number, name in enumerate(names):
        end(store, name)
        with pytest.raises(LeaseLost, match=rf"'{name}' \(epoch 1\) is no longer ours") as lost:
            write([3], [3], "0/C0", leases=leases)
        assert lost.value.lease == name
        assert (store.control.index.heads(), store.control.index.runs()) == (heads, runs)
        leases[number] = store.control.leases.acquire(name)
    assert [lease.epoch for lease in leases] == [2, 2, 2]

    with pytest.raises(LeaseLost):  # a former holder
        write([3], [3], "0/C0", leases=[leases[0], Lease("scheduler", "me", 1)])
    write([3], [3], "0/C0", leases=leases)
    assert states(store) == {"orders": (2, "0/C0"), "clicks": (2, "0/C0")}
    assert store.verify().ok
