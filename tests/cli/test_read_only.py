"""Verbs that only look: on a project that may be read and not written, they answer, and leave every file as it was."""

import json

import pytest
from tests.support.readers import files_of, read_only, run_as_reader

LOOKS = [
    "ls", "status", "plan", "log posts", "log process_posts --runs", "show posts", "failures", "heads", "verify --rows",
    "doctor",
]  # fmt: skip

PROGRAM = """
import contextlib, io, json, sys
from seamark.cli import run
answers = {}
for verb in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run([*verb.split(), "--json"])
    answers[verb] = (code, out.getvalue(), err.getvalue())
print(json.dumps(answers))
"""


@pytest.fixture
def lagging(blog):
    """The blog, with a table whose `refs/head` is a block behind, as after a crash."""
    chain = blog / "warehouse" / "posts"
    head = (chain / "refs" / "head").read_text()
    behind = next(name for name in sorted(path.name for path in (chain / "blocks").iterdir()) if name != head)
    (chain / "refs" / "head").write_text(behind)
    return blog


@pytest.mark.scenario("T62")
def test_verbs_that_look_work_in_a_folder_that_is_read_only(lagging):
    before = files_of(lagging)
    with read_only(lagging):
        told = run_as_reader(PROGRAM, *LOOKS, cwd=lagging)

    assert told.returncode == 0, told.stderr
    answers = json.loads(told.stdout)
    assert {verb: (code, err) for verb, (code, _, err) in answers.items() if verb != "doctor"} == {
        verb: (0, "") for verb in LOOKS if verb != "doctor"
    }
    assert files_of(lagging) == before
    checks = {check["name"]: check for check in json.loads(answers["doctor"][1])["checks"]}
    assert checks["warehouse"]["state"] == "bad"
    assert "cannot be written" in checks["warehouse"]["found"]
    assert checks["head of posts"]["state"] == "warn"
    assert "the next program that may write" in checks["head of posts"]["advice"]
