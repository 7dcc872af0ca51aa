"""Visits that cannot be taken: they fail and wait with all that comes after, the others go on, and nothing is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from seamark.errors import TooManyFailures, VisitFailed

KEYED = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "ConversionID long, VisitID long, y_VisitVersion int, revenue long",
}
KEYS = {"joined_visits": "VisitID", "joined_conversions": "ConversionID"}


def errors_of(visits) -> dict[int, str]:
    return {row.VisitID: row.error for row in visits.diff.failures().itertuples()}


@pytest.mark.scenario("D13")
def test_a_version_out_of_range_fails_its_visit_and_waits_until_it_is_given_up(diffed):
    diffed.visits((1, 1000, "bad"), (2, -1, "bad"), (3, None, "bad"), (4, 999, "top"), (5, 0, "bottom"), (6, 1, "X"))
    report = diffed.run()

    assert (report.failed, report.keys, report.ok) == (3, 6, False)
    assert diffed.told() == {4: "-999 +1999", 5: "-0 +1000", 6: "-1 +1001"}
    assert diffed.state() == {4: (999, 1, "top", None), 5: (0, 1, "bottom", None), 6: (1, 1, "X", None)}
    rule = "y_VisitVersion must be 0 <= F < M, with M=1000"
    assert errors_of(diffed) == {
        1: f"y_VisitVersion is F=1000 in log 'joined_visits': {rule}",
        2: f"y_VisitVersion is F=-1 in log 'joined_visits': {rule}",
        3: f"y_VisitVersion is F=NULL in log 'joined_visits': {rule}",
    }

    # what comes later of a failed visit waits with it, and the others go on
    diffed.visits((1, 1, "later"), (6, 1, "Y"))
    diffed.conversions((1, 1, 10))
    assert diffed.run().failed == 3  # the first attempt after a failure comes with the next run
    assert diffed.told() == {6: "-1001 +2001"}
    assert set(errors_of(diffed)) == {1, 2, 3}

    # taken now, whether due or not: nothing has changed
    report = diffed.diff.retry()
    assert (report.mode, report.failed, report.appended) == ("retry", 3, 0)
    assert diffed.told() == {}
    assert list(diffed.diff.failures().attempts) == [3, 3, 3]

    # given up by name: the bad record is left out, what waited behind it goes on
    assert diffed.diff.give_up(pa.table({"VisitID": [1, 4_711]})) == 1
    assert diffed.told() == {1: "-1 +1001 -1001 +2001"}
    assert diffed.state()[1] == (1, 2, "later", 10)
    assert set(errors_of(diffed)) == {2, 3}

    assert diffed.diff.give_up() == 2
    assert diffed.diff.give_up() == 0
    assert diffed.told() == {}
    assert errors_of(diffed) == {}
    assert not diffed.run().did_something
    assert diffed.store.verify(replay=True).ok


@pytest.mark.scenario("D13")
def test_a_known_visit_that_fails_keeps_its_state_and_takes_all_of_its_news_later(diffed):
    diffed.visits((1, 2, "X"))
    diffed.run()
    diffed.visits((1, 2, "Y"))
    diffed.conversions((1, 1000, 10), (1, 3, 5))
    diffed.run()
    assert diffed.told() == {1: "-2 +1002"}
    assert diffed.state() == {1: (2, 1, "X", None)}

    diffed.diff.give_up()

    assert diffed.told() == {1: "-1002 +2002 -2002 +3003 -3 +2"}
    assert diffed.state() == {1: (3, 3, "Y", 5)}


@pytest.mark.scenario("D13")
def test_with_fail_fast_nothing_is_committed(make_visits):
    visits = make_visits(fail_fast=True)
    visits.visits((1, 1000, "bad"), (2, 1, "good"))
    outputs = ("visits_state", "visits_visit_log_slow")
    before = visits.store.heads()

    with pytest.raises(VisitFailed, match=r"(?s)visit .*1.* cannot be taken: .*F=1000.*M=1000.*Nothing of this run"):
        visits.run()
    with pytest.raises(VisitFailed):
        visits.store.run(fail_fast=True)

    after = visits.store.heads()
    assert [after[name] for name in outputs] == [before[name] for name in outputs]
    assert visits.store.offset_table.get_record_offsets("visits") == {}
    assert visits.diff.failures().empty

    assert visits.run(fail_fast=False).failed == 1  # what a run says wins over what was declared
    assert visits.told() == {2: "-1 +1001"}


@pytest.mark.scenario("D13")
def test_more_failures_than_allowed_stop_the_run(make_visits):
    visits = make_visits(max_failed_keys=1)
    visits.visits((1, 1000, "bad"), (2, 2000, "bad"), (3, 1, "good"))

    with pytest.raises(TooManyFailures, match=r"more than max_failed_keys=1 visits"):
        visits.run()

    assert visits.diff.failures().empty
    assert visits.diff.state.head.offset is None
    assert visits.store.offset_table.get_record_offsets("visits") == {}


@pytest.mark.scenario("D13")
@pytest.mark.scenario("D28")
def test_in_keyed_logs_a_correction_cures_the_visit(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum"})
    visits.visits((4, 2, "X"))
    visits.run()
    assert visits.told() == {4: "-2 +1002"}
    visits.visits((1, 1000, "bad"), (2, 2, "X"), (3, 1000, "bad"), (4, 1000, "bad"))
    visits.conversions((10, 2, 1000, 10), (11, 2, 2, 5))
    visits.run()
    assert visits.told() == {}
    assert set(errors_of(visits)) == {1, 2, 3, 4}

    visits.visits((1, 3, "good"))
    visits.conversions((10, 2, 2, 7))
    visits.delete("joined_visits", (3,), (4,))  # the end of a visit also ends its trouble
    report = visits.run()

    assert report.failed == 0
    assert visits.told() == {1: "-3 +1003", 2: "-2 +1002 -1002 +2002", 4: "-1002"}
    assert {visit: row[2:] for visit, row in visits.state().items()} == {1: ("good", None, None), 2: ("X", 10, 12)}
    assert errors_of(visits) == {}
    assert visits.store.verify("visits_visit_log_slow", replay=True).ok


@pytest.mark.scenario("D13")
@pytest.mark.scenario("D28")
def test_a_row_that_was_given_up_counts_no_more_when_it_is_corrected(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum", "ConversionID": "keep"})
    visits.conversions((10, 1, 1000, 100), (11, 1, 1, 5))
    visits.run()
    visits.diff.give_up()
    assert visits.told() == {1: "-1 +1001"}
    assert visits.state() == {1: (1, 1, None, 11, 5)}

    # another bad row comes, and then the one that was given up is mended: the visit still fails for the other
    visits.conversions((12, 1, 2000, 1_000))
    visits.conversions((10, 1, 1, 20))
    assert visits.run().failed == 1
    assert visits.told() == {}
    assert "F=2000" in errors_of(visits)[1]

    visits.conversions((12, 1, 1, 300))
    assert visits.run().failed == 0
    assert visits.state() == {1: (1, 2, None, 11, 325)}


@pytest.mark.scenario("D13")
def test_the_error_names_a_version_that_is_still_there(make_visits):
    visits = make_visits(logs=KEYED, keys=KEYS, merge={"revenue": "sum"})
    visits.conversions((10, 1, 1000, 100), (11, 1, 2000, 5))
    visits.conversions((11, 1, 1, 5))
    visits.run()
    assert "F=1000" in errors_of(visits)[1]


def test_a_row_without_a_key_fails_and_can_be_given_up(diffed):
    diffed.visits((None, 1, "whose?"), (1, 1, "X"))
    assert diffed.run().failed == 1
    assert diffed.told() == {1: "-1 +1001"}
    assert diffed.diff.failures().error.tolist() == ["its key column 'VisitID' is NULL"]

    assert diffed.diff.give_up() == 1

    assert diffed.diff.failures().empty
    assert diffed.told() == {}
