"""A diff that is declared again with another time to live: whoever is in the state is found by its time."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from seamark.tables.small import SMALL_RECORDS

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, start_time timestamp, seen timestamp, gone boolean",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}
TOUCHED, MOVED, LEFT_ALONE, TIMELESS, DELETED, FAILED, NEW = 42, 2, 3, 4, 5, 6, 7
MONTH = ("start_time", "30 days")


@pytest.fixture
def declare(make_visits):
    """The diff of this test with a time to live, or without one; a changed one goes on from the state."""
    return lambda ttl: make_visits(logs=LOGS, merge={"revenue": "sum"}, ttl=ttl, deleted="gone", on_change="keep")


def by_time(visits, column):
    """The visits that the table has by their time."""
    return sorted((row["VisitID"], row[column]) for row in visits.lines_left(f"visits_by_{column}"))


def in_state(visits, column):
    """The visits of the state that have a time."""
    rows = [(row["VisitID"], row[column]) for row in visits.rows("visits_state")]
    return sorted(row for row in rows if row[1] is not None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([None], MONTH, id="none before"),
        pytest.param([MONTH], ("start_time", "20 days"), id="another span", marks=pytest.mark.long),
        pytest.param([("seen", "30 days")], MONTH, id="another column", marks=pytest.mark.long),
        pytest.param([MONTH, None], MONTH, id="none for a while", marks=pytest.mark.long),
        pytest.param([MONTH, ("seen", "30 days")], MONTH, id="another column for a while", marks=pytest.mark.long),
    ],
)
def test_every_visit_of_the_state_is_found_by_its_time_after_the_ttl_has_changed(declare, clock, before, after):
    now = clock.now()

    def ago(days):
        return now - timedelta(days=days)

    visits = declare(before[0])
    known = (TOUCHED, MOVED, LEFT_ALONE, DELETED, FAILED)
    visits.visits(*[(visit, 2, ago(5), ago(1), None) for visit in known], (TIMELESS, 2, None, ago(1), None))
    visits.run()
    for ttl in before[1:]:
        visits = declare(ttl)
        visits.conversions((TOUCHED, 2, 1))
        visits.run()

    visits = declare(after)
    visits.conversions((TOUCHED, 2, 10), (TIMELESS, 2, 10))
    visits.visits((MOVED, 3, ago(2), ago(1), None), (DELETED, 2, None, None, True), (FAILED, 1000, None, None, None))
    visits.visits((NEW, 2, ago(3), ago(1), None))
    assert visits.run().failed == 1
    stay = [(MOVED, ago(2)), (LEFT_ALONE, ago(5)), (FAILED, ago(5)), (NEW, ago(3)), (TOUCHED, ago(5))]
    assert by_time(visits, "start_time") == in_state(visits, "start_time") == sorted(stay)

    # whoever moves is taken out where it stood, and the others leave by their age
    visits.visits((TOUCHED, 3, ago(4), ago(1), None))
    visits.run()
    assert by_time(visits, "start_time") == in_state(visits, "start_time")
    clock.advance(days=26.5 if after == MONTH else 16.5)
    visits.run()
    assert set(visits.state()) == {MOVED, NEW, TIMELESS, FAILED}
    assert by_time(visits, "start_time") == in_state(visits, "start_time")
    visits.visits((MOVED, 3, None, None, True))
    visits.run()
    assert by_time(visits, "start_time") == in_state(visits, "start_time")
    assert visits.store.table("visits_by_start_time").rows().count() == len(in_state(visits, "start_time"))

    report = visits.store.verify(replay=True)
    assert report.ok, report.findings


@pytest.mark.long
def test_a_great_many_visits_are_found_by_their_time_after_the_ttl_has_changed(declare, clock):
    """The same where the visits of a run are too many to be in memory."""
    many = SMALL_RECORDS + 10
    ids, versions = pa.array(range(many), pa.int64()), pa.repeat(pa.scalar(2, pa.int32()), many)
    times, nothing = pa.repeat(pa.scalar(clock.now(), pa.timestamp("us", "UTC")), many), pa.nulls(many, pa.bool_())
    visits = declare(None)
    names = visits.logs["joined_visits"].schema.names
    visits.logs["joined_visits"].append(pa.Table.from_arrays([ids, versions, times, times, nothing], names=names))
    visits.run()

    visits = declare(MONTH)
    names = visits.logs["joined_conversions"].schema.names
    visits.logs["joined_conversions"].append(pa.Table.from_arrays([ids, versions, ids], names=names))
    assert visits.run().keys == many
    assert by_time(visits, "start_time") == in_state(visits, "start_time") == [(n, clock.now()) for n in range(many)]
