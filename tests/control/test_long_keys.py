"""Keys of any length: an index of PostgreSQL holds no text of more than a few kilobytes."""

import sqlite3

import pytest
from tests.support.older_database import VERSIONS

from seamark.control import CommitRequest, Control, CoveredKey, FailedKey, RunRecord

LONG = '{"url":"' + "".join(f"{number:x}" for number in range(200_000)) + '"}'
LONGER = LONG + " "  # differs only at its end
SHORT = '{"url":"short"}'


def committed(control, **changes):
    control.commit(CommitRequest(RunRecord("run", "step", "changes", 0.0), (), **changes))


@pytest.mark.scenario("X99")
def test_long_keys_fail_are_covered_and_recover_like_any_other(control_url):
    control = Control(control_url)
    failed = tuple(FailedKey("step", key, 1.0, "no", 1) for key in (LONG, LONGER, SHORT))
    committed(control, failed=failed)
    committed(control, failed=(FailedKey("step", LONG, 2.0, "no again", 2),))

    found = {entry.key: entry.attempts for entry in control.index.failed_keys("step")}
    assert found == {LONG: 2, LONGER: 1, SHORT: 1}

    committed(control, recovered=(("step", LONG),), covered=(CoveredKey("step", LONGER, 3.0, "{}"),))
    assert [entry.key for entry in control.index.failed_keys("step")] == [SHORT]
    assert [entry.key for entry in control.index.covered_keys("step")] == [LONGER]
    control.close()


@pytest.mark.scenario("X99")
def test_long_keys_of_an_older_database_are_found_again(tmp_path):
    """Only SQLite could hold them."""
    file = tmp_path / "control.db"
    with sqlite3.connect(file) as older:
        older.executescript(VERSIONS[1])
        older.execute("INSERT INTO seamark_schema VALUES (1)")
        insert = "INSERT INTO transform_meta VALUES ('step', ?, 1.0, false, 'no', 1, NULL, NULL)"
        older.executemany(insert, [(LONG,), (SHORT,)])
    older.close()
    control = Control(f"sqlite:///{file}")

    committed(control, recovered=(("step", LONG),))
    assert [entry.key for entry in control.index.failed_keys("step")] == [SHORT]
    control.close()
