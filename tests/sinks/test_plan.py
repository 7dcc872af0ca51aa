"""What a run of a sink would carry: said beforehand, and then done."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import seamark as sm
from seamark.control import SinkBacklog, TableHead
from seamark.sinks.plan import SinkMode, plan_sending

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def head(sequence: int) -> TableHead:
    return TableHead("users", "did:odf:x", "root", "hash", sequence, 9, NOW, None, None, None)


@pytest.mark.scenario("C45")
@pytest.mark.parametrize(
    ("at", "waiting", "mode"),
    [
        (None, SinkBacklog(None, 0, 0, None), SinkMode.SETTLED),
        (head(4), SinkBacklog(4, 0, 0, None), SinkMode.SETTLED),
        (head(4), SinkBacklog(3, 0, 0, None), SinkMode.POSITION),
        (head(4), SinkBacklog(2, 2, 7, 1.0), SinkMode.BLOCKS),
        (head(4), SinkBacklog(None, 3, 9, 1.0), SinkMode.EVERYTHING),
        (head(4), SinkBacklog(7, 0, 0, None), SinkMode.CHECK),
    ],
)
def test_what_a_run_would_do(at, waiting, mode):
    plan = plan_sending("out", "users", "there", at, waiting)
    assert plan.mode is mode
    assert (plan.blocks, plan.records, plan.after) == (waiting.blocks, waiting.records, waiting.position)
    assert plan.is_settled == (mode in (SinkMode.SETTLED, SinkMode.POSITION))


@pytest.mark.scenario("C45")
def test_a_run_carries_what_was_planned(dry, folder_url):
    clicks = dry.table("clicks", "url string")
    dry.sink("clicks", sm.ClickHouseSink(folder_url, table="copy"), name="out")
    assert dry.plan_sinks()["out"].is_settled
    for number in range(3):
        clicks.append(pa.table({"url": [f"/{number}", "/"]}))

    plan = dry.plan_sinks()["out"]
    assert (plan.mode, plan.blocks, plan.records) == (SinkMode.EVERYTHING, 3, 6)
    assert plan.target == f"table 'copy' of {folder_url}"
    sent = dry.run(fail_fast=True).sinks["out"]
    assert (sent.blocks, sent.records, sent.position) == (plan.blocks, plan.records, plan.upto)

    clicks.append(pa.table({"url": ["/last"]}))
    plan = dry.plan_sinks("out")["out"]
    assert (plan.mode, plan.blocks, plan.records, plan.after) == (SinkMode.BLOCKS, 1, 1, sent.position)
    again = dry.run(fail_fast=True).sinks["out"]
    assert (again.blocks, again.records, again.position) == (1, 1, plan.upto)

    clicks.set_watermark(NOW)
    assert dry.plan_sinks()["out"].mode is SinkMode.POSITION
    assert not dry.run(fail_fast=True).did_something
    assert dry.plan_sinks()["out"].mode is SinkMode.SETTLED


@pytest.mark.scenario("C45")
def test_plans_are_by_name_and_name_the_step_that_writes_the_table(dry, folder_url):
    chunks = dry.table("chunks", "VisitID long, y_VisitVersion long, revenue double")
    target = sm.ClickHouseSink(folder_url, table="visits")
    dry.diff("visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[chunks], sink=target)
    dry.sink(chunks, sm.ClickHouseSink(folder_url, table="raw"), name="raw")
    plans = dry.plan_sinks()
    assert {name: plan.maker for name, plan in plans.items()} == {
        "visits_visit_log_slow->clickhouse:visits": "visits",
        "raw": None,
    }
    assert list(dry.plan_sinks("raw")) == ["raw"]
    assert dry.plan_sinks("visits") == {}
    assert dry.plan("raw") == {}
    assert list(dry.plan("raw", "visits")) == ["visits"]
    assert list(dry.plan()) == ["visits"]
