"""`plan`: what a run would do."""

import subprocess
import sys

import pytest

from seamark import DataStore

SECOND_STEP = """

shouts = ds.table("shouts", "post_id long, line string", key="post_id")


@ds.transform(inputs=[feed], outputs=[shouts])
def shout(feed):
    return feed.selectExpr("post_id", "upper(line) AS line")
"""


def all_that_stands(folder):
    """Every file of the warehouse, and what the control database knows of runs, positions and blocks."""
    files = sorted(str(path) for path in (folder / "warehouse").rglob("*"))
    with DataStore(f"sqlite:///{folder / 'seamark.db'}", folder / "warehouse") as store:
        return files, store.heads(), store.control.index.runs(), store.control.index.positions()


@pytest.mark.scenario("C17")
def test_the_plan_tells_what_the_run_after_it_does_and_changes_nothing(call, blog, write):
    write(blog, "posts", (2, 200, "hi!"), (4, 200, "new"))
    before = all_that_stands(blog)

    told = call("plan", folder=blog)

    assert told.code == 0
    assert "process_posts  changes: records wait: 3 in 'posts'" in told.out
    assert "2 keys in 1 batch → feed" in told.out
    assert "at most" not in told.out
    assert ["posts", "3", "2", "5", "its", "own", "post_id"] in [line.split() for line in told.out.splitlines()]
    assert "reverse join to posts by user_id = id" in told.out
    (planned,) = call("plan", "--json").document["steps"]
    assert all_that_stands(blog) == before

    (ran,) = call("run", "--json").document["steps"]
    for field in ("step", "mode", "keys", "batches"):
        assert ran[field] == planned[field]
    assert ran["rows_in"] == planned["pending_records"] == 3


@pytest.mark.scenario("C17")
@pytest.mark.scenario("C45")
def test_changes_of_a_reference_are_counted_where_that_is_no_work_and_estimated_elsewhere(call, blog, write):
    write(blog, "profiles", (100, "Alicia"))

    told = call("plan", "process_posts", folder=blog)
    (planned,) = call("plan", "--json").document["steps"]

    assert "\n  2 keys in 1 batch" in told.out  # the posts of profile 100: so few rows that they can be looked through
    assert (planned["keys"], planned["keys_are_exact"], planned["keys_are_estimated"]) == (2, True, False)
    assert [(entry["table"], entry["pending_records"]) for entry in planned["inputs"]] == [
        ("posts", 0),
        ("profiles", 2),
    ]

    assert call("fold", "posts").code == 0  # now Spark would have to look them up
    told = call("plan")
    (planned,) = call("plan", "--json").document["steps"]
    assert "\n  about 2 keys (an estimate) in 1 batch" in told.out  # one value, and three posts for two profiles
    assert (planned["keys"], planned["keys_are_exact"], planned["keys_are_estimated"]) == (2, False, True)


@pytest.mark.scenario("C45")
def test_an_estimate_is_not_the_whole_table(call, blog, write):
    write(blog, "posts", *[(key, 100 + key, "many") for key in range(10, 510)])
    write(blog, "profiles", *[(100 + key, f"user {key}") for key in range(10, 510)])
    assert call("run", "--json", folder=blog).code == 0
    assert call("fold", "posts").code == 0
    write(blog, "profiles", (117, "Zoe"))

    (planned,) = call("plan", "--json").document["steps"]

    assert (planned["keys"], planned["keys_are_estimated"]) == (1, True)
    (ran,) = call("run", "--json").document["steps"]
    assert ran["keys"] == 1


@pytest.mark.scenario("C17")
def test_a_settled_project_and_steps_that_follow_others(call, blog, write):
    told = call("plan", folder=blog)
    assert "process_posts  settled: nothing new" in told.out
    assert told.out.endswith("A run would do nothing.\n")

    file = blog / "pipeline.py"
    file.write_text(file.read_text() + SECOND_STEP)
    assert "shout  all keys: first run" in call("plan").out
    assert call("run").code == 0

    write(blog, "posts", (1, 100, "hello!"))
    told = call("plan")
    assert "shout  settled: nothing new\n  and what process_posts will have written by then" in told.out
    assert call("plan", "--json").document["steps"][1]["upstream"] == ["process_posts"]
    alone = call("plan", "shout", "--json").document["steps"]
    assert [(step["step"], step["upstream"]) for step in alone] == [("shout", [])]


@pytest.mark.scenario("C17")
def test_a_changed_definition_is_told_by_the_plan(call, blog):
    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))

    told = call("plan", folder=blog)

    assert told.code == 1
    assert "process_posts  refused: the definition of step 'process_posts' is not the one" in told.out
    assert "' says '" in told.out


_WITHOUT_SPARK = """
import sys
from seamark.cli import run
from seamark.spark import spark_log
code = run(sys.argv[1:])
assert spark_log() is None, "Spark was started"
sys.exit(code)
"""


@pytest.mark.scenario("C17")
@pytest.mark.scenario("C20")
@pytest.mark.parametrize(
    "verb", ["plan", "run", "status", "status --prometheus", "log process_posts", "reset process_posts --yes"]
)
def test_none_of_these_starts_spark(blog, verb):
    told = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK, *verb.split()], cwd=blog, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_project_without_steps_says_so(call, empty_project):
    for verb in ("plan", "run"):
        told = call(verb, folder=empty_project)
        assert (told.code, told.out) == (0, "No steps yet: declare one in the pipeline with @ds.transform(…).\n")
