"""Logging of the command line."""

import json
import logging

import pytest

from seamark.cli.logs import JsonLines, TextLines

WRITES = """
import pyarrow as pa
clicks.append(pa.table({"url": ["/"], "at": pa.array([0], pa.timestamp("us", tz="UTC"))}))
"""


@pytest.fixture
def writing_project(empty_project):
    """A project whose pipeline commits when it is loaded."""
    file = empty_project / "pipeline.py"
    file.write_text(file.read_text() + WRITES)
    return empty_project


@pytest.mark.scenario("C40")
def test_log_json_gives_one_line_a_commit(call, writing_project):
    told = call("--log-json", "ls", folder=writing_project)

    (line,) = [json.loads(line) for line in told.err.splitlines()]
    assert (line["level"], line["logger"]) == ("INFO", "seamark.commit")
    assert line["time"].endswith("Z")
    fields = ("step", "mode", "table", "sequence", "offset", "appended", "corrected", "retracted")
    assert [line[name] for name in fields] == ["clicks", "append", "clicks", 2, 0, 1, 0, 0]

    both = call("ls", "--log-json", "--json")
    assert len(both.err.splitlines()) == 1
    assert both.document["tables"][0]["offset"] == 1


@pytest.mark.scenario("C40")
def test_people_see_warnings_only_unless_they_ask_for_more(call, writing_project, monkeypatch):
    assert call("ls", folder=writing_project).err == ""
    assert "INFO seamark.commit: append clicks: block 3" in call("ls", "-v").err
    monkeypatch.setenv("SEAMARK_LOG_LEVEL", "INFO")
    assert "INFO seamark.commit: append clicks: block 4" in call("ls").err
    monkeypatch.setenv("SEAMARK_LOG_JSON", "true")
    assert json.loads(call("ls").err)["sequence"] == 5


@pytest.mark.scenario("C40")
@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()], ids=["json", "text"])
def test_nothing_secret_is_logged(formatter):
    url = "postgresql://me:hunter2@host/db"
    try:
        raise ValueError(f"cannot open {url}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("seamark.x", logging.ERROR, __file__, 1, "lost %s, password=hunter2", (url,), info)
    record.seamark = {"url": url, "rows": 3}

    line = formatter.format(record)

    assert "hunter2" not in line
    assert "me:***@host/db" in line
