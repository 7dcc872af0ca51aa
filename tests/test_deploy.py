"""What is shipped for Prometheus and Grafana: the alerts' own expressions, tried on metrics of made-up steps."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from seamark import ClickHouseSink, DataStore
from seamark.control import CommitRequest, Control, FailedKey, Position, RunRecord, RunTotals
from seamark.metrics import metrics_text
from seamark.sinks.run import Sink
from seamark.steps.standing.offsets import OffsetTable

DEPLOY = Path(__file__).parents[1] / "deploy"
GROUPS = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
METRIC = re.compile(r"\bseamark_\w+")

# --- a small reading of PromQL: comparisons of a metric with a number, joined by `and` --------------------------------

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
COMPARISON = re.compile(r"(?P<metric>\w+)(?:\{(?P<labels>[^}]*)\})?\s*(?P<op>==|!=|>=|<=|>|<)\s*(?P<number>[\d.]+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def evaluate(expression: str, samples: dict[str, Vector]) -> Vector:
    """The samples for which an expression holds; `and` keeps those of its left side whose labels the right side has."""
    first, *others = [_compare(part, samples) for part in expression.split(" and ")]
    return {labels: value for labels, value in first.items() if all(labels in other for other in others)}


def _compare(text: str, samples: dict[str, Vector]) -> Vector:
    parts = COMPARISON.fullmatch(text.strip())
    assert parts, f"the tests cannot read {text!r}: keep the rules simple, or teach them"
    wanted = set(LABEL.findall(parts["labels"] or ""))
    holds = OPERATORS[parts["op"]]
    return {
        labels: value
        for labels, value in samples.get(parts["metric"], {}).items()
        if wanted <= labels and holds(value, float(parts["number"]))
    }


def samples_of(text: str) -> dict[str, Vector]:
    """The samples of metric text, by metric."""
    found: dict[str, Vector] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


@pytest.mark.parametrize(
    ("expression", "holds_for"),
    [
        ("age > 3", {"a", "b"}),
        ("age > 3 and pending > 0", {"b"}),
        ('age{step="a"} > 3', {"a"}),
        ("age >= 10 and pending == 0", {"a"}),
        ("age < 3", set()),
        ("unknown > 0", set()),
    ],
)
def test_expressions_are_read_as_prometheus_reads_them(expression, holds_for):
    samples = samples_of('age{step="a"} 10\nage{step="b"} 9\npending{step="a"} 0\npending{step="b"} 2\n')
    assert {dict(labels)["step"] for labels in evaluate(expression, samples)} == holds_for


# --- a store ----------------------------------------------------------------------------------------------------------


@dataclass
class Blog:
    """A store whose step `process_posts` reads `posts`; its runs are made up."""

    store: DataStore
    clock: Any

    def __post_init__(self) -> None:
        self.offset_table = OffsetTable(self.store.control, self.clock, lambda _step, _tables: {})
        self.posts = self.store.table("posts", "number long")

    @property
    def control(self) -> Control:
        return self.store.control

    def step_names(self) -> list[str]:
        return ["process_posts"]

    def sinks(self) -> dict[str, Sink]:
        return self.store.sinks()

    def failed_key_counts(self) -> dict[str, int]:
        return {step: count for (step, _), count in self.control.index.failed_key_counts().items()}

    def run_totals(self) -> list[RunTotals]:
        return self.control.index.run_totals(self.step_names())

    def write(self, *numbers: int) -> None:
        self.posts.append(pa.table({"number": pa.array(numbers, pa.int64())}))

    def run(self, outcome: str = "done", failed: tuple[FailedKey, ...] = ()) -> None:
        now = self.clock.now().timestamp()
        record = RunRecord(f"run at {now}", "process_posts", "changes", now, now + 1, outcome=outcome)
        if outcome == "failed":
            self.control.record_run(record)
            return
        head = self.control.index.head("posts")
        place = Position(
            "process_posts", "posts", head.system_time.timestamp(), head.last_offset, head.sequence, head.head_hash
        )
        self.control.commit(CommitRequest(run=record, appends=(), positions=(place,), failed=failed))

    def alerts(self) -> set[str]:
        """The alerts whose expressions hold now."""
        samples = samples_of(metrics_text(self))
        return {name for name, rule in RULES.items() if evaluate(rule["expr"], samples)}


@pytest.fixture
def blog(tmp_path, clock) -> Iterator[Blog]:
    with DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse", clock=clock) as store:
        blog = Blog(store, clock)
        blog.write(1, 2, 3)
        blog.run()
        yield blog


# --- alerts -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C35")
def test_an_idle_settled_step_stays_quiet_however_old_its_offset(blog, clock):
    assert blog.alerts() == set()
    clock.advance(days=30)
    assert blog.alerts() == set()


@pytest.mark.scenario("C35")
def test_a_lagging_step_raises_alerts_the_longer_the_more(blog, clock):
    blog.write(4)
    clock.advance(minutes=10)
    assert blog.alerts() == set()
    clock.advance(minutes=10)
    assert blog.alerts() == {"SeamarkLagTooHigh"}
    clock.advance(hours=1)
    assert blog.alerts() == {"SeamarkLagTooHigh", "SeamarkOffsetAgeTooHigh"}
    clock.advance(days=1)
    assert blog.alerts() == {"SeamarkLagTooHigh", "SeamarkOffsetAgeTooHigh", "SeamarkLagOfADay"}
    blog.run()
    assert blog.alerts() == set()


def test_a_step_whose_offset_was_reset_lags_without_an_age(blog, clock):
    clock.advance(hours=2)
    blog.offset_table.reset_offset("process_posts")
    assert blog.alerts() == {"SeamarkLagTooHigh"}


def test_a_sink_that_is_not_run_raises_an_alert_of_its_own(blog, clock, tmp_path):
    blog.store.sink("posts", ClickHouseSink(f"chdb://{tmp_path}/clickhouse", table="posts"))
    clock.advance(minutes=10)
    assert blog.alerts() == set()
    clock.advance(minutes=10)
    assert blog.alerts() == {"SeamarkSinkLagTooHigh"}


def test_failed_keys_and_failed_runs_raise_alerts_of_their_own(blog, clock):
    clock.advance(seconds=1)
    blog.run(failed=(FailedKey("process_posts", "[2]", 1.0, "boom", 1),))
    assert blog.alerts() == {"SeamarkFailedKeys"}
    clock.advance(seconds=1)
    blog.run(outcome="failed")
    assert blog.alerts() == {"SeamarkFailedKeys", "SeamarkRunFailed"}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule["alert"])
def test_every_rule_waits_a_while_and_says_what_is_wrong(rule):
    assert re.fullmatch(r"\d+m", rule["for"])
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}
    assert "$labels." in rule["annotations"]["summary"]


# --- names ------------------------------------------------------------------------------------------------------------


def told_names(blog: Blog) -> set[str]:
    blog.store.sink("posts", ClickHouseSink("chdb:///clickhouse", table="posts"))
    return set(samples_of(metrics_text(blog)))


def test_every_metric_of_the_rules_exists(blog):
    named = {name for rule in RULES.values() for name in METRIC.findall(rule["expr"])}
    assert named
    assert named <= told_names(blog)


def test_every_metric_of_the_dashboard_exists(blog):
    named = set(METRIC.findall(json.dumps([DASHBOARD["panels"], DASHBOARD["templating"]])))
    assert {"seamark_lag_seconds", "seamark_run_seconds"} <= named <= told_names(blog)


def test_the_dashboards_panels_lie_side_by_side(blog):
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]


def test_every_metric_is_explained_in_the_docs(blog):
    page = (DEPLOY.parent / "docs" / "monitoring.md").read_text(encoding="utf-8")
    told = {family.name: family.type for family in text_string_to_metric_families(metrics_text(blog))}
    full_names = {f"{name}_total" if kind == "counter" else name for name, kind in told.items()}
    assert {name for name in full_names if not name.endswith("_created")} <= set(METRIC.findall(page))
    for name in RULES:
        assert f"`{name}`" in page
