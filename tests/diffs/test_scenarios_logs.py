"""Several logs one after another, what a run has in its hands on the way, and one commit for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import seamark as sm

ORDERS = {
    "visits first": ["joined_visits", "joined_conversions"],
    "conversions first": ["joined_conversions", "joined_visits"],
}


@pytest.mark.scenario("D9")
@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("visits first", {1: "-1002 +2003 -3 +2 -2003 +3003", 2: "-1 +1001 -1001 +2001", 3: "-1002 +2002"}),
        ("conversions first", {1: "-1002 +2002 -2002 +3003 -3 +2", 2: "-1 +1001 -1001 +2001", 3: "-1002 +2002"}),
    ],
)
def test_in_another_order_of_the_logs_the_end_is_the_same(make_visits, order, told):
    visits = make_visits(logs=_ordered(ORDERS[order]), merge={"revenue": "sum"})
    visits.fast(1, "+1 -1 +2")
    visits.fast(3, "+1 -1 +2")
    visits.visits((1, 2, "X"), (3, 2, "X"))
    visits.run()
    assert visits.told() == {1: "-2 +1002", 3: "-2 +1002"}

    visits.fast(1, "-2 +3")
    visits.fast(2, "+1")
    visits.visits((1, 3, "Y"), (2, 1, "Y"))
    visits.conversions((1, 2, 10), (2, 1, 20), (3, 2, 30))
    visits.run()

    assert visits.told() == told
    named = {row["VisitID"]: row for row in visits.rows("visits_state")}
    assert {visit: (row["title"], row["revenue"]) for visit, row in named.items()} == {
        1: ("Y", 10),
        2: ("Y", 20),
        3: ("X", 30),
    }
    assert {visit: row["y_VisitVersion"] for visit, row in named.items()} == {1: 3, 2: 1, 3: 2}
    assert visits.standing() == {1: "+3003", 2: "+2001", 3: "+2002"}


def _ordered(names: list[str]) -> dict[str, str]:
    columns = {
        "joined_visits": "VisitID long, y_VisitVersion int, title string",
        "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
    }
    return {name: columns[name] for name in names}


@dataclass
class Kept:
    """What the intermediate tables held after each of two runs, and where the store stood after the first of them."""

    visits: Any
    second: dict[str, list[tuple[Any, ...]]]
    heads: dict[str, sm.Head]
    offsets: dict[str, int]
    third: dict[str, list[tuple[Any, ...]]]
    told: dict[int, str]


@pytest.fixture(scope="module")
def kept(shared_visits) -> Kept:
    """Visits 1, 2 and 3 in the state; then one log brings 1 and 4, and the other one 2; then the first brings 3."""
    visits = shared_visits()
    visits.visits((1, 2, "X"), (2, 2, "X"), (3, 2, "X"))
    visits.run()
    visits = shared_visits(again=visits, keep_intermediate=True)  # an option, not part of what the diff is made by
    visits.visits((1, 2, "Y"), (4, 1, "new"))
    visits.conversions((2, 2, 10))
    visits.run()
    second, heads = intermediate(visits), visits.store.heads()
    offsets = visits.store.offset_table.get_record_offsets("visits")
    visits.told()
    visits.visits((3, 2, "Z"))
    visits.run()
    return Kept(visits, second, heads, offsets, intermediate(visits), visits.told())


def intermediate(visits) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the intermediate tables, by the name of each without the diff's."""
    names = [source.name for source in visits.diff.spec.intermediate]
    return {name.removeprefix("visits_"): [tuple(row.values()) for row in visits.rows(name)] for name in names}


@pytest.mark.scenario("D30")
def test_the_old_state_is_that_of_the_touched_visits_and_nothing_else(kept):
    assert kept.second["diff_log_0_state"] == [(1, 2, 1, "X", None), (2, 2, 1, "X", None)]
    assert kept.third["diff_log_0_state"] == [(3, 2, 1, "X", None)]


@pytest.mark.scenario("D8")
def test_new_only_holds_what_a_log_changed_and_patched_holds_all_visits_of_the_run(kept):
    assert kept.second["joined_visits_visits_patched_new_only"] == [(1, 2, 2, "Y", None), (4, 1, 1, "new", None)]
    assert kept.second["joined_visits_visits_patched"] == [
        (1, 2, 2, "Y", None),
        (2, 2, 1, "X", None),
        (4, 1, 1, "new", None),
    ]
    assert kept.second["joined_conversions_visits_patched_new_only"] == [(2, 2, 2, "X", 10)]
    assert kept.second["joined_conversions_visits_patched"] == [
        (1, 2, 2, "Y", None),
        (2, 2, 2, "X", 10),
        (4, 1, 1, "new", None),
    ]


@pytest.mark.scenario("D23")
def test_all_tables_of_a_run_and_its_offsets_become_visible_in_one_commit(kept):
    heads = {name: head for name, head in kept.heads.items() if name.startswith("visits_")}
    assert len(heads) == 7
    assert len({head.system_time for head in heads.values()}) == 1
    assert kept.offsets == {"joined_visits": 4, "joined_conversions": 0}


@pytest.mark.scenario("D10")
def test_a_log_without_new_records_gives_what_came_in(kept):
    assert kept.told == {3: "-1002 +2002"}
    assert {line["log"] for line in kept.visits.records() if line["VisitID"] == 3} == {"joined_visits"}
    assert kept.third["joined_conversions_visits_patched_new_only"] == []
    assert kept.third["joined_conversions_visits_patched"] == kept.third["joined_visits_visits_patched"]
    assert kept.third["joined_visits_visits_patched"] == [(3, 2, 2, "Z", None)]


def test_an_intermediate_table_is_made_again_by_a_replay(kept):
    report = kept.visits.store.verify("visits_joined_visits_visits_patched", replay=True)
    assert report.ok, report.findings
    assert report.replayed == 2


@pytest.mark.scenario("D30")
def test_the_intermediate_tables_of_a_first_run_hold_the_same_rows(make_visits):
    visits = make_visits(keep_intermediate=True)
    visits.visits((1, 2, "X"))
    visits.run()
    assert intermediate(visits)["diff_log_0_state"] == []
    assert intermediate(visits)["joined_visits_visits_patched"] == [(1, 2, 1, "X", None)]
    assert intermediate(visits)["joined_visits_visits_patched_new_only"] == [(1, 2, 1, "X", None)]
    assert intermediate(visits)["joined_conversions_visits_patched"] == [(1, 2, 1, "X", None)]
    assert intermediate(visits)["joined_conversions_visits_patched_new_only"] == []


@pytest.mark.scenario("D30")
def test_without_keep_intermediate_none_of_these_tables_is_written(diffed):
    diffed.visits((1, 1, "X"))
    diffed.run()
    assert [name for name in diffed.store.heads() if name.startswith("visits_")] == [
        "visits_state",
        "visits_visit_log_slow",
    ]
    assert [table.name for table in diffed.diff.tables()] == ["visits_state", "visits_visit_log_slow"]


@pytest.mark.scenario("D14")
def test_a_log_that_nobody_has_written_to_is_an_empty_one(diffed):
    assert not diffed.run().did_something
    assert diffed.store.plan()["visits"].mode == "settled"

    diffed.conversions((1, 1, 10))  # the first log is still without a chain
    report = diffed.run()

    assert isinstance(report, sm.StepReport)
    assert diffed.told() == {1: "-1 +1001"}
    assert diffed.state() == {1: (1, 1, None, 10)}


def test_a_visit_may_be_told_by_several_columns(ds):
    """Visit 1 of one site is not visit 1 of another; the names of columns may hold what names seldom hold."""
    log = ds.table("joined_visits", "site string, VisitID long, y_VisitVersion long, `the-title` string")
    diff = ds.diff("hits", key=["VisitID", "site"], fast_version="y_VisitVersion", multiplier=10, logs=[log])
    names = ["site", "VisitID", "y_VisitVersion", "the-title"]

    def bring(*rows):
        log.append([dict(zip(names, row, strict=True)) for row in rows])
        assert ds.run(fail_fast=True).ok

    bring(("a", 1, 1, "X"), ("b", 1, 2, "X"))
    bring(("b", 1, 3, "Y"), ("a", 2, 1, "Z"))

    def told(site, visit):
        return [line["Sign"] * line["Version"] for line in diff.history({"site": site, "VisitID": visit})]

    assert told("a", 1) == [-1, 11]
    assert told("b", 1) == [-2, 12, -12, 23, -3, 2]
    assert told("a", 2) == [-1, 11]
    assert diff.state.key == ("VisitID", "site")


@pytest.mark.scenario("D19")
def test_the_declared_merge_decides_each_column(make_visits):
    """Sum, greatest, least, first, appended, a function, and by default the last that is not NULL."""
    columns = "revenue long, depth int, entry int, source string, goals array<int>, path string, title string"
    visits = make_visits(
        logs={"joined_visits": f"VisitID long, y_VisitVersion int, {columns}"},
        merge={
            "revenue": "sum", "depth": "max", "entry": "min", "source": "keep", "goals": "append", "path": arrow,
        },
    )  # fmt: skip
    visits.visits((1, 1, 10, 3, 5, "ad", [1], "a", "first"))
    visits.run()
    visits.visits((1, 1, 5, 2, 4, "link", [2], "b", "second"), (1, 1, None, None, None, None, None, None, None))
    visits.visits((1, 1, 1, 7, 9, "mail", [3, 1], "c", "third"))
    visits.run()

    assert visits.state() == {1: (1, 2, 16, 7, 4, "ad", [1, 2, 3, 1], "a>b>c", "third")}
    assert visits.told() == {1: "-1 +1001 -1001 +2001"}


def arrow(older, newer):
    from pyspark.sql import functions as F

    return F.concat(older, F.lit(">"), newer)
