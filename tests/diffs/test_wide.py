"""Widening: every record carries the columns set aside before, those of exactly its fast version."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}
WIDE = "VisitID long, y_VisitVersion int, hits long, title string, revenue long"


@pytest.fixture
def widened(make_visits):
    """The fast supplier knows hits, which are its own, and a title and a revenue, which the slow one knows too."""
    return make_visits(logs=LOGS, keys={"joined_visits": "VisitID"}, wide=WIDE, merge={"revenue": "sum"})


def story(visits: Any, visit: int) -> list[tuple[str, Any, Any, Any]]:
    """The records of a visit: signed version, title, revenue, hits."""
    return visits.story(visit)


def total(visits: Any, column: str, fast: list[tuple[int, int, int]]) -> dict[int, int]:
    """sum(Sign * column) by visit, over both suppliers; of the fast one (visit, sign, value)."""
    sums: Counter[int] = Counter()
    for visit, sign, value in fast:
        sums[visit] += sign * value
    for line in visits.records():
        sums[line["VisitID"]] += line["Sign"] * (line[column] or 0)
    return dict(sums)


@pytest.mark.scenario("D24")
def test_every_record_carries_the_wide_columns_of_its_version(widened):
    visits = widened
    visits.widen((1, 2, 20, "fast 2", 5), (1, 3, 30, "fast 3", 6), (2, 2, 200, "fast 2", None))
    visits.visits((1, 2, "X"), (2, 2, None))
    visits.conversions((1, 2, 10))
    visits.run()

    # of the fast supplier's own version its own values; where both know a column, the merge rule decides
    assert story(visits, 1) == [
        ("-2", "fast 2", 5, 20),
        ("+1002", "X", 5, 20),
        ("-1002", "X", 5, 20),
        ("+2002", "X", 15, 20),
    ]
    assert story(visits, 2) == [("-2", "fast 2", None, 200), ("+1002", "fast 2", None, 200)]
    assert visits.state() == {1: (2, 2, "X", 10), 2: (2, 1, None, None)}  # the state has what the slow one knows
    hits = [(1, +1, 20), (2, +1, 200)]
    assert total(visits, "hits", hits) == {1: 20, 2: 200}
    assert total(visits, "revenue", [(1, +1, 5)]) == {1: 15, 2: 0}

    # the wide row changes: what was written with the older values is taken back with them
    visits.widen((1, 2, 25, "changed", 7), (2, 2, 250, "changed", 7))
    visits.conversions((2, 2, 1))
    visits.run()
    assert story(visits, 2)[2:] == [("-1002", "fast 2", None, 200), ("+2002", "fast 2", 1, 200)]

    # the fast supplier moves on: each record has the values of its own version
    visits.visits((1, 3, "Y"))
    visits.run()
    assert story(visits, 1)[4:] == [
        ("-2002", "X", 15, 20),
        ("+3003", "Y", 16, 30),
        ("-3", "fast 3", 6, 30),
        ("+2", "fast 2", 5, 20),
    ]
    assert total(visits, "hits", [*hits, (1, -1, 20), (1, +1, 30)]) == {1: 30, 2: 200}
    assert total(visits, "revenue", [(1, +1, 5), (1, -1, 5), (1, +1, 6)]) == {1: 16, 2: 1}

    # and a delete takes back what stands, with the values that it has
    visits.delete("joined_visits", (1,), (2,))
    visits.run()
    assert story(visits, 1)[8:] == [("-3003", "Y", 16, 30)]
    assert total(visits, "hits", [*hits, (1, -1, 20), (1, +1, 30)]) == {1: 0, 2: 0}
    assert visits.state() == {}
    report = visits.store.verify(replay=True)
    assert report.ok, report.findings


@pytest.mark.scenario("D24")
def test_a_visit_whose_wide_row_is_not_there_waits_for_it(widened, clock):
    visits = widened
    visits.widen((2, 2, 200, None, None))
    visits.visits((1, 2, "X"), (2, 2, "X"), (3, 2, "X"))
    report = visits.run()
    assert report.failed == 2
    assert visits.told() == {2: "-2 +1002"}
    error = "the wide table 'wide' has no row for F=2, whose columns its records must carry"
    assert visits.diff.failures().error.tolist() == [error, error]
    assert visits.run().mode == "retry"
    assert not visits.run().did_something  # from here on they are not due

    # the row comes: the visit that waited for it is taken at once, with what came meanwhile
    visits.conversions((1, 2, 10))
    visits.widen((1, 2, 20, None, None))
    report = visits.run()
    assert report.failed == 1
    assert visits.told() == {1: "-2 +1002 -1002 +2002"}
    assert story(visits, 1)[-1] == ("+2002", "X", 10, 20)

    # one that never comes can be given up; what waited of the visit is left out
    assert visits.diff.give_up() == 1
    assert visits.told() == {}
    assert visits.diff.failures().empty
    report = visits.store.verify("visits_state", replay=True)
    assert report.ok, report.findings


@pytest.mark.scenario("D24")
def test_wide_rows_alone_write_nothing(widened):
    widened.widen((1, 2, 20, None, None))
    report = widened.run()
    assert (report.appended, report.keys) == (0, 0)
    assert widened.told() == {}
    assert not widened.run().did_something


@pytest.mark.scenario("D24")
@pytest.mark.scenario("D27")
def test_deletes_with_news_carry_the_columns_of_each_version(widened):
    visits = widened
    visits.widen((1, 2, 20, None, None), (1, 3, 30, None, None), (2, 5, 50, None, None))
    visits.visits((1, 2, "X"))
    visits.run()
    visits.visits((1, 3, "Y"), (2, 5, "Y"), (3, 1, "Y"))
    visits.delete("joined_visits", (1,), (2,), (3,))
    report = visits.run()

    assert report.failed == 1  # nobody knows the columns of the version that must be taken back
    assert story(visits, 1)[2:] == [("-1002", "X", None, 20), ("+2", None, None, 20), ("-3", None, None, 30)]
    assert story(visits, 2) == [("-5", None, None, 50)]
    fast = [(1, +1, 20), (1, -1, 20), (1, +1, 30), (2, +1, 50)]
    assert total(visits, "hits", fast) == {1: 0, 2: 0}
