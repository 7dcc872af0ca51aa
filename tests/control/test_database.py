"""Opening the control database."""

import sqlite3
import subprocess
import sys
import threading

import pytest
from sqlalchemy import inspect, make_url, select, update

from seamark.control import Control
from seamark.control.schema import SCHEMA_VERSION, metadata, seamark_schema
from seamark.errors import ControlUnavailable, SchemaTooNew


def test_the_schema_is_made_once(control_url, commits):
    first = Control(control_url)
    first.commit(commits.request(commits.append("posts")))
    first.close()

    second = Control(control_url)

    with second.database.read() as connection:
        assert set(inspect(connection).get_table_names()) == set(metadata.tables)
        assert connection.execute(select(seamark_schema.c.version)).all() == [(SCHEMA_VERSION,)]
    assert second.index.head("posts") == commits.head("posts", 0)
    second.close()


def test_many_can_begin_to_write_to_an_empty_database_at_once(control_url):
    together = threading.Barrier(8)
    failures = []

    def write_first(number):
        together.wait()
        try:
            opened = Control(control_url)
            opened.leases.acquire(f"step:{number}")
            opened.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write_first, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    opened = Control(control_url)
    with opened.database.read() as connection:
        assert connection.execute(select(seamark_schema.c.version)).all() == [(SCHEMA_VERSION,)]
    assert len(opened.leases.live()) == 8
    opened.close()


def test_many_processes_can_begin_to_write_to_an_empty_database_at_once(control_url):
    program = (
        "import sys; from seamark.control import Control; print('ready', flush=True); sys.stdin.readline();"
        f"c = Control({control_url!r}); c.leases.acquire('step:feed'); c.close()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    openers = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(4)]
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        opener.stdin.write("go\n")
        opener.stdin.flush()
    assert [opener.communicate()[1] for opener in openers] == [""] * 4


def test_a_newer_schema_is_refused_and_left_as_it_is(control_url):
    made = Control(control_url)
    with made.database.write() as connection:
        connection.execute(update(seamark_schema).values(version=SCHEMA_VERSION + 1))
    made.close()

    with pytest.raises(SchemaTooNew) as refused:
        Control(control_url)

    text = str(refused.value)
    assert f"has schema version {SCHEMA_VERSION + 1}; this Seamark knows versions up to {SCHEMA_VERSION}" in text
    assert "Nothing was changed. Hint: install the Seamark that made it, or a newer one." in text
    assert "seamark@" not in text  # the password


def test_a_wrong_password_is_told_without_the_password(postgres_url):
    wrong = make_url(postgres_url).set(password="open-sesame").render_as_string(hide_password=False)
    with pytest.raises(ControlUnavailable, match="password authentication failed") as refused:
        Control(wrong)
    assert "open-sesame" not in str(refused.value)
    assert "open-sesame" not in str(refused.value.__cause__)


def test_a_server_that_is_not_there_is_told_without_the_password():
    with pytest.raises(ControlUnavailable, match="cannot be used") as refused:
        Control("postgresql://me:open-sesame@127.0.0.1:1/control")
    assert "postgresql+psycopg://me:***@127.0.0.1:1/control" in str(refused.value)
    assert "open-sesame" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["nonsense open-sesame", "postgresql://me:open-sesame@host:port/control", "mysql://me:open-sesame@host/control"],
)
def test_a_url_that_cannot_be_used_is_told_without_the_password(url):
    with pytest.raises(ControlUnavailable) as refused:
        Control(url)
    assert "open-sesame" not in str(refused.value)
    assert "postgresql://user@host/database" in refused.value.hint


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "control.db").write_text("a letter to my aunt, long enough to fill the header of a database" * 10)
    with pytest.raises(ControlUnavailable, match="file is not a database"):
        Control(f"sqlite:///{tmp_path / 'control.db'}")


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "occupied").write_text("a file where the folder should be")
    with pytest.raises(ControlUnavailable, match="cannot be used"):
        Control(f"sqlite:///{tmp_path / 'occupied' / 'control.db'}")


def test_sqlite_writes_ahead_and_safely(tmp_path):
    control = Control(f"sqlite:///{tmp_path / 'control.db'}")
    control.leases.acquire("step:feed")
    with control.database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    control.close()


def test_a_lock_that_is_never_given_is_told_in_our_words(tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.control.engine.database.LOCK_TIMEOUT_SECONDS", 0.05)
    control = Control(f"sqlite:///{tmp_path / 'control.db'}")
    other = sqlite3.connect(tmp_path / "control.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ControlUnavailable, match="database is locked"):
        control.leases.acquire("step:feed")
    other.execute("ROLLBACK")
    assert control.leases.acquire("step:feed") is not None
    other.close()
    control.close()
