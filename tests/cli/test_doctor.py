"""`seamark doctor`, and building the control database again."""

import sqlite3

import pytest
from tests.support.older_database import make_version_1, version_on_disk

from seamark import DataStore


def checks_of(told):
    return {check["name"]: check for check in told.document["checks"]}


@pytest.mark.scenario("C30")
def test_a_healthy_project(call, project):
    told = call("doctor", folder=project)
    assert told.code == 0
    assert "All is well." in told.out
    assert "✗" not in told.out

    checks = checks_of(call("doctor", "--json"))
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert list(checks) == [
        "python",
        "python of the workers",
        "pyspark",
        "delta-spark",
        "java",
        "delta jars",
        "pipeline",
        "warehouse",
        "database",
        "database schema",
        "clock",
        "head of clicks",
        "head of feed",
        "head of posts",
    ]


@pytest.mark.scenario("C30")
def test_a_new_project_is_healthy_and_stays_untouched(call, empty_project):
    checks = checks_of(call("doctor", "--json", folder=empty_project))
    assert "not there yet" in checks["database"]["found"]
    assert "not there yet" in checks["warehouse"]["found"]
    assert sorted(path.name for path in empty_project.iterdir()) == ["pipeline.py", "seamark.toml"]


@pytest.mark.scenario("C30")
def test_spark_is_started_only_on_request(call, project, spark):
    found = checks_of(call("doctor", "--spark", "--json", folder=project))["spark"]
    assert found["state"] == "ok"
    assert "a job of 3 rows" in found["found"]


@pytest.mark.scenario("C30")
def test_each_bad_thing_says_what_to_do(call, project, monkeypatch):
    (project / "pipeline.py").unlink()
    monkeypatch.setattr("seamark.facts.health.find_java", lambda: None)
    monkeypatch.setenv("SEAMARK_SPARK_JARS", str(project / "delta-spark_4.2_2.13-4.4.0.jar"))
    file = project / "warehouse" / "posts" / "refs" / "head"
    file.write_text("f1620" + "0" * 64)

    told = call("doctor", "--json", folder=project)

    assert told.code == 1
    assert told.document["ok"] is False
    bad = {name: check["advice"] for name, check in checks_of(told).items() if check["state"] == "bad"}
    assert set(bad) == {"pipeline", "java", "delta jars", "head of posts"}
    assert all(bad.values())
    assert "doctor --rebuild" in bad["head of posts"]
    people = call("doctor")
    assert people.code == 1
    assert "4 things to fix." in people.out


@pytest.mark.scenario("C30")
def test_a_warehouse_that_cannot_be_written(call, project):
    (project / "file").write_text("")
    (project / "seamark.toml").write_text('warehouse = "file/warehouse"\n')
    found = checks_of(call("doctor", "--json", folder=project))["warehouse"]
    assert found["state"] == "bad"
    assert "cannot be written" in found["found"]


@pytest.mark.scenario("C30")
def test_a_head_that_lags_is_healed(call, project):
    with DataStore(f"sqlite:///{project / 'seamark.db'}", project / "warehouse") as store:
        newest, before = store.control.index.blocks("clicks", newest=2)
    file = project / "warehouse" / "clicks" / "refs" / "head"
    file.write_text(before.hash)

    told = call("doctor", "--json", folder=project)
    assert told.code == 0
    found = checks_of(told)["head of clicks"]
    assert (found["state"], found["advice"]) == ("warn", "nothing: it was updated")
    assert file.read_text() == newest.hash
    assert checks_of(call("doctor", "--json"))["head of clicks"]["state"] == "ok"


@pytest.mark.scenario("C30")
def test_a_database_of_a_newer_seamark(call, project):
    with sqlite3.connect(project / "seamark.db") as database:
        database.execute("UPDATE seamark_schema SET version = 99")
    told = call("doctor", "--json", folder=project)
    assert told.code == 1
    assert "schema version 99" in checks_of(told)["database"]["found"]


@pytest.mark.scenario("C30")
def test_a_database_of_an_older_seamark_stays_one_and_is_called_one(call, empty_project):
    url = make_version_1(f"sqlite:///{empty_project / 'seamark.db'}")
    for _ in range(2):
        found = checks_of(call("doctor", "--json", folder=empty_project))["database schema"]
        assert (found["state"], found["found"]) == (
            "ok",
            "version 1; this Seamark knows versions up to 3, and the first write upgrades it to 3: "
            "an older one cannot use it from then on",
        )
    assert version_on_disk(url) == 1


@pytest.mark.scenario("C30")
def test_a_database_without_tables_has_no_version_yet(call, empty_project):
    (empty_project / "seamark.db").touch()
    found = checks_of(call("doctor", "--json", folder=empty_project))["database schema"]["found"]
    assert found == "not there yet, made by the first write; this Seamark knows versions up to 3"


@pytest.mark.scenario("C30")
def test_clocks_that_are_apart(call, project, monkeypatch):
    monkeypatch.setattr("seamark.control.Database.now", lambda _self, _connection: 0.0)
    told = call("doctor", "--json", folder=project)
    assert told.code == 0
    assert checks_of(told)["clock"]["state"] == "warn"
    assert "It works, with 1 warning." in call("doctor").out


@pytest.mark.scenario("C5")
def test_every_setting_tells_where_it_came_from(call, project, monkeypatch):
    monkeypatch.setenv("SEAMARK_BLOCK_ROWS", "77")
    told = call("doctor", "--json", folder=project)
    settings = {setting["key"]: (setting["value"], setting["origin"]) for setting in told.document["settings"]}
    assert settings["block_rows"] == ("77", "environment variable SEAMARK_BLOCK_ROWS")
    assert settings["pipeline"] == ("pipeline.py:ds", "seamark.toml, line 1")
    assert settings["rows.keep_bases"] == ("2", "default")
    assert "environment variable SEAMARK_BLOCK_ROWS" in call("doctor").out


@pytest.mark.scenario("C5")
def test_a_setting_that_nothing_reads_is_named_and_does_no_harm(call, project):
    with (project / "seamark.toml").open("a") as file:
        file.write('[scheduler]\nrunners_table = "runners"\n')

    told = call("doctor", "--json", folder=project)

    assert told.code == 0
    found = checks_of(told)["settings"]
    lines = (project / "seamark.toml").read_text().splitlines()
    assert (found["state"], found["found"]) == (
        "warn",
        f"nothing reads scheduler.runners_table (seamark.toml, line {len(lines)}) in this version",
    )
    assert "scheduler.runners_table" not in {setting["key"] for setting in told.document["settings"]}


# --- building again ---------------------------------------------------------------------------------------------------


@pytest.fixture
def lost_database(project):
    for file in project.glob("seamark.db*"):
        file.unlink()
    return project


@pytest.mark.scenario("C38")
def test_a_lost_database_is_noticed_and_built_again(call, lost_database):
    told = call("ls", folder=lost_database)
    assert told.code == 1
    assert "seamark doctor --rebuild" in told.err
    for file in lost_database.glob("seamark.db*"):
        file.unlink()
    noticed = call("doctor", "--json")
    assert noticed.code == 1
    assert "--rebuild" in checks_of(noticed)["database"]["advice"]

    rebuilt = call("doctor", "--rebuild", "--yes", "--json")
    assert rebuilt.code == 0
    assert rebuilt.document == {
        "tables": 3,
        "blocks": 11,
        "positions": 1,
        "failed_keys": 0,
        "lost": [],
        "not_restored": ["leases", "runs", "positions of sinks", "pauses and scans of views", "the scheduler's tables"],
    }
    assert call("doctor").code == 0
    assert call("verify").code == 0

    told = call("doctor", "--rebuild", "--yes")
    assert "Restored from the chains: 3 tables, 11 blocks, 1 position, 0 failed keys." in told.out
    assert "not restored: leases, runs" in told.out


@pytest.mark.scenario("C38")
def test_in_a_pipe_it_needs_yes(command, lost_database):
    told = command("doctor", "--rebuild", folder=lost_database)
    assert told.code == 2
    assert "--yes" in told.err
    assert not (lost_database / "seamark.db").exists()


@pytest.mark.scenario("C38")
def test_on_a_terminal_it_asks(on_a_terminal, lost_database):
    told = on_a_terminal("doctor", "--rebuild", folder=lost_database, answer=b"n\n")
    assert told.code == 1
    assert "by the 3 chains in" in told.err
    assert "Nothing was changed" in told.err
    assert not (lost_database / "seamark.db").exists()

    told = on_a_terminal("doctor", "--rebuild", folder=lost_database, answer=b"y\n")
    assert told.code == 0
    assert "Restored from the chains: 3 tables" in told.out


@pytest.mark.scenario("C38")
def test_an_empty_warehouse_does_not_empty_the_database(call, project):
    (project / "seamark.toml").write_text('warehouse = "elsewhere"\n')
    told = call("doctor", "--rebuild", "--yes", folder=project)
    assert told.code == 1
    assert "Nothing was changed" in told.err
    with sqlite3.connect(project / "seamark.db") as database:
        assert database.execute("SELECT count(*) FROM table_head").fetchone() == (3,)
