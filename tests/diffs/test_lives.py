"""A visit that comes back: no version is ever used twice, in whatever order ClickHouse merges what it was sent."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import seamark as sm
from seamark.diffs.declare.checks import DiffWarning
from seamark.errors import NoSuchRow

LOG = "VisitID long, y_VisitVersion int, seen timestamp, revenue long, gone boolean"
CROWD = range(2, 3_001)  # visits that make the first part of the table a large one
ONE = 1


class Shop:
    """Both suppliers write to one table of a real ClickHouse, whose large part is not merged with the small ones."""

    def __init__(self, folder: Path, spark: Any, clock: Any, *, fast_deletes: bool) -> None:
        self.clock, self.fast_deletes = clock, fast_deletes
        self.ds = sm.DataStore(f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark, clock=clock)
        self.log = self.ds.table("joined_visits", LOG)
        self.clickhouse = sm.ClickHouseSink(f"chdb:///{folder / 'clickhouse'}", table="visits")
        self.diff = self.ds.diff(
            "visits", "VisitID", "y_VisitVersion", 1000, [self.log], {"revenue": "sum"}, deleted="gone",
            ttl=("seen", "30 days"), fast_deletes=fast_deletes, sink=self.clickhouse,
        )  # fmt: skip
        (sink,) = self.ds.sinks().values()
        sink.prepare()
        self.fast = sm.FastSupplier(self.clickhouse.insert, "VisitID", "y_VisitVersion")

    def publish(self, version: int, *visits: int) -> None:
        rows = [{"VisitID": v, "y_VisitVersion": version, "SlowVersion": 0, "log": "fast"} for v in visits]
        self.fast.publish(rows)

    def bring(self, version: int, *visits: int, revenue: int | None = None, gone: bool = False) -> sm.StepReport:
        seen = self.clock.now() if visits == (ONE,) else None
        names = self.log.schema.names
        self.log.append([dict(zip(names, (v, version, seen, revenue, gone), strict=True)) for v in visits])
        return self.run()

    def delete(self, version: int) -> None:
        self.fast.delete(ONE, retract=self.fast_deletes)
        self.bring(version, ONE, gone=True)

    def run(self) -> sm.StepReport:
        return self.ds.run(fail_fast=True).steps["visits"]

    def merge_small_parts(self) -> None:
        self.clickhouse.query("OPTIMIZE TABLE visits")

    def seen(self) -> tuple[list[tuple[int, int]], int | None]:
        """What FINAL shows of the visit, and the sum of its revenue without FINAL."""
        rows = self.clickhouse.query(f"SELECT Version, revenue FROM visits FINAL WHERE VisitID = {ONE}")
        (total,) = self.clickhouse.query(f"SELECT sum(Sign * revenue) AS total FROM visits WHERE VisitID = {ONE}")
        return [tuple(row.values()) for row in rows], total["total"]

    def written(self) -> list[dict[str, Any]]:
        return self.diff.history({"VisitID": ONE})


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["fast writes nothing", "fast takes back"]
)
def shop(request: pytest.FixtureRequest, tmp_path: Path, spark: Any, clock: Any) -> Iterator[Shop]:
    shop = Shop(tmp_path, spark, clock, fast_deletes=request.param)
    shop.publish(1, ONE, *CROWD)
    shop.bring(1, *CROWD, revenue=1)
    shop.bring(1, ONE, revenue=10)
    shop.clickhouse.query("OPTIMIZE TABLE visits FINAL")
    shop.clickhouse.query("ALTER TABLE visits MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 5000")
    yield shop
    shop.ds.close()


@pytest.mark.scenario("D31")
@pytest.mark.scenario("D20")
@pytest.mark.timeout(900)
def test_a_visit_that_comes_back_shows_its_new_life_and_nothing_of_the_old_one(shop):
    assert shop.seen() == ([(1001, 10)], 10)

    shop.delete(1)
    shop.merge_small_parts()
    assert shop.seen() in [([], 0), ([], None)]
    shop.publish(2, ONE)
    shop.bring(2, ONE, revenue=99)
    assert shop.seen() == ([(2002, 99)], 99)
    shop.merge_small_parts()
    assert shop.seen() == ([(2002, 99)], 99)

    # a second delete, and a third life that begins and ends before the diff has seen it
    shop.delete(2)
    shop.merge_small_parts()
    shop.publish(3, ONE)
    shop.fast.delete(ONE, retract=shop.fast_deletes)
    names = shop.log.schema.names
    for gone in (False, True):
        shop.log.append([dict(zip(names, (ONE, 3, shop.clock.now(), 1_000, gone), strict=True))])
    shop.run()
    shop.publish(4, ONE)
    shop.bring(4, ONE, revenue=7)
    shop.merge_small_parts()
    assert shop.seen() == ([(3004, 7)], 7)

    # it grows too old, and comes back: the version that stands since then is taken back with what it said
    shop.clock.advance(days=31)
    assert shop.run().mode == "expire"
    assert shop.diff.state.rows().where(f"VisitID = {ONE}").count() == 0
    assert shop.seen() == ([(3004, 7)], 7)
    shop.publish(5, ONE)
    shop.bring(5, ONE, revenue=50)
    assert shop.seen() == ([(4005, 50)], 50)
    shop.merge_small_parts()
    assert shop.seen() == ([(4005, 50)], 50)
    shop.clickhouse.query("ALTER TABLE visits RESET SETTING max_bytes_to_merge_at_max_space_in_pool")
    shop.clickhouse.query("OPTIMIZE TABLE visits FINAL")
    assert shop.seen() == ([(4005, 50)], 50)

    used = Counter((line["Sign"], line["Version"]) for line in shop.written() if line["SlowVersion"] > 0)
    assert set(used.values()) == {1}
    assert [mark.asDict() for mark in shop.diff.gone.rows().drop("at").collect()] == [
        {"VisitID": ONE, "y_VisitVersion": 4, "SlowVersion": 3, "reason": "expired"}
    ]
    report = shop.ds.verify(replay=True)
    assert report.ok, report.findings


@pytest.mark.scenario("D31")
@pytest.mark.scenario("D33")
def test_news_of_the_version_that_was_deleted_is_of_the_old_life(make_visits):
    visits = make_visits(
        logs={"joined_visits": "VisitID long, F int, title string, gone boolean".replace("F", "y_VisitVersion")},
        deleted="gone",
    )
    visits.visits((ONE, 1, "X", None))
    visits.run()
    visits.visits((ONE, 1, None, True))
    visits.run()
    visits.told()

    visits.visits((ONE, 1, "late", None), (ONE, 0, "later", None))
    report = visits.run()
    assert (report.too_late, report.appended) == (2, 0)
    assert (visits.told(), visits.state()) == ({}, {})

    visits.visits((ONE, 2, "back", None), (ONE, 1, "late again", None))
    report = visits.run()
    assert report.too_late == 1
    assert visits.told() == {ONE: "-2 +2002"}
    assert visits.state() == {ONE: (2, 2, "back")}


@pytest.mark.scenario("D31")
def test_marks_are_kept_for_as_long_as_was_said_and_no_longer(make_visits, clock):
    log = {"joined_visits": "VisitID long, y_VisitVersion int, title string, gone boolean"}
    visits = make_visits(logs=log, deleted="gone", keep_gone="10 days")
    visits.visits((1, 1, "X", None), (2, 1, "X", None), (3, 1, "X", None))
    visits.run()
    visits.visits((1, 1, None, True), (2, 1, None, True))
    visits.run()
    clock.advance(days=6)
    visits.visits((2, 2, "back", None), (2, 2, None, True), (3, 1, None, True))
    visits.run()

    clock.advance(days=6)
    assert not visits.run().did_something  # nobody needs a run to forget
    visits.visits((9, 1, "X", None))
    visits.run()
    assert {row["VisitID"]: (row["y_VisitVersion"], row["reason"]) for row in visits.rows("visits_gone")} == {
        2: (2, "deleted"),
        3: (1, "deleted"),
    }
    clock.advance(days=6)
    visits.visits((9, 1, "Y", None), (3, 2, "back", None))
    visits.run()
    assert visits.rows("visits_gone") == []
    assert visits.state()[3] == (2, 2, "back")  # its mark was still there when the run began
    report = visits.store.verify(replay=True)
    assert report.ok, report.findings


def test_a_visit_whose_mark_is_forgotten_is_like_any_that_nobody_knows(make_visits, clock):
    """What docs/diffs.md says of it: Versions are used again, and what still stood is not taken back."""
    back, side_news, deleted_again, expired, other = 1, 2, 3, 4, 9
    logs = {
        "joined_visits": "VisitID long, y_VisitVersion int, seen timestamp, gone boolean",
        "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
    }
    with pytest.warns(DiffWarning, match="'joined_conversions' does not have the time to live's column"):
        visits = make_visits(logs=logs, deleted="gone", ttl=("seen", "30 days"), keep_gone="10 days")
    visits.visits(*[(visit, 1, clock.now(), None) for visit in (back, side_news, deleted_again, expired)])
    visits.run()
    visits.visits(*[(visit, 1, None, True) for visit in (back, side_news, deleted_again)])
    visits.run()
    clock.advance(days=31)
    visits.visits((other, 1, clock.now(), None))
    visits.run()
    assert [(row["VisitID"], row["reason"]) for row in visits.rows("visits_gone")] == [(expired, "expired")]
    clock.advance(days=11)
    visits.visits((other, 2, clock.now(), None))
    visits.run()
    assert visits.rows("visits_gone") == []
    assert visits.told()[expired] == "-1 +1001"  # it still stands

    visits.visits((back, 1, clock.now(), None), (deleted_again, 1, clock.now(), True))
    visits.visits((side_news, 1, clock.now() - timedelta(days=40), None))
    visits.conversions((side_news, 1, 10), (expired, 1, 10))
    report = visits.run()
    assert visits.told() == {back: "-1 +1001", side_news: "-1 +1001", deleted_again: "-1", expired: "-1 +1001"}
    assert report.too_late == 1  # a record with a time of its own needs no mark


@pytest.mark.scenario("D31")
def test_where_a_gone_visit_went_can_be_asked(make_visits, clock):
    log = {"joined_visits": "VisitID long, y_VisitVersion int, seen timestamp, title string"}
    visits = make_visits(logs=log, keys={"joined_visits": "VisitID"}, ttl=("seen", "30 days"))
    visits.visits((1, 3, clock.now(), "X"), (2, 4, clock.now() - timedelta(days=29), "Y"))
    visits.run()
    visits.delete("joined_visits", (1,))
    clock.advance(days=2)
    visits.run()

    marks = {
        row["VisitID"]: (row["y_VisitVersion"], row["SlowVersion"], row["reason"]) for row in visits.rows("visits_gone")
    }
    assert marks == {1: (3, 1, "deleted"), 2: (4, 1, "expired")}
    assert {row["at"] for row in visits.rows("visits_gone")} == {clock.now()}
    origin = visits.store.why("visits_gone", {"VisitID": 2})
    assert (origin.step, [behind.row["title"] for behind in origin.inputs]) == ("visits", ["Y"])
    with pytest.raises(NoSuchRow, match=r"(?s)visits_state.*VisitID=1.*seamark why visits_gone VisitID=1"):
        visits.store.why("visits_state", {"VisitID": 1})


@pytest.mark.scenario("D31")
def test_in_a_large_run_a_deleted_visit_is_not_woken_by_one_that_expired_in_the_same_commit(
    make_visits, clock, set_small, monkeypatch
):
    visits = make_visits(logs={"joined_visits": LOG}, merge={"revenue": "sum"}, ttl=("seen", "30 days"), deleted="gone")
    for visit in (1, 2):
        visits.fast(visit, "+1")
    visits.visits((1, 1, clock.now(), 10, None), (2, 1, clock.now(), 20, None))
    visits.run()
    clock.advance(days=31)
    visits.visits((2, 1, None, None, True))
    visits.run()  # the first leaves by its age, the second is deleted, in one commit
    visits.fast(1, "-1 +2")
    visits.fast(2, "+2")
    visits.visits((1, 2, clock.now(), 1, None), (2, 2, clock.now(), 2, None))
    set_small(monkeypatch, 0)
    visits.run()
    assert visits.standing() == visits.newest()


@pytest.mark.long
def test_a_diff_with_a_time_to_live_starts_spark_by_itself(tmp_path):
    program = """
import datetime, seamark as sm
ds = sm.DataStore("sqlite:///c.db", "warehouse")
log = ds.table("log", "VisitID long, y_VisitVersion int, seen timestamp")
ds.diff("visits", "VisitID", "y_VisitVersion", 1000, [log], ttl=("seen", "30 days"))
log.append([{"VisitID": 1, "y_VisitVersion": 1, "seen": datetime.datetime.now(datetime.UTC)}])
print(ds.run().steps["visits"].error)
"""
    told = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout.strip()) == (0, "None"), told.stderr
