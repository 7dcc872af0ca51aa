"""Targets that hold rows of which they do not know: copies, other chains, tables that were emptied or made anew."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlalchemy import delete

import seamark as sm
from seamark.control.schema import sink_position
from seamark.errors import InvalidSink, TargetConflict


@pytest.fixture
def program(open_store, no_spark, folder_url, arrow):
    """A program that appends to a log, and carries it to a table of ClickHouse."""

    def start(table: str, *rows: int, **options: str) -> Log:
        log = Log(open_store(spark=no_spark), sm.ClickHouseSink(folder_url, table=table), **options)
        for row in rows:
            log.table.append(arrow(log.table, (row,)))
        return log

    return start


class Log:
    """A log and its copy."""

    def __init__(self, store: sm.DataStore, target: sm.ClickHouseSink, **options: str) -> None:
        self.store, self.target = store, target
        self.table = store.table("log", "id long not null")
        self.sink = store.sink("log", target, **options)

    def run(self) -> sm.SinkReport:
        return self.store.run().sinks[self.sink.name]

    def copy(self) -> list[int]:
        return [row["id"] for row in self.target.query(f"SELECT id FROM {self.target.table} ORDER BY id")]


@pytest.mark.scenario("D39")
@pytest.mark.parametrize(
    ("how", "options", "rebuilt"),
    [
        ("copied", {}, False),
        ("copied", {}, True),
        ("copied", {"name": "new", "adopt": "old"}, False),
        ("copied", {"name": "old"}, True),
        ("renamed", {"name": "new"}, False),
        ("renamed", {"name": "new", "adopt": "old"}, True),
    ],
)
def test_a_copy_of_a_target_is_not_sent_what_it_has(program, how, options, rebuilt):
    """As far as the control database knows that it was sent, or, where that was rebuilt, the target's own."""
    old = program("t", 1, 2, 3, name="old")
    old.run()
    if how == "copied":
        old.target.query("CREATE TABLE t2 AS t")
        old.target.query("INSERT INTO t2 SELECT * FROM t")
    else:
        old.target.query("RENAME TABLE t TO t2")
        for window in (0, 10_000):  # as after more inserts than the table remembers
            old.target.query(f"ALTER TABLE t2 MODIFY SETTING non_replicated_deduplication_window = {window}")
    if rebuilt:
        with old.store.control.database.write() as connection:
            connection.execute(delete(sink_position))
    log = program("t2", 4, **options)
    error = log.run().error
    assert log.copy() == [1, 2, 3]
    assert isinstance(error, TargetConflict)
    assert f"ds.sinks()[{log.sink.name!r}].go_on_after(4) continues from there" in str(error)

    log.sink.go_on_after(4)
    assert log.run().blocks == 1
    assert log.copy() == [1, 2, 3, 4]


@pytest.mark.scenario("D39")
def test_an_unknown_name_cannot_be_adopted_where_there_are_rows(program):
    log = program("t", 1, name="new", adopt="odl")
    log.target.query("CREATE TABLE t ENGINE = MergeTree ORDER BY id AS SELECT toInt64(9) AS id")
    assert "sink 'new' is to take the place of 'odl'" in str(log.run().error)
    assert log.copy() == [9]
    log.sink.go_on_after(None)
    assert log.run().blocks == 1
    assert log.copy() == [1, 9]


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("prepared", [False, True])
def test_rows_of_others_in_a_second_target_are_known_as_such_if_it_was_made_ready_before(program, prepared):
    program("t", 1, 2, name="one").run()
    log = program("t2", name="two")
    if prepared:
        log.sink.prepare()
    else:
        log.target.query("CREATE TABLE t2 (id Int64) ENGINE = MergeTree ORDER BY id")
    log.target.insert(pa.table({"id": [9]}))
    error = log.run().error
    assert (error is None) is prepared, error
    assert log.copy() == ([1, 2, 9] if prepared else [9])


@pytest.mark.parametrize("by", ["the first", "the second"])
def test_a_target_that_was_dropped_is_filled_after_it_was_made_ready_again(program, by):
    one = program("t", 1, 2, name="one")
    one.run()
    two = one.store.table("two", "id long not null")
    second = one.store.sink("two", one.target, name="two")
    two.append(pa.table({"id": [3]}))
    one.store.run(fail_fast=True)
    assert one.copy() == [1, 2, 3]
    one.target.query("DROP TABLE t")
    for sink in (one.sink, second) if by == "the first" else (second, one.sink):
        sink.prepare()
    report = one.store.run(fail_fast=True)
    assert (report.sinks["one"].blocks, report.sinks["two"].blocks) == (2, 1)
    assert one.copy() == [1, 2, 3]
    one.sink.prepare()
    assert not one.store.run(fail_fast=True).did_something


def test_a_log_that_was_emptied_and_of_which_nobody_knows_is_filled_whatever_it_remembers(program):
    log = program("t", 1, 2)
    log.run()
    log.target.query("ALTER TABLE t DELETE WHERE 1 SETTINGS mutations_sync = 2")
    log.target.query("DROP TABLE seamark_sink_positions")
    with log.store.control.database.write() as connection:
        connection.execute(delete(sink_position))
    assert log.run().blocks == 2
    assert log.copy() == [1, 2]


def test_a_sink_cannot_be_declared_beside_one_that_takes_its_place(program, folder_url):
    log = program("t", name="new", adopt="old")
    with pytest.raises(InvalidSink, match=r"sink 'new' is to take the place of 'old', which is declared as well"):
        log.store.sink("log", sm.ClickHouseSink(folder_url, table="t2"), name="old")
    assert list(log.store.sinks()) == ["new"]


def test_names_that_have_gone_from_one_sink_to_the_next_come_back(program):
    for name, adopts, row in (("a", None, 1), ("b", "a", 2), ("c", "b", 3)):
        assert program("t", row, name=name, adopt=adopts).run().blocks == 1
    assert 'adopt="c"' in str(program("t", 4, name="a").run().error)
    back = program("t", name="a", adopt="c")
    assert back.run().blocks == 1
    assert back.copy() == [1, 2, 3, 4]


# --- keyed ------------------------------------------------------------------------------------------------------------


class Users:
    """A keyed table and its copy."""

    def __init__(self, store: sm.DataStore, url: str, table: str = "users", name: str = "out") -> None:
        self.store, self.name = store, name
        self.table = store.table(table, "id long, name string", key="id")
        self.target = sm.ClickHouseSink(url, table="users")
        self.sink = store.sink(table, self.target, name=name)

    def put(self, row: int, name: str) -> sm.SinkReport:
        self.table.upsert(pa.table({"id": [row], "name": [name]}))
        return self.store.run(self.name).sinks[self.name]

    def copy(self) -> dict[int, str]:
        return {row["id"]: row["name"] for row in self.target.query("SELECT id, name FROM users FINAL")}


@pytest.mark.parametrize("how", ["another store", "another table", "another store and no positions"])
def test_a_keyed_target_takes_rows_of_one_chain_only(open_store, spark, folder_url, how):
    """Each chain counts its records for itself, so that the greater number does not say which row is newer."""
    first = Users(open_store(spark=spark), folder_url, name="a")
    for name in ("old", "older", "oldest"):
        first.put(1, name)
    store = first.store if how == "another table" else open_store("other", spark=spark)
    second = Users(store, folder_url, "persons" if how == "another table" else "users", name="b")
    if "no positions" in how:
        first.target.query("DROP TABLE seamark_sink_positions")
    error = second.put(1, "NEW").error
    assert isinstance(error, TargetConflict)
    assert "Nothing was sent" in str(error)
    assert second.copy() == {1: "oldest"}

    second.target.query("TRUNCATE TABLE users")
    assert second.put(1, "NEWER").blocks == 2
    assert second.put(1, "NEWEST").blocks == 1
    assert second.copy() == {1: "NEWEST"}
    if "no positions" not in how:
        assert isinstance(first.put(1, "back").error, TargetConflict)


def test_a_keyed_target_may_be_emptied_as_often_as_one_likes(ds, folder_url):
    users = Users(ds, folder_url)
    for number in range(6):
        assert users.put(number, "x").blocks == (number + 1 if number else 1)
        assert users.copy() == dict.fromkeys(range(number + 1), "x")
        users.target.query("ALTER TABLE users DELETE WHERE 1 SETTINGS mutations_sync = 2")


def test_rows_that_are_missing_in_a_keyed_target_are_sent_by_hand(ds, folder_url):
    users = Users(ds, folder_url)
    for number in range(4):
        users.put(number, "x")
    users.target.query("ALTER TABLE users DELETE WHERE id IN (1, 2) SETTINGS mutations_sync = 2")
    users.sink.go_on_after(None)
    assert users.store.run().sinks["out"].blocks == 4
    assert users.copy() == dict.fromkeys(range(4), "x")
