"""Diffs on the command line: what they write of a visit, where it came from, and visits that fail."""

import shutil
from pathlib import Path

import pytest
from tests.support.cli import TOML, VISITS, append, surroundings_kept

import seamark
import seamark.cli


@pytest.fixture(scope="session")
def visits_as_they_ran(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    """Two runs of a diff; not to be touched: `visits` is a copy."""
    folder = tmp_path_factory.mktemp("cli") / "visits"
    folder.mkdir()
    (folder / "seamark.toml").write_text(TOML)
    (folder / "pipeline.py").write_text(VISITS)
    append(folder, "joined_visits", (42, 2, "Shop"), (43, 1, "News"))
    with surroundings_kept():
        assert seamark.cli.run(["run", "--json", "--project", str(folder)]) == 0
    append(folder, "joined_conversions", (42, 3, 20))
    with surroundings_kept():
        assert seamark.cli.run(["run", "--json", "--project", str(folder)]) == 0
    return folder


@pytest.fixture
def visits(visits_as_they_ran: Path, tmp_path: Path) -> Path:
    """Visits 42 and 43, the first of which was converted."""
    return Path(shutil.copytree(visits_as_they_ran, tmp_path / "visits"))


def test_versions_of_a_visit_read_like_its_life(call, visits):
    told = call("show", "visits", "--key", "42", "--versions", folder=visits)

    assert (told.code, told.err) == (0, "")
    lines = [line.rstrip() for line in told.out.splitlines()]
    assert lines[:2] == ["visits  VisitID=42", "-2 +1002 -1002 +2003 -3 +2 = +2003 -3"]
    assert [line.split()[:6] for line in lines[4:10]] == [
        ["0", "joined_visits", "-1", "0", "2", "2"],
        ["1", "joined_visits", "+1", "1", "2", "1002"],
        ["4", "joined_conversions", "-1", "1", "2", "1002"],
        ["5", "joined_conversions", "+1", "2", "3", "2003"],
        ["6", "joined_conversions", "-1", "0", "3", "3"],
        ["7", "joined_conversions", "+1", "0", "2", "2"],
    ]


def test_a_program_gets_the_same_versions(call, visits):
    document = call("show", "visits", "--key", "VisitID=42", "--versions", "--json", folder=visits).document

    assert document["versions"] == ["-2", "+1002", "-1002", "+2003", "-3", "+2"]
    assert document["standing"] == ["+2003", "-3"]
    assert [record["values"] for record in document["records"][:2]] == [
        {"title": None, "revenue": None},
        {"title": "Shop", "revenue": None},
    ]


def test_a_visit_that_nobody_knows_has_no_versions(call, visits):
    told = call("show", "visits", "--key", "99", "--versions", folder=visits)

    assert (told.code, told.out) == (0, "visits  VisitID=99\nno records: the diff does not know this visit\n")


def test_one_row_is_shown_by_its_key(call, visits):
    document = call("show", "visits", "--key", "42", "--json", folder=visits).document

    assert document["table"] == "visits_state"
    assert document["rows"] == [{"VisitID": 42, "y_VisitVersion": 3, "SlowVersion": 2, "title": "Shop", "revenue": 20}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["visits", "--versions"], ["--versions needs a visit", "--key 42 --versions"]),
        (["joined_visits", "--key", "42", "--versions"], ["there is no diff 'joined_visits'", "diffs are visits"]),
        (["visits", "--key", "first", "--versions"], ["'first' is no value of the column 'VisitID'"]),
        (["visits", "--key", "visit=42", "--versions"], ["no key column 'visit'"]),
        (["joined_visits", "--key", "42"], ["append-only", "leave --key out"]),
        (["visits", "--key", "42", "--as-of", "1"], ["--as-of and --key do not go together"]),
    ],
)
def test_what_is_asked_wrongly_is_told(call, visits, words, told):
    answer = call("show", *words, folder=visits)

    assert (answer.code, answer.out) == (2, "")
    assert [text for text in told if text not in answer.err] == []


def test_why_leads_from_the_state_to_the_records_of_the_logs(call, visits):
    document = call("why", "visits", "VisitID=42", "--json", folder=visits).document

    row = document["row"]
    assert (row["table"], row["step"], row["mode"]) == ("visits_state", "visits", "changes")
    assert [(behind["table"], behind["offset"], behind["values"]) for behind in row["inputs"]] == [
        ("joined_visits", 0, {"VisitID": 42, "y_VisitVersion": 2, "title": "Shop"}),
        ("joined_conversions", 0, {"VisitID": 42, "y_VisitVersion": 3, "revenue": 20}),
    ]


def test_plan_run_status_and_retry_know_diffs(call, visits):
    append(visits, "joined_visits", (44, 1000, "Too far"), (45, 1, "Fine"))

    (planned,) = call("plan", "--json", folder=visits).document["steps"]
    assert (planned["step"], planned["mode"], planned["reason"]) == (
        "visits",
        "changes",
        "records wait: 2 in 'joined_visits'",
    )
    ran = call("run", folder=visits)
    assert ran.code == 1
    assert "y_VisitVersion is F=1000" in ran.out + ran.err
    (state,) = call("status", "--json", folder=visits).document["steps"]
    assert (state["name"], state["failed_keys"], state["pending_records"]) == ("visits", 1, 0)
    assert call("retry", "visits", folder=visits).code == 1
    assert call("retry", "visits", "--give-up", "--json", folder=visits).document["given_up"] == 1
    assert call("retry", "visits", "--give-up", folder=visits).out == "Diff 'visits' has no failed visits.\n"
    assert call("run", "--json", folder=visits).code == 0


@pytest.mark.scenario("D13")
def test_a_visit_is_given_up_by_name(call, visits):
    append(visits, "joined_visits", (44, 1000, "Too far"), (45, 1001, "Too far as well"))
    call("run", folder=visits)

    unknown = call("retry", "visits", "--give-up", "--key", "46", folder=visits)
    assert (unknown.code, unknown.err.splitlines()[0]) == (
        2,
        "Error: step 'visits' has no failed key 46. Nothing was done.",
    )
    given_up = call("retry", "visits", "--give-up", "--key", "VisitID=44", folder=visits)
    assert given_up.out == "✓ visits has given up 1 visit: what failed is left out, for good.\n"
    retried = call("retry", "visits", "--key", "45", "--json", folder=visits)
    assert (retried.code, [failure["key"] for failure in retried.document["failures"]]) == (1, [{"VisitID": 45}])


def test_a_diff_is_not_run_in_part_nor_begun_again(call, visits):
    filtered = call("run", "--filter", "VisitID=42", folder=visits)
    reset = call("reset", "visits", "--yes", folder=visits)

    assert (filtered.code, reset.code) == (1, 1)
    assert "diff 'visits' cannot be run with filters or a limit" in filtered.err
    assert "the offsets of diff 'visits' cannot be moved by hand" in reset.err


def test_verify_makes_the_records_again(call, visits):
    document = call("verify", "visits_visit_log_slow", "--replay", "--json", folder=visits).document

    assert (document["ok"], document["replayed"], document["findings"]) == (True, 2, [])
