"""What Prometheus asks for: offsets, lag, pending records, failed keys and runs of every step, and what sinks lack."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from seamark.config import Config
from seamark.control import RunTotals
from seamark.errors import MetricsUnavailable, SeamarkError
from seamark.sinks.report import SinkState
from seamark.steps.running.observe import batch_observers
from seamark.steps.standing.offsets import OffsetStatistics, OffsetTable

log = logging.getLogger(__name__)

# the text format that every Prometheus reads, and that `generate_latest` writes for names like ours
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BATCH_SECONDS = Histogram(
    "seamark_batch_seconds",
    "How long a batch of a step took, in this process: reading, computing, comparing and committing.",
    ["step"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    registry=None,  # every text has a registry of its own, so that two stores in one process do not meet
)


def _observe(step: str, seconds: float) -> None:
    BATCH_SECONDS.labels(step).observe(seconds)


batch_observers.append(_observe)


class MeasuredSink(Protocol):
    """What is asked of a sink to measure it."""

    @property
    def table(self) -> str:
        """The table that it carries."""
        ...

    def state(self) -> SinkState:
        """How far it is, and whether anything is wrong."""
        ...


class Measured(Protocol):
    """What is asked of a store to measure it."""

    @property
    def config(self) -> Config:
        """The settings, of which `[metrics]` says where to serve."""
        ...

    @property
    def offset_table(self) -> OffsetTable:
        """How far each step has come."""
        ...

    def failed_key_counts(self) -> Mapping[str, int]:
        """How many failed keys each step has."""
        ...

    def run_totals(self) -> Sequence[RunTotals]:
        """What the runs of each step did."""
        ...

    def step_names(self) -> list[str]:
        """The steps that the program declares."""
        ...

    def sinks(self) -> Mapping[str, MeasuredSink]:
        """The sinks that the program declares, by name."""
        ...


def metrics_text(store: Measured) -> str:
    """All metrics of a store's steps and sinks as they are now, as Prometheus text."""
    registry = CollectorRegistry()
    registry.register(_StoreCollector(store))
    registry.register(BATCH_SECONDS)
    return generate_latest(registry).decode()


class _StoreCollector:
    """Asks the control database at each scrape. Steps that the program does not declare are left out.

    Their offsets may stay in the database for ever, and would look like steps that nobody runs.
    """

    def __init__(self, store: Measured) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are now, from four queries, and two for each sink."""
        steps = self._store.step_names()
        statistics = [line for line in self._store.offset_table.get_statistics() if line["transformation_id"] in steps]
        yield from _offset_metrics(statistics)
        failed = self._store.failed_key_counts()
        yield _by_step(
            GaugeMetricFamily,
            "seamark_failed_keys",
            "Keys that could not be computed and wait for another try.",
            [(step, failed.get(step, 0)) for step in steps],
            label="transformation_id",
        )
        yield from _run_metrics(self._store.run_totals())
        yield from _sink_metrics(self._store.sinks())


def _offset_metrics(statistics: Sequence[OffsetStatistics]) -> Iterable[Metric]:
    labels = ["transformation_id", "input_table_name"]
    age = GaugeMetricFamily(
        "seamark_offset_age_seconds", "Now less the offset: how old the newest processed commit is.", labels=labels
    )
    value = GaugeMetricFamily("seamark_offset_value", "The offset as a time, in seconds since 1970.", labels=labels)
    lag = GaugeMetricFamily("seamark_lag_seconds", "How long the oldest pending record has waited.", labels=labels)
    pending = GaugeMetricFamily("seamark_pending_records", "Records of the input after the offset.", labels=labels)
    for line in statistics:
        names = [line["transformation_id"], line["input_table_name"]]
        if line["update_ts_offset"] is not None and line["offset_age_seconds"] is not None:
            age.add_metric(names, line["offset_age_seconds"])
            value.add_metric(names, line["update_ts_offset"])
        lag.add_metric(names, line["lag_seconds"])
        pending.add_metric(names, line["pending_records"])
    return age, value, lag, pending


def _run_metrics(totals: Sequence[RunTotals]) -> Iterable[Metric]:
    newest = {each.step: each.newest for each in totals}
    runs = CounterMetricFamily("seamark_runs", "Runs that did something, by outcome.", labels=["step", "outcome"])
    for each in totals:
        for outcome, count in each.runs.items():
            runs.add_metric([each.step, outcome], count)
    yield runs
    yield _by_step(
        CounterMetricFamily,
        "seamark_rows_in",
        "Records that runs have taken in.",
        [(each.step, each.rows_in) for each in totals],
    )
    yield _by_step(
        CounterMetricFamily,
        "seamark_rows_out",
        "Records that runs have written.",
        [(each.step, each.rows_out) for each in totals],
    )
    yield _by_step(
        GaugeMetricFamily,
        "seamark_run_seconds",
        "How long the newest run took.",
        [(step, run.ended - run.started) for step, run in newest.items() if run.ended is not None],
    )
    yield _by_step(
        GaugeMetricFamily,
        "seamark_last_run_timestamp_seconds",
        "When the newest run began, in seconds since 1970.",
        [(step, run.started) for step, run in newest.items()],
    )
    yield _by_step(
        GaugeMetricFamily,
        "seamark_last_run_failed",
        "1 if the newest run failed as a whole, else 0.",
        [(step, int(run.outcome == "failed")) for step, run in newest.items()],
    )


def _sink_metrics(sinks: Mapping[str, MeasuredSink]) -> Iterable[Metric]:
    labels = ["sink", "table"]
    lag = GaugeMetricFamily("seamark_sink_lag_seconds", "How long the oldest unsent block has waited.", labels=labels)
    blocks = GaugeMetricFamily("seamark_sink_pending_blocks", "Blocks that wait to be sent.", labels=labels)
    records = GaugeMetricFamily("seamark_sink_pending_records", "Records in these blocks.", labels=labels)
    for name, sink in sinks.items():
        state = sink.state()
        for family, value in (
            (lag, state.lag_seconds),
            (blocks, state.pending_blocks),
            (records, state.pending_records),
        ):
            family.add_metric([name, sink.table], value)
    return lag, blocks, records


def _by_step(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    doc: str,
    values: Iterable[tuple[str, float]],
    *,
    label: str = "step",
) -> Metric:
    family = kind(name, doc, labels=[label])
    for step, value in values:
        family.add_metric([step], value)
    return family


# --- over HTTP --------------------------------------------------------------------------------------------------------


class MetricsServer:
    """Answers `/metrics` from a thread of its own until it is closed."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="seamark-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it answers on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(store: Measured, port: int | None = None, host: str | None = None) -> MetricsServer:
    """Answer `/metrics` with a store's metrics as they are at each request; port 0 takes a free one.

    Without `port` or `host`, those of `[metrics]` are used.
    """
    port = (store.config.metrics.port or 0) if port is None else port
    host = store.config.metrics.host if host is None else host

    class Handler(_MetricsHandler):
        measured = store

    try:
        return MetricsServer(_Server((host, port), Handler))
    except (OSError, OverflowError) as error:  # the latter for a number that is no port
        raise MetricsUnavailable(
            f"metrics cannot be served on {host}:{port}: {_reason(error)}.",
            hint="another program may use the port: choose another one by `port` and `host` under [metrics], "
            "or 0 for a free one.",
        ) from error


def _reason(error: OSError | OverflowError) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.rstrip(".").lower()


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a scrape that hangs does not keep the program from ending
    allow_reuse_port = False  # two programs on one port would each get some of the scrapes


class _MetricsHandler(BaseHTTPRequestHandler):
    measured: Measured

    def do_GET(self) -> None:  # the name that the standard library calls
        if self.path.partition("?")[0] != "/metrics":
            self._answer(HTTPStatus.NOT_FOUND, "metrics are at /metrics\n")
            return
        try:
            answer = metrics_text(self.measured)
        except SeamarkError as error:  # the database may come back: Prometheus notes the gap and asks again
            log.warning("metrics are not available: %s", error)
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
        else:
            self._answer(HTTPStatus.OK, answer)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)
