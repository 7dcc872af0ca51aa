"""The document's cases, several logs and odd chunks: all of them in one chunk, a visit each, and none mixed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import seamark as sm

(SAME, MOVED_ON, NEW, LATE, TWICE, NO_NEWS, IN_BOTH, NEWER_FIRST, NEW_IN_BOTH, LATE_TITLE, LATE_FILLS, MEANWHILE,
 OLDER_LAST) = range(1, 14)  # fmt: skip


@dataclass
class Days:
    """Two runs over one store: what each wrote, and what stood after it."""

    visits: Any
    first: dict[int, str]
    between: dict[int, str]
    second: dict[int, str]
    report: sm.StepReport


@pytest.fixture(scope="module")
def days(shared_visits) -> Days:
    visits = shared_visits()
    at_two = (SAME, MOVED_ON, TWICE, NO_NEWS, IN_BOTH, NEWER_FIRST, MEANWHILE, OLDER_LAST)
    at_three = (LATE, LATE_TITLE, LATE_FILLS)
    visits.visits(*[(visit, 2, "X") for visit in at_two])
    visits.visits(*[(visit, 3, "X" if visit != LATE_FILLS else None) for visit in at_three])
    for visit in at_two:
        visits.fast(visit, "+1 -1 +2")
    for visit in at_three:
        visits.fast(visit, "+1 -1 +2 -2 +3")
    visits.fast(MEANWHILE, "-2 +3")  # after its chunk was written, before the run has read it
    visits.run()
    first = visits.told()

    for visit in (MOVED_ON, NEWER_FIRST, TWICE):
        visits.fast(visit, "-2 +3")
    visits.fast(NEW, "+1")
    visits.fast(NEW_IN_BOTH, "+1")
    between = visits.standing()
    visits.visits((SAME, 2, "Y"), (MOVED_ON, 3, "Y"), (NEW, 1, "Y"), (NO_NEWS, 2, "X"), (IN_BOTH, 2, "Y"))
    visits.visits((NEWER_FIRST, 3, "Y"), (NEW_IN_BOTH, 1, "Y"), (MEANWHILE, 3, "Y"))
    visits.visits((LATE_TITLE, 2, "Y"), (LATE_FILLS, 2, "Y"), (OLDER_LAST, 2, "Y"), (OLDER_LAST, 1, "Z"))
    visits.conversions((LATE, 2, 10), (TWICE, 2, 10), (TWICE, 3, 5), (IN_BOTH, 2, 10), (NEWER_FIRST, 2, 10))
    visits.conversions((NEW_IN_BOTH, 1, 10))
    report = visits.run()
    return Days(visits, first, between, visits.told(), report)


def test_the_first_chunk_of_a_visit_compensates_the_fast_version_once(days):
    at_three = (LATE, LATE_TITLE, LATE_FILLS)
    at_two = set(days.first) - set(at_three)
    assert {days.first[visit] for visit in at_two} == {"-2 +1002"}
    assert {days.first[visit] for visit in at_three} == {"-3 +1003"}


@pytest.mark.scenario("D1")
def test_the_same_fast_version_is_taken_back_and_written_at_the_next_slow_one(days):
    assert days.second[SAME] == "-1002 +2002"
    assert days.visits.story(SAME)[2:] == [("-1002", "X", None), ("+2002", "Y", None)]
    assert days.visits.state()[SAME] == (2, 2, "Y", None)
    assert days.visits.standing()[SAME] == "+2002"


@pytest.mark.scenario("D2")
def test_a_newer_fast_version_is_compensated_and_the_older_one_given_back(days):
    assert days.between[MOVED_ON] == "-2 +3 +1002"
    assert days.second[MOVED_ON] == "-1002 +2003 -3 +2"
    assert days.visits.story(MOVED_ON)[2:] == [
        ("-1002", "X", None),
        ("+2003", "Y", None),
        ("-3", None, None),
        ("+2", None, None),
    ]
    assert days.visits.state()[MOVED_ON] == (3, 2, "Y", None)
    assert days.visits.standing()[MOVED_ON] == "+2003"


@pytest.mark.scenario("D3")
def test_an_unknown_visit_begins_at_slow_version_1(days):
    assert days.second[NEW] == "-1 +1001"
    assert days.visits.story(NEW) == [("-1", None, None), ("+1001", "Y", None)]
    assert days.visits.state()[NEW] == (1, 1, "Y", None)
    assert days.visits.standing()[NEW] == "+1001"


@pytest.mark.scenario("D4")
@pytest.mark.scenario("D5")
def test_three_visits_in_one_chunk_give_eight_records_and_none_is_mixed_up(days):
    written = [days.second[visit].split() for visit in (SAME, MOVED_ON, NEW)]
    assert sum(map(len, written)) == 8
    for line in days.visits.records():  # the rule of versions is checked with every reading, here in words
        assert line["SlowVersion"] * 1000 + line["y_VisitVersion"] == line["Version"]
    together = [line["VisitID"] for line in days.visits.records()[len(days.first) * 2 :]]
    assert together == sorted(together)


@pytest.mark.scenario("D6")
def test_the_second_log_works_on_the_result_of_the_first(days):
    assert days.second[IN_BOTH] == "-1002 +2002 -2002 +3002"
    logs = [line["log"] for line in days.visits.records() if line["VisitID"] == IN_BOTH]
    assert logs == ["joined_visits"] * 4 + ["joined_conversions"] * 2
    assert days.visits.state()[IN_BOTH] == (2, 3, "Y", 10)


@pytest.mark.scenario("D7")
def test_an_older_version_in_the_second_log_is_merged_at_the_newer_one(days):
    assert days.second[NEWER_FIRST] == "-1002 +2003 -3 +2 -2003 +3003"
    assert days.visits.state()[NEWER_FIRST] == (3, 3, "Y", 10)


@pytest.mark.scenario("D17")
def test_a_new_visit_in_both_logs_compensates_the_fast_version_once(days):
    assert days.second[NEW_IN_BOTH] == "-1 +1001 -1001 +2001"
    assert days.visits.state()[NEW_IN_BOTH] == (1, 2, "Y", 10)


@pytest.mark.scenario("D11")
def test_a_late_chunk_is_merged_and_the_fast_version_stays(days):
    assert days.second[LATE] == "-1003 +2003"
    assert days.visits.state()[LATE] == (3, 2, "X", 10)


@pytest.mark.scenario("D11")
def test_a_late_chunk_is_the_older_side_of_the_merge(days):
    assert LATE_TITLE not in days.second  # what stands was written later: nothing changes
    assert days.visits.state()[LATE_TITLE] == (3, 1, "X", None)
    assert days.second[LATE_FILLS] == "-1003 +2003"  # where nothing stood, the late piece is news
    assert days.visits.state()[LATE_FILLS] == (3, 2, "Y", None)


@pytest.mark.scenario("D12")
def test_a_visit_twice_in_one_chunk_raises_the_slow_version_once(days):
    assert days.second[TWICE] == "-1002 +2003 -3 +2"
    assert days.visits.state()[TWICE] == (3, 2, "X", 15)


@pytest.mark.scenario("D12")
def test_rows_of_one_visit_are_merged_in_the_order_of_their_records(days):
    """Each as in a run of its own: the last one is of a version that was left behind, and changes no title."""
    assert days.second[OLDER_LAST] == "-1002 +2002"
    assert days.visits.state()[OLDER_LAST] == (2, 2, "Y", None)


@pytest.mark.scenario("D16")
def test_a_chunk_without_news_writes_nothing(days):
    assert NO_NEWS not in days.second
    assert days.visits.state()[NO_NEWS] == (2, 1, "X", None)


@pytest.mark.scenario("D18")
def test_a_version_that_the_fast_supplier_publishes_meanwhile_is_compensated_by_its_own_chunk(days):
    assert days.first[MEANWHILE] == "-2 +1002"
    assert days.between[MEANWHILE] == "-2 +3 +1002"
    assert days.second[MEANWHILE] == "-1002 +2003 -3 +2"
    assert days.visits.standing()[MEANWHILE] == "+2003"


def test_in_the_end_only_the_newest_version_of_each_visit_stands(days):
    for visit in days.visits.standing():
        told = [text for text, *_ in days.visits.story(visit)]
        assert len(told) == len(set(told)), visit  # no version is written or taken back twice
    assert days.visits.standing() == days.visits.newest()


def test_the_report_counts_visits_and_records(days):
    assert days.report.mode == "changes"
    assert days.report.keys == 13
    assert days.report.rows_in == 18
    written = sum(len(told.split()) for told in days.second.values())
    assert days.report.appended == written + 2  # the state's two new visits
    assert days.report.corrected == 9
    assert (days.report.retracted, days.report.failed, days.report.too_late) == (0, 0, 0)


@pytest.mark.scenario("D14")
@pytest.mark.scenario("D15")
def test_without_new_chunks_a_run_writes_nothing_and_starts_no_job(days, count_jobs):
    visits = days.visits
    heads = visits.store.heads()
    visits.visits()  # a chunk without rows
    with count_jobs() as counted:
        report = visits.run()

    assert counted.jobs == 0
    assert not report.did_something
    assert visits.store.heads() == heads
    assert visits.store.plan()["visits"].mode == "settled"


@pytest.mark.scenario("D15")
def test_every_commit_made_again_gives_the_same_records(days):
    report = days.visits.store.verify(replay=True)
    assert report.ok, report.findings
    assert report.replayed == 4  # the state and the records of both runs


def test_the_history_of_a_visit_is_told_oldest_first(days):
    told = days.visits.diff.history({"VisitID": SAME})
    assert [line["Sign"] * line["Version"] for line in told] == [-2, 1002, -1002, 2002]
    assert days.visits.diff.history({"VisitID": 4_711}) == []
