"""A control database that nothing may be written to: all of it can be read, and writing is refused in our words."""

import json
import shutil
import sqlite3

import pytest
from sqlalchemy import create_engine, inspect
from tests.support.older_database import VERSIONS
from tests.support.readers import files_of, read_only, run_as_reader

from seamark.control import Control
from seamark.control.schema import SCHEMA_VERSION
from seamark.errors import ControlUnavailable

LOOK = """
import json, sys
from seamark.control import Control
from seamark.errors import SeamarkError

control = Control(f"sqlite:///{sys.argv[1]}")
for _ in range(2):
    heads = sorted(control.index.heads())
live, is_read_only = len(control.live.all()), control.database.is_read_only
try:
    control.leases.acquire("step:feed")
    refused = None
except SeamarkError as error:
    refused = str(error)
control.close()
print(json.dumps({"heads": heads, "live": live, "refused": refused, "read only": is_read_only}))
"""

REFUSED = "cannot be used: attempt to write a readonly database. Nothing was changed. Hint: the file is read-only"


def look(folder):
    with read_only(folder):
        before = files_of(folder)
        told = run_as_reader(LOOK, str(folder / "control.db"), cwd=folder)
        assert told.returncode == 0, told.stderr
        assert files_of(folder) == before
    return json.loads(told.stdout)


@pytest.fixture
def folder(tmp_path):
    """A folder for a database."""
    (place := tmp_path / "place with spaces, 100% & more").mkdir()
    return place


@pytest.fixture
def written(folder, commits):
    """The same with a database that has a table, and was closed in order."""
    control = Control(f"sqlite:///{folder / 'control.db'}")
    control.commit(commits.request(commits.append("posts")))
    control.close()
    return folder


@pytest.mark.scenario("T62")
def test_a_database_that_was_closed_is_read_and_not_written(written):
    assert sorted(path.name for path in written.iterdir()) == ["control.db"]
    told = look(written)
    assert (told["heads"], told["live"], told["read only"]) == (["posts"], 0, True)
    assert REFUSED in told["refused"]


@pytest.mark.scenario("T62")
def test_a_file_that_is_read_only_in_a_folder_that_is_not(written):
    (written / "control.db").chmod(0o444)
    told = run_as_reader(LOOK, str(written / "control.db"), cwd=written)
    found = json.loads(told.stdout)
    assert (found["heads"], found["read only"]) == (["posts"], True)
    assert REFUSED in found["refused"]


@pytest.mark.scenario("T62")
@pytest.mark.parametrize("index", [True, False], ids=["as it lay", "without the index of the changes"])
def test_changes_that_are_not_in_the_file_yet_are_read_too(written, tmp_path, commits, index):
    """A copy of a store that was killed, or is at work: its newest commits lie in a second file."""
    control = Control(f"sqlite:///{written / 'control.db'}")
    keeps_it_open = sqlite3.connect(written / "control.db")
    keeps_it_open.execute("SELECT * FROM table_head").fetchall()
    control.commit(commits.request(commits.append("clicks")))
    (copy := tmp_path / "copy").mkdir()
    for path in written.iterdir():
        if index or not path.name.endswith("-shm"):
            shutil.copy(path, copy)
    control.close()
    keeps_it_open.close()
    assert (copy / "control.db-wal").stat().st_size > 0

    assert look(copy)["heads"] == ["clicks", "posts"]


@pytest.mark.scenario("T62")
def test_an_older_database_is_read_as_if_it_were_brought_up(folder):
    older = sqlite3.connect(folder / "control.db")
    older.execute("PRAGMA journal_mode=WAL")
    older.executescript(VERSIONS[1])
    older.execute("INSERT INTO seamark_schema VALUES (1)")
    older.execute("INSERT INTO table_head VALUES ('posts', 'd', 'root', 'h', 0, 0, 0, 'h', NULL, NULL)")
    older.commit()
    older.close()
    told = look(folder)
    assert (told["heads"], told["live"]) == (["posts"], 0)
    assert REFUSED in told["refused"]
    assert SCHEMA_VERSION > 1


@pytest.mark.scenario("T62")
@pytest.mark.parametrize("versions", [[], [1, 2]], ids=["none", "two"])
def test_a_database_that_does_not_say_its_version_is_refused_as_if_it_could_be_written(folder, versions):
    with sqlite3.connect(folder / "control.db") as damaged:
        damaged.execute("CREATE TABLE seamark_schema (version INTEGER)")
        damaged.executemany("INSERT INTO seamark_schema VALUES (?)", [(version,) for version in versions])
    damaged.close()
    shown = ", ".join(map(str, versions)) or "none"
    with read_only(folder):
        told = run_as_reader(LOOK, str(folder / "control.db"), cwd=folder)
    assert "seamark.errors.ControlUnavailable: the control database sqlite:///" in told.stderr
    assert (
        f"does not say which schema it has: versions {shown}. Nothing was changed. Hint: restore it from a copy"
        in told.stderr
    )


# --- nothing there yet ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T62")
def test_opening_and_reading_makes_no_file(tmp_path):
    control = Control(f"sqlite:///{tmp_path / 'not' / 'there' / 'control.db'}")
    assert (control.index.heads(), control.live.all(), control.leases.live()) == ({}, [], [])
    control.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.scenario("T62")
def test_opening_and_reading_makes_no_table(postgres_url):
    control = Control(postgres_url)
    assert (control.index.heads(), control.leases.live(), control.index.runs()) == ({}, [], [])
    engine = create_engine(postgres_url)
    assert inspect(engine).get_table_names() == []
    engine.dispose()
    control.close()


@pytest.mark.scenario("T62")
def test_what_somebody_else_writes_first_is_seen(control_url, commits):
    looks, writes = Control(control_url), Control(control_url)
    assert looks.index.heads() == {}
    writes.commit(commits.request(commits.append("posts")))
    assert list(looks.index.heads()) == ["posts"]
    looks.close()
    writes.close()


@pytest.mark.scenario("T62")
def test_a_folder_that_may_not_be_written_is_told_by_the_first_write(tmp_path):
    (place := tmp_path / "place").mkdir()
    with read_only(place):
        told = run_as_reader(LOOK, str(place / "control.db"), cwd=place)
    found = json.loads(told.stdout)
    assert (found["heads"], found["read only"]) == ([], False)
    assert "unable to open database file" in found["refused"]
    (tmp_path / "occupied").write_text("a file where the folder should be")
    with pytest.raises(ControlUnavailable, match=r"its folder .* cannot be made"):
        Control(f"sqlite:///{tmp_path / 'occupied' / 'control.db'}")
