"""`sql`, `scan`, `view`, and how `run` and the others treat the views of a project."""

from __future__ import annotations

import pytest
from tests.support.json_page import assert_same_shape

from seamark.store import DataStore

GOOD = "CREATE MATERIALIZED VIEW lines PRIMARY KEY (post_id) AS\nSELECT p.post_id, p.content FROM posts p;\n"
NAMED = """
CREATE MATERIALIZED VIEW named PRIMARY KEY (post_id) AS
SELECT p.post_id, u.name FROM posts p JOIN profiles u ON u.id = p.user_id;
CREATE ASYNC HANDLER people PROCESS named,
  INPUT posts CHANGEFEED log AS STREAM, INPUT profiles CHANGEFEED log AS BATCH;
"""


@pytest.fixture
def views(blog):
    """The blog with two views, one of them with a dictionary."""
    (blog / "views").mkdir()
    (blog / "views" / "good.sql").write_text(GOOD)
    (blog / "views" / "named.sql").write_text(NAMED)
    with (blog / "seamark.toml").open("a") as file:
        file.write('\n[views]\nfiles = ["views"]\n')
    return blog


@pytest.mark.scenario("V78")
def test_views_of_the_project_run_with_it_and_those_with_errors_are_named(call, views):
    told = call("run", folder=views)
    assert (told.code, told.err) == (0, "")
    assert "lines" in told.out
    assert len(call("show", "named", "--json").document["rows"]) == 3

    (views / "views" / "named.sql").write_text(NAMED.replace("u.name", "u.nope"))
    told = call("run")
    assert told.code == 1
    assert "named was left out: views/named.sql:3:19: error IllegalOutputReference" in " ".join(told.out.split())
    assert "people was left out" in told.out
    document = call("run", "--json").document
    assert_same_shape("run", document)
    assert (document["ok"], [one["name"] for one in document["left_out"]]) == (False, ["named", "people"])
    assert [step["step"] for step in document["steps"]] == ["process_posts", "lines"]
    assert "Left out, because of errors that `seamark check` shows: named, people." in call("ls").err
    told = call("run", "named")
    assert told.code == 1
    assert "views/named.sql:3:19: error IllegalOutputReference" in told.err

    told = call("check")  # without a file: those of the project
    assert told.code == 1
    assert "1 error" in told.out


@pytest.mark.scenario("C18")
def test_sql_shows_what_runs_send(call, views):
    told = call("sql", "named", folder=views)
    assert told.code == 0
    assert "-- refresh: the rows of the units in `keys`" in told.out
    assert "ActionKeysGrab" in told.out
    document = call("sql", "named", "--dialect", "postgres", "--json").document
    assert_same_shape("sql", document)
    assert "bigint" in document["sql"]
    told = call("sql", "nmaed")
    assert told.code == 2
    assert "did you mean 'named'?" in told.err


def test_check_without_analysis_starts_no_java(call, views, monkeypatch):
    def no_spark(store):
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(DataStore, "spark", property(no_spark))
    (views / "views" / "new.sql").write_text("CREATE MATERIALIZED VIEW n PRIMARY KEY (id) AS SELECT id FROM profiles;")
    assert call("check", "--no-analysis", folder=views).code == 0


@pytest.mark.scenario("C25")
def test_scan_computes_all_rows_again(call, views):
    told = call("scan", "lines", "--rate", "1000", folder=views)
    assert told.code == 0
    assert "scan" in told.out
    document = call("scan", "lines", "--where", "post_id < 3", "--json").document
    assert_same_shape("scan", document)
    assert (document["mode"], document["keys"], document["failed"]) == ("scan", 2, 0)
    told = call("scan", "lines", "--where", "nope")
    assert told.code == 1
    assert "is no condition on the rows of table 'posts'" in told.err


@pytest.mark.scenario("C37")
@pytest.mark.scenario("V84")
def test_a_view_is_paused_and_resumed(call, views, write):
    call("run", folder=views)
    told = call("view", "pause", "lines")
    assert told.code == 0
    assert "lines is paused since" in told.out
    write(views, "posts", (4, 100, "new"))
    assert_same_shape("view", call("view", "ls", "--json").document)
    told = call("run", "--json")
    assert {step["step"]: step["mode"] for step in told.document["steps"]}["lines"] == "paused"
    assert told.code == 0
    (state,) = [step for step in call("status", "--json").document["steps"] if step["name"] == "lines"]
    assert (state["cause"], state["pending_records"]) == ("paused", 1)
    assert "`seamark view resume lines` lets it run again" in " ".join(call("status").out.split())
    told = call("scan", "lines")
    assert told.code == 1
    assert "view 'lines' is paused" in told.err
    assert call("plan", "--exit-code").code == 0

    assert call("view", "resume", "lines").code == 0
    call("run", "lines")
    assert len(call("show", "lines", "--json").document["rows"]) == 4
    told = call("view", "ls")
    assert "row of posts" in told.out
    assert call("view", "pause").code == 2


@pytest.mark.scenario("V26")
def test_run_takes_dictionaries_when_it_is_asked_to(call, views, write):
    call("run", folder=views)
    write(views, "profiles", (100, "Alicia"))
    assert call("run", "named", "--json").document["steps"][0]["keys"] == 0
    (state,) = [step for step in call("status", "--json").document["steps"] if step["name"] == "named"]
    assert (state["cause"], state["needs_attention"], state["pending_records"]) == ("waiting", False, 2)
    assert state["next_reason"] == "only records of dictionaries wait, for a pass: 2 in 'profiles'"
    (line,) = [line for line in call("view", "ls", "--json").document["views"] if line["name"] == "named"]
    assert (line["dictionaries"], line["waiting"], line["handler"]) == (["profiles"], 2, "people")
    assert call("run", "named", "--dictionaries", "now", "--json").document["steps"][0]["keys"] == 2
