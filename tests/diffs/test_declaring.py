"""What is wrong with a diff is reported when it is declared, by name; then nothing was added."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest

import seamark as sm
from seamark.diffs.declare.checks import DiffWarning
from seamark.errors import InvalidStep, UnknownColumn


@pytest.fixture
def declare(ds: sm.DataStore):
    """Declares the diff of the design over four logs, with something else in it."""
    ds.table("joined_visits", "VisitID long, y_VisitVersion int, start_time timestamp, title string")
    ds.table("joined_conversions", "VisitID long, y_VisitVersion int, revenue long, goals array<int>")
    ds.table("joined_costs", "VisitID long, y_VisitVersion int, revenue long, gone boolean")
    ds.table("keyed_costs", "CostID long, VisitID long, y_VisitVersion int, price long, at int", key="CostID")
    ds.table("narrow", "VisitID int, y_VisitVersion int")
    ds.table("worded", "VisitID long, y_VisitVersion string")
    ds.table("other_title", "VisitID long, y_VisitVersion int, title int")
    ds.table("signed", "VisitID long, y_VisitVersion int, Sign int")
    ds.table("keyless", "y_VisitVersion int, title string")
    ds.table("wide", "VisitID long, y_VisitVersion int, url string", key=["VisitID", "y_VisitVersion"])
    ds.table("wide_by_visit", "VisitID long, y_VisitVersion int, url string", key="VisitID")
    ds.table("wide_title", "VisitID long, y_VisitVersion int, title int", key=["VisitID", "y_VisitVersion"])

    def declare_it(**changes: Any) -> Any:
        given = {
            "name": "visits", "key": "VisitID", "fast_version": "y_VisitVersion", "multiplier": 1000,
            "logs": ["joined_visits", "joined_conversions"], **changes,
        }  # fmt: skip
        return ds.diff(given.pop("name"), **given)

    return declare_it


WRONG = [
    ({"multiplier": 1}, InvalidStep, r"multiplier=1 leaves no room"),
    ({"multiplier": 0}, InvalidStep, r"multiplier=0"),
    ({"multiplier": True}, InvalidStep, r"multiplier=True"),
    ({"multiplier": 10.0}, InvalidStep, r"multiplier=10.0"),
    ({"merge": {"revenu": "sum"}}, UnknownColumn, r"(?s)'revenu', which none of its logs has.*did you mean 'revenue'"),
    ({"merge": {"VisitID": "sum"}}, UnknownColumn, r"'VisitID', which is set aside"),
    ({"merge": {"revenue": "add"}}, InvalidStep, r"(?s)column 'revenue' is 'add'.*keep, overwrite, sum"),
    ({"merge": {"title": "sum"}}, InvalidStep, r"'title' is string, which the merge rule 'sum' cannot take"),
    ({"merge": {"title": "append"}}, InvalidStep, r"rule 'append' cannot take"),
    ({"merge": {"goals": "max"}}, InvalidStep, r"'goals' is array<int>, which the merge rule 'max' cannot take"),
    ({"logs": ["joined_visits", "nowhere"]}, sm.SeamarkError, r"nowhere"),
    ({"logs": []}, InvalidStep, r"has no logs"),
    ({"logs": ["joined_visits", "joined_visits"]}, InvalidStep, r"'joined_visits' is there twice"),
    ({"logs": [17]}, InvalidStep, r"17 is not a table"),
    ({"key": ()}, InvalidStep, r"has no key"),
    ({"key": "VisitId"}, UnknownColumn, r"(?s)'VisitId', which log 'joined_visits' does not have.*'VisitID'"),
    ({"logs": ["joined_visits", "keyless"]}, UnknownColumn, r"'VisitID', which log 'keyless' does not have"),
    ({"fast_version": "version"}, UnknownColumn, r"its fast version is column 'version'"),
    ({"fast_version": "y_VisitVersion", "logs": ["worded"]}, InvalidStep, r"is .*string.*not a number"),
    ({"logs": ["joined_visits", "narrow"]}, InvalidStep, r"'VisitID' is bigint in log 'joined_visits' and int in log"),
    ({"logs": ["joined_visits", "other_title"]}, InvalidStep, r"is string in log .* and int in log 'other_title'"),
    ({"logs": ["joined_visits", "signed"]}, InvalidStep, r"called 'Sign'"),
    ({"deleted": "went"}, UnknownColumn, r"deleted='went' is a column of none"),
    ({"deleted": "title"}, InvalidStep, r"deleted='title' is .*string"),
    ({"ttl": ("begin", "30 days")}, UnknownColumn, r"ttl names column 'begin'"),
    ({"ttl": ("title", "30 days")}, InvalidStep, r"'title', which is string, not a time"),
    ({"ttl": ("start_time", "soon")}, InvalidStep, r"not a column and a span of time"),
    ({"ttl": ("start_time", "0 days")}, InvalidStep, r"not a span of time that passes"),
    ({"wide": "wide_by_visit"}, InvalidStep, r"(?s)has the key \(VisitID\).*\(VisitID, y_VisitVersion\)"),
    ({"wide": "wide_title"}, InvalidStep, r"'title' is string in its logs and int in the wide table"),
    ({"on_change": "recompute"}, InvalidStep, r"'recompute' is neither 'ask' nor 'keep'"),
    ({"max_failed_keys": -1}, InvalidStep, r"max_failed_keys=-1"),
    ({"name": "a diff"}, sm.SeamarkError, r"a diff"),
]  # fmt: skip


@pytest.mark.scenario("D19")
@pytest.mark.scenario("D22")
@pytest.mark.parametrize(("changes", "error", "text"), WRONG, ids=[str(changes) for changes, *_ in WRONG])
def test_a_wrong_declaration_is_refused_by_name(ds, declare, changes, error, text):
    tables = set(ds.table_names())
    with pytest.raises(error, match=text):
        declare(**changes)
    assert ds.step_names() == []
    assert set(ds.table_names()) == tables


@pytest.mark.scenario("D28")
@pytest.mark.parametrize("rule", ["max", "min", "append"])
def test_what_cannot_be_taken_out_again_is_refused_over_a_keyed_log(ds, declare, rule):
    column = "goals" if rule == "append" else "price"
    ds.table("keyed_goals", "GoalID long, VisitID long, y_VisitVersion int, goals array<int>", key="GoalID")
    log = "keyed_goals" if rule == "append" else "keyed_costs"
    with pytest.raises(InvalidStep, match=rf"'{rule}', and log '{log}' is keyed"):
        declare(logs=["joined_visits", log], merge={column: rule})


@pytest.mark.scenario("D29")
def test_a_sum_that_two_logs_feed_is_warned_of(declare, caplog):
    with (
        pytest.warns(DiffWarning, match="'revenue' is summed over 2 logs, 'joined_conversions' and 'joined_costs'"),
        caplog.at_level(logging.WARNING, logger="seamark.diffs"),
    ):
        declare(logs=["joined_visits", "joined_conversions", "joined_costs"], merge={"revenue": "sum"})
    assert "what is in both of them counts twice" in caplog.text


@pytest.mark.scenario("D29")
def test_a_sum_that_one_log_feeds_is_not(declare):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declare(merge={"revenue": "sum"})


def test_what_was_declared_can_be_looked_at(ds, declare):
    diff = declare(merge={"revenue": "sum"}, wide="wide", key=["VisitID"])
    assert repr(diff) == (
        "Diff('visits': joined_visits, joined_conversions, wide -> visits_state, visits_visit_log_slow)"
    )
    assert diff is ds.step("visits")
    assert diff.state.schema.names == (
        "VisitID", "y_VisitVersion", "SlowVersion", "start_time", "title", "revenue", "goals", "_wide_url",
    )  # fmt: skip
    assert diff.visit_log_slow.schema.names == (
        "VisitID", "Sign", "SlowVersion", "y_VisitVersion", "Version", "log",
        "start_time", "title", "revenue", "goals", "url",
    )  # fmt: skip
    assert diff.state.key == ("VisitID",)
    assert diff.visit_log_slow.key == ()
    assert (diff.transform_keys, diff.collapsing_key) == (("VisitID",), ("VisitID",))


def test_two_steps_cannot_write_the_same_tables(declare):
    declare()
    with pytest.raises(sm.SeamarkError):
        declare(merge={"revenue": "sum"})


REFUSED_SINKS = [
    (lambda: sm.ClickHouseSink("chdb:///ch", table="t", collapse_by="nope"), sm.SeamarkError),
    (lambda: "clickhouse", AttributeError),
]


@pytest.mark.parametrize(("sink", "error"), REFUSED_SINKS, ids=["unfit", "none at all"])
def test_a_refused_sink_leaves_nothing_of_its_diff(ds, declare, sink, error):
    ds.table("visits_gone", "VisitID long, mine string", key="VisitID")  # declared before: as it was
    tables = ds.table_names()
    with pytest.raises(error):
        declare(sink=sink(), ttl=("start_time", "30 days"), keep_intermediate=True, logs=["joined_visits"])
    assert ds.table_names() == tables
    assert (ds.step_names(), ds.sinks()) == ([], {})
    assert ds.table("visits_gone").schema.names == ("VisitID", "mine")

    declare()
    assert set(ds.table_names()) == {*tables, "visits_state", "visits_visit_log_slow"}


@pytest.fixture
def count_visits(ds):
    """Adds a step that writes a table of some name."""

    def add(table: str) -> None:
        out = ds.table(table, "VisitID long, n long", key="VisitID")
        query = "SELECT VisitID, count(*) AS n FROM {joined_visits} GROUP BY VisitID"
        ds.add(sm.BatchTransform(query, inputs=["joined_visits"], outputs=[out], name="mine"))

    return add


def test_names_that_a_diff_may_need_are_reserved_for_it(ds, declare, count_visits):
    declare()
    for table in ("visits_by_start_time", "visits_gone", "visits_diff_log_0_state"):
        with pytest.raises(InvalidStep, match=rf"'{table}', whose name is reserved for step 'visits'. It was not"):
            count_visits(table)
    with pytest.raises(InvalidStep, match=r"'visits_state', which step 'visits' writes. It was not"):
        count_visits("visits_state")
    assert ds.step_names() == ["visits"]


def test_a_table_that_a_diff_may_need_must_not_be_written_by_a_step(ds, declare, count_visits):
    count_visits("visits_by_start_time")
    with pytest.raises(InvalidStep, match=r"reserves the name of table 'visits_by_start_time', which step 'mine' wr"):
        declare()
    with pytest.raises(InvalidStep, match=r"'visits' is to write table 'visits_by_start_time', which step 'mine' wr"):
        declare(ttl=("start_time", "30 days"), logs=["joined_visits"])
    assert ds.step_names() == ["mine"]


def test_a_reserved_name_makes_no_table_the_work_of_a_diff(ds, declare):
    """A root table is called so, and is read by the step that makes the diff's log: that is no circle."""
    ds.table("visits_by_start_time", "VisitID long, y_VisitVersion int, title string", key="VisitID")
    out = ds.table("chunks", "VisitID long, y_VisitVersion int, title string", key="VisitID")
    query = "SELECT * FROM {visits_by_start_time}"
    made = sm.BatchTransform(query, inputs=["visits_by_start_time"], outputs=[out], name="chunked")
    ds.add(made)
    ds.table("other_chunks", "VisitID long, start_time timestamp, y_VisitVersion int")
    declare(logs=["chunks", "other_chunks"])
    assert list(ds.steps()) == ["chunked", "visits"]
    assert list(ds.plan()) == ["chunked", "visits"]
