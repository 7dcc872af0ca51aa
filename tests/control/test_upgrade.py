"""A control database that an older version made is brought up by the first who writes to it, and read before that."""

import threading

import pytest
from sqlalchemy import inspect, select, text
from tests.support.older_database import VERSIONS, make_version, plainly, version_on_disk

from seamark.control import Control
from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema
from seamark.control.versions import upgrade


@pytest.fixture(params=VERSIONS)
def older_url(request, control_url):
    """A control database as an older version left it, with a table in it."""
    return make_version(request.param, control_url)


def _shape(connection):
    looked_at = inspect(connection)
    return {
        table: (
            [(column["name"], column["nullable"]) for column in looked_at.get_columns(table)],
            looked_at.get_pk_constraint(table)["constrained_columns"],
            sorted(index["name"] for index in looked_at.get_indexes(table)),
        )
        for table in sorted(looked_at.get_table_names())
    }


def _stands(url):
    """The version and the tables that a database has on its disk, looked at without Seamark."""
    with plainly(url) as connection:
        return version_on_disk(url), set(inspect(connection).get_table_names())


@pytest.mark.scenario("T62")
def test_an_older_database_can_be_looked_at_and_stays_as_it_is(older_url):
    """The older Seamark goes on with it: it would refuse one that was brought up."""
    before, opened = _stands(older_url), Control(older_url)
    assert before[0] < SCHEMA_VERSION
    for _ in range(2):
        assert opened.index.head("posts").head_hash == "posts-0"
        assert opened.live.all() == []  # of which the older version knew nothing
        assert opened.views.all() == {}
        assert opened.database.version() == before[0]
    assert _stands(older_url) == before

    assert opened.leases.acquire("step:feed") is not None

    assert _stands(older_url) == (SCHEMA_VERSION, set(metadata.tables))
    assert opened.index.head("posts").head_hash == "posts-0"
    opened.close()


@pytest.mark.scenario("T62")
def test_somebody_who_looks_sees_what_is_brought_up_meanwhile(older_url):
    looks, writes = Control(older_url), Control(older_url)
    assert looks.leases.live() == []
    writes.leases.acquire("step:feed")
    assert [lease.name for lease in looks.leases.live()] == ["step:feed"]
    looks.close()
    writes.close()


def test_an_older_database_becomes_what_a_new_one_is(older_url, tmp_path):
    older = Control(older_url)
    older.leases.acquire("step:feed")
    older.close()
    opened, new = Control(older_url), Control(f"sqlite:///{tmp_path / 'new.db'}")

    with opened.database.read() as connection:
        found = _shape(connection)
        assert connection.execute(select(seamark_schema.c.version)).all() == [(SCHEMA_VERSION,)]
    with new.database.read() as connection:
        wanted = _shape(connection)
    assert set(found) == set(metadata.tables)
    assert {table: found[table][:2] for table in found} == {table: wanted[table][:2] for table in wanted}
    for table, (_, _, indexes) in wanted.items():
        own = [name for name in indexes if not name.startswith("sqlite_")]
        assert set(own) <= set(found[table][2]), table
    assert opened.index.head("posts").head_hash == "posts-0"
    opened.close()
    new.close()


def test_many_can_read_and_write_an_older_database_at_once(older_url):
    together, failures = threading.Barrier(6), []

    def open_one(number):
        together.wait()
        try:
            opened = Control(older_url)
            assert opened.index.head("posts").head_hash == "posts-0"
            if number % 2:
                opened.leases.acquire(f"step:{number}")
            opened.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_upgrade_that_fails_half_way_leaves_the_database_as_it_was(older_url, monkeypatch):
    def fail(connection):
        connection.execute(text("CREATE TABLE half_done (a INTEGER)"))
        raise RuntimeError("no further")

    monkeypatch.setitem(upgrade._STEPS, SCHEMA_VERSION, fail)
    with pytest.raises(RuntimeError, match="no further"):
        Control(older_url).leases.acquire("step:feed")
    monkeypatch.undo()

    opened = Control(older_url)
    opened.leases.acquire("step:feed")
    with opened.database.read() as connection:
        assert "half_done" not in inspect(connection).get_table_names()
        assert connection.execute(select(seamark_schema.c.version)).all() == [(SCHEMA_VERSION,)]
    opened.close()
