"""One insert a block, each counted once: tokens, parts, several blocks a commit, and a table that others write to."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from sqlalchemy import update
from tests.support.sink_visits import Visits

import seamark as sm
from seamark.control.schema import sink_position
from seamark.errors import SinkError, TargetConflict, TargetMismatch, UnfitValue
from seamark.sinks.clickhouse.target import ClickHouseTarget

INSERTED = (
    "SELECT max(max_block_number) AS parts FROM system.parts WHERE table = 'visits' AND database = currentDatabase()"
)


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("F39")
@pytest.mark.scenario("F51")
def test_a_block_that_is_sent_twice_counts_once_and_equal_blocks_count_each(visits):
    visits.write((1, 1, 1, 0.5))
    visits.write((1, 1, 1, 0.5))  # another block with equal rows
    assert visits.send().blocks == 2
    assert visits.sums() == {1: 2}

    visits.is_in_doubt_again()
    report = visits.send()
    assert (report.blocks, report.position) == (1, visits.log.head.sequence)
    assert visits.sums() == {1: 2}

    visits.is_in_doubt_again(blocks=2)
    assert visits.send().blocks == 2
    assert visits.sums() == {1: 2}


@pytest.mark.scenario("F51")
def test_the_block_in_doubt_is_the_first_to_be_sent(visits):
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.is_in_doubt_again()
    visits.write((1, -1, 1, 0.5), (1, 1, 2, 0.7))
    sent = []
    visits.store.run(on_block=lambda report, left: sent.append((report.position, left)))
    assert sent == [(visits.log.head.sequence - 1, 1), (visits.log.head.sequence, 0)]
    assert visits.sums() == {1: 0, 2: 1}


@pytest.mark.scenario("D25")
def test_a_block_that_is_sent_twice_counts_once_after_200_inserts_of_others(local_visits):
    visits = local_visits
    visits.write((1, -1, 1, 0.0), (1, 1, 1001, 0.5))
    visits.send()
    for _ in range(200):
        visits.by_fast_supplier((7, 1, 5))
    before = visits.sums()
    assert before == {1: -1, 5: 200, 1001: 1}  # equal inserts of one's own count each
    visits.is_in_doubt_again()
    assert visits.send().blocks == 1
    assert visits.sums() == before


@pytest.mark.scenario("F43")
@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_block_whose_token_is_there_and_whose_rows_are_not_is_sent_all_the_same(local_visits, tmp_path, others):
    """What a kill inside the engine can leave: it writes down the token, and then the part appears."""
    visits = local_visits
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.target.query("ALTER TABLE visits MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")  # no merges
    visits.write((1, -1, 1, 0.5), (1, 1, 2, 0.7))
    visits.send()
    visits.is_in_doubt_again()
    shutil.rmtree(tmp_path / "clickhouse" / "data" / "default" / "visits" / "all_2_2_0")
    assert visits.sums() == {1: 1}
    for number in range(others):
        visits.by_fast_supplier((7, 1, 10 + number), (7, -1, 10 + number))
    assert visits.send().blocks == 1
    assert visits.sums() == {1: 0, 2: 1} | {10 + number: 0 for number in range(others)}

    visits.is_in_doubt_again()  # now it is there, under another token
    visits.send()
    assert visits.sums()[2] == 1


@pytest.mark.scenario("F43")
def test_rows_of_a_keyed_table_whose_token_alone_is_there_are_sent_all_the_same(dry, folder_url, tmp_path):
    users = dry.table("users", "id long, name string", key="id")
    target = sm.ClickHouseSink(folder_url, table="users")
    dry.sink("users", target, name="out")
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    dry.run(fail_fast=True)
    target.query(
        "INSERT INTO seamark_sink_positions SELECT sink, table_name, target, -1, '', sequence, block_hash, 0, "
        "written + 1, at, adopted_by, suffix, made FROM seamark_sink_positions FINAL"
    )
    with dry.control.database.write() as connection:
        connection.execute(update(sink_position).values(sequence=0))
    shutil.rmtree(tmp_path / "clickhouse" / "data" / "default" / "users" / "all_1_1_0")
    target.query("INSERT INTO users (id, name, _offset, _deleted) VALUES (9, 'of another', 99, 0)")
    dry.run(fail_fast=True)
    assert [row["id"] for row in target.query("SELECT id FROM users FINAL ORDER BY id")] == [1, 9]


@pytest.mark.scenario("D25")
def test_a_block_whose_token_may_be_forgotten_is_not_sent_blindly(visits):
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.is_in_doubt_again()
    visits.target.query(  # as if 10 000 inserts had come since
        "INSERT INTO seamark_sink_positions SELECT sink, table_name, target, sequence, block_hash, doubt_sequence, "
        "doubt_hash, inserts - 10000, written + 1, at, adopted_by, suffix, made FROM seamark_sink_positions FINAL"
    )
    with pytest.raises(TargetConflict, match=r"would no longer be noticed if the block came twice. Nothing was sent"):
        visits.send()
    assert visits.sums() == {1: 1}


@pytest.mark.scenario("D25")
def test_a_block_in_doubt_stays_as_old_as_its_first_sending(local_visits, monkeypatch):
    """Else a second crash would make a token look fresh that is long forgotten."""
    visits, asked = local_visits, "SELECT doubt_sequence, inserts, written FROM seamark_sink_positions FINAL"
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.is_in_doubt_again()
    before = visits.target.query(asked)
    for _ in range(3):
        visits.by_fast_supplier((7, 1, 1))
    monkeypatch.setattr(ClickHouseTarget, "send", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        visits.send()
    assert visits.target.query(asked) == before


@pytest.mark.scenario("F39")
@pytest.mark.scenario("D25")
def test_a_table_without_a_window_gets_one(visits):
    visits.target.query(
        "CREATE TABLE visits (VisitID Int64, Sign Int8, Version Int64, revenue Nullable(Float64)) "
        "ENGINE = VersionedCollapsingMergeTree(Sign, Version) ORDER BY VisitID"
    )
    visits.write((1, 1, 1, 0.5))
    visits.send()
    ours = "name = 'visits' AND database = currentDatabase()"
    (found,) = visits.target.query(f"SELECT engine_full FROM system.tables WHERE {ours}")
    assert "non_replicated_deduplication_window = 10000" in found["engine_full"]
    visits.is_in_doubt_again()
    visits.send()
    assert visits.sums() == {1: 1}


@pytest.mark.scenario("F39")
@pytest.mark.scenario("D25")
def test_a_table_whose_window_cannot_be_set_is_refused(dry, server_url, arrow):
    visits = Visits(dry, server_url.replace("carrier", "carrier-humble"), arrow)  # who may not ALTER
    visits.target.query(
        "CREATE TABLE visits (VisitID Int64, Sign Int8, Version Int64, revenue Nullable(Float64)) "
        "ENGINE = VersionedCollapsingMergeTree(Sign, Version) ORDER BY VisitID"
    )
    visits.write((1, 1, 1, 0.5))
    with pytest.raises(
        TargetMismatch, match=r"remembers too few of its inserts.*Not enough privileges.*Nothing was sent"
    ):
        visits.send()
    assert visits.sums() == {}


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("F39")
def test_a_block_is_one_part_whatever_its_size(open_store, url, arrow):
    """Larger than what ClickHouse takes for one block if it is not told otherwise, in several row groups."""
    store = open_store(spark=object(), block_rows=2_000_000)
    visits = Visits(store, url, arrow)
    many = 1_200_000
    columns = [pa.array(range(many)), pa.array([1] * many, pa.int8()), pa.array([1] * many), pa.array([0.5] * many)]
    visits.log.append(pa.Table.from_arrays(columns, names=visits.log.schema.names))
    visits.write((1, -1, 1, 0.5))
    report = visits.send()
    assert report.records == many + 1
    assert report.blocks == 2
    assert visits.target.query(INSERTED) == [{"parts": 2}]  # all that were ever made, merged since or not
    assert visits.target.query("SELECT sum(Sign) AS net FROM visits") == [{"net": many - 1}]


@pytest.mark.scenario("F41")
def test_the_blocks_of_one_commit_arrive_in_order_and_the_next_run_goes_on_between_them(open_store, folder_url, arrow):
    store = open_store(spark=object(), block_rows=2)
    visits = Visits(store, folder_url, arrow)
    visits.write(*[(number, 1, 1, 0.5) for number in range(5)])
    assert len(visits.sink.pending()) == 3

    class Stop(Exception):
        pass

    def stop_after_the_first(report: sm.SinkReport, left: int) -> None:
        assert (report.blocks, left) == (1, 2)
        raise Stop

    with pytest.raises(Stop):
        visits.store.run(fail_fast=True, on_block=stop_after_the_first)
    assert [row["VisitID"] for row in visits.target.query("SELECT VisitID FROM visits ORDER BY VisitID")] == [0, 1]
    assert len(visits.sink.pending()) == 2

    told = []
    visits.store.run(fail_fast=True, on_block=lambda report, left: told.append((report.blocks, report.records, left)))
    assert told == [(1, 2, 1), (2, 3, 0)]
    assert visits.sums() == {1: 5}
    assert visits.sink.pending() == []


# --- targets that are not what they were ------------------------------------------------------------------------------


def test_a_first_run_sends_to_a_table_that_holds_rows_of_others(local_visits):
    visits = local_visits
    visits.target.query(
        "CREATE TABLE visits (VisitID Int64, Sign Int8, Version Int64, revenue Nullable(Float64)) "
        "ENGINE = VersionedCollapsingMergeTree(Sign, Version) ORDER BY VisitID"
    )
    visits.by_fast_supplier((1, 1, 1))
    visits.write((1, -1, 1, 0.0), (1, 1, 1001, 0.5))
    visits.send()
    assert visits.sums() == {1: 0, 1001: 1}
    assert visits.target.query("SELECT VisitID, Version FROM visits FINAL") == [{"VisitID": 1, "Version": 1001}]


def test_a_target_that_does_not_know_what_it_was_sent_is_not_sent_it_again(local_visits):
    visits = local_visits
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.target.query("DROP TABLE seamark_sink_positions")
    visits.write((1, -1, 1, 0.5))
    with pytest.raises(TargetConflict, match=r"does not know of it, and holds rows. Nothing was sent"):
        visits.send()
    assert visits.sums() == {1: 1}
    visits.target.query("TRUNCATE TABLE visits")
    with pytest.raises(TargetConflict, match=r"and is empty. Nothing was sent: they .* have cancelled each other"):
        visits.send()
    visits.sink.go_on_after(None)
    assert visits.send().blocks == 2
    assert visits.sums() == {1: 0}


def test_a_target_that_was_filled_from_another_chain_is_refused(local_visits, tmp_path, arrow):
    local_visits.write((1, 1, 1, 0.5))
    local_visits.send()
    with sm.DataStore(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "other", spark=object()) as other:
        again = Visits(other, f"chdb:///{tmp_path / 'clickhouse'}", arrow)
        again.write((1, 1, 1, 0.5))
        again.write((1, -1, 1, 0.5))
        with pytest.raises(TargetConflict, match=r"was filled from another chain.*Nothing was sent"):
            again.send()
    assert local_visits.sums() == {1: 1}


# --- records that cannot be sent --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ((1, 0, 1, 0.5), "in column 'Sign', 0. Nothing of this block was sent"),
        ((None, 1, 1, 0.5), "in column 'VisitID', a NULL, and the target is ordered by this column"),
        ((1, 1, None, 0.5), "in column 'Version', a NULL"),
        ((1, None, 1, 0.5), "in column 'Sign', a NULL"),
    ],
)
def test_a_record_without_key_sign_or_version_stops_the_sink_before_its_block(local_visits, record, text):
    visits = local_visits
    visits.write((1, 1, 1, 0.5))
    visits.write(record)
    report = visits.store.run().sinks["out"]
    assert isinstance(report.error, UnfitValue)
    assert text in str(report.error)
    assert (report.blocks, report.position) == (1, visits.log.head.sequence - 1)
    assert visits.sums() == {1: 1}


def test_trouble_of_one_sink_leaves_the_others_alone(local_visits, folder_url):
    visits = local_visits
    good = sm.ClickHouseSink(folder_url, table="plain")
    visits.store.sink("visits_log", good, name="plain")
    visits.target.query("CREATE TABLE visits (VisitID Int64) ENGINE = MergeTree ORDER BY VisitID")
    visits.write((1, 1, 1, 0.5))
    report = visits.store.run()
    assert not report.ok
    assert isinstance(report.sinks["out"].error, TargetMismatch)
    assert report.sinks["plain"].ok
    assert good.query("SELECT count() AS n FROM plain") == [{"n": 1}]
    with pytest.raises(SinkError, match="sink 'out'"):
        visits.store.run(fail_fast=True)
    assert list(visits.store.run("plain").sinks) == ["plain"]
