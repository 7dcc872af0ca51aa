"""A state that forgets: old visits leave it and write nothing, and rows from before that come too late."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import functions as F

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


TIMED = {"joined_visits": "VisitID long, y_VisitVersion int, start_time timestamp, revenue long"}
UNTIMED_FIRST = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": LOGS["joined_conversions"],
}


# News of visits in the very run in which they leave: version, whether it has a time, revenue.
LAST_NEWS = {
    1: [(2, False, 5)],
    2: [(3, False, 5)],
    3: [(1, True, 5)],  # the newer side's time stays
    4: [(1, True, 5), (3, False, 7)],
}


@pytest.mark.scenario("D21")
@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.long), 40])
def test_a_visit_that_leaves_in_the_run_of_its_news_is_taken_back_as_it_was_left(
    make_visits, clock, rows, set_small, monkeypatch
):
    set_small(monkeypatch, 10)  # with more rows than that Spark does the work
    visits = make_visits(logs=TIMED, merge={"revenue": "sum"}, ttl=("start_time", "30 days"), keep_intermediate=True)
    newest = dict.fromkeys(LAST_NEWS, 2)
    for visit in LAST_NEWS:
        visits.fast(visit, "+1 -1 +2")
        visits.visits((visit, 2, clock.now(), 10))
    visits.run()

    clock.advance(days=31)
    for visit, news in LAST_NEWS.items():
        for version, has_time, revenue in news:
            if version > newest[visit]:
                visits.fast(visit, f"-{newest[visit]} +{version}")
                newest[visit] = version
            visits.visits((visit, version, clock.now() if has_time else None, revenue))
    visits.visits(*[(1000 + n, 1, clock.now(), n) for n in range(rows)])
    report = visits.run()

    assert (report.mode, report.retracted) == ("changes", len(LAST_NEWS))
    assert not set(LAST_NEWS) & set(visits.state())
    assert len(visits.rows("visits_diff_log_0_state")) == len(LAST_NEWS), "what the run had in its hands is kept"
    assert visits.store.plan()["visits"].mode == "settled"
    assert {visit: visits.standing()[visit] for visit in LAST_NEWS} == {1: "+2002", 2: "+2003", 3: "+2002", 4: "+2003"}

    for visit in LAST_NEWS:
        visits.fast(visit, f"-{newest[visit]} +{newest[visit] + 1}")
        visits.visits((visit, newest[visit] + 1, clock.now(), 1))
    visits.run()
    assert {visit: visits.standing()[visit] for visit in LAST_NEWS} == {1: "+3003", 2: "+3004", 3: "+3003", 4: "+3004"}
    assert {visits.state()[visit][-1] for visit in LAST_NEWS} == {1}, "the new life knows nothing of the old one"
    written = [(line["VisitID"], line["Sign"], line["Version"]) for line in visits.lines("visits_visit_log_slow")]
    assert len(set(written)) == len(written), "no version is written or taken back twice"
    replayed = visits.store.verify(replay=True)
    assert replayed.ok, replayed.findings


@pytest.mark.scenario("D34")
def test_a_first_log_without_the_column_moves_a_visit_on_that_is_just_leaving(make_visits, clock):
    """The fast supplier has written the new version: the slow one must answer it."""
    visits = make_visits(logs=UNTIMED_FIRST, merge={"revenue": "sum"}, ttl=("start_time", "30 days"))
    visits.fast(1, "+1")
    visits.visits((1, 1, "a"))
    visits.conversions((1, 1, clock.now(), 3))
    visits.run()
    clock.advance(days=31)
    for version in (2, 3):
        visits.fast(1, f"-{version - 1} +{version}")
        visits.visits((1, version, "b"))
        visits.run()
        assert visits.standing()[1] == f"+{(version + 1) * 1000 + version}"  # the conversion is S 2
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("D21")
def test_a_merge_that_makes_a_visit_old_lets_it_leave_at_once(make_visits, clock):
    """Not only time makes visits old: a function may, and the visit may have begun in the same run."""
    merge = {"start_time": lambda old, new: F.least(old, new) - F.expr("interval 40 days"), "revenue": "sum"}
    visits = make_visits(logs=TIMED, merge=merge, ttl=("start_time", "30 days"))
    visits.fast(1, "+2")
    visits.visits((1, 2, clock.now(), 10), (1, 2, clock.now(), 5))
    visits.run()
    assert visits.state() == {}
    visits.fast(1, "-2 +3")
    visits.visits((1, 3, clock.now(), 1))
    visits.run()
    assert visits.standing() == visits.newest()
    assert visits.state()[1][-1] == 1


@pytest.mark.scenario("D21")
@pytest.mark.parametrize(("kind", "year"), [("date", 10_000), ("timestamp", 10_000), ("timestamp_ntz", -4000)])
def test_times_that_python_does_not_hold_stop_nobody(make_visits, clock, spark, kind, year):
    """Spark's columns reach from before our era to the year 294246."""
    logs = {"joined_visits": f"VisitID long, y_VisitVersion int, start_time {kind}, title string"}
    visits = make_visits(logs=logs, ttl=("start_time", "30 days"))
    text = f"to_date('{year:05}-01-01', 'yyyyy-MM-dd')" if year > 0 else "date_sub(DATE '0001-01-01', 1461000)"
    far = spark.sql(f"SELECT 1L VisitID, 2 y_VisitVersion, CAST({text} AS {kind}) start_time, 'x' title")
    visits.logs["joined_visits"].append(far)
    report = visits.run()
    assert report.too_late == (1 if year < 0 else 0)
    visits.visits((2, 2, clock.now().date() if kind == "date" else clock.now(), "y"))
    visits.run()
    clock.advance(days=31)
    visits.run()
    left = {row["VisitID"] for row in visits.store.table("visits_state").rows().select("VisitID").collect()}
    assert left == ({1} if year > 0 else set())
    assert visits.store.plan()["visits"].mode == "settled"
