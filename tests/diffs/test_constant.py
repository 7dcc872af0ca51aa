"""Columns that no visit changes: a target may be ordered by them, and a visit that changes one fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import InvalidStep, UnknownColumn

ENGINE = "ENGINE = VersionedCollapsingMergeTree(Sign, Version) ORDER BY (CounterID, VisitID)"
COLUMNS = (
    "CounterID UInt32, VisitID UInt64, Sign Int8, SlowVersion UInt32, y_VisitVersion UInt32, Version UInt64, "
    "log String, revenue Nullable(Int64)"
)


def rows(table: sm.Table, *given: tuple[Any, ...]) -> pa.Table:
    columns = zip(*given, strict=True)
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, table.schema.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, names=table.schema.names)


def declared(store: sm.DataStore, tmp_path, kind: str) -> tuple[sm.Diff, sm.ClickHouseSink, Any]:
    """A diff whose CounterID comes with its log or with the wide table, and the fast supplier's own target."""
    target = sm.ClickHouseSink(f"chdb:///{tmp_path / 'clickhouse'}", table="visits")
    target.query(f"CREATE TABLE visits ({COLUMNS}) {ENGINE}")
    own = ", CounterID int" if kind == "log" else ""
    log = store.table("joined_visits", f"VisitID long, y_VisitVersion int, revenue long{own}")
    options: dict[str, Any] = {}
    if kind == "wide":
        wide = "VisitID long, y_VisitVersion int, CounterID int NOT NULL"
        options["wide"] = store.table("wide", wide, key=["VisitID", "y_VisitVersion"])
    diff = store.diff(
        "visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[log],
        merge={"revenue": "sum"}, constant=["CounterID"], sink=target, **options,
    )  # fmt: skip
    fast = sm.FastSupplier(target.insert, "VisitID", "y_VisitVersion")

    def news(visit: int, version: int, revenue: int, counter: int) -> None:
        fast.publish(
            [{"CounterID": counter, "VisitID": visit, "y_VisitVersion": version, "SlowVersion": 0, "log": "fast"}]
        )
        if kind == "wide":
            options["wide"].upsert(rows(options["wide"], (visit, version, counter)))
            log.append(rows(log, (visit, version, revenue)))
        else:
            log.append(rows(log, (visit, version, revenue, counter)))

    return diff, target, news


@pytest.mark.scenario("D38")
@pytest.mark.parametrize("kind", ["log", "wide"])
def test_a_target_ordered_by_a_constant_column_nets_and_a_visit_that_changes_it_fails(ds, tmp_path, kind):
    diff, target, news = declared(ds, tmp_path, kind)
    news(1, 1, 10, 7)
    news(2, 1, 20, 8)
    assert ds.run(fail_fast=True).ok
    news(1, 2, 5, 7)
    assert ds.run(fail_fast=True).ok
    final = "SELECT CounterID, VisitID, Version, revenue FROM visits FINAL ORDER BY VisitID"
    one = {"CounterID": 7, "VisitID": 1, "Version": 2002, "revenue": 15}
    assert target.query(final) == [one, {"CounterID": 8, "VisitID": 2, "Version": 1001, "revenue": 20}]

    news(2, 2, 1, 9)
    news(3, 1, 30, 7)
    report = ds.run().steps["visits"]
    assert report.failed == 1
    assert "its constant column 'CounterID' changes from 8 to 9" in diff.failures().error[0]
    assert [row.VisitID for row in diff.state.rows().orderBy("VisitID").collect()] == [1, 2, 3]
    assert {"CounterID": 7, "VisitID": 3, "Version": 1001, "revenue": 30} in target.query(final)


@pytest.mark.scenario("D38")
def test_a_visit_that_came_and_went_between_two_runs_has_the_constant_that_its_log_says(ds):
    log = ds.table("joined_visits", "VisitID long, y_VisitVersion int, CounterID int, gone boolean")
    diff = ds.diff(
        "visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[log], deleted="gone",
        constant=["CounterID"],
    )  # fmt: skip
    log.append(rows(log, (1, 1, 7, False), (1, 2, None, True), (2, 1, 8, True)))
    assert diff.run_full().failed == 0
    found = [(row["VisitID"], row["Sign"], row["Version"], row["CounterID"]) for row in told(diff, 1, 2)]
    assert found == [(1, -1, 2, 7), (2, -1, 1, 8)]


def told(diff: sm.Diff, *visits: int) -> list[dict[str, Any]]:
    return [line for visit in visits for line in diff.history({"VisitID": visit})]


@pytest.mark.scenario("D38")
def test_a_column_that_cannot_be_constant_is_refused_when_it_is_declared(dry):
    log = dry.table("joined_visits", "VisitID long, y_VisitVersion int, revenue long, CounterID int")
    options: dict[str, Any] = {"key": "VisitID", "fast_version": "y_VisitVersion", "multiplier": 1000, "logs": [log]}
    with pytest.raises(UnknownColumn, match=r"constant names column 'CounterIdd'.*did you mean 'CounterID'"):
        dry.diff("visits", constant=["CounterIdd"], **options)
    with pytest.raises(InvalidStep, match="column 'revenue' cannot be constant"):
        dry.diff("visits", constant="revenue", merge={"revenue": "sum"}, **options)
    assert dry.step_names() == []
