"""News that comes too late: of a visit that is gone, of one that is too old, and what a keyed log takes back of it."""

from __future__ import annotations

import warnings
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from seamark.facts.steps import step_states

TIMED = "VisitID long, y_VisitVersion int, seen timestamp, revenue long"
KEYED = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "ConversionID long, VisitID long, y_VisitVersion int, revenue long",
}
KEYS = {"joined_visits": "VisitID", "joined_conversions": "ConversionID"}


# --- after a delete ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("D33")
def test_what_comes_after_a_delete_is_counted_and_not_written(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum"})
    visits.visits((1, 2, "X"), (2, 2, "X"))
    visits.conversions((10, 1, 2, 10), (20, 2, 2, 10))
    visits.run()
    visits.delete("joined_visits", (1,))
    visits.run()
    visits.told()

    visits.conversions((11, 1, 2, 5), (12, 1, 9, 5))  # side news, be it of a version that nobody knows yet
    visits.conversions((10, 1, 2, 15))  # a correction of what was counted before
    visits.visits((1, 1, "late"))
    visits.delete("joined_visits", (1,))  # a second delete that is not newer
    report = visits.run()

    assert (visits.told(), report.appended, report.retracted) == ({}, 0, 0)
    assert report.too_late == 6
    assert set(visits.state()) == {2}
    assert visits.diff.too_late == 6
    (state,) = step_states(visits.store, (), visits.store.clock.now())
    assert state.too_late == 6

    # a greater version of the first log begins a new life, which knows nothing of the old one
    visits.visits((1, 3, "back"))
    visits.conversions((10, 1, 3, 20), (13, 1, 3, 1))
    report = visits.run()
    assert visits.told() == {1: "-3 +3003 -3003 +4003"}
    assert report.too_late == 1  # of the correction, what it takes back belongs to the old life
    assert visits.state()[1] == (3, 4, "back", 13, 21)
    assert visits.diff.too_late == 7
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D33")
@pytest.mark.parametrize("fast_deletes", [False, True], ids=["fast writes nothing", "fast takes back"])
def test_a_second_delete_acts_only_if_it_is_newer(make_visits, fast_deletes):
    log = {"joined_visits": "VisitID long, y_VisitVersion int, title string, gone boolean"}
    visits = make_visits(logs=log, deleted="gone", fast_deletes=fast_deletes)
    visits.fast(1, "+2")
    visits.visits((1, 2, "X", None))
    visits.run()
    visits.visits((1, 2, None, True))
    visits.fast(1, "-2" if fast_deletes else "")
    visits.run()
    visits.told()

    visits.visits((1, 2, None, True), (1, 1, None, True), (1, None, None, True))
    assert visits.run().too_late == 3
    assert visits.told() == {}

    visits.fast(1, "+4 -4" if fast_deletes else "+4")  # it was back, and nobody has seen it
    visits.visits((1, 4, None, True), (1, 3, "late", None))
    assert visits.run().too_late == 1
    assert visits.told() == ({} if fast_deletes else {1: "-4"})
    assert visits.standing() == {1: ""}
    assert [row["y_VisitVersion"] for row in visits.rows("visits_gone")] == [4]


@pytest.mark.scenario("D33")
def test_side_news_in_the_run_that_deletes_the_visit_comes_too_late(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum"})
    visits.visits((1, 2, "X"))
    visits.run()
    visits.delete("joined_visits", (1,))
    visits.conversions((10, 1, 2, 10))
    assert visits.run().too_late == 1
    assert visits.told() == {1: "-2 +1002 -1002"}


# --- time to live -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("D33")
@pytest.mark.scenario("D34")
def test_news_of_an_expired_visit_from_a_log_without_its_time_is_counted(make_visits, clock):
    logs = {"joined_visits": TIMED.replace(", revenue long", ""), "joined_conversions": KEYED["joined_conversions"]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        visits = make_visits(
            logs=logs, keys={"joined_conversions": "ConversionID"}, merge={"revenue": "sum"}, ttl=("seen", "30 days")
        )
    (warning,) = [str(entry.message) for entry in told if "time to live" in str(entry.message)]
    assert "log 'joined_conversions' does not have the time to live's column 'seen'" in warning

    visits.visits((1, 1, clock.now()), (2, 1, clock.now()))
    visits.conversions((10, 1, 1, 10), (20, 2, 1, 10))
    visits.run()
    visits.told()
    clock.advance(days=31)
    visits.conversions((21, 2, 1, 5))  # its visit is too old, whether it has left the state or not
    report = visits.run()
    assert (report.too_late, report.retracted, visits.told()) == (1, 2, {})
    assert visits.state() == {}

    visits.conversions((11, 1, 1, 5), (10, 1, 1, 15))  # side news, and a correction
    report = visits.run()
    assert (report.too_late, report.appended, visits.told()) == (3, 0, {})
    assert {row["reason"] for row in visits.rows("visits_gone")} == {"expired"}

    # it wakes: what stood of it since then is taken back, and it begins anew
    visits.visits((1, 2, clock.now()))
    visits.conversions((12, 1, 2, 7))
    visits.run()
    assert visits.told() == {1: "-2001 +3002 -2 +1 -3002 +4002"}
    assert visits.story(1)[4][:1] + visits.story(1)[4][-1:] == ("-2001", 10)
    assert visits.state()[1][:2] + visits.state()[1][-1:] == (2, 4, 7)
    visits.fast(1, "+1 -1 +2")
    assert visits.standing()[1] == "+4002"
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D33")
def test_a_newer_delete_of_an_expired_visit_takes_back_what_stood_of_it(make_visits, clock):
    log = {"joined_visits": f"{TIMED}, gone boolean"}
    visits = make_visits(logs=log, deleted="gone", merge={"revenue": "sum"}, ttl=("seen", "30 days"))
    visits.visits((1, 1, clock.now(), 10, None), (2, 1, clock.now(), 10, None))
    visits.run()
    clock.advance(days=31)
    visits.run()
    visits.told()
    visits.visits((1, 1, None, None, True), (2, 3, None, None, True))
    report = visits.run()

    assert report.too_late == 1
    assert visits.told() == {2: "-1001 +1 -3"}
    assert visits.story(2)[2] == ("-1001", visits.story(2)[1][1], 10)
    visits.fast(2, "+1 -1 +3")
    assert visits.standing()[2] == ""


@pytest.mark.scenario("D35")
def test_a_visit_that_stands_as_failed_does_not_leave_by_its_age(make_visits, clock):
    visits = make_visits(logs={"joined_visits": TIMED}, ttl=("seen", "30 days"))
    begin = clock.now()
    visits.visits((1, 1, begin, 10), (2, 1, begin, 10), (3, 1, begin, 10))
    visits.run()
    later = begin + timedelta(days=25)
    visits.visits((1, 5_000, later, 0), (1, 2, later, 20), (2, 5_000, later, 0))
    assert visits.run().failed == 2
    clock.advance(days=31)
    assert visits.run().retracted == 1
    assert set(visits.state()) == {1, 2}
    clock.advance(hours=1)
    visits.run()
    assert not visits.run().did_something  # those that wait do not keep the diff busy

    assert visits.diff.give_up(pa.table({"VisitID": [1]})) == 1
    assert [told for told, *_ in visits.story(1)] == ["-1", "+1001", "-1001", "+2002", "-2", "+1"]
    assert set(visits.state()) == {1, 2}
    visits.diff.give_up()
    assert set(visits.state()) == {1}  # nothing keeps the other one any more
    assert [told for told, *_ in visits.story(2)] == ["-1", "+1001"]
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D36")
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "UTC", "Pacific/Kiritimati"])
def test_the_same_visits_are_late_whatever_the_zone_of_the_session(open_store, spark, clock, zone):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        store, now = open_store(), clock.now()
        kinds = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}
        hours = {1: -13, 2: 0, 3: 3 if now.hour < 12 else -3, 4: 13}  # before and after the horizon
        for kind, arrow in kinds.items():
            log = store.table(f"log_{kind}", f"VisitID long, F int, seen {kind}")
            store.diff(kind, "VisitID", "F", 1000, [log], ttl=("seen", "10 days"))
            moments = [now - timedelta(days=10) + timedelta(hours=h, minutes=1) for h in hours.values()]
            values = [as_value(kind, moment) for moment in moments]
            columns = {"VisitID": list(hours), "F": pa.array([1] * 4, pa.int32()), "seen": pa.array(values, arrow)}
            log.append(pa.table(columns))
        first, horizon = store.run(fail_fast=True), now - timedelta(days=10)
        clock.advance(hours=6)
        second = store.run(fail_fast=True)
        for kind in kinds:
            times = {v: as_value(kind, horizon + timedelta(hours=h, minutes=1)) for v, h in hours.items()}
            late = {v for v, time in times.items() if time < as_value(kind, horizon)}
            left = {v for v, time in times.items() if time < as_value(kind, horizon + timedelta(hours=6))} - late
            assert first.steps[kind].too_late == len(late), kind
            assert second.steps[kind].retracted == len(left), kind
            assert {row.VisitID for row in store.step(kind).state.rows().collect()} == set(hours) - late - left, kind
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def as_value(kind: str, moment: datetime) -> date | datetime:
    """A moment as a column of a kind has it, in UTC."""
    return {"date": moment.date(), "timestamp": moment, "timestamp_ntz": moment.replace(tzinfo=None)}[kind]


# --- keyed logs -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("D37")
def test_a_version_that_was_withdrawn_before_any_run_does_not_count(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum", "ConversionID": "keep"})
    visits.visits((1, 5, "wrong"))
    visits.visits((1, 2, "right"))
    visits.conversions((10, 1, 7, 100), (11, 1, 2, 1))
    visits.conversions((10, 1, 2, 10))
    visits.visits((2, 1, "a"))
    visits.visits((2, 4, "b"))
    visits.visits((2, 3, "c"))
    visits.run()

    assert visits.told() == {1: "-2 +1002 -1002 +2002", 2: "-3 +1003"}
    assert visits.state() == {1: (2, 2, "right", 11, 11), 2: (3, 1, "c", None, None)}

    # what an earlier run has taken is news of a version that was left behind
    visits.visits((2, 2, "d"))
    visits.run()
    assert visits.told() == {}
    assert visits.state()[2] == (3, 1, "c", None, None)
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D37")
@pytest.mark.parametrize("in_between", [False, True], ids=["still in the state", "left before"])
def test_a_correction_that_moves_a_time_over_the_horizon_is_judged_by_its_second_record(make_visits, clock, in_between):
    visits = make_visits(
        logs={"joined_visits": TIMED}, keys={"joined_visits": "VisitID"}, merge={"revenue": "sum"},
        ttl=("seen", "30 days"),
    )  # fmt: skip
    begin: datetime = clock.now()
    asleep, same, young = 1, 2, 3
    visits.visits((asleep, 1, begin, 10), (same, 1, begin, 10), (young, 1, begin + timedelta(days=20), 10))
    visits.run()
    clock.advance(days=31)
    if in_between:
        visits.run()
        assert set(visits.state()) == {young}
    now = clock.now()
    visits.visits((asleep, 2, now, 15), (same, 1, now, 15), (young, 1, begin, 15))
    report = visits.run()

    revenue = {row["VisitID"]: row["revenue"] for row in visits.rows("visits_state")}
    sums = dict.fromkeys((asleep, same, young), 0)
    for line in visits.records():
        sums[line["VisitID"]] += line["Sign"] * (line["revenue"] or 0)
    if in_between:  # a version that is not greater is news of the visit that has left
        assert (revenue, report.too_late) == ({asleep: 15, young: 10}, 5)
        assert sums == {asleep: 15, same: 10, young: 10}
    else:
        assert (revenue, report.too_late) == ({asleep: 15, same: 15, young: 10}, 2)
        assert sums == {asleep: 15, same: 15, young: 10}
    assert [told for told, *_ in visits.story(asleep)] == ["-1", "+1001", "-1001", "+2002", "-2", "+1"]
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D37")
def test_what_came_too_late_is_not_taken_back(make_visits, clock):
    logs: dict[str, Any] = {
        "joined_visits": TIMED.replace(", revenue long", ""),
        "joined_costs": f"CostID long, {TIMED}",
    }
    visits = make_visits(logs=logs, keys={"joined_costs": "CostID"}, merge={"revenue": "sum"}, ttl=("seen", "30 days"))
    now = clock.now()
    visits.visits((1, 1, now))
    visits.bring("joined_costs", (10, 1, 1, now - timedelta(days=40), 100), (11, 1, 1, now, 1))
    visits.bring("joined_costs", (10, 1, 1, now, 10))
    report = visits.run()

    assert report.too_late == 1
    assert visits.state()[1][-1] == 11
