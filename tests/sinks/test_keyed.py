"""A keyed table in ClickHouse: `FINAL` is the table's rows, whatever happened to them, and however often it is sent."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from sqlalchemy import delete

import seamark as sm
from seamark.control.schema import sink_position

FINAL = "SELECT id, name FROM users FINAL ORDER BY id"


class Users:
    """A table of users, and its copy in ClickHouse."""

    def __init__(self, store: sm.DataStore, url: str, arrow) -> None:
        self.store = store
        self.arrow = arrow
        self.table = store.table("users", "id long, name string", key="id")
        self.target = sm.ClickHouseSink(url, table="users")
        self.sink = store.sink("users", self.target, name="out")
        self.expected: dict[int, str | None] = {}

    def put(self, *rows: tuple[int, str | None]) -> None:
        self.table.upsert(self.arrow(self.table, *rows))
        self.expected.update(rows)

    def drop(self, *ids: int) -> None:
        self.table.delete(self.arrow(self.table, *[(each, None) for each in ids]))
        for each in ids:
            self.expected.pop(each, None)

    def send(self) -> sm.SinkReport:
        report = self.store.run().sinks["out"]
        assert report.error is None
        return report

    def copy(self) -> dict[int, str | None]:
        return {row["id"]: row["name"] for row in self.target.query(FINAL)}

    def check(self) -> None:
        assert self.copy() == self.expected == {row.id: row.name for row in self.table.rows().collect()}

    def send_everything_again(self) -> sm.SinkReport:
        """As if nothing was sent."""
        self.sink.go_on_after(None)
        return self.send()


@pytest.fixture
def users(ds, url, arrow) -> Users:
    return Users(ds, url, arrow)


@pytest.fixture
def local_users(ds, folder_url, arrow) -> Users:
    return Users(ds, folder_url, arrow)


@pytest.mark.parametrize(
    "how", ["TRUNCATE TABLE users", "ALTER TABLE users DELETE WHERE 1 SETTINGS mutations_sync = 2"]
)
def test_a_target_that_somebody_emptied_is_filled_again(local_users, how):
    local_users.table.upsert(local_users.arrow(local_users.table, (1, "a"), (2, "b")))
    local_users.send()
    local_users.target.query(how)
    local_users.table.upsert(local_users.arrow(local_users.table, (3, "c")))
    local_users.send()

    assert local_users.copy() == {1: "a", 2: "b", 3: "c"}


def test_an_emptied_target_is_filled_by_the_run_after_one_that_was_stopped(local_users):
    for number, name in enumerate("abc"):
        local_users.put((number, name))
        local_users.send()
    local_users.target.query("ALTER TABLE users DELETE WHERE 1 SETTINGS mutations_sync = 2")
    local_users.put((3, "d"))

    def stop(_report, _left):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local_users.sink.run(stop)
    local_users.send()
    local_users.check()


@pytest.mark.scenario("F40")
def test_final_equals_the_rows_after_every_step_of_a_history(users):
    for change in (
        lambda: users.put((1, "A"), (2, "x"), (3, None)),
        lambda: users.put((1, "B")),
        lambda: users.put((1, "C"), (3, "")),
        lambda: users.put((1, "A")),
        lambda: users.drop(1),
        lambda: users.put((1, "A")),
        lambda: users.drop(1, 2, 3),
        lambda: users.put((2, "again")),
    ):
        change()
        assert users.send().blocks == 1
        users.check()
    assert users.expected == {2: "again"}


@pytest.mark.scenario("F40")
@pytest.mark.parametrize("seed", range(3))
def test_final_equals_the_rows_after_any_history(local_users, seed):
    users, chance = local_users, random.Random(seed)
    users.put((0, "begin"))
    for _ in range(6):
        for _ in range(chance.randint(1, 3)):  # several commits between two runs
            ids = chance.sample(range(6), chance.randint(1, 4))
            if chance.random() < 0.3:
                users.drop(*ids)
            else:
                users.put(*[(each, chance.choice(["a", "b", None])) for each in ids])
        users.send()
        users.check()


@pytest.mark.scenario("F40")
def test_everything_sent_twice_changes_nothing(users):
    users.put((1, "A"), (2, "x"))
    users.put((1, "B"))
    users.drop(2)
    users.put((1, "A"))
    users.send()
    for _ in range(2):
        report = users.send_everything_again()
        assert (report.blocks, report.records) == (4, 7)
        users.check()


@pytest.mark.scenario("F40")
def test_a_target_that_was_dropped_or_emptied_is_filled_from_the_beginning(users):
    users.put((1, "A"), (2, "x"))
    users.send()
    for gone in ("DROP TABLE users", "TRUNCATE TABLE users"):
        users.target.query(gone)
        users.put((3, gone))
        users.send()
        users.check()


def test_what_was_rebuilt_from_the_chains_goes_on_where_the_target_is(users):
    users.put((1, "A"))
    users.send()
    with users.store.control.database.write() as connection:
        connection.execute(delete(sink_position))
    users.put((2, "B"))
    report = users.send()
    assert (report.blocks, report.position) == (1, users.table.head.sequence)
    users.check()


def test_with_nothing_to_send_the_target_is_not_opened(users, tmp_path):
    report = users.send()  # no chain yet
    assert (report.blocks, report.position) == (0, None)
    users.put((1, "A"))
    users.send()
    users.sink.outlet = SimpleNamespace(where=users.sink.where)  # opening it would fail
    report = users.send()
    assert (report.blocks, report.records, report.position) == (0, 0, users.table.head.sequence)
    assert users.store.control.leases.live() == []


def test_blocks_without_data_move_the_position_and_nothing_else(users):
    from datetime import UTC, datetime

    users.put((1, "A"))
    users.send()
    users.table.set_watermark(datetime(2024, 1, 1, tzinfo=UTC))
    assert users.sink.pending() == []
    users.sink.outlet = SimpleNamespace(where=users.sink.where)
    report = users.send()
    assert (report.blocks, report.position) == (0, users.table.head.sequence)


def test_a_column_that_the_table_gains_is_added_to_the_target(users, arrow):
    users.put((1, "A"))
    users.send()
    grown = users.store.table("users", "id long, name string, age int, tags array<string>", key="id")
    grown.upsert(arrow(grown, (2, "B", 30, ["x"])))
    users.send()
    assert users.target.query("SELECT id, age, tags FROM users FINAL ORDER BY id") == [
        {"id": 1, "age": None, "tags": []},
        {"id": 2, "age": 30, "tags": ["x"]},
    ]
    users.send_everything_again()  # older slices have no such columns
    assert len(users.target.query(FINAL)) == 2
