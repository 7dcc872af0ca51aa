"""Sinks on the command line: what `run` sends, what `status` says is waiting, and what is in the way."""

from pathlib import Path

import pytest
from tests.support.json_page import assert_same_shape

from seamark import ClickHouseSink

SINK = '\nds.sink("{table}", sm.ClickHouseSink("{url}", table="copy"), name="out")\n'


def add_sink(folder: Path, table: str = "clicks", url: str | None = None) -> ClickHouseSink:
    url = url or f"chdb:///{folder / 'clickhouse'}"
    with (folder / "pipeline.py").open("a") as file:
        file.write(SINK.format(table=table, url=url))
    return ClickHouseSink(url, table="copy")


def test_run_sends_and_status_tells_what_waits(call, project):
    target = add_sink(project)

    waiting = call("status", "--json", folder=project)
    assert_same_shape("status", waiting.document)
    (state,) = waiting.document["sinks"]
    assert (state["name"], state["position"], state["pending_blocks"], state["pending_records"]) == ("out", None, 2, 6)
    assert "out" in call("status").out
    assert call("ls", "--json").document["sinks"] == ["out"]

    told = call("run")
    assert (told.code, told.err) == (0, "")
    header, _, line = told.out.splitlines()
    assert header.split() == ["sink", "table", "blocks", "records", "seconds"]
    assert line.split()[:-1] == ["✓", "out", "clicks", "2", "6"]
    assert target.query("SELECT count() AS n FROM copy") == [{"n": 6}]

    assert call("run", "out").out == "✓ Nothing to do: 1 sink up to date.\n"
    again = call("run", "--json").document
    assert_same_shape("run", again)
    assert (again["ok"], again["sinks"][0]["blocks"]) == (True, 0)
    assert call("status", "--json").document["sinks"][0]["pending_blocks"] == 0


@pytest.mark.scenario("F44")
def test_a_sink_that_cannot_send_is_told_without_its_secret(call, project):
    add_sink(project, url="clickhouse://me:s3cret@no-such-host.invalid/db")
    told = call("run", folder=project)
    assert told.code == 1
    assert (
        "✗ out could not continue: sink 'out': clickhouse://no-such-host.invalid:8123/db cannot be reached" in told.out
    )
    document = call("run", "--json").document
    assert_same_shape("run", document)
    (sink,) = document["sinks"]
    assert (document["ok"], sink["error"]["type"], sink["position"]) == (False, "SinkUnavailable", None)
    status = call("status", "--json")
    for text in (told.out, told.err, str(document), status.out, call("ls").out):
        assert "s3cret" not in text


def test_status_tells_what_stopped_a_sink_until_it_has_sent(call, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    target = add_sink(project)
    target.query("CREATE TABLE copy (other Int64) ENGINE = ReplacingMergeTree ORDER BY other")
    for _ in range(2):
        assert call("run", folder=project).code == 1
    told = call("status")
    about = "✗ out could not continue: sink 'out': table 'copy' of "
    assert about in told.out
    assert max(map(len, told.out.splitlines())) <= 100
    words = told.out[told.out.index("✗ out could") : told.out.index("Last runs")].split()
    assert {"Nothing", "was", "sent.", "Hint:", "create=True."} <= set(words)  # wrapped between words
    document = call("status", "--json").document
    assert_same_shape("status", document)
    assert document["sinks"][0]["error"].startswith("sink 'out': table 'copy' of ")
    assert [(run["step"], run["mode"], run["outcome"]) for run in document["runs"]][:2] == [
        ("sink:out", "send", "failed")
    ] * 2

    target.query("DROP TABLE copy")
    assert call("run").code == 0
    assert "could not continue" not in call("status").out
    assert call("status", "--json").document["sinks"][0]["error"] is None


def test_steps_run_first_and_their_rows_are_sent_in_the_same_run(call, blog, write):
    target = add_sink(blog, table="feed")
    write(blog, "posts", (4, 200, "new"))
    told = call("run", folder=blog)
    assert told.code == 0, told.out
    assert [line.split()[0] for line in told.out.splitlines() if "process_posts" in line or " out " in line] == [
        "✓",
        "✓",
    ]
    assert target.query("SELECT line FROM copy FINAL WHERE post_id = 4") == [{"line": "Bob: new"}]
    assert call("run").out == "✓ Nothing to do: 1 step and 1 sink up to date.\n"


def test_only_what_is_named_runs(call, blog, write):
    add_sink(blog, table="feed")
    write(blog, "posts", (4, 200, "new"))
    document = call("run", "out", "--json", folder=blog).document
    assert (document["steps"], document["sinks"][0]["records"]) == ([], 3)
    document = call("run", "process_posts", "--json").document
    assert (len(document["steps"]), document["sinks"]) == (1, [])
    told = call("run", "nowhere", "--json")
    assert (told.code, told.error["type"]) == (2, "UnknownStep")
