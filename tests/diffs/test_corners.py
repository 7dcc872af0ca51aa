"""Corners: sums that outgrow their column, deletes told twice, columns that come later, names in the way."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

import seamark as sm
from seamark.errors import InvalidSchema, InvalidStep

from .conftest import LOGS

GONE = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string, gone boolean",
    "joined_costs": "VisitID long, y_VisitVersion int, cost long, gone boolean",
}


@pytest.mark.parametrize("at_once", [False, True], ids=["in two runs", "in one run"])
def test_a_sum_that_outgrows_its_column_fails_its_visit_and_no_other(make_visits, at_once):
    logs = {**LOGS, "joined_conversions": "VisitID long, y_VisitVersion int, revenue int"}
    visits = make_visits(logs=logs, merge={"revenue": "sum"})
    visits.conversions((1, 2, 2_000_000_000), (2, 2, 5))
    if not at_once:
        visits.run()
    visits.conversions((1, 2, 2_000_000_000), (2, 2, 6))
    report = visits.run()

    assert report.failed == 1
    (failure,) = visits.diff.failures().to_dict("records")
    assert (failure["VisitID"], failure["error"]) == (1, "the sum of its column 'revenue' does not fit the column")
    assert visits.state()[2][-1] == 11


def test_a_visit_that_two_logs_say_is_gone_is_taken_back_once(make_visits):
    visits = make_visits(logs=GONE, deleted="gone")
    visits.fast(1, "+1 -1 +2")
    visits.visits((1, 2, "X", False))
    visits.run()
    visits.visits((1, 2, None, True))
    visits.bring("joined_costs", (1, None, None, True))
    report = visits.run()

    assert report.failed == 0
    assert visits.standing() == {1: ""}


def test_what_a_side_log_knows_of_a_newer_version_may_be_of_the_next_life(make_visits):
    visits = make_visits(logs=GONE, deleted="gone")
    visits.fast(1, "+1 -1 +2")
    visits.visits((1, 2, "X", False))
    visits.run()
    visits.fast(1, "-2 +3")
    visits.visits((1, 3, None, True))
    visits.fast(1, "+5")
    visits.bring("joined_costs", (1, 5, 10, False))
    assert visits.run().too_late == 1
    assert visits.told() == {1: "-2 +1002 -1002 +2 -3"}

    visits.visits((1, 5, "back", False))
    visits.run()
    assert visits.told() == {1: "-5 +2005"}
    assert visits.standing() == {1: "+2005"}


def test_days_expire_as_days(make_visits, clock):
    logs = {"joined_visits": "VisitID long, y_VisitVersion int, day date"}
    visits = make_visits(logs=logs, ttl=("day", "30 days"))
    today: date = clock.now().date()
    visits.visits((1, 1, today - timedelta(days=30)), (2, 1, today))
    visits.run()
    assert set(visits.state()) == {1, 2}
    assert not visits.run().did_something  # it is the last day of visit 1, and all of it

    clock.advance(days=1)
    assert visits.run().mode == "expire"
    assert set(visits.state()) == {2}
    assert not visits.run().did_something


def test_a_log_and_columns_can_be_added(make_visits):
    visits = make_visits(
        logs={"joined_visits": LOGS["joined_visits"]}, wide="VisitID long, y_VisitVersion int, pages int"
    )
    visits.widen((1, 2, 4))
    visits.visits((1, 2, "X"))
    visits.run()

    logs = {
        "joined_visits": LOGS["joined_visits"] + ", city string",
        "joined_conversions": LOGS["joined_conversions"],
    }
    wide = "VisitID long, y_VisitVersion int, pages int, referrer string"
    visits = make_visits(logs=logs, merge={"revenue": "sum"}, wide=wide, on_change="keep")
    visits.widen((1, 3, 9, "mail"))
    visits.visits((1, 3, "Y", "Bergen"))
    visits.conversions((1, 3, 10))
    visits.run()

    assert visits.state() == {1: (3, 3, "Y", "Bergen", 10)}
    told = [(line["Version"] * line["Sign"], line.get("pages"), line.get("referrer")) for line in visits.records()]
    assert told == [
        (-2, 4, None), (1002, 4, None),
        (-1002, 4, None), (2003, 9, "mail"), (-3, 9, "mail"), (2, 4, None), (-2003, 9, "mail"), (3003, 9, "mail"),
    ]  # fmt: skip
    assert visits.store.verify(replay=True).ok


def test_a_version_of_its_own_does_not_hide_another_multiplier(make_visits):
    visits = make_visits(version="1")
    visits.visits((1, 2, "X"))
    visits.run()

    visits = make_visits(version="1", multiplier=100)
    visits.visits((1, 2, "Y"))
    with pytest.raises(InvalidStep, match="multiplier was 1000 and is 100 now"):
        visits.run(on_change="keep")


def test_a_key_may_have_any_name(open_store):
    store = open_store()
    log = store.table("log", "after long, read_upto long, F int, title string")
    diff = store.diff("visits", ["after", "read_upto"], "F", 1000, [log])
    log.append(
        [{"after": 1, "read_upto": 2, "F": 1000, "title": "X"}, {"after": 1, "read_upto": 3, "F": 1, "title": "Y"}]
    )
    assert store.run().steps["visits"].failed == 1
    log.append([{"after": 1, "read_upto": 2, "F": 3, "title": "Z"}])
    assert store.run().steps["visits"].failed == 1
    assert diff.give_up([{"after": 1, "read_upto": 2}]) == 1

    rows = sorted(tuple(row) for row in diff.state.rows().collect())
    assert rows == [(1, 2, 3, 1, "Z"), (1, 3, 1, 1, "Y")]


@pytest.mark.parametrize(
    ("logs", "error", "told"),
    [
        ({"log": "VisitID long, y_VisitVersion int, version long"}, InvalidStep, "'version'"),
        (
            {
                "log": "VisitID long, y_VisitVersion int, Title string",
                "other": "VisitID long, y_VisitVersion int, title string",
            },
            InvalidStep,
            "differ only by case",
        ),
    ],
)
def test_a_diff_that_is_refused_leaves_nothing_behind(ds, logs, error, told):
    tables = [ds.table(name, columns) for name, columns in logs.items()]
    with pytest.raises((error, InvalidSchema), match=told):
        ds.diff("visits", "VisitID", "y_VisitVersion", 1000, tables)
    assert ds.step_names() == []


def test_a_diff_whose_sink_is_refused_leaves_nothing_behind(ds):
    log = ds.table("log", LOGS["joined_visits"])
    ds.sink(log, sm.ClickHouseSink("chdb:///unused", "visits"), name="visits_visit_log_slow->clickhouse:visits")
    with pytest.raises(sm.SeamarkError, match="is taken already"):
        ds.diff("visits", "VisitID", "y_VisitVersion", 1000, [log], sink=sm.ClickHouseSink("chdb:///unused", "visits"))
    assert ds.step_names() == []


def test_offsets_are_not_raised_by_hand(diffed):
    diffed.visits((1, 2, "X"))
    with pytest.raises(InvalidStep, match="cannot be moved by hand"):
        diffed.store.offset_table.update_offsets_bulk({("visits", "joined_visits"): 2e9})
    diffed.run()
    assert diffed.told() == {1: "-2 +1002"}


def test_another_program_cannot_move_its_offsets_either(diffed, open_store):
    diffed.visits((1, 2, "X"))
    diffed.run()
    other = open_store()
    with pytest.raises(InvalidStep, match="offsets of diff 'visits' cannot be moved by hand"):
        other.offset_table.reset_offset("visits")
    with pytest.raises(InvalidStep, match="cannot be moved by hand"):
        other.offset_table.update_offsets_bulk({("visits", "joined_visits"): 2e9})
    assert not diffed.run().did_something


def test_intermediate_tables_that_are_no_longer_kept_are_still_verified(make_visits):
    visits = make_visits(keep_intermediate=True)
    visits.visits((1, 2, "X"), (2, 1000, "too far"))
    visits.run()
    visits = make_visits()
    visits.diff.give_up()
    visits.conversions((1, 2, 10), (2, 1, 20))
    visits.run()

    assert visits.store.verify(replay=True).ok
    visits.store.close()
    folder = visits.store.warehouse.parent
    sm.DataStore.rebuild(f"sqlite:///{folder / 'control.db'}", folder / "warehouse")
    visits = make_visits()
    assert len(visits.diff.failures()) == 0  # what the kept tables tell of was cured later
    assert not visits.run().did_something


@pytest.mark.parametrize(
    "moved",
    [
        "record_offset = NULL, block_hash = NULL, block_sequence = NULL, generation = 1",
        "record_offset = 0",
        "record_offset = 5",  # onwards: what comes next would be passed over
    ],
)
def test_a_position_that_was_moved_in_the_database_is_found_and_no_record_is_added_again(make_visits, moved):
    logs = {"joined_visits": "VisitID long, y_VisitVersion int, revenue long"}
    visits = make_visits(logs=logs, merge={"revenue": "sum"})
    visits.visits((1, 1, 10), (2, 1, 20))
    visits.run()
    before = visits.lines("visits_visit_log_slow")
    with visits.store.control.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE transform_input_offset SET {moved}")

    found = visits.store.verify().findings
    assert [finding.kind for finding in found] == ["position"], found
    with pytest.raises(InvalidStep, match=r"up to record 1, and the control database says up to (none|record [05])"):
        visits.run()
    assert visits.store.plan()["visits"].mode == "refused"
    assert visits.lines("visits_visit_log_slow") == before


def test_a_version_that_does_not_fit_fails_its_visit_and_no_other(make_visits):
    columns = "VisitID long, y_VisitVersion long"
    logs = {"joined_visits": f"{columns}, a long", "bs": f"{columns}, b long", "cs": f"{columns}, c long"}
    visits = make_visits(logs=logs, multiplier=1 << 60)
    for value in range(3):  # each log's news is a slow version
        for log in logs:
            visits.bring(log, (1, 1, value))
        visits.bring("joined_visits", (2, 1, value))
        visits.run()
    assert visits.diff.failures().error.tolist() == ["its Version does not fit a long: S=9, M=1152921504606846976"]
    assert {visit: row[1] for visit, row in visits.state().items()} == {1: 6, 2: 3}
