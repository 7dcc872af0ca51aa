"""Several projects in one PostgreSQL database, each in a schema of its own."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, inspect, make_url, text

import seamark as sm
from seamark.control import Control
from seamark.errors import ConfigError, ControlUnavailable


@pytest.fixture
def server(postgres_url):
    """The database itself, for a look at it from outside."""
    engine = create_engine(postgres_url)
    yield engine
    engine.dispose()


def tables_in(server, schema: str) -> set[str]:
    return set(inspect(server).get_table_names(schema=schema))


@pytest.fixture
def open_project(postgres_url, tmp_path, no_spark):
    """Opens the project of a name: its own schema and warehouse, the same database, equal table names."""
    opened = []

    def open_it(name: str) -> sm.DataStore:
        opened.append(sm.DataStore(postgres_url, tmp_path / name, control_schema=name, spark=no_spark))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def write_first(control: Control) -> None:
    """The tables are made by the first write."""
    control.leases.acquire("step:first")
    control.close()


@pytest.mark.scenario("C51")
def test_two_projects_in_one_database_do_not_meet(open_project, server):
    one, other = open_project("one"), open_project("Other_2")
    for store, urls in ((one, ["/a"]), (other, ["/b", "/c"])):
        store.table("clicks", "url string").append(pa.table({"url": urls}))
    assert (one.table("clicks").head.offset, other.table("clicks").head.offset) == (0, 1)
    assert one.table("clicks").head.block_hash != other.table("clicks").head.block_hash
    assert one.verify().ok
    assert other.verify().ok
    assert tables_in(server, "one") == tables_in(server, "Other_2") >= {"table_head", "lease", "seamark_schema"}
    assert tables_in(server, "public") == set()

    again = open_project("one")  # as another process would open it
    assert again.table_names() == ["clicks"]
    assert again.table("clicks").head == one.table("clicks").head


@pytest.mark.scenario("C51")
def test_a_lease_of_one_project_is_free_in_another(open_project):
    one, other = open_project("one"), open_project("other")
    with one.control.leases.held("step:totals", wait=0):
        with other.control.leases.held("step:totals", wait=0):
            assert [held.name for held in other.control.leases.live()] == ["step:totals"]
        assert other.control.leases.live() == []
        assert [held.name for held in one.control.leases.live()] == ["step:totals"]


@pytest.mark.scenario("C51")
def test_a_project_that_makes_its_tables_keeps_no_other_one_waiting(postgres_url, server):
    """One that hangs while it opens its schema holds an advisory lock of that schema, and of no other."""
    with server.connect() as hanging:
        hanging.execute(text("SELECT pg_advisory_xact_lock(7326170, hashtext('one'))"))
        write_first(Control(postgres_url, schema="other", lease_seconds=1))
        with pytest.raises(ControlUnavailable, match="lock timeout"):
            write_first(Control(postgres_url, schema="one", lease_seconds=1))


@pytest.mark.scenario("C51")
def test_many_can_open_a_schema_that_is_not_there_at_once(postgres_url, server):
    together, failures = threading.Barrier(6), []

    def open_one() -> None:
        together.wait()
        try:
            write_first(Control(postgres_url, schema="one"))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert "table_head" in tables_in(server, "one")


@pytest.mark.scenario("C51")
def test_a_project_does_not_see_the_tables_of_one_without_a_schema(postgres_url, server, tmp_path, no_spark):
    with sm.DataStore(postgres_url, tmp_path / "plain", spark=no_spark) as plain:
        plain.table("clicks", "url string").append(pa.table({"url": ["/a"]}))
        with sm.DataStore(postgres_url, tmp_path / "own", control_schema="own", spark=no_spark) as own:
            assert own.table_names() == []
            own.table("visits", "id long").append(pa.table({"id": [1]}))
        assert plain.table_names() == ["clicks"]
    assert "table_head" in tables_in(server, "public") & tables_in(server, "own")


@pytest.mark.scenario("C51")
def test_the_options_of_a_url_name_a_schema_too(postgres_url, server, tmp_path, no_spark):
    url = make_url(postgres_url).update_query_dict({"options": "-c search_path=mine -c work_mem=8MB"})
    with sm.DataStore(url.render_as_string(hide_password=False), tmp_path, spark=no_spark) as store:
        store.table("clicks", "url string").append(pa.table({"url": ["/a"]}))
        with store.control.database.read() as connection:
            asked = {
                name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("work_mem", "lock_timeout")
            }
    assert asked == {"work_mem": "8MB", "lock_timeout": "15s"}  # both what the URL says and what a commit needs
    assert "table_head" in tables_in(server, "mine")
    assert tables_in(server, "public") == set()


@pytest.mark.scenario("C51")
def test_the_schema_is_read_from_the_project_and_rebuilt_in(postgres_url, server, tmp_path, no_spark, monkeypatch):
    (tmp_path / "seamark.toml").write_text(f'control = "{postgres_url}"\ncontrol_schema = "of_the_file"\n')
    monkeypatch.chdir(tmp_path)
    with sm.DataStore(spark=no_spark) as store:
        store.table("clicks", "url string").append(pa.table({"url": ["/a"]}))
        head = store.table("clicks").head
    monkeypatch.setenv("SEAMARK_CONTROL_SCHEMA", "of_the_shell")
    assert sm.DataStore.rebuild().tables == 1
    with sm.DataStore(spark=no_spark) as store:
        assert store.table("clicks").head == head
    assert tables_in(server, "of_the_file") == tables_in(server, "of_the_shell") != set()


@pytest.mark.scenario("C51")
def test_errors_name_the_schema_and_not_the_password(postgres_url, server, open_project, tmp_path, no_spark):
    with open_project("one") as store:
        store.table("clicks", "url string").append(pa.table({"url": ["/a"]}))
    with pytest.raises(sm.SeamarkError) as caught:
        sm.DataStore(postgres_url, tmp_path / "one", control_schema="other", spark=no_spark)
    assert "schema 'other'" in str(caught.value)
    assert make_url(postgres_url).password + "@" not in str(caught.value)


@pytest.mark.scenario("C51")
def test_a_user_who_may_not_make_the_schema_is_told(postgres_url, server):
    with server.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS humble"))
        connection.execute(text("CREATE ROLE humble LOGIN PASSWORD 'pw'"))
    humble = make_url(postgres_url).set(username="humble", password="pw").render_as_string(hide_password=False)
    with pytest.raises(ControlUnavailable, match=r"schema 'one' cannot be used: permission denied.*give the user"):
        write_first(Control(humble, schema="one"))
    with server.begin() as connection:
        connection.execute(text("CREATE SCHEMA one AUTHORIZATION humble"))
    write_first(Control(humble, schema="one"))
    with server.begin() as connection:
        connection.execute(text("DROP SCHEMA one CASCADE"))
        connection.execute(text("DROP ROLE humble"))


@pytest.mark.scenario("C51")
def test_sqlite_has_no_schemas(tmp_path):
    with pytest.raises(ConfigError, match=r"control_schema is 'one', and the control database sqlite:///.* is SQLite"):
        sm.DataStore(f"sqlite:///{tmp_path / 'control.db'}", tmp_path / "warehouse", control_schema="one")
    assert not Path(tmp_path / "control.db").exists()


@pytest.mark.scenario("C51")
@pytest.mark.parametrize("name", ["two words", "1st", 'a"b', "pg_own", "a" * 64, "a,b", "ż"])
def test_a_name_that_no_schema_can_have_is_refused(name):
    with pytest.raises(ConfigError, match=r"which cannot be a schema's name\. Nothing was opened"):
        Control("postgresql://me:pw@127.0.0.1:1/db", schema=name)
