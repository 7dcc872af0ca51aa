"""Columns that no visit changes: a target may be ordered by them, and a visit that changes one fails."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
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


# What a log brings of a visit (version, CounterID, whether it is gone), and what is wrong with it.
CUTS: dict[str, tuple[list[tuple[int, int | None, bool]], str | None]] = {
    "one value": ([(1, 5, False), (2, 5, False)], None),
    "another value at the same version": ([(1, 5, False), (1, 6, False)], "changes from 5 to 6"),
    "another value at a newer version": ([(1, 5, False), (2, 6, False)], "changes from 5 to 6"),
    "another value of an older version": ([(2, 5, False), (1, 6, False)], "changes from 5 to 6"),
    "another value, and back again": ([(1, 5, False), (1, 6, False), (1, 5, False)], "changes from 5 to 6"),
    "a value that comes later": ([(1, None, False), (1, 5, False)], None),
    "a delete that says another one": ([(1, 5, False), (1, 6, True)], None),
    "a second life with another one": ([(1, 5, False), (1, 5, True), (2, 6, False)], None),
    "lives that nobody has seen": ([(1, 5, False), (1, None, True), (2, 6, True), (3, 7, False)], None),
    "another value in a life that ended": ([(1, 5, False), (2, 6, False), (2, None, True)], "changes from 5 to 6"),
    "another value that comes after the end": ([(2, 5, False), (2, 5, True), (1, 6, False)], None),
    "another value of the life before": ([(1, 5, False), (1, None, True), (2, 6, False), (1, 7, False)], None),
    "a value that only the end tells": ([(3, None, False), (5, 6, True), (4, 7, False)], None),
    "a second delete that says another one": ([(3, None, False), (5, 6, True), (5, 8, True)], None),
    "late news, and then a second life": ([(2, 5, False), (2, 5, True), (1, 6, False), (3, 7, False)], None),
    "late news of a life that nobody has seen": ([(2, 5, True), (1, 6, False)], None),
}


@pytest.mark.scenario("D38")
@pytest.mark.parametrize(("rule", "fast_deletes"), [("overwrite", False), ("keep", True)])
def test_whether_a_column_is_constant_does_not_depend_on_where_runs_are_cut(ds, rule, fast_deletes):
    def run(name: str, *, cut: bool) -> sm.Diff:
        log = ds.table(f"{name}_log", "VisitID long, y_VisitVersion int, CounterID int, gone boolean")
        diff = ds.diff(
            name, key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[log], deleted="gone",
            merge={"CounterID": rule}, constant=["CounterID"], fast_deletes=fast_deletes,
        )  # fmt: skip
        for turn in zip_longest(*[given for given, _ in CUTS.values()]):
            log.append(rows(log, *[(visit, *row) for visit, row in enumerate(turn) if row]))
            if cut:
                diff.run_full()
        diff.run_full()
        return diff

    def known(diff: sm.Diff, visit: int) -> tuple[Any, Any, str | None]:
        """The state of a visit, what its records leave standing, and why it failed."""
        sums: Counter[tuple[int, int]] = Counter()
        for line in told(diff, visit):
            sums[line["CounterID"], line["y_VisitVersion"] if line["SlowVersion"] == 0 else -1] += line["Sign"]
        state = [(row.y_VisitVersion, row.CounterID) for row in states[diff.name] if row.VisitID == visit]
        failed = diff.failures()
        return state, +sums | -sums, next(iter(failed.error[failed.VisitID == visit]), None)

    together, apart = run("together", cut=False), run("apart", cut=True)
    states = {diff.name: diff.state.rows().collect() for diff in (together, apart)}
    for visit, (case, (_, trouble)) in enumerate(CUTS.items()):
        one, other = known(together, visit), known(apart, visit)
        if trouble is None:
            assert one == other, case
            assert one[-1] is None, case
        else:
            assert trouble in (one[-1] or ""), case
            assert trouble in (other[-1] or ""), case


@pytest.mark.scenario("D38")
def test_a_constant_that_a_keyed_log_corrects_and_then_sets_right_again_is_trouble_no_more(ds):
    log = ds.table("joined_visits", "VisitID long, y_VisitVersion int, CounterID int", key="VisitID")
    diff = ds.diff(
        "visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[log], constant=["CounterID"]
    )
    for counter, trouble in ((5, 0), (6, 1), (5, 0)):
        log.upsert(rows(log, (1, 1, counter)))
        diff.run_full()
        assert len(diff.failures()) == trouble
    assert {line["CounterID"] for line in told(diff, 1)} == {5}


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
