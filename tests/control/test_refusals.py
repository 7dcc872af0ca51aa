"""What a PostgreSQL server refuses to somebody who uses it as a control database is told in our words."""

import pytest
from sqlalchemy import make_url, select, text
from tests.support.older_database import plain_engine, reader_of

from seamark.control import Control
from seamark.control.schema import lease
from seamark.errors import ControlUnavailable


@pytest.fixture
def made(postgres_url):
    """A control database with its tables."""
    control = Control(postgres_url)
    control.leases.acquire("step:feed")
    control.close()
    return postgres_url


def test_a_user_without_the_right_to_write(made):
    control = Control(reader_of(made))
    assert control.leases.holder("step:feed") is not None
    with pytest.raises(ControlUnavailable, match=r"permission denied for table lease\. Nothing .* Hint: give the user"):
        control.leases.acquire("step:other")
    with (
        pytest.raises(ControlUnavailable, match="permission denied for table lease"),
        control.database.write() as connection,
    ):
        connection.execute(lease.delete())
    control.close()


def test_a_user_without_the_right_to_read(made):
    may_select = reader_of(made)
    looks, engine = Control(may_select), plain_engine(made)
    with engine.begin() as connection:
        connection.execute(text(f"REVOKE ALL ON lease FROM {make_url(may_select).username}"))
    with pytest.raises(ControlUnavailable, match="permission denied for table lease"):
        looks.leases.live()
    looks.close()
    engine.dispose()


def test_a_server_that_takes_no_writes(made):
    read_only = make_url(made).update_query_dict({"options": "-c default_transaction_read_only=on"})
    control = Control(read_only.render_as_string(hide_password=False))
    assert control.leases.holder("step:feed") is not None
    with pytest.raises(
        ControlUnavailable, match=r"in a read-only transaction\. .* Hint: the server is a read-only copy"
    ):
        control.leases.acquire("step:other")
    control.close()


@pytest.mark.parametrize("how", ["read", "write"])
def test_a_transaction_that_was_idle_for_too_long(made, how):
    """A laptop that was closed, a process that was stopped: the server has given up waiting for the next statement."""
    control, engine = Control(made, lease_seconds=0.4), plain_engine(made)
    with pytest.raises(ControlUnavailable, match=r"idle-in-transaction timeout.* Hint: this machine was too busy"):
        _ask_twice(getattr(control.database, how), engine)
    assert control.leases.acquire("step:other") is not None  # the next one has a connection of its own
    control.close()
    engine.dispose()


def _ask_twice(begin, engine):
    """Ask, wait until the server has ended the connection, and ask again."""
    there = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with begin() as connection, engine.connect() as watching:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        while watching.execute(there, {"pid": pid}).scalar_one():
            watching.rollback()
        connection.execute(select(lease)).all()


def test_what_is_asked_wrongly_is_not_blamed_on_the_server(made):
    control = Control(made)
    with pytest.raises(Exception, match="no_such_column") as refused, control.database.read() as connection:
        connection.execute(text("SELECT no_such_column FROM lease"))
    assert not isinstance(refused.value, ControlUnavailable)
    control.close()
