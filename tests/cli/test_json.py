"""Each verb's JSON has the shape that docs/json.md shows."""

import os
import sqlite3

import pytest
from tests.support.json_page import assert_same_shape, shapes

from seamark import DataStore
from seamark.control import RunRecord


@pytest.fixture
def busy_project(project):
    """The project with an orphan, a run that failed and a damaged block, so that every list has something in it."""
    with DataStore(f"sqlite:///{project / 'seamark.db'}", project / "warehouse") as store:
        store.control.record_run(RunRecord("r", "posts", "upsert", 2e9, None, outcome="failed", error="no"))
        blocks = project / "warehouse" / "clicks" / "blocks"
        (blocks / store.control.index.blocks("clicks")[1].hash).write_bytes(b"damaged")
        orphan = project / "warehouse" / "posts" / "data" / ("f1620" + "0" * 64)
        orphan.write_bytes(b"nobody's")
        os.utime(orphan, (1_600_000_000, 1_600_000_000))
        with store.control.leases.held("step:x"), store.control.staging.run("run-7"):
            yield project


CALLS = {
    "init": (["init", "new"], 0),
    "ls": (["ls"], 0),
    "status": (["status"], 0),
    "log": (["log", "feed"], 0),
    "log (damaged)": (["log", "clicks"], 0),
    "log (never written)": (["log", "profiles"], 0),
    "show": (["show", "profiles"], 0),
    "verify": (["verify"], 1),
    "verify (clean)": (["verify", "posts"], 0),
    "fold": (["fold", "feed", "profiles"], 0),
    "gc": (["gc", "--dry-run"], 0),
    "heads": (["heads"], 0),
    "doctor": (["doctor"], 0),
    "doctor --rebuild": (["doctor", "--rebuild", "--yes"], 0),
}


@pytest.mark.scenario("C31")
@pytest.mark.parametrize("name", CALLS)
def test_a_success_has_the_documented_shape(call, project, busy_project, name, request):
    if name == "doctor --rebuild":  # a damaged chain cannot be read back, nor is it done while somebody writes
        folder = busy_project / "warehouse" / "clicks"
        folder.rename(busy_project / "warehouse" / ".aside")
        with sqlite3.connect(busy_project / "seamark.db") as database:
            database.execute("DELETE FROM staged")
    arguments, code = CALLS[name]
    told = call(*arguments, "--json", folder=busy_project)
    assert told.code == code, told.err
    assert_same_shape(name.partition(" (")[0], told.document)


@pytest.mark.scenario("C31")
def test_a_block_and_rows_have_the_documented_shape(call, project, spark):
    with DataStore(f"sqlite:///{project / 'seamark.db'}", project / "warehouse") as store:
        blocks = [(name, block.hash) for name in ("posts", "feed") for block in store.control.index.blocks(name)]
    for table, block in blocks:
        assert_same_shape("show --block", call("show", table, "--block", block, "--json", folder=project).document)
    assert_same_shape("show", call("show", "posts", "--json").document)
    assert_same_shape("show", call("show", "clicks", "--json").document)
    assert_same_shape("fold", call("fold", "--json").document)


STEP_CALLS = [
    ("ls", ["ls"], 0),
    ("plan", ["plan"], 0),
    ("status", ["status"], 0),
    ("run", ["run"], 1),
    ("log STEP", ["log", "process_posts"], 0),
    ("failures", ["failures"], 0),
    ("status", ["status"], 0),
    ("plan", ["plan"], 0),
    ("retry", ["retry", "process_posts"], 1),
    ("failures", ["failures", "process_posts"], 0),
    ("retry --give-up", ["retry", "process_posts", "--give-up"], 0),
    ("retry", ["retry", "process_posts"], 0),
    ("why", ["why", "feed", "post_id=2"], 0),
    ("verify", ["verify", "--replay"], 0),
    ("check", ["check", "views.sql", "--no-analysis"], 1),
    ("reset", ["reset", "process_posts", "--yes"], 0),
    ("status", ["status"], 0),
]


@pytest.mark.scenario("C31")
def test_the_verbs_of_steps_have_the_documented_shapes(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (2, 200, "hi!"))
    (blog / "views.sql").write_text("CREATE MATERIALIZED VIEW v AS\nSELECT post_id, nope FROM posts;")
    for title, words, code in STEP_CALLS:
        told = call(*words, "--json", folder=blog)
        assert told.code == code, told.err
        assert_same_shape(title, told.document)

    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))
    refused = call("run", "--json")
    assert refused.code == 1
    assert_same_shape("run", refused.document)
    assert_same_shape("plan", call("plan", "--json").document)


FAILURES = [
    (["plan", "nope"], 2),
    (["failures", "nope"], 2),
    (["run", "nope"], 2),
    (["retry", "nope"], 2),
    (["reset", "nope"], 2),
    (["why", "psots", "post_id=1"], 2),
    (["why", "posts", "post_id=99"], 1),
    (["status", "--watch"], 2),
    (["init", "."], 2),
    (["ls", "extra"], 2),
    (["status", "--nope"], 2),
    (["log", "psots"], 2),
    (["log"], 2),
    (["show", "psots"], 2),
    (["show", "posts", "--block", "zz"], 2),
    (["verify", "psots"], 2),
    (["fold", "psots"], 2),
    (["gc", "--grace", "x"], 2),
    (["doctor", "--rebuild"], 2),
    (["check"], 2),
    (["check", "nope.sql"], 1),
    (["nope"], 2),
]


@pytest.mark.scenario("C31")
@pytest.mark.parametrize(("arguments", "code"), FAILURES, ids=lambda value: str(value))
def test_a_failure_has_the_documented_shape(call, project, spark, arguments, code):
    for words in ([*arguments, "--json"], ["--json", *arguments]):
        told = call(*words, folder=project)
        assert told.code == code
        assert_same_shape("Errors", told.document)


@pytest.mark.scenario("C31")
@pytest.mark.parametrize("verb", ["ls", "status", "log posts", "show posts", "verify", "fold", "gc", "plan", "run"])
def test_a_failure_of_the_project_has_the_documented_shape(call, project, verb):
    (project / "seamark.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    told = call(*verb.split(), "--json", folder=project)
    assert told.code == 1
    assert_same_shape("Errors", told.document)
    assert told.error["type"] == "ControlUnavailable"


@pytest.mark.scenario("C31")
def test_every_verb_is_documented(call, tmp_path):
    verbs = call("--json", folder=tmp_path).document["verbs"]
    assert set(verbs) <= set(shapes())
