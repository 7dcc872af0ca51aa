"""Visits that are deleted, come back, and are corrected: every version of them sums to what it should."""

from __future__ import annotations

import pytest

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}
GONE, MOVED_THEN_GONE, GONE_AND_BACK, GONE_WITH_NEWS, STAYS, NEVER_SEEN, LATER_CORRECTED = range(1, 8)


@pytest.mark.scenario("D20")
@pytest.mark.scenario("D27")
@pytest.mark.parametrize("fast_deletes", [False, True], ids=["fast writes nothing", "fast takes back"])
def test_visits_are_deleted_and_come_back(make_visits, fast_deletes):
    visits = make_visits(
        logs=LOGS, keys={"joined_visits": "VisitID"}, merge={"revenue": "sum"}, fast_deletes=fast_deletes
    )
    known = (GONE, MOVED_THEN_GONE, GONE_AND_BACK, GONE_WITH_NEWS, STAYS)
    for visit in known:
        visits.fast(visit, "+1 -1 +2")
    visits.visits(*[(visit, 2, "X") for visit in known])
    visits.run()
    visits.told()

    def fast(visit: int, told: str, on_delete: str) -> None:
        visits.fast(visit, f"{told} {on_delete}" if fast_deletes else told)

    fast(GONE, "", "-2")
    fast(MOVED_THEN_GONE, "-2 +3", "-3")
    fast(GONE_WITH_NEWS, "", "-2")
    fast(NEVER_SEEN, "+5", "-5")
    fast(GONE_AND_BACK, "", "-2")
    visits.fast(GONE_AND_BACK, "+4")
    visits.visits((MOVED_THEN_GONE, 3, "Y"), (NEVER_SEEN, 5, "new"))
    visits.delete("joined_visits", *[(visit,) for visit in (GONE, MOVED_THEN_GONE, GONE_AND_BACK, GONE_WITH_NEWS)])
    visits.delete("joined_visits", (NEVER_SEEN,))
    visits.visits((GONE_AND_BACK, 4, "back"), (STAYS, 2, "Y"))
    visits.conversions((GONE_WITH_NEWS, 2, 10))
    report = visits.run()

    if fast_deletes:
        assert visits.told() == {
            GONE: "-1002 +2",
            MOVED_THEN_GONE: "-1002 +2",
            GONE_AND_BACK: "-1002 +2 -4 +2004",
            GONE_WITH_NEWS: "-1002 +2",
            STAYS: "-1002 +2002",
        }
    else:
        assert visits.told() == {
            GONE: "-1002",
            MOVED_THEN_GONE: "-1002 +2 -3",
            GONE_AND_BACK: "-1002 -4 +2004",
            GONE_WITH_NEWS: "-1002",
            STAYS: "-1002 +2002",
            NEVER_SEEN: "-5",
        }
    assert visits.state() == {GONE_AND_BACK: (4, 2, "back", None), STAYS: (2, 2, "Y", None)}
    assert report.retracted == 3
    assert visits.story(GONE)[2] == ("-1002", "X", None)
    nothing = {GONE: "", MOVED_THEN_GONE: "", GONE_WITH_NEWS: "", NEVER_SEEN: ""}
    assert visits.standing() == {**nothing, GONE_AND_BACK: "+2004", STAYS: "+2002"}

    # one comes back in a later run, and goes on at S 2
    visits.fast(GONE, "+3")
    visits.visits((GONE, 3, "again"))
    visits.run()
    assert visits.told() == {GONE: "-3 +2003"}
    assert visits.standing()[GONE] == "+2003"
    assert visits.state()[GONE] == (3, 2, "again", None)
    assert visits.store.verify("visits_visit_log_slow", replay=True).ok


@pytest.mark.scenario("D27")
@pytest.mark.parametrize(
    "fast_deletes",
    [
        pytest.param(False, id="fast writes nothing"),
        pytest.param(True, id="fast takes back"),
    ],
)
def test_a_visit_that_ends_comes_back_and_ends_again_in_one_run(make_visits, fast_deletes):
    visits = make_visits(logs=LOGS, keys={"joined_visits": "VisitID"}, fast_deletes=fast_deletes)
    visits.fast(1, "+1 -1 +2")
    visits.visits((1, 2, "X"))
    visits.run()
    visits.delete("joined_visits", (1,))
    visits.visits((1, 4, "back"))
    visits.delete("joined_visits", (1,))
    visits.fast(1, "-2 +4 -4" if fast_deletes else "+4")
    visits.run()

    assert visits.state() == {}
    assert visits.standing() == {1: ""}


@pytest.mark.scenario("D27")
@pytest.mark.parametrize("side_log_knows", [2, 3])
def test_what_a_side_log_knows_of_a_visit_that_ended_twice_comes_too_late(make_visits, side_log_knows):
    visits = make_visits(logs=LOGS, keys={"joined_visits": "VisitID"})
    visits.visits((1, 1, "X"))
    visits.delete("joined_visits", (1,))
    visits.visits((1, 2, "back"))
    visits.conversions((1, side_log_knows, 10))
    visits.delete("joined_visits", (1,))

    assert visits.run().too_late == 1
    assert visits.told() == {1: "-1 -2"}


@pytest.mark.scenario("D28")
@pytest.mark.parametrize("fast_deletes", [False, True], ids=["fast writes nothing", "fast takes back"])
def test_an_append_only_log_deletes_by_a_column(make_visits, fast_deletes):
    visits = make_visits(
        logs={**LOGS, "joined_visits": LOGS["joined_visits"] + ", gone boolean"},
        merge={"revenue": "sum"},
        deleted="gone",
        fast_deletes=fast_deletes,
    )
    assert "gone" not in visits.diff.state.schema.names
    for visit in (1, 2, 3, 4):
        visits.fast(visit, "+1 -1 +2")
    visits.visits((1, 2, "X", False), (2, 2, "X", None), (3, 2, "X", False))
    visits.run()
    visits.told()

    # 1 says its version, 2 does not; 3 comes back after it; 4 was never seen, and its delete says its version
    visits.visits((1, 2, None, True), (2, None, None, True), (3, 2, None, True), (3, 3, "back", False))
    visits.visits((4, 2, None, True))
    visits.fast(3, "+3" if not fast_deletes else "-2 +3")
    if fast_deletes:
        for visit in (1, 2, 4):
            visits.fast(visit, "-2")
    report = visits.run()

    assert report.failed == 0
    if fast_deletes:
        assert visits.told() == {1: "-1002 +2", 2: "-1002 +2", 3: "-1002 +2 -3 +2003"}
    else:
        assert visits.told() == {1: "-1002", 2: "-1002", 3: "-1002 -3 +2003", 4: "-2"}
    assert visits.standing() == {1: "", 2: "", 3: "+2003", 4: ""}
    assert visits.state() == {3: (3, 2, "back", None)}


@pytest.mark.scenario("D27")
def test_a_delete_that_does_not_say_which_version_to_take_back_waits(make_visits):
    visits = make_visits(
        logs={"joined_visits": "VisitID long, y_VisitVersion int, title string, gone boolean"}, deleted="gone"
    )
    visits.visits((1, None, None, True))
    assert visits.run().failed == 1
    assert "its y_VisitVersion is not known" in visits.diff.failures().error[0]
    assert visits.told() == {}

    assert visits.diff.give_up() == 1
    assert visits.diff.failures().empty
    assert visits.told() == {}


@pytest.mark.scenario("D28")
def test_a_keyed_log_corrects_what_it_has_added(make_visits):
    visits = make_visits(
        logs={
            "joined_visits": "VisitID long, y_VisitVersion int, title string",
            "joined_conversions": "ConversionID long, VisitID long, y_VisitVersion int, revenue long",
        },
        keys={"joined_conversions": "ConversionID"},
        merge={"revenue": "sum"},
    )

    def revenue() -> dict[int, int | None]:
        return {row["VisitID"]: row["revenue"] for row in visits.rows("visits_state")}

    visits.visits((1, 2, "X"), (2, 2, "X"), (3, 2, "X"))
    visits.conversions((10, 1, 2, 10), (20, 2, 2, 10))
    visits.conversions((20, 2, 2, 15))  # corrected before anybody has read it
    visits.run()
    assert revenue() == {1: 10, 2: 15, 3: None}

    visits.conversions((10, 1, 2, 15), (30, 3, 2, 1))
    visits.run()
    assert revenue() == {1: 15, 2: 15, 3: 1}

    visits.conversions((20, 3, 2, 15))  # it belonged to another visit all along
    visits.delete("joined_conversions", (10,))
    visits.told()
    visits.run()
    assert revenue() == {1: 0, 2: 0, 3: 16}
    assert visits.told() == {1: "-3002 +4002", 2: "-2002 +3002", 3: "-2002 +3002"}
    assert visits.store.verify("visits_visit_log_slow", replay=True).ok
