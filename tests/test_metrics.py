"""Metrics: what the text says of steps, and that it can be fetched. No Spark."""

from __future__ import annotations

import itertools
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from seamark import ClickHouseSink, DataStore
from seamark.config import Config
from seamark.control import CommitRequest, Control, FailedKey, Position, RunRecord, RunTotals
from seamark.errors import MetricsUnavailable, SeamarkError
from seamark.metrics import BATCH_SECONDS, metrics_text, serve_metrics
from seamark.sinks.run import Sink
from seamark.steps.standing.offsets import OffsetTable

SINK_METRICS = ("seamark_sink_lag_seconds", "seamark_sink_pending_blocks", "seamark_sink_pending_records")


@dataclass
class Blog:
    """A store with one input and steps whose runs are made up."""

    store: DataStore
    clock: Any
    steps: list[str] = field(default_factory=lambda: ["process_posts", "count_posts"])
    _runs: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.offset_table = OffsetTable(self.store.control, self.clock, lambda _step, _tables: {})
        self.posts = self.store.table("posts", "number long")

    @property
    def config(self) -> Config:
        return self.store.config

    @property
    def control(self) -> Control:
        return self.store.control

    def step_names(self) -> list[str]:
        return self.steps

    def sinks(self) -> dict[str, Sink]:
        return self.store.sinks()

    def failed_key_counts(self) -> dict[str, int]:
        return {step: count for (step, _), count in self.control.index.failed_key_counts().items()}

    def run_totals(self) -> list[RunTotals]:
        return self.control.index.run_totals(self.steps)

    def write(self, *numbers: int) -> None:
        self.posts.append(pa.table({"number": pa.array(numbers, pa.int64())}))

    def run(self, step: str, *, seconds: float = 1.0, outcome: str = "done", failed: tuple[str, ...] = ()) -> None:
        """Commit, or only record, a run of a step that reads all of `posts` and writes half as many rows."""
        now = self.clock.now().timestamp()
        head = self.control.index.head("posts")
        before = self.offset_table.get_record_offsets(step).get("posts", -1)
        rows = head.last_offset - before
        run_id = f"run-{next(self._runs)}"
        if outcome != "done":
            self.control.record_run(
                RunRecord(run_id, step, "changes", now, now + seconds, outcome=outcome, error="boom")
            )
            return
        record = RunRecord(run_id, step, "changes", now, now + seconds, rows_in=rows, rows_out=rows // 2)
        place = Position(step, "posts", head.system_time.timestamp(), head.last_offset, head.sequence, head.head_hash)
        keys = tuple(FailedKey(step, key, now, "boom", 1) for key in failed)
        self.control.commit(CommitRequest(run=record, appends=(), positions=(place,), failed=keys))

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Values by metric and by the values of its labels, in the order of their names."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(metrics_text(self)):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found


@pytest.fixture
def blog(control_url, tmp_path, clock) -> Iterator[Blog]:
    with DataStore(control_url, tmp_path / "warehouse", clock=clock) as store:
        yield Blog(store, clock)


def test_a_store_without_runs_has_no_failed_keys_and_nothing_else_to_say(blog):
    values = blog.metrics()
    assert values["seamark_failed_keys"] == {("process_posts",): 0, ("count_posts",): 0}
    assert "seamark_lag_seconds" not in values
    assert "seamark_runs_total" not in values


@pytest.mark.scenario("C35")
@pytest.mark.scenario("X8")
def test_offsets_lag_and_pending_records_are_told_by_step_and_input(blog, clock):
    blog.write(1, 2)
    blog.run("process_posts")
    blog.run("count_posts")
    offset = blog.posts.head.system_time.timestamp()
    clock.advance(hours=1)
    blog.write(3)
    clock.advance(seconds=80)
    blog.write(4, 5)
    clock.advance(seconds=10)
    blog.run("count_posts")

    values = blog.metrics()

    behind, settled = ("posts", "process_posts"), ("posts", "count_posts")
    assert values["seamark_offset_value"][behind] == offset
    assert values["seamark_offset_age_seconds"] == pytest.approx({behind: 3690, settled: 10}, abs=0.01)
    assert values["seamark_lag_seconds"] == pytest.approx({behind: 90, settled: 0}, abs=0.01)
    assert values["seamark_pending_records"] == {behind: 3, settled: 0}
    (told,) = blog.offset_table.get_statistics("process_posts")
    assert values["seamark_lag_seconds"][behind] == told["lag_seconds"]


@pytest.mark.scenario("C13")
def test_what_waits_for_a_sink_is_told_by_sink_and_table(blog, clock, tmp_path):
    blog.store.sink("posts", ClickHouseSink(f"chdb://{tmp_path}/clickhouse", table="posts"), name="out")
    place = ("out", "posts")
    settled = blog.metrics()
    assert [settled[name][place] for name in SINK_METRICS] == [0, 0, 0]

    blog.write(1, 2)
    clock.advance(seconds=30)
    blog.write(3)
    clock.advance(seconds=10)
    told = blog.metrics()
    assert [told[name][place] for name in SINK_METRICS] == pytest.approx([40, 2, 3], abs=0.01)

    first = blog.control.index.slices("posts", after=None, upto=None)[0]
    with blog.control.leases.held("sink:out", 1.0) as lease:
        blog.control.sinks.keep(lease, "out", "posts", first.sequence)
    told = blog.metrics()
    assert [told[name][place] for name in SINK_METRICS] == pytest.approx([10, 1, 1], abs=0.01)
    assert blog.store.sinks()["out"].state().position == first.sequence


def test_the_labels_are_those_of_the_statistics(blog):
    blog.write(1)
    blog.run("process_posts")
    text = metrics_text(blog)
    labels = '{input_table_name="posts",transformation_id="process_posts"}'
    assert f"seamark_pending_records{labels} 0.0\n" in text
    assert 'seamark_runs_total{outcome="done",step="process_posts"} 1.0\n' in text
    assert 'seamark_failed_keys{transformation_id="process_posts"} 0.0\n' in text


def test_a_reset_offset_has_no_age_and_everything_pending(blog):
    blog.write(1, 2)
    blog.run("process_posts")
    blog.offset_table.reset_offset("process_posts")
    values = blog.metrics()
    assert "seamark_offset_age_seconds" not in values
    assert "seamark_offset_value" not in values
    assert values["seamark_pending_records"] == {("posts", "process_posts"): 2}


def test_runs_are_added_up_by_step_and_the_newest_is_told(blog, clock):
    blog.write(1, 2, 3, 4)
    blog.run("process_posts", failed=("[1]", "[2]"))
    clock.advance(minutes=1)
    blog.write(5, 6)
    blog.run("process_posts", seconds=2.5)
    blog.run("count_posts")
    clock.advance(minutes=1)
    blog.run("count_posts", seconds=7, outcome="failed")

    values = blog.metrics()

    assert values["seamark_runs_total"] == {
        ("done", "process_posts"): 2,
        ("done", "count_posts"): 1,
        ("failed", "count_posts"): 1,
    }
    assert values["seamark_rows_in_total"] == {("process_posts",): 6, ("count_posts",): 6}
    assert values["seamark_rows_out_total"] == {("process_posts",): 3, ("count_posts",): 3}
    assert values["seamark_run_seconds"] == pytest.approx({("process_posts",): 2.5, ("count_posts",): 7})
    now = clock.now().timestamp()
    assert values["seamark_last_run_timestamp_seconds"] == {("process_posts",): now - 60, ("count_posts",): now}
    assert values["seamark_last_run_failed"] == {("process_posts",): 0, ("count_posts",): 1}
    assert values["seamark_failed_keys"] == {("process_posts",): 2, ("count_posts",): 0}


def test_writes_by_hand_and_steps_that_are_gone_do_not_count(blog):
    blog.write(1)  # a row of the run table, too: step 'posts', mode 'append'
    blog.run("process_posts")
    blog.run("renamed_away", failed=("[1]",))
    told = metrics_text(blog)
    assert "renamed_away" not in told
    assert 'step="posts"' not in told
    assert 'step="process_posts"' in told


def test_run_totals_leave_out_steps_without_runs(blog):
    blog.write(1)
    blog.run("process_posts")
    (totals,) = blog.control.index.run_totals(["process_posts", "count_posts"])
    assert (totals.step, totals.runs, totals.rows_in, totals.rows_out) == ("process_posts", {"done": 1}, 1, 0)
    assert totals.newest == blog.control.index.runs("process_posts")[0]
    assert blog.control.index.run_totals([]) == []


@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_batches_observed_in_this_process_are_told(blog):
    BATCH_SECONDS.labels("a_step_of_this_test").observe(0.3)
    values = blog.metrics()
    assert values["seamark_batch_seconds_count"][("a_step_of_this_test",)] == 1
    assert values["seamark_batch_seconds_sum"][("a_step_of_this_test",)] == pytest.approx(0.3)


# --- over HTTP --------------------------------------------------------------------------------------------------------


def fetch(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.read().decode()


@pytest.mark.scenario("C32")
def test_metrics_are_served_as_they_are_at_each_request(blog):
    blog.write(1, 2)
    blog.run("process_posts", failed=("[1]",))
    server = serve_metrics(blog, 0)
    try:
        assert 'seamark_pending_records{input_table_name="posts",transformation_id="process_posts"} 0.0' in fetch(
            server.port
        )
        blog.write(3)
        told = fetch(server.port, "/metrics?again")
        assert 'seamark_pending_records{input_table_name="posts",transformation_id="process_posts"} 1.0' in told
        for name in ("offset_age_seconds", "lag_seconds", "failed_keys", "run_seconds"):
            assert f"\nseamark_{name}{{" in told
        with pytest.raises(urllib.error.HTTPError) as missing:
            fetch(server.port, "/")
        assert (missing.value.code, missing.value.read()) == (404, b"metrics are at /metrics\n")
    finally:
        server.close()
    with pytest.raises(urllib.error.URLError):
        fetch(server.port)


def test_metrics_are_served_where_the_settings_say(tmp_path, monkeypatch):
    (tmp_path / "seamark.toml").write_text('[metrics]\nport = 70\nhost = "no.such.host.invalid"\n')
    monkeypatch.chdir(tmp_path)
    with DataStore() as store:
        with pytest.raises(MetricsUnavailable, match=r"cannot be served on no\.such\.host\.invalid:70: "):
            serve_metrics(store)
        serve_metrics(store, 0, "127.0.0.1").close()  # arguments win


@pytest.mark.scenario("C32")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_a_port_in_use_is_a_clear_error(blog):
    first = serve_metrics(blog, 0)
    try:
        with pytest.raises(MetricsUnavailable) as refused:
            serve_metrics(blog, first.port)
    finally:
        first.close()
    assert refused.value.message == f"metrics cannot be served on 127.0.0.1:{first.port}: address already in use."
    assert "[metrics]" in refused.value.hint
    serve_metrics(blog, first.port).close()  # the port was given back


@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no.such.host.invalid", 0)])
def test_an_address_that_cannot_be_had_is_a_clear_error(blog, host, port):
    with pytest.raises(MetricsUnavailable, match=f"metrics cannot be served on {host}:{port}: "):
        serve_metrics(blog, port, host)


@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_a_database_that_is_away_is_told_to_prometheus(blog, monkeypatch):
    def away(_steps: object) -> None:
        raise SeamarkError("the control database is away.")

    server = serve_metrics(blog, 0)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(blog.control.index, "run_totals", away)
            with pytest.raises(urllib.error.HTTPError) as gap:
                fetch(server.port)
        assert (gap.value.code, gap.value.read()) == (503, b"the control database is away.\n")
        assert "seamark_failed_keys" in fetch(server.port)
    finally:
        server.close()
