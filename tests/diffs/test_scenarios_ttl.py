"""A state that forgets: old visits leave it and write nothing, and rows from before that come too late."""

from __future__ import annotations

from datetime import timedelta

import pytest

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, start_time timestamp, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, start_time timestamp, revenue long",
}
AGEING, YOUNG, TOO_OLD, TOUCHED = 1, 2, 3, 4


@pytest.mark.scenario("D21")
def test_visits_leave_the_state_when_their_time_has_passed(make_visits, clock):
    visits = make_visits(logs=LOGS, merge={"revenue": "sum"}, ttl=("start_time", "30 days"))
    now = clock.now()

    def ago(days: float):
        return now - timedelta(days=days)

    visits.visits((AGEING, 2, ago(29), "X"), (YOUNG, 2, ago(1), "X"), (TOO_OLD, 2, ago(31), "X"))
    visits.visits((TOUCHED, 2, ago(28.5), "X"))
    report = visits.run()
    assert visits.told() == {AGEING: "-2 +1002", YOUNG: "-2 +1002", TOUCHED: "-2 +1002"}
    assert (report.too_late, report.rows_in) == (1, 4)
    assert set(visits.state()) == {AGEING, YOUNG, TOUCHED}
    assert visits.store.plan()["visits"].mode == "settled"

    # a day later one of them is too old: it leaves, and writes nothing
    clock.advance(days=1.2)
    assert visits.store.plan()["visits"].mode == "expire"
    report = visits.run()
    assert (report.mode, report.retracted, report.appended) == ("expire", 1, 0)
    assert visits.told() == {}
    assert set(visits.state()) == {YOUNG, TOUCHED}
    assert not visits.run().did_something

    # a row of that time is too late, whether the state still stands or not
    visits.visits((AGEING, 3, ago(29), "late"), (YOUNG, 3, ago(40), "late"))
    visits.conversions((AGEING, 2, ago(29), 10))
    report = visits.run()
    assert (report.too_late, report.appended) == (3, 0)
    assert visits.told() == {}
    assert visits.state()[YOUNG] == (2, 1, ago(1), "X", None)

    # a row without a time of its own is news; its visit then leaves with the others of its age
    clock.advance(days=1)
    visits.conversions((TOUCHED, 2, None, 10), (YOUNG, 2, ago(1), 5))
    report = visits.run()
    assert visits.told() == {TOUCHED: "-1002 +2002", YOUNG: "-1002 +2002"}
    assert set(visits.state()) == {YOUNG}
    assert report.retracted == 1

    for visit in (AGEING, YOUNG, TOUCHED):
        visits.fast(visit, "+1 -1 +2")
    assert visits.standing() == {AGEING: "+1002", YOUNG: "+2002", TOUCHED: "+2002"}
    replayed = visits.store.verify(replay=True)
    assert replayed.ok, replayed.findings


@pytest.mark.scenario("D21")
def test_a_delete_of_a_visit_that_is_too_old_is_too_late(make_visits, clock):
    visits = make_visits(
        logs={"joined_visits": LOGS["joined_visits"]},
        keys={"joined_visits": "VisitID"},
        ttl=("start_time", timedelta(days=30)),
    )
    visits.visits((1, 2, clock.now() - timedelta(days=29), "X"), (2, 2, clock.now(), "X"))
    visits.run()
    clock.advance(days=2)
    visits.delete("joined_visits", (1,), (2,))
    report = visits.run()

    assert report.too_late == 1
    assert visits.told() == {1: "-2 +1002", 2: "-2 +1002 -1002"}
    assert visits.state() == {}


@pytest.mark.scenario("D21")
def test_without_a_ttl_nothing_is_ever_too_old(make_visits, clock):
    visits = make_visits(logs=LOGS)
    visits.visits((1, 2, clock.now() - timedelta(days=4_000), "X"))
    assert visits.run().too_late == 0
    clock.advance(days=4_000)
    assert not visits.run().did_something
    assert set(visits.state()) == {1}


def test_a_bad_row_that_is_corrected_to_one_that_comes_too_late_is_trouble_no_more(make_visits, clock):
    log = {"joined_visits": LOGS["joined_visits"]}
    visits = make_visits(logs=log, keys={"joined_visits": "VisitID"}, ttl=("start_time", "30 days"))
    now = clock.now()
    visits.visits((1, 2, now, "X"))
    visits.run()
    visits.visits((1, 1000, now, "bad"))
    visits.visits((1, 3, now - timedelta(days=31), "late"))
    report = visits.run()
    assert (report.failed, report.appended) == (0, 0)
    visits.visits((1, 4, now, "good"))
    assert visits.run().failed == 0
    assert visits.state()[1] == (4, 2, now, "good")
