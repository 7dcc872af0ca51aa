"""What a run shows on a terminal while it lasts, and that starting Spark is nobody's work."""

import json
import re
import subprocess
import sys

import pytest

from seamark.cli.progress import RunProgress
from seamark.sinks.report import SinkReport
from seamark.spark.starting import looking_on, seconds_spent, starting
from seamark.steps.running.report import StepReport

SECOND = """

shouts = ds.table("shouts", "post_id long, line string", key="post_id")


@ds.transform(inputs=[feed], outputs=[shouts])
def shout(feed):
    return feed.selectExpr("post_id", "upper(line) AS line")
"""

MEASURED = """
import json, sys, time
from seamark.cli import run
from seamark.spark.starting import looking_on

moments = []
with looking_on(lambda begins: moments.append(time.monotonic())):
    code = run(["run", "--json"])
print(json.dumps({"spark": moments[1] - moments[0]}), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.scenario("C48")
def test_progress_says_what_starts_and_what_is_at_work(blog, write, on_a_terminal):
    file = blog / "pipeline.py"
    file.write_text(file.read_text() + SECOND)
    write(blog, "posts", (1, 100, "one"), (4, 100, "four"))

    told = on_a_terminal("run", folder=blog)

    assert told.code == 0, told.err
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.err)
    places = [shown.find(text) for text in ("Starting Spark", "process_posts (1/2)", "shout (2/2)")]
    assert -1 not in places
    assert places[0] < places[2]
    assert "process_posts (1/2): batch 1 of 1" in shown
    assert "shout (2/2): batch 1 of 1" in shown
    assert "\x1b" not in told.out


@pytest.mark.long
@pytest.mark.scenario("C48")
def test_a_steps_seconds_do_not_hold_the_start_of_spark(blog, write, call):
    write(blog, "posts", (1, 100, "one"))
    told = subprocess.run([sys.executable, "-c", MEASURED], cwd=blog, capture_output=True, text=True, check=True)
    document, spark = json.loads(told.stdout), json.loads(told.stderr.splitlines()[-1])["spark"]

    (step,) = document["steps"]
    assert spark > 0.5
    assert step["seconds"] <= document["seconds"] - spark + 0.01
    (run,) = call("log", "process_posts", "--limit", "1", "--json", folder=blog).document["runs"]
    assert run["seconds"] == step["seconds"]


@pytest.mark.scenario("C48")
def test_each_step_and_sink_has_its_place_its_batches_and_its_keys():
    told = []
    progress = RunProgress(lambda label, done, total: told.append((label, done, total)), ["a", "b", "out"])
    progress.on_step("b")
    progress.on_begin(StepReport("b"), 1, 3)
    progress.on_batch(StepReport("b", keys=1200, batches=1), 2)
    progress.on_begin(StepReport("b", keys=1200, batches=1), 2, 3)
    progress.on_step("out")
    progress.on_block(SinkReport("out", "t", blocks=1, records=5), 1)
    assert told == [
        ("b (2/3)", 0, None),
        ("b (2/3): batch 1 of 3", 0, 3),
        ("b (2/3): batch 1 of 3 done, 1,200 keys", 1, 3),
        ("b (2/3): batch 2 of 3, 1,200 keys done", 1, 3),
        ("out (3/3)", 0, None),
        ("out (3/3): block 1 of 2 sent, 5 records", 1, 2),
    ]


@pytest.mark.scenario("C48")
def test_whoever_looks_on_is_told_of_a_start_also_if_it_fails():
    told, before = [], seconds_spent()
    with looking_on(told.append):
        with pytest.raises(ValueError, match="no Java"), starting():
            raise ValueError("no Java")
        with starting():
            pass
    with starting():
        pass
    assert told == [True, False, True, False]
    assert seconds_spent() > before
