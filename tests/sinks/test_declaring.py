"""Declaring sinks, the tables that they make and take, and what they say when something is wrong."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import InvalidSink, LeaseHeld, TargetMismatch, UnknownStep, UnknownTable
from seamark.sinks.clickhouse.ddl import ExistingTable, create_table, memory_to_set
from seamark.sinks.clickhouse.url import Folder, Server, parse_url
from seamark.sinks.layout import Layout
from seamark.sinks.target import Carried

SECRET = "s3cret/@:x"
ENCODED = quote(SECRET, safe="")


# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("chdb:///some/folder", Folder(Path("some/folder").absolute())),
        ("chdb:////some/folder", Folder(Path("/some/folder"))),
        ("clickhouse://host", Server("host", 8123, "default", "default", "")),
        ("clickhouse://host:9000/stats", Server("host", 9000, "stats", "default", "")),
        (f"clickhouse://me:{ENCODED}@host/stats", Server("host", 8123, "stats", "me", SECRET)),
        ("clickhouses://me:pw@host/stats", Server("host", 8443, "stats", "me", "pw", secure=True)),
        ("clickhouse://me:pw@host:1/stats?secure=1", Server("host", 1, "stats", "me", "pw", secure=True)),
        ("clickhouse://[::1]:8123/stats", Server("::1", 8123, "stats", "default", "")),
    ],
)
def test_urls(url, place):
    assert parse_url(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "chdb://",
        "chdb:///",
        "chdb://folder",
        "chdb:///folder?x=1",
        "clickhouse://",
        "clickhouse://me:pw/x@host:port/db",
        "clickhouse://me:s3cret@x@host/db",
        "clickhouse://me:s3cret/x@host/db",
        "clickhouse://me:s3cret@host/db?compress=1",
        "clickhouse://me:s3cret@host/db?secure=maybe",
        "clickhouse://me:12?s3cret=x@host/db",  # a ? in the password: the rest of it reads like an option
        "clickhouse://me:pw@host/db?s3cret=1",
        "http://me:s3cret@host/db",
        "me:s3cret@host",
        "",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url):
    with pytest.raises(InvalidSink, match="ClickHouse sink") as caught:
        sm.ClickHouseSink(url, table="copy")
    assert "s3cret" not in str(caught.value)
    assert "Nothing was declared" in str(caught.value)


# --- declaring --------------------------------------------------------------------------------------------------------


@pytest.fixture
def users(dry) -> sm.Table:
    return dry.table("users", "id long, name string", key="id")


def test_sinks_have_names_and_places(dry, users, folder_url):
    first = dry.sink("users", sm.ClickHouseSink(folder_url, table="copy"))
    second = dry.sink(users, sm.ClickHouseSink("clickhouse://me:pw@host/db", table="copy"), name="second")
    assert dry.sinks() == {"users->clickhouse:copy": first, "second": second}
    assert repr(second) == "Sink('second': users -> table 'copy' of clickhouse://host:8123/db)"
    assert repr(second.outlet) == "ClickHouseSink('clickhouse://host:8123/db', table='copy')"
    assert (first.position, first.pending()) == (None, [])


def test_what_cannot_be_bound_is_refused_and_nothing_is_added(dry, users, folder_url):
    target = sm.ClickHouseSink(folder_url, table="copy")
    with pytest.raises(UnknownTable, match="did you mean 'users'"):
        dry.sink("usres", target)
    dry.sink("users", target)
    with pytest.raises(InvalidSink, match="the name 'users->clickhouse:copy' is taken already: Sink"):
        dry.sink("users", target)
    with pytest.raises(InvalidSink, match="has a key, id, so its records do not cancel each other"):
        dry.sink("users", sm.ClickHouseSink(folder_url, table="c", collapse_by="id"))
    dry.table("log", "VisitID long, Sign int, version string")
    with pytest.raises(InvalidSink, match=r"it has no column 'Version'.*did you mean 'version'"):
        dry.sink("log", sm.ClickHouseSink(folder_url, table="c", collapse_by="VisitID"))
    with pytest.raises(InvalidSink, match="column 'version' is string"):
        dry.sink("log", sm.ClickHouseSink(folder_url, table="c", collapse_by="VisitID", version="version"))
    with pytest.raises(InvalidSink, match='nulls="drop"'):
        sm.ClickHouseSink(folder_url, table="c", nulls="drop")
    with pytest.raises(UnknownStep, match="'nowhere'"):
        dry.run("nowhere")
    assert list(dry.sinks()) == ["users->clickhouse:copy"]


def test_a_diff_says_how_its_log_collapses_and_its_state_is_keyed(dry, folder_url):
    chunks = dry.table("chunks", "VisitID long, y_VisitVersion long, revenue double")
    target = sm.ClickHouseSink(folder_url, table="visits")
    dry.diff("visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[chunks], sink=target)
    dry.sink("visits_state", target, name="state")
    log, state = dry.sinks().values()
    assert (log.name, log.layout) == ("visits_visit_log_slow->clickhouse:visits", Layout.diff(("VisitID",)))
    assert state.layout == Layout.keyed(("VisitID",))


def test_one_run_of_a_sink_at_a_time(open_store, monkeypatch, folder_url):
    monkeypatch.setenv("SEAMARK_SCHEDULER_WAIT", "0")
    store = open_store(spark=object())
    users = store.table("users", "id long, name string", key="id")
    store.sink("users", sm.ClickHouseSink(folder_url, table="copy"), name="out")
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    with store.control.leases.held("sink:out", holder="another run"):
        report = store.run()
        assert isinstance(report.sinks["out"].error, LeaseHeld)
        assert "another run" in str(report.sinks["out"].error)
    assert store.run().sinks["out"].blocks == 1


# --- tables -----------------------------------------------------------------------------------------------------------


def carried(store: sm.DataStore, declared: str, layout: Layout | None = None, **options) -> Carried:
    schema = store.table("t", declared, **options).schema
    return Carried("out", "t", schema, layout or (Layout.keyed(schema.key) if schema.key else Layout.append()))


@pytest.mark.parametrize(
    ("declared", "options", "layout", "sql"),
    [
        (
            "a long, b string, v double",
            {"key": ["b", "a"]},
            None,
            "(`a` Int64, `b` String, `v` Nullable(Float64), `_offset` UInt64, `_deleted` UInt8) "
            "ENGINE = ReplacingMergeTree(`_offset`, `_deleted`) ORDER BY (`b`, `a`)",
        ),
        (
            "VisitID long, Sign int, Version long, title string",
            {},
            Layout.diff(("VisitID",)),
            "(`VisitID` Int64, `Sign` Int8, `Version` Int64, `title` Nullable(String)) "
            "ENGINE = VersionedCollapsingMergeTree(`Sign`, `Version`) ORDER BY `VisitID`",
        ),
        ("url string", {}, None, "(`url` Nullable(String)) ENGINE = MergeTree() ORDER BY tuple()"),
        (
            "at timestamp not null",
            {"event_time": "at"},
            None,
            "(`at` DateTime64(6, 'UTC')) ENGINE = MergeTree() ORDER BY `at`",
        ),
        (
            "at timestamp",
            {"event_time": "at"},
            None,
            "(`at` Nullable(DateTime64(6, 'UTC'))) ENGINE = MergeTree() ORDER BY tuple()",
        ),
    ],
)
def test_the_table_that_a_sink_makes(dry, declared, options, layout, sql):
    made = create_table("t", carried(dry, declared, layout, **options))
    kept = ", remove_empty_parts = 0" if layout is not None else ""
    assert made == f"CREATE TABLE IF NOT EXISTS t {sql} SETTINGS non_replicated_deduplication_window = 10000{kept}"


@pytest.mark.parametrize(
    ("engine", "engine_full", "to_set"),
    [
        ("MergeTree", "MergeTree ORDER BY a", {"non_replicated_deduplication_window": 10_000}),
        ("MergeTree", "MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10001", {}),
        (
            "ReplicatedReplacingMergeTree",
            "ReplicatedReplacingMergeTree('/p', 'r') ORDER BY a SETTINGS replicated_deduplication_window = 100",
            {"replicated_deduplication_window": 10_000, "replicated_deduplication_window_seconds": 604_800},
        ),
        (
            "SharedMergeTree",
            "SharedMergeTree ORDER BY a SETTINGS replicated_deduplication_window_seconds = 999999",
            {},
        ),
    ],
)
def test_the_window_of_a_table_is_made_large_enough(dry, engine, engine_full, to_set):
    defaults = {"replicated_deduplication_window": 10_000, "replicated_deduplication_window_seconds": 3600}
    defaults["remove_empty_parts"] = 1
    assert memory_to_set(carried(dry, "a long"), ExistingTable(engine, engine_full, "a", {}), defaults) == to_set


@pytest.mark.scenario("D40")
@pytest.mark.parametrize(
    ("settings", "default", "to_set"),
    [
        ("", 1, {"remove_empty_parts": 0}),
        (", remove_empty_parts = 1", 0, {"remove_empty_parts": 0}),
        (", remove_empty_parts = true", 0, {"remove_empty_parts": 0}),
        (", remove_empty_parts = false", 1, {}),
        (", remove_empty_parts = 0", 1, {}),
        ("", 0, {}),
        ("", None, {}),  # a version of ClickHouse that has no such setting
    ],
)
def test_a_table_whose_rows_cancel_each_other_must_keep_its_empty_parts(dry, settings, default, to_set):
    log = carried(dry, "VisitID long, Sign tinyint, Version long", Layout.diff(("VisitID",)))
    full = f"VersionedCollapsingMergeTree(Sign, Version) SETTINGS non_replicated_deduplication_window = 10000{settings}"
    standing = ExistingTable("VersionedCollapsingMergeTree", full, "VisitID, Version", {})
    assert memory_to_set(log, standing, {} if default is None else {"remove_empty_parts": default}) == to_set


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (
            "(id Int64, name Nullable(String)) ENGINE = MergeTree ORDER BY id",
            "is a MergeTree, and 'users' needs a Repl",
        ),
        (
            "(id Int64, name Nullable(String), _offset UInt64, _deleted UInt8) "
            "ENGINE = ReplacingMergeTree(_offset) ORDER BY id",
            "is a ReplacingMergeTree(_offset), and 'users' needs a ReplacingMergeTree(_offset, _deleted)",
        ),
        (
            "(id Int64, name String, _offset UInt64, _deleted UInt8) "
            "ENGINE = ReplacingMergeTree(_offset, _deleted) ORDER BY id",
            "has column 'name' as String, which does not hold Nullable(String)",
        ),
        (
            "(id Int64, _offset UInt64, _deleted UInt8) ENGINE = ReplacingMergeTree(_offset, _deleted) ORDER BY id",
            "lacks name Nullable(String)",
        ),
        (
            "(id Int64, name Nullable(String), day Date, _offset UInt64, _deleted UInt8) "
            "ENGINE = ReplacingMergeTree(_offset, _deleted) ORDER BY (day, id)",
            "is ordered by (day, id), and the key of 'users' is (id)",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(dry, users, url, definition, text):
    target = sm.ClickHouseSink(url, table="copy", create=False)
    target.query(f"CREATE TABLE copy {definition}")
    dry.sink("users", target, name="out")
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    report = dry.run().sinks["out"]
    assert isinstance(report.error, TargetMismatch)
    assert text in str(report.error)
    assert str(report.error).startswith("sink 'out': table 'copy' of ")
    assert "Nothing was sent. Hint:" in str(report.error)
    assert (report.blocks, report.position) == (0, None)
    assert target.query("SELECT count() AS n FROM copy") == [{"n": 0}]


def test_a_table_of_somebody_else_may_have_more_columns_and_wider_types(dry, users, url):
    target = sm.ClickHouseSink(url, table="copy", create=False)
    target.query(
        "CREATE TABLE copy (note String DEFAULT 'ours', name LowCardinality(Nullable(String)), id Int128, "
        "twice Int128 MATERIALIZED id * 2, _deleted UInt8, _offset UInt64) "
        "ENGINE = ReplacingMergeTree(_offset, _deleted) ORDER BY id"
    )
    dry.sink("users", target)
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    dry.run(fail_fast=True)
    assert target.query("SELECT toInt64(id) AS id, name, note, toInt64(twice) AS twice FROM copy FINAL") == [
        {"id": 1, "name": "A", "note": "ours", "twice": 2}
    ]


# --- trouble on the way -----------------------------------------------------------------------------------------------


def trouble(store: sm.DataStore, url: str, caplog, **options) -> str:
    """What the report says when a sink cannot send. The secret is nowhere: not in it, nor in any log."""
    table = store.table("users", "id long, name string", key="id")
    sink = store.sink("users", sm.ClickHouseSink(url, table="copy", **options), name="out")
    table.upsert(pa.table({"id": [1], "name": ["A"]}))
    with caplog.at_level(logging.DEBUG):
        error = store.run().sinks["out"].error
    said = str(error)
    for shown in (said, repr(error), repr(sink), repr(sink.outlet), caplog.text):
        assert SECRET not in shown
        assert ENCODED not in shown
    assert said.startswith("sink 'out'")
    assert "Nothing was sent" in said
    assert "Hint: " in said
    return said


@pytest.mark.scenario("F44")
def test_an_unknown_host(dry, caplog):
    said = trouble(dry, f"clickhouse://me:{ENCODED}@no-such-host.invalid/db", caplog)
    assert "clickhouse://no-such-host.invalid:8123/db cannot be reached" in said
    assert "check host and port" in said


@pytest.mark.scenario("F44")
def test_a_port_where_nobody_listens(dry, caplog):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = trouble(dry, f"clickhouse://me:{ENCODED}@127.0.0.1:{taken.getsockname()[1]}/db", caplog)
    assert "cannot be reached" in said


@pytest.mark.scenario("F44")
def test_a_wrong_password(dry, server_url, caplog):
    said = trouble(dry, server_url.replace("carrier:", "carrier:not-"), caplog)
    assert "does not let us in: the user or the password is wrong" in said


@pytest.mark.scenario("F44")
def test_an_unknown_database(dry, server_url, caplog):
    said = trouble(dry, server_url.rpartition("/")[0] + "/nowhere", caplog)
    assert "/nowhere names a database that does not exist" in said


@pytest.mark.scenario("F44")
def test_an_unknown_table(dry, url, caplog):
    said = trouble(dry, url, caplog, create=False)
    assert "table 'copy' of " in said
    assert "is not there. Nothing was sent. Hint: create=True makes it" in said


@pytest.mark.scenario("F44")
@pytest.mark.parametrize(
    ("package", "url"),
    [("chdb.session", "chdb:///folder"), ("clickhouse_connect", f"clickhouse://me:{ENCODED}@127.0.0.1/db")],
)
def test_a_missing_package(dry, caplog, monkeypatch, tmp_path, package, url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)  # what Python says of a package that is not there
    assert "pip install '/path/to/seamark[clickhouse]'" in trouble(dry, url, caplog)


def test_a_folder_that_another_process_has_open(dry, tmp_path, folder_url, caplog):
    program = """
        import sys
        from chdb.session import Session
        session = Session(sys.argv[1])
        print("open", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), tmp_path / "clickhouse"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        assert "is open in another process, and only one at a time may have it" in trouble(dry, folder_url, caplog)
        other.stdin.close()
        other.wait()
    assert dry.run().sinks["out"].blocks == 1


def test_folders_are_opened_one_after_another(dry, users, tmp_path):
    targets = [sm.ClickHouseSink(f"chdb:///{tmp_path / name}", table="copy") for name in ("one", "other [1] {2}")]
    for number, target in enumerate(targets):
        dry.sink("users", target, name=f"out {number}")
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    assert dry.run(fail_fast=True).ok
    assert [target.query("SELECT id FROM copy FINAL") for target in targets] == [[{"id": 1}]] * 2


@pytest.mark.parametrize("folder", ["mine", "other"])
def test_a_session_of_the_programs_own_is_in_nobodys_way(dry, users, tmp_path, folder):
    """On the sink's own folder or on another one."""
    from chdb.session import Session

    target = sm.ClickHouseSink(f"chdb:///{tmp_path / folder}", table="copy")
    dry.sink("users", target, name="out")
    session = Session(str(tmp_path / "mine"))
    try:
        users.upsert(pa.table({"id": [1], "name": ["A"]}))
        assert dry.run(fail_fast=True).ok
        assert target.query("SELECT id FROM copy FINAL") == [{"id": 1}]
    finally:
        session.close()


def test_a_warehouse_whose_path_looks_like_a_pattern(tmp_path, folder_url):
    with sm.DataStore(f"sqlite:///{tmp_path / 'c.db'}", tmp_path / "w{1}*", spark=object()) as store:
        users = store.table("users", "id long, name string", key="id")
        target = sm.ClickHouseSink(folder_url, table="copy")
        store.sink("users", target)
        users.upsert(pa.table({"id": [1], "name": ["A"]}))
        store.run(fail_fast=True)
        assert target.query("SELECT id, name FROM copy FINAL") == [{"id": 1, "name": "A"}]
