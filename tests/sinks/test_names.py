"""A sink under another name: refused, or in the other one's place, and nothing is sent twice."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlalchemy import delete
from tests.support.sink_visits import Visits, stop_at

import seamark as sm
from seamark.control.schema import sink_position
from seamark.errors import InvalidSink, LeaseHeld, TargetConflict, TargetMismatch
from seamark.sinks.plan import SinkMode


@pytest.fixture
def reopened(open_store, no_spark, url, arrow):
    """The same project in another program: with the sink under another name, perhaps."""
    return lambda **options: Visits(open_store(spark=no_spark), url, arrow, **options)


@pytest.fixture
def sent(visits) -> Visits:
    """A sink 'out' that has sent two blocks, whose tokens the target has forgotten."""
    visits.write((1, 1, 1, 0.5))
    visits.write((1, -1, 1, 0.5), (1, 1, 2, 0.7))
    visits.send()
    visits.forgets_its_tokens()
    return visits


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("rebuilt", [False, True], ids=["", "control database rebuilt"])
def test_a_sink_under_another_name_is_refused_and_goes_on_where_it_adopts(sent, reopened, rebuilt):
    if rebuilt:  # from the chains, which know nothing of sinks
        with sent.store.control.database.write() as connection:
            connection.execute(delete(sink_position))
    for write_more in (False, True):
        if write_more:
            sent.write((2, 1, 1, 0.5))
        renamed = reopened(name="renamed")
        report = renamed.store.run().sinks["renamed"]
        assert isinstance(report.error, TargetConflict)
        assert "sink 'out' does so already: up to block 3. Nothing was sent" in str(report.error)
        assert 'ds.sink(…, adopt="out")' in str(report.error)
        assert sent.standing() == {(1, 2): 1}

    adopting = reopened(name="renamed", adopt="out")
    assert adopting.send().blocks == 1
    assert sent.standing() == {(1, 2): 1, (2, 1): 1}
    again = reopened(name="renamed", adopt="out")  # the program stays as it is
    again.write((3, 1, 1, 0.5))
    assert again.send().blocks == 1
    without = reopened(name="renamed")  # or adopts no more, for that is done
    without.write((4, 1, 1, 0.5))
    assert without.send().blocks == 1
    assert sent.standing() == {(1, 2): 1, (2, 1): 1, (3, 1): 1, (4, 1): 1}
    assert [entry.sink for entry in sent.store.control.sinks.all()] == ["renamed"]


@pytest.mark.scenario("D39")
def test_a_sink_that_was_adopted_goes_on_no_more_unless_it_adopts_back(sent, reopened):
    adopting = reopened(name="renamed", adopt="out")
    assert adopting.send().blocks == 0  # nothing was new: it has only taken the other one's place
    adopting.write((2, 1, 1, 0.5))
    error = sent.store.run().sinks["out"].error
    assert isinstance(error, TargetConflict)
    assert "sink 'renamed' continues in its place. Nothing was sent" in str(error)
    assert adopting.send().blocks == 1

    adopting.write((3, 1, 1, 0.5))
    back = reopened(name="out", adopt="renamed")
    assert back.send().blocks == 1
    back.write((4, 1, 1, 0.5))
    assert isinstance(reopened(name="renamed").store.run().sinks["renamed"].error, TargetConflict)
    assert sent.standing() == {(1, 2): 1, (2, 1): 1, (3, 1): 1}


@pytest.mark.scenario("D39")
def test_what_was_planned_for_a_sink_that_adopts_is_what_it_sends(sent, reopened):
    sent.write((2, 1, 1, 0.5), (3, 1, 1, 0.5))
    adopting = reopened(name="renamed", adopt="out")
    plan = adopting.sink.plan()
    assert (plan.mode, plan.blocks, plan.records, plan.after) == (SinkMode.BLOCKS, 1, 2, 3)
    report = adopting.send()
    assert (report.blocks, report.records) == (1, 2)


@pytest.mark.scenario("D39")
def test_the_block_in_doubt_is_adopted_with_its_age(sent, reopened, monkeypatch):
    sent.write((2, 1, 1, 0.5))
    sent.send()
    sent.is_in_doubt_again()
    ages = "SELECT sink, inserts, toUnixTimestamp64Milli(at) AS at FROM seamark_sink_positions FINAL ORDER BY sink"
    (before,) = sent.target.query(ages)
    sent.by_fast_supplier((7, 1, 5))
    adopting = reopened(name="renamed", adopt="out")
    stop_at("sink-adopted", adopting, monkeypatch)
    assert sent.target.query(ages) == [before, {**before, "sink": "renamed"}]
    assert adopting.send().blocks == 1  # sent again, and swallowed
    assert sent.standing() == {(1, 2): 1, (2, 1): 1, (7, 5): 1}


@pytest.mark.scenario("D39")
def test_killed_while_it_adopts_the_next_run_goes_on(sent, reopened, monkeypatch):
    sent.write((2, 1, 1, 0.5))
    stop_at("sink-adopted", reopened(name="renamed", adopt="out"), monkeypatch)
    assert isinstance(sent.store.run().sinks["out"].error, TargetConflict)
    assert reopened(name="renamed", adopt="out").send().blocks == 1
    assert sent.standing() == {(1, 2): 1, (2, 1): 1}


@pytest.mark.scenario("D39")
def test_a_name_that_was_never_there_cannot_be_adopted(sent, reopened):
    error = reopened(name="renamed", adopt="uot").store.run().sinks["renamed"].error
    assert "sink 'out' does so already, not 'uot'" in str(error)
    assert sent.standing() == {(1, 2): 1}


@pytest.mark.scenario("D39")
def test_where_nothing_was_sent_yet_there_is_nothing_to_adopt(visits, reopened):
    renamed = reopened(name="renamed", adopt="before")  # as the program of another place says
    renamed.write((1, 1, 1, 0.5))
    assert renamed.send().blocks == 1
    assert renamed.standing() == {(1, 1): 1}


@pytest.mark.scenario("D39")
def test_two_programs_on_one_control_database_do_not_send_at_the_same_time(visits, reopened, monkeypatch):
    monkeypatch.setenv("SEAMARK_SCHEDULER_WAIT", "0")
    other = reopened(name="another name")
    visits.write((1, 1, 1, 0.5))
    met = []

    def both_at_once(report: sm.SinkReport, left: int) -> None:
        met.append(other.store.run().sinks["another name"].error)

    visits.store.run(fail_fast=True, on_block=both_at_once)
    assert [type(error) for error in met] == [LeaseHeld]
    other_sink = other.store.sinks()["another name"]
    assert other_sink.last_error() is None  # it waits its turn: nothing is wrong with it
    assert isinstance(other.store.run().sinks["another name"].error, TargetConflict)
    assert "'out' does so already" in other_sink.last_error()
    assert visits.standing() == {(1, 1): 1}


@pytest.mark.scenario("D39")
def test_two_tables_are_not_sent_to_one_keyed_target_at_the_same_time(dry, open_store, folder_url, arrow, monkeypatch):
    monkeypatch.setenv("SEAMARK_SCHEDULER_WAIT", "0")
    target = sm.ClickHouseSink(folder_url, table="users")
    stores = {"one": dry, "two": open_store()}
    for name, store in stores.items():
        table = store.table(name, "id long, name string", key="id")
        store.sink(table, target, name=f"from {name}")
        table.upsert(arrow(table, (1, name)))
    met = []

    def second(_reached: str) -> None:
        monkeypatch.setattr("seamark.faults.reached", lambda point: None)
        met.append(stores["two"].run().sinks["from two"].error)

    monkeypatch.setattr("seamark.faults.reached", second)  # both have found the target empty, before either has sent
    stores["one"].run(fail_fast=True)
    assert [type(error) for error in met] == [LeaseHeld]
    assert isinstance(stores["two"].run().sinks["from two"].error, TargetConflict)
    assert target.query("SELECT name FROM users FINAL") == [{"name": "one"}]


def test_a_sink_that_is_run_by_itself_is_on_record_as_well(visits):
    visits.write((1, 1, 1, 0.5))
    visits.target.query("CREATE TABLE visits (other Int64) ENGINE = MergeTree ORDER BY other")
    sink = visits.store.sinks()["out"]
    with pytest.raises(TargetMismatch):
        sink.run()
    assert "table 'visits' of" in sink.last_error()
    visits.target.query("DROP TABLE visits")
    assert sink.run().blocks == 1
    assert sink.last_error() is None


@pytest.mark.scenario("D39")
def test_a_keyed_target_may_be_filled_anew_under_another_name(open_store, spark, url):
    for name in ("first", "second"):
        store = open_store(spark=spark)
        users = store.table("users", "id long, name string", key="id")
        target = sm.ClickHouseSink(url, table="users")
        store.sink("users", target, name=name)
        users.upsert(pa.table({"id": [1, 2], "name": [name, "always"]}))
        assert store.run(fail_fast=True).ok
        assert target.query("SELECT id, name FROM users FINAL ORDER BY id") == [
            {"id": 1, "name": name},
            {"id": 2, "name": "always"},
        ]


@pytest.mark.scenario("D39")
def test_a_program_cannot_carry_a_table_twice_to_one_target(local_visits, folder_url):
    store, log = local_visits.store, "visits_log"
    same = sm.ClickHouseSink(folder_url, table="visits", collapse_by="VisitID")
    with pytest.raises(InvalidSink, match=r"sink 'out' does so already\. The second one was not added"):
        store.sink(log, same, name="twice")
    with pytest.raises(InvalidSink, match="take the place of 'out', which is declared as well"):
        store.sink(log, sm.ClickHouseSink(folder_url, table="v2", collapse_by="VisitID"), name="twice", adopt="out")
    with pytest.raises(InvalidSink, match="take the place of 'x', which is declared as well"):
        store.sink(log, sm.ClickHouseSink(folder_url, table="v2", collapse_by="VisitID"), name="x", adopt="x")
    assert list(store.sinks()) == ["out"]


def test_a_table_that_one_sink_makes_anew_is_filled_anew_by_the_others_too(dry, folder_url, arrow):
    target = sm.ClickHouseSink(folder_url, table="clicks")
    tables = [dry.table(name, "url string") for name in ("one", "two")]
    for table in tables:
        dry.sink(table, target, name=table.name)
        table.append(arrow(table, (f"/{table.name}",)))
    dry.run(fail_fast=True)
    target.query("DROP TABLE clicks")
    for table in tables:
        table.append(arrow(table, (f"/{table.name}/again",)))
    dry.run(fail_fast=True)
    assert sorted(row["url"] for row in target.query("SELECT url FROM clicks")) == [
        "/one",
        "/one/again",
        "/two",
        "/two/again",
    ]


@pytest.mark.scenario("D39")
def test_a_sink_that_leads_elsewhere_now_fills_the_other_target_at_once(visits, open_store, no_spark, url):
    visits.write((1, 1, 1, 0.5))
    visits.send()
    store = open_store(spark=no_spark)
    target = sm.ClickHouseSink(url, table="elsewhere", collapse_by="VisitID")
    store.sink("visits_log", target, name="out")
    assert store.plan_sinks()["out"].blocks == 1
    assert store.run(fail_fast=True).sinks["out"].blocks == 1
    assert target.query("SELECT count() AS n FROM elsewhere") == [{"n": 1}]
    assert store.plan_sinks()["out"].mode is SinkMode.SETTLED
    assert visits.send().blocks == 0  # and back: it is where it was
    assert visits.standing() == {(1, 1): 1}
