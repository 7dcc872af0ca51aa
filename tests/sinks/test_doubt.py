"""A block that may or may not be in the target, long after: what was merged, cleaned up or forgotten meanwhile."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.support.sink_visits import Visits, stop_at

import seamark as sm
from seamark.errors import InvalidSink, TargetConflict
from seamark.sinks.clickhouse.search import BlockSearch

# An engine that removes what merges have left behind within a second, instead of minutes.
TIDY = "old_parts_lifetime = 0, cleanup_delay_period = 0, max_cleanup_delay_period = 1"
COLUMNS = "VisitID Int64, Sign Int8, Version Int64, revenue Nullable(Float64)"
ENGINE = "ENGINE = VersionedCollapsingMergeTree(Sign, Version)"


def make_target(visits, partition: str = "") -> None:
    """The table of a fast supplier, and a twin that shows when the engine has cleaned up."""
    for table in ("visits", "twin"):
        visits.target.query(f"CREATE TABLE {table} ({COLUMNS}) {ENGINE} {partition} ORDER BY VisitID SETTINGS {TIDY}")
    for sign in (1, -1):
        visits.target.query(f"INSERT INTO twin SELECT number, {sign}, 1, 0 FROM numbers(5)")


def merge_and_clean_up(visits) -> None:
    """Merge all there is, and wait until the engine has removed every part that holds nothing, as it would in time."""
    alive = "SELECT count() AS n FROM system.parts WHERE table = 'twin' AND database = currentDatabase() AND active"
    with visits.target._connection("the test") as connection:
        for table in ("visits", "twin"):
            connection.execute(f"OPTIMIZE TABLE {table} FINAL")
        until = time.monotonic() + 100
        while connection.query(alive) != [{"n": 0}]:
            assert time.monotonic() < until, "the engine does not clean up"
            time.sleep(0.05)


PARTITIONS = ["", "PARTITION BY VisitID % 3", "PARTITION BY (intDiv(VisitID, 2), Version)"]


@pytest.mark.scenario("D40")
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_block_in_doubt_whose_rows_have_cancelled_everything_is_not_sent_again(visits, monkeypatch, partition):
    make_target(visits, partition)
    visits.by_fast_supplier((1, 1, 1), (2, 1, 1), (3, 1, 1))
    visits.write((1, -1, 1, 0.0), (2, -1, 1, 0.0), (3, -1, 1, 0.0))
    stop_at("sink-block-sent", visits, monkeypatch)
    assert visits.standing() == {}

    merge_and_clean_up(visits)
    visits.by_fast_supplier((7, 1, 5))
    visits.write((7, -1, 5, 0.0), (7, 1, 1005, 1.5))
    assert visits.send().blocks == 2  # the one in doubt is sent, and swallowed
    assert visits.standing() == {(7, 1005): 1}


@pytest.mark.scenario("D40")
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_block_in_doubt_that_never_came_is_sent_after_all(local_visits, monkeypatch, partition):
    visits = local_visits
    make_target(visits, partition)
    visits.by_fast_supplier((1, 1, 1), (2, 1, 1))
    visits.write((1, -1, 1, 0.0), (2, -1, 1, 0.0), (2, 1, 1001, 0.5))
    stop_at("sink-block-read", visits, monkeypatch)
    assert visits.standing() == {(1, 1): 1, (2, 1): 1}
    merge_and_clean_up(visits)
    visits.send()
    assert visits.standing() == {(2, 1001): 1}


@pytest.mark.scenario("D40")
def test_a_block_that_cancels_itself_is_not_sent_again_after_another_one_was(local_visits, monkeypatch):
    visits = local_visits
    make_target(visits)
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.write((2, 1, 1, 0.5), (2, -1, 1, 0.5), (1, -1, 1, 0.5))
    stop_at("sink-block-sent", visits, monkeypatch)
    merge_and_clean_up(visits)
    visits.send()
    assert visits.standing() == {}


@pytest.mark.scenario("D40")
@pytest.mark.scenario("D41")
@pytest.mark.parametrize("came", [True, False])
@pytest.mark.parametrize(
    "forgets", ["remove_empty_parts = 1", "non_replicated_deduplication_window = 0"], ids=["empty parts", "window"]
)
def test_a_table_that_was_made_to_forget_meanwhile_is_asked_about_by_hand(local_visits, monkeypatch, came, forgets):
    """Whoever has looked says what is there. Nothing is sent, and nothing set, before."""
    visits = local_visits
    make_target(visits)
    visits.by_fast_supplier((1, 1, 1))
    visits.write((2, 1, 1, 0.5))
    visits.send()
    before = visits.sink.position
    visits.write((1, -1, 1, 0.0))
    stop_at("sink-block-sent" if came else "sink-block-read", visits, monkeypatch)
    visits.target.query(f"ALTER TABLE visits MODIFY SETTING {forgets}")
    merge_and_clean_up(visits)
    standing = visits.standing()
    assert standing == ({(2, 1): 1} if came else {(1, 1): 1, (2, 1): 1})

    doubt = visits.log.head.sequence
    for _ in range(2):
        with pytest.raises(TargetConflict) as caught:
            visits.send()
        assert f"stopped while it sent block {doubt}" in str(caught.value)
        assert f"ds.sinks()['out'].go_on_after({doubt}) continues after it" in str(caught.value)
        assert f"ds.sinks()['out'].go_on_after({before}) sends it" in str(caught.value)
        assert visits.standing() == standing

    visits.sink.go_on_after(doubt if came else before)
    visits.write((3, 1, 1, 0.5))
    assert visits.send().blocks == (1 if came else 2)
    assert visits.standing() == {(2, 1): 1, (3, 1): 1}
    (found,) = visits.target.query("SELECT engine_full FROM system.tables WHERE name = 'visits'")
    assert "non_replicated_deduplication_window = 10000" in found["engine_full"]
    assert "remove_empty_parts = 0" in found["engine_full"]


@pytest.mark.scenario("D40")
def test_a_block_that_is_not_there_is_sent_though_its_token_is_remembered(local_visits):
    """Whoever says that a block is missing is believed, whatever the engine takes it for."""
    visits = local_visits
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.target.query("ALTER TABLE visits DELETE WHERE 1 SETTINGS mutations_sync = 2")
    visits.by_fast_supplier((7, 1, 5))
    assert visits.standing() == {(7, 5): 1}
    visits.sink.go_on_after(None)
    assert visits.send().blocks == 1
    assert visits.standing() == {(1, 1): 1, (7, 5): 1}


def test_every_block_that_is_said_to_be_missing_is_sent_whatever_the_target_remembers(local_visits, monkeypatch):
    """Also where the run that sends them is stopped, and again."""
    visits = local_visits
    for number in range(1, 5):
        visits.write((number, 1, 1, 0.5))
    visits.send()
    second = visits.store.control.index.slices("visits_log", after=None, upto=None)[1].sequence
    visits.by_fast_supplier((7, 1, 5))
    for after, left in ((None, {}), (second, {(1, 1): 1, (2, 1): 1}), (None, {})):
        gone = "VisitID > 2" if left else "1"
        visits.target.query(f"ALTER TABLE visits DELETE WHERE {gone} SETTINGS mutations_sync=2")
        assert visits.standing() == left
        visits.by_fast_supplier((8, 1, 5))
        visits.sink.go_on_after(after)
        for point in ("sink-block-sent", "sink-block-marked"):
            stop_at(point, visits, monkeypatch)
        visits.send()
        assert visits.standing() == {(8, 5): 1, **{(number, 1): 1 for number in range(1, 5)}}


def set_back(visits) -> None:
    """As by whoever brings back the rows and positions of yesterday: the table still knows the tokens of today."""
    visits.write((1, 1, 1, 0.5))
    visits.send()
    for table in ("visits", "seamark_sink_positions"):
        visits.target.query(f"CREATE TABLE {table}_copy AS {table}")
        visits.target.query(f"INSERT INTO {table}_copy SELECT * FROM {table}")
    for number in (2, 3):
        visits.write((number, 1, 1, 0.5))
    visits.send()
    for table in ("visits", "seamark_sink_positions"):
        visits.target.query(f"ALTER TABLE {table} DELETE WHERE 1 SETTINGS mutations_sync=2")
        visits.target.query(f"INSERT INTO {table} SELECT * FROM {table}_copy")
    visits.write((4, 1, 1, 0.5))


def test_a_target_that_was_set_back_gets_what_came_since_though_it_remembers_its_tokens(local_visits):
    set_back(local_visits)
    assert local_visits.send().blocks == 3
    assert local_visits.standing() == {(number, 1): 1 for number in range(1, 5)}


POINTS = ["sink-set-back", "sink-block-read", "sink-block-sent", "sink-block-marked", "sink-position-kept"]


@pytest.mark.parametrize("point", POINTS)
def test_a_target_that_was_set_back_is_caught_up_with_wherever_the_run_is_killed(local_visits, monkeypatch, point):
    set_back(local_visits)
    stop_at(point, local_visits, monkeypatch)
    local_visits.send()
    assert local_visits.standing() == {(number, 1): 1 for number in range(1, 5)}


@pytest.mark.scenario("D40")
def test_a_block_in_doubt_that_is_merged_while_it_is_looked_for_is_not_sent_again(local_visits, monkeypatch):
    visits = local_visits
    for number in range(1, 4):
        visits.write((number, 1, 1, 0.5))
    stop_at("sink-block-marked", visits, monkeypatch)  # the second block is in doubt, and never came
    list_parts = BlockSearch._newer_parts

    def list_parts_and_merge(search):
        parts = list_parts(search)
        search.connection.execute("OPTIMIZE TABLE visits FINAL")
        return parts

    monkeypatch.setattr(BlockSearch, "_newer_parts", list_parts_and_merge)
    visits.send()
    assert visits.standing() == {(number, 1): 1 for number in range(1, 4)}


@pytest.mark.parametrize("point", [None, "sink-adopted", "sink-set-back", "sink-block-sent"])
def test_a_target_that_was_set_back_gets_what_came_since_under_another_name_too(
    local_visits, open_store, no_spark, folder_url, arrow, monkeypatch, point
):
    set_back(local_visits)
    renamed = Visits(open_store(spark=no_spark), folder_url, arrow, name="new", adopt="out")
    if point is not None:
        stop_at(point, renamed, monkeypatch)
    renamed.send()
    assert renamed.standing() == {(number, 1): 1 for number in range(1, 5)}


def test_a_table_that_was_made_anew_from_a_copy_is_asked_about_a_block_in_doubt(dry, server_url, arrow, monkeypatch):
    """It has the block's rows, and does not know its token."""
    visits = Visits(dry, server_url, arrow)
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.write((2, 1, 1, 0.5))
    stop_at("sink-block-sent", visits, monkeypatch)
    visits.is_remade_from_a_copy()
    doubt = visits.log.head.sequence
    with pytest.raises(TargetConflict, match=rf"go_on_after\({doubt}\) continues after it"):
        visits.send()
    assert visits.standing() == {(1, 1): 1, (2, 1): 1}
    visits.sink.go_on_after(doubt)
    visits.write((3, 1, 1, 0.5))
    assert visits.send().blocks == 1
    assert visits.standing() == {(1, 1): 1, (2, 1): 1, (3, 1): 1}


def test_a_block_in_doubt_is_not_sent_several_times_to_a_copy_that_has_had_fewer_inserts(local_visits, monkeypatch):
    """Which insert brought what says nothing there: the block was sent until its number was great enough."""
    visits = local_visits
    for number in range(1, 4):
        visits.write((number, 1, 1, 0.5))
    visits.send()
    before = visits.sink.position
    visits.write((4, 1, 1, 0.5))
    stop_at("sink-block-read", visits, monkeypatch)
    visits.is_remade_from_a_copy()
    with pytest.raises(TargetConflict, match=rf"go_on_after\({before}\) sends it"):
        visits.send()
    visits.sink.go_on_after(before)
    assert visits.send().blocks == 1
    assert visits.standing() == {(number, 1): 1 for number in range(1, 5)}


def test_a_block_that_a_chain_does_not_have_cannot_be_gone_on_after(local_visits):
    visits = local_visits
    with pytest.raises(InvalidSink, match=r"block 3 of 'visits_log', which has no blocks yet\. Nothing was changed"):
        visits.sink.go_on_after(3)
    visits.write((1, 1, 1, 0.5))
    last = visits.log.head.sequence
    with pytest.raises(InvalidSink, match=rf"block 99 of 'visits_log', which ends at block {last}\. Nothing"):
        visits.sink.go_on_after(99)


def test_a_target_that_lost_its_positions_is_told_what_it_has(local_visits):
    visits = local_visits
    visits.write((1, 1, 1, 0.5))
    visits.send()
    visits.target.query("DROP TABLE seamark_sink_positions")
    visits.forgets_its_tokens()
    visits.write((1, -1, 1, 0.5), (1, 1, 2, 0.7))
    with pytest.raises(TargetConflict, match=r"go_on_after\(2\) continues from there; if it has none .*\(None\)"):
        visits.send()
    visits.sink.go_on_after(2)
    assert visits.send().blocks == 1
    assert visits.standing() == {(1, 2): 1}


@pytest.mark.scenario("D41")
def test_no_text_of_ours_tells_anybody_to_destroy_a_target():
    """In all that sinks may say: a table that a sink fills may be somebody else's as well."""
    words = re.compile(r"\b(drop|truncate|empty|delete) (it|the (target|table)|them)\b", re.IGNORECASE)
    for source in Path(sm.__file__).parent.joinpath("sinks").rglob("*.py"):
        assert words.findall(source.read_text()) == [], source.name
