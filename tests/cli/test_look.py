"""`ls`, `status`, `log` and `show`."""

import datetime
import decimal
import json
import subprocess
import sys

import pyarrow as pa
import pytest

from seamark import DataStore
from seamark.cli.cells import fitted, value
from seamark.control import RunRecord


@pytest.fixture
def store(project):
    with DataStore(f"sqlite:///{project / 'seamark.db'}", project / "warehouse") as opened:
        yield opened


def line_with(text, *words):
    """The words of the one line that begins with the first word."""
    (line,) = [line.split() for line in text.splitlines() if line.split()[:1] == [words[0]]]
    return line


# --- ls ---------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C12")
def test_ls_lists_the_tables(call, project):
    told = call("ls", folder=project)

    assert told.code == 0
    assert line_with(told.out, "posts")[:6] == ["posts", "root", "post_id", "2", "2", "3"]
    assert line_with(told.out, "clicks")[:6] == ["clicks", "root", "append-only", "3", "5", "6"]
    assert line_with(told.out, "feed")[:6] == ["feed", "derived", "post_id", "3", "–", "0"]
    assert line_with(told.out, "profiles")[:6] == ["profiles", "–", "id", "–", "–", "0"]


@pytest.mark.scenario("C12")
def test_ls_tells_a_program_the_same(call, project, store):
    document = call("ls", "--json", folder=project).document

    assert (document["steps"], document["feeds"], document["sinks"]) == ([], [], [])
    tables = {table["name"]: table for table in document["tables"]}
    assert list(tables) == ["clicks", "feed", "posts", "profiles"]
    assert tables["clicks"] == {
        "name": "clicks",
        "kind": "root",
        "keyed": False,
        "key": [],
        "event_time": "at",
        "sequence": 3,
        "offset": 5,
        "waiting": 6,
        "last_commit": store.table("clicks").head.system_time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "rows": 6,
        "rows_are_exact": True,
        "last_change": store.table("clicks").head.system_time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
    }
    assert tables["profiles"]["kind"] is None


@pytest.mark.scenario("C12")
def test_a_project_without_tables_says_so(call, empty_project):
    (empty_project / "pipeline.py").write_text("import seamark as sm\nds = sm.DataStore()\n")
    assert "No tables yet" in call("ls", folder=empty_project).out
    assert "No tables yet" in call("status").out
    assert call("ls", "--json").document["tables"] == []


# --- status -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C13")
def test_status_of_a_settled_project(call, project):
    told = call("status", folder=project)

    assert told.code == 0
    assert line_with(told.out, "clicks")[-1] == "6"
    assert "Last runs" in told.out
    assert "process_posts" in told.out
    assert "Leases" not in told.out

    document = call("status", "--json").document
    assert (document["steps"], document["sinks"], document["leases"], document["writing"]) == ([], [], [], [])
    assert [table["waiting"] for table in document["tables"]] == [6, 0, 3, 0]
    assert all(table["age_seconds"] < 600 for table in document["tables"] if table["last_commit"])
    assert {run["outcome"] for run in document["runs"]} == {"done"}


@pytest.mark.scenario("C13")
def test_status_shows_who_is_at_work_and_what_failed(call, project, store):
    store.control.record_run(RunRecord("r", "feed", "changes", 2e9, 2e9 + 1, outcome="failed", error="no such column"))
    with store.control.leases.held("step:feed", holder="host-1"), store.control.staging.run("run-7"):
        told = call("status", folder=project)
        document = call("status", "--json").document

    assert "step:feed" in told.out
    assert "host-1" in told.out
    assert "run-7" in told.out
    assert ["failed", "no", "such", "column"] in [line.split()[-4:] for line in told.out.splitlines()]
    assert [lease["holder"] for lease in document["leases"]] == ["host-1"]
    assert 0 < document["leases"][0]["seconds_left"] <= 30
    assert document["writing"] == ["run-7"]


# --- log --------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C14")
def test_log_shows_the_newest_blocks_first(call, project, store):
    told = call("log", "clicks", folder=project)

    head = store.table("clicks").head
    lines = [line for line in told.out.splitlines() if "f1620" in line]
    assert [line.split()[0] for line in lines] == ["3", "2", "1", "0"]
    assert lines[0].split()[1] == head.block_hash[:13]
    assert f"{head.system_time:%Y-%m-%d %H:%M:%S}" in lines[0]
    assert "AddData" in lines[0]
    assert "2 – 5" in lines[0]
    assert "2023-11-14 22:13:20" in lines[0]  # the watermark
    assert "Seed" in lines[3]


@pytest.mark.scenario("C14")
def test_log_shows_what_a_step_took_from_its_inputs_and_its_runs(call, project, store):
    told = call("log", "feed", "--runs", folder=project)
    assert "posts: 0 – 2" in told.out
    assert "process_posts" in told.out
    assert "done" in told.out

    document = call("log", "feed", "--json").document
    assert document["kind"] == "derived"
    (taken,) = document["blocks"][0]["inputs"]
    assert taken["table"] == "posts"
    assert (taken["prev_offset"], taken["new_offset"], taken["records"]) == (None, 2, 3)
    assert taken["new_block"] == store.table("posts").head.block_hash
    assert [(run["step"], run["rows_in"], run["seconds"]) for run in document["runs"]] == [("process_posts", 3, 1.5)]


@pytest.mark.scenario("C14")
def test_log_limit(call, project):
    blocks = call("log", "clicks", "--limit", "2", "--json", folder=project).document["blocks"]
    assert [block["sequence"] for block in blocks] == [3, 2]
    assert all(len(block["hash"]) == 69 for block in blocks)


@pytest.mark.scenario("C37")
@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ("schema,transform", ["SetDataSchema", "SetTransform"]),
        ("data", ["ExecuteTransform"]),
        ("seed", ["Seed"]),
        ("seed, data", ["ExecuteTransform", "Seed"]),
    ],
)
def test_log_of_some_events(call, project, events, kinds):
    blocks = call("log", "feed", "--events", events, "--json", folder=project).document["blocks"]
    assert [block["event"] for block in blocks] == kinds
    people = call("log", "feed", "--events", events).out
    assert all(kind in people for kind in kinds)


def test_log_of_a_table_that_was_never_written_or_is_damaged(call, project, store):
    assert "no such blocks" in call("log", "profiles", folder=project).out

    head = store.table("clicks").head.block_hash
    (project / "warehouse" / "clicks" / "blocks" / head).write_bytes(b"gone")
    told = call("log", "clicks")
    assert told.code == 0
    assert "unreadable" in told.out


# --- show -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C15")
def test_show_gives_schema_key_and_rows(call, project, spark):
    told = call("show", "posts", folder=project)

    assert told.code == 0
    assert "root, key post_id, as of offset 2" in told.out
    assert "bigint" in told.out
    assert [line.split() for line in told.out.splitlines()[-4:-1]] == [
        ["1", "100", "hello"],
        ["2", "200", "hi"],
        ["3", "NULL", "again"],
    ]
    assert told.out.endswith("3 rows\n")

    document = call("show", "posts", "--limit", "2", "--json").document
    assert document["rows"] == [
        {"post_id": 1, "user_id": 100, "content": "hello"},
        {"post_id": 2, "user_id": 200, "content": "hi"},
    ]
    assert document["more"] is True
    assert document["columns"][0]["name"] == "post_id"


@pytest.mark.scenario("C15")
def test_show_an_earlier_state(call, project, spark):
    document = call("show", "clicks", "--as-of", "1", "--json", folder=project).document
    assert document["as_of"] == 1
    assert sorted(row["url"] for row in document["rows"]) == ["/0/0", "/0/1"]
    assert document["rows"][0]["at"] == "2023-11-14T22:13:20.000Z"

    inside = call("show", "clicks", "--as-of", "3")
    assert inside.code == 2
    assert "inside a commit that goes from 2 to 5" in inside.err


@pytest.mark.scenario("C15")
def test_show_an_empty_table(call, project):
    told = call("show", "profiles", folder=project)
    assert told.code == 0
    assert "never written, key id" in told.out
    assert "no rows" in told.out


@pytest.mark.scenario("C15")
def test_show_one_block_by_its_hash_or_how_it_begins(call, project, store):
    schema, seed = store.control.index.blocks("posts")[1:]
    for text in (schema.hash, schema.hash[:20], schema.hash[5:15], schema.hash[:20].upper()):
        document = call("show", "posts", "--block", text, "--json", folder=project).document
        assert (document["hash"], document["prev_hash"]) == (schema.hash, seed.hash)
        assert document["event"]["kind"] == "SetDataSchema"
        assert document["event"]["schema"]["extra"] == {"seamark/key": ["post_id"]}

    told = call("show", "posts", "--block", schema.hash)
    assert "user_id: Int64 or NULL" in told.out
    data = call("show", "clicks", "--block", store.table("clicks").head.block_hash).out
    assert "  newData:\n" in data
    assert "      end: 5\n" in data
    assert "  prevOffset: 1\n" in data


@pytest.mark.scenario("C15")
def test_an_ambiguous_or_unknown_beginning_is_refused(call, project, store):
    told = call("show", "posts", "--block", "f1620", folder=project)
    assert told.code == 2
    assert all(block.hash in told.err for block in store.control.index.blocks("posts"))

    unknown = call("show", "posts", "--block", "f1620zz")
    assert unknown.code == 2
    assert "no block whose hash begins with 'f1620zz'" in unknown.err


_WITHOUT_SPARK = """
import sys
from seamark.cli import run
from seamark.spark import spark_log
code = run(sys.argv[1:])
assert spark_log() is None, "Spark was started"
sys.exit(code)
"""


@pytest.mark.scenario("C15")
@pytest.mark.parametrize(
    "verb",
    [
        *("ls", "status", "log posts", "verify", "doctor", "fold feed"),
        *(
            "show posts --block {head}",
            "show posts",
            "show posts --key 1",
            "show clicks --as-of 1",
            "why posts post_id=1",
        ),
    ],
)
def test_looking_starts_no_spark(project, store, verb):
    words = verb.format(head=store.table("posts").head.block_hash).split()
    told = subprocess.run([sys.executable, "-c", _WITHOUT_SPARK, *words], cwd=project, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


# --- values -----------------------------------------------------------------------------------------------------------


def test_the_widest_columns_are_cut_first():
    assert fitted([3, 10, 50], 100) == [3, 10, 50]
    assert fitted([3, 10, 50], 40) == [3, 10, 27]
    assert fitted([3, 10, 50], 15) == [3, 6, 6]
    assert fitted([30, 30], 2) == [4, 4]
    assert fitted([], 10) == []


def test_values_are_one_line_and_control_codes_do_not_reach_the_terminal():
    assert value("two\nlines\x1b[31m").plain == "two\\nlines\\x1b[31m"
    assert value(None).plain == "NULL"
    assert value(True).plain == "true"


def test_values_of_every_kind_are_json(call, empty_project, spark):
    schema = "d date, m decimal(9,2), f double, b binary, l array<int>, s struct<x: int>, n timestamp_ntz"
    store = DataStore(f"sqlite:///{empty_project / 'seamark.db'}", empty_project / "warehouse")
    table = store.table("kinds", schema)
    row = {
        "d": datetime.date(2026, 1, 2),
        "m": decimal.Decimal("1.50"),
        "f": float("nan"),
        "b": b"\x01\xff",
        "l": [1, None],
        "s": {"x": 7},
        "n": datetime.datetime(2026, 1, 2, 3, 4, 5),
    }
    table.append(pa.Table.from_pylist([row], schema=table.schema.arrow))

    told = call("show", "kinds", "--json", folder=empty_project)

    assert json.loads(told.out, parse_constant=pytest.fail)["rows"] == [
        {
            "d": "2026-01-02",
            "m": "1.50",
            "f": "nan",
            "b": "01ff",
            "l": [1, None],
            "s": {"x": 7},
            "n": "2026-01-02T03:04:05",
        }
    ]
