"""Time to live and steady traffic: a run reads what is due and what is new, and not the state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from seamark.diffs.ageing.expire import Expiry
from seamark.diffs.declare.spec import DiffSpec
from seamark.diffs.run import make_changes

LOG = {"joined_visits": "VisitID long, y_VisitVersion int, seen timestamp, title string"}
STANDING, EACH, RUNS = 300_000, 20, 16


class RowsRead:
    """How many rows Spark has read from files, while a block ran."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self._store = self._context._jsc.sc().statusStore()

    def __enter__(self) -> RowsRead:
        self._first = self._newest_stage() + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        stages = self._context._jsc.sc().statusStore().stageList(None, False, False, *self._rest())
        found = [stages.apply(place) for place in range(stages.size())]
        self.rows = sum(stage.inputRecords() for stage in found if stage.stageId() >= self._first)

    def _rest(self) -> tuple[Any, Any]:
        gateway = self._context._gateway
        return gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()

    def _newest_stage(self) -> int:
        self._context.setJobGroup(group := "the newest stage", group)
        self._context.parallelize([1], 1).count()
        tracker = self._context.statusTracker()
        return max(max(tracker.getJobInfo(job).stageIds) for job in tracker.getJobIdsForGroup(group))


def rows(first: int, count: int, version: int, seen: list[Any]) -> pa.Table:
    return pa.table(
        {
            "VisitID": pa.array(range(first, first + count)),
            "y_VisitVersion": pa.repeat(pa.scalar(version, pa.int32()), count),
            "seen": pa.array(seen, pa.timestamp("us", "UTC")),
            "title": pa.repeat(f"v{version}", count),
        }
    )


@pytest.mark.long
@pytest.mark.scenario("D42")
@pytest.mark.timeout(1800)
def test_with_steady_traffic_the_rows_that_are_read_grow_with_the_news(make_visits, clock, spark):
    visits = make_visits(logs=LOG, ttl=("seen", "30 days"))
    log, begin = visits.logs["joined_visits"], clock.now()
    ages = [29.5 if n < RUNS * EACH else 1.0 for n in range(STANDING)]
    # of the first ones a few grow too old every hour, the others are young
    seen = [begin - timedelta(days=days) + timedelta(hours=n // EACH) * (days > 1) for n, days in enumerate(ages)]
    log.append(rows(0, STANDING, 1, seen))
    visits.run()
    visits.store.fold()
    clock.advance(hours=12)

    left = 0
    with RowsRead(spark) as read:
        for hour in range(RUNS):
            clock.advance(hours=1)
            fresh, changed = STANDING + hour * EACH, STANDING // 2 + hour * EACH
            log.append(rows(fresh, EACH, 1, [clock.now()] * EACH))
            log.append(rows(changed, EACH, 2, [clock.now()] * EACH))
            report = visits.diff.run_full()
            assert (report.rows_in, report.too_late) == (2 * EACH, 0)
            left += report.retracted
    assert left == RUNS * EACH
    assert read.rows < 4 * STANDING  # to look through the state in every run would be four times as much
    assert visits.store.verify("visits_by_seen").ok


@pytest.mark.scenario("D42")
def test_a_look_in_vain_is_not_repeated_before_long(make_visits, clock):
    visits = make_visits(logs=LOG, ttl=("seen", "30 days"))
    visits.visits((1, 1, clock.now() - timedelta(days=29), "X"), (2, 1, clock.now(), "Y"))
    visits.run()
    clock.advance(days=1.01)
    assert (visits.run().retracted, visits.run().did_something) == (1, False)
    looks = 0
    for _ in range(28 * 24):
        clock.advance(hours=1)
        if visits.store.plan()["visits"].mode == "expire":
            looks += 1
            assert visits.run().retracted == 0
    assert looks <= 10  # each goes twice as far as the one before, from a 1024th of the time to live on
    clock.advance(days=1)
    assert visits.run().retracted == 1


@pytest.mark.scenario("D42")
@pytest.mark.scenario("D31")
def test_a_diff_from_before_visits_left_marks_goes_on(make_visits, clock, monkeypatch):
    """Its commits wrote two tables, and said less of themselves."""
    options = {"logs": {"joined_visits": f"{LOG['joined_visits']}, gone boolean"}, "deleted": "gone"}
    begin = clock.now()
    with monkeypatch.context() as patched:
        patched.setattr(DiffSpec, "written", DiffSpec.outputs)
        patched.setattr("seamark.diffs.run.make_changes", lambda spec, done: make_changes(spec, done)[:2])
        patched.setattr(Expiry, "details", lambda self, looked, forgotten: {"horizon": None, "expires": False})
        visits = make_visits(**options, ttl=("seen", "30 days"))
        visits.visits((1, 1, begin, "X", None), (2, 1, begin - timedelta(days=29), "X", None), (3, 1, None, "X", None))
        visits.run()
    assert [name for name in visits.store.control.index.heads() if name.startswith("visits_")] == [
        "visits_state",
        "visits_visit_log_slow",
    ]

    visits = make_visits(**options, ttl=("seen", "30 days"))
    assert visits.store.plan()["visits"].mode == "expire"  # the visits are not known by their time yet
    visits.visits((4, 1, begin, "new", None), (1, 1, None, None, True))
    visits.run()
    assert set(visits.state()) == {2, 3, 4}
    assert {row["VisitID"] for row in visits.rows("visits_gone")} == {1}
    assert {row["VisitID"] for row in visits.lines_left("visits_by_seen")} == {2, 4}
    assert not visits.run().did_something
    clock.advance(days=2)
    assert visits.run().retracted == 1
    report = visits.store.verify(replay=True)
    assert report.ok, report.findings
    assert report.not_replayable == 2  # the commit from before, of two tables


@pytest.mark.scenario("D42")
def test_another_time_to_live_is_looked_up_anew(make_visits, clock):
    log = {"joined_visits": "VisitID long, y_VisitVersion int, seen timestamp, ended date"}
    begin = clock.now()
    visits = make_visits(logs=log, ttl=("seen", "30 days"))
    visits.visits((1, 1, begin, (begin - timedelta(days=29)).date()), (2, 1, begin - timedelta(days=29), begin.date()))
    visits.run()

    visits = make_visits(logs=log, ttl=("ended", "30 days"), on_change="keep")
    visits.visits((3, 1, begin, begin.date()))
    visits.run()
    clock.advance(days=2)
    visits.run()
    assert set(visits.state()) == {2, 3}

    visits = make_visits(logs=log, ttl=("seen", "30 days"), on_change="keep")
    visits.run()
    assert set(visits.state()) == {3}  # what the first table had missed meanwhile is in it again
    assert {row["VisitID"] for row in visits.lines_left("visits_by_seen")} == {3}
    report = visits.store.verify(replay=True)
    assert report.ok, report.findings
