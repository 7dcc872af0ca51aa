"""`run`: steps in order, what fails, parts of the work, changed definitions, and Ctrl-C."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from seamark import DataStore


def rows_of(call, table="feed"):
    return [tuple(row.values()) for row in call("show", table, "--json").document["rows"]]


def step_of(told):
    (step,) = told.document["steps"]
    return step


PANDAS = """

lengths = ds.table("lengths", "post_id long, n long", key="post_id")


@ds.transform(inputs=[posts], outputs=[lengths], pandas=True)
def measure(posts):
    return posts.assign(n=posts.content.str.len())[["post_id", "n"]]
"""


# --- all is well ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C20")
def test_run_tells_the_counts_of_each_step_and_then_that_there_is_nothing_to_do(call, blog, write):
    write(blog, "profiles", (100, "Alicia"))
    write(blog, "posts", (4, 200, "new"))

    told = call("run", folder=blog)

    assert (told.code, told.err) == (0, "")
    header, _, line = told.out.splitlines()
    assert header.split() == ["step", "mode", "keys", "batches", "in", "written", "failed", "seconds"]
    assert line.split()[:-1] == ["✓", "process_posts", "changes", "3", "1", "3", "+1", "~2", "-0", "–"]
    assert rows_of(call) == [(1, "Alicia: hello"), (2, "Bob: hi"), (3, "Alicia: again"), (4, "Bob: new")]

    again = call("run")
    assert (again.code, again.out) == (0, "✓ Nothing to do: 1 step up to date.\n")
    document = call("run", "process_posts", "--json").document
    assert (document["ok"], document["steps"][0]["mode"], document["steps"][0]["batches"]) == (True, "settled", 0)


@pytest.mark.scenario("C20")
def test_a_project_without_data_says_what_is_missing(call, blog):
    (blog / "seamark.db").unlink()
    for folder in ("posts", "profiles", "feed"):
        (blog / "warehouse" / folder).rename(blog / folder)

    told = call("run", folder=blog)

    assert (told.code, told.out) == (0, "Nothing to do: posts, profiles have no records yet.\n")


@pytest.mark.scenario("C40")
def test_every_commit_of_a_run_is_one_line_of_json(call, blog, write):
    write(blog, "posts", (4, 200, "new"))
    write(blog, "profiles", (200, "Bobby"))

    told = call("run", "--log-json", "--json", folder=blog)

    (line,) = [json.loads(line) for line in told.err.splitlines()]
    assert (line["logger"], line["step"], line["mode"], line["batch"]) == (
        "seamark.commit",
        "process_posts",
        "changes",
        1,
    )
    assert line["positions"] == {"posts": 3, "profiles": 3}
    counts = ("table", "rows_in", "appended", "corrected", "retracted", "failed")
    assert [line[name] for name in counts] == ["feed", 3, 1, 1, 0, 0]


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C21")
@pytest.mark.scenario("C24")
def test_a_failing_key_is_named_and_the_others_are_written(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (4, 200, "new"))

    told = call("run", folder=blog)

    assert told.code == 1
    assert "✗ process_posts: 1 key failed\n  post_id=1: " in told.out
    assert "no way" in told.out
    assert "`seamark retry process_posts`" in told.out
    assert rows_of(call) == [(1, "Alice: hello"), (2, "Bob: hi"), (3, "Alice: again"), (4, "Bob: new")]

    retried = call("retry", "process_posts", "--json")
    assert retried.code == 1
    assert (retried.document["mode"], retried.document["keys"], retried.document["failed"]) == ("retry", 1, 1)
    assert retried.document["failures"][0]["key"] == {"post_id": 1}
    assert "no way" in retried.document["failures"][0]["error"]

    waiting = call("run")  # after two failures it waits a minute: a run leaves it alone
    assert waiting.code == 1
    assert "process_posts: 1 key is still failed from earlier runs" in waiting.out
    state = call("status", "--json").document["steps"][0]
    assert (state["failed_keys"], state["cause"]) == (1, "failing")

    write(blog, "posts", (1, 100, "mended"))
    assert call("run").code == 0
    none_left = call("retry", "process_posts")
    assert (none_left.code, none_left.out) == (0, "Step 'process_posts' has no failed keys.\n")


@pytest.mark.scenario("C24")
def test_a_retry_that_helps_and_one_that_gives_up(call, blog, write):
    write(blog, "posts", (1, 100, "boom"))
    assert call("run", "--json", folder=blog).code == 1
    file = blog / "pipeline.py"
    definition = file.read_text()
    file.write_text(definition.replace("outputs=[feed])", 'outputs=[feed], on_change="keep")').replace("'boom'", "'-'"))

    told = call("retry", "process_posts")
    assert told.code == 0, told.out + told.err
    assert told.out.splitlines()[2].split()[:4] == ["✓", "process_posts", "retry", "1"]
    assert rows_of(call)[0] == (1, "Alice: boom")

    file.write_text(definition)
    write(blog, "posts", (2, 200, "boom"))
    assert call("run", "--on-change", "keep").code == 1
    given_up = call("retry", "process_posts", "--give-up")
    assert given_up.code == 0
    assert "process_posts has given up 1 key" in given_up.out
    assert call("retry", "process_posts", "--give-up", "--json").document == {"step": "process_posts", "given_up": 0}
    assert call("status", "--json").document["steps"][0]["failed_keys"] == 0


@pytest.mark.scenario("C24")
def test_one_key_of_several_is_retried_or_given_up(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (2, 200, "boom"))
    call("run", folder=blog)

    retried = call("retry", "process_posts", "--key", "post_id=1", "--json")
    assert (retried.code, retried.document["keys"]) == (1, 1)
    assert call("retry", "process_posts", "--key", "7").code == 2
    assert call("retry", "process_posts", "--key", "1", "--give-up", "--json").document["given_up"] == 1
    assert call("status", "--json").document["steps"][0]["failed_keys"] == 1


@pytest.mark.scenario("C21")
def test_fail_fast_stops_at_the_first_key(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (4, 200, "new"))

    told = call("run", "--fail-fast", folder=blog)

    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("Error: ")
    assert "process_posts" in told.err
    assert "post_id" in told.err
    assert "no way" in told.err
    assert len(rows_of(call)) == 3
    assert call("log", "process_posts", "--json").document["runs"][0]["outcome"] == "failed"


@pytest.mark.scenario("C29")
def test_a_changed_definition_shows_the_difference_and_both_options(call, blog):
    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))

    told = call("run", folder=blog)

    assert (told.code, told.err) == (1, "")
    assert "✗ process_posts could not run: the definition of step 'process_posts' is not the one" in told.out
    assert "\n-" in told.out
    assert "\n+" in told.out
    assert "--on-change keep|recompute" in told.out
    error = step_of(call("run", "--json"))["error"]
    assert error["type"] == "DefinitionChanged"
    assert "Traceback" in call("run", "--debug").err

    kept = call("run", "--on-change", "keep", "--json")
    assert (kept.code, step_of(kept)["keys"]) == (0, 0)
    assert rows_of(call)[0] == (1, "Alice: hello")
    assert call("run").out.startswith("✓ Nothing to do")

    file.write_text(file.read_text().replace("' says '", "' wrote '"))
    recomputed = step_of(call("run", "--on-change", "recompute", "--json"))
    assert (recomputed["mode"], recomputed["keys"], recomputed["corrected"]) == ("recompute", 3, 3)
    assert rows_of(call)[0] == (1, "Alice wrote hello")


BROKEN_STEP = """

shouts = ds.table("shouts", "post_id long, line string", key="post_id")


@ds.transform(inputs=[posts], outputs=[shouts])
def shout(posts):
    return posts.selectExpr("post_id", "upper(contnet) AS line")
"""


@pytest.mark.scenario("C21")
def test_a_step_that_could_not_run_is_told_and_the_others_go_on(call, blog, write):
    file = blog / "pipeline.py"
    file.write_text(file.read_text() + BROKEN_STEP)
    write(blog, "posts", (1, 100, "one"))

    told = call("run", folder=blog)

    assert (told.code, told.err) == (1, "")
    done, stopped = told.out.splitlines()[2:4]
    assert done.split()[:2] == ["✓", "process_posts"]
    assert stopped.split()[:3] == ["✗", "shout", "–"]
    assert "✗ shout could not run: AnalysisException: [UNRESOLVED_COLUMN" in told.out
    assert "`contnet`" in told.out
    assert "LocalRelation" not in told.out
    assert rows_of(call)[0] == (1, "Alice: one")
    for_programs = call("run", "--json", "--log-json")
    assert [json.loads(line)["stopped_by"] for line in for_programs.err.splitlines()] == ["AnalysisException"]
    state = {step["name"]: step for step in call("status", "--json").document["steps"]}["shout"]
    assert (state["cause"], state["pending_records"]) == ("failing", 5)


# --- parts of the work ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C22")
def test_a_filter_and_a_limit_take_a_part_and_leave_the_rest(call, blog, write):
    write(blog, "posts", (1, 100, "one"), (2, 200, "two"), (3, 100, "three"))

    filtered = step_of(call("run", "process_posts", "--filter", "post_id=3", "--limit", "10", "--json", folder=blog))
    assert (filtered["keys"], filtered["corrected"]) == (1, 1)
    assert rows_of(call) == [(1, "Alice: hello"), (2, "Bob: hi"), (3, "Alice: three")]

    limited = step_of(call("run", "--limit", "1", "--json"))
    assert (limited["mode"], limited["keys"]) == ("limit", 1)
    assert rows_of(call) == [(1, "Alice: one"), (2, "Bob: hi"), (3, "Alice: three")]
    assert call("status", "--json").document["steps"][0]["pending_records"] == 6

    assert call("run").code == 0
    assert rows_of(call) == [(1, "Alice: one"), (2, "Bob: two"), (3, "Alice: three")]


@pytest.mark.scenario("C22")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--filter", "pots_id=1"], ["step 'process_posts' has no key column 'pots_id'", "did you mean 'post_id'"]),
        (["--filter", "post_id=x"], ["'x' is no value of the column 'post_id', which is bigint"]),
        (["--filter", "post_id"], ["'post_id' is not a column and its value"]),
        (["--limit", "0"], ["--limit"]),
        (["--on-change", "ask"], ["--on-change", "keep"]),
        (["proces_posts"], ["there is no step 'proces_posts'", "did you mean 'process_posts'"]),
    ],
)
def test_what_does_not_fit_is_used_wrongly_even_if_there_is_nothing_to_do(call, blog, words, told):
    found = call("run", *words, folder=blog)
    assert (found.code, found.out) == (2, "")
    assert all(word in found.err for word in told), found.err


# --- a terminal, and Ctrl-C -------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.scenario("C8")
def test_a_run_shows_its_progress_on_a_terminal_only(blog, write, on_a_terminal, call):
    write(blog, "posts", (1, 100, "one"))
    told = on_a_terminal("run", folder=blog)
    assert told.code == 0, told.err
    assert "Running process_posts (1/1): batch 1 of 1" in told.err
    assert "━" in told.err
    assert "\x1b" not in told.out

    write(blog, "posts", (1, 100, "two"))
    in_a_pipe = call("run", folder=blog)
    assert (in_a_pipe.code, in_a_pipe.err) == (0, "")


GATE = """
    import pathlib, threading
    gate, reached = pathlib.Path("gate"), pathlib.Path("reached").absolute()

    def wait(frames):
        reached.touch()
        threading.Event().wait()
        yield from frames

    if gate.exists() and gate.read_text() == "closed":
        posts.sparkSession.range(1).mapInArrow(wait, "id long").collect()
    if gate.exists():
        gate.write_text("closed")
"""


@pytest.mark.long
@pytest.mark.scenario("C10")
def test_control_c_leaves_whole_batches_and_the_next_run_goes_on(call, blog, write):
    file = blog / "pipeline.py"
    program = file.read_text().replace(
        "def process_posts(posts, profiles):\n", f"def process_posts(posts, profiles):{GATE}"
    )
    file.write_text(program.replace("outputs=[feed])", 'outputs=[feed], batch_keys=2, on_change="recompute")'))
    (blog / "gate").write_text("open")

    command = [Path(sys.executable).with_name("seamark"), "run"]
    with subprocess.Popen(command, cwd=blog, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(blog / "reached", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)

    assert (process.returncode, out) == (1, "")
    assert err == "Error: interrupted.\nHint: what was committed stays; nothing is half done.\n"
    with DataStore(f"sqlite:///{blog / 'seamark.db'}", blog / "warehouse") as store:
        last = store.control.index.runs("process_posts")[0]
        assert (last.outcome, last.error) == ("stopped", "stopped by Ctrl-C")
        assert store.control.leases.live() == []

    (blog / "gate").unlink()
    rest = step_of(call("run", "--json", folder=blog))
    assert (rest["keys"], rest["batches"]) == (1, 1)
    assert call("run").out.startswith("✓ Nothing to do")


def wait_for(path, process):
    """Waits until a file is there, as long as the process lives."""
    pause = threading.Event()
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        pause.wait(0.05)


# --- the outcome of runs ----------------------------------------------------------------------------------------------


@pytest.mark.scenario("C14")
def test_log_shows_the_runs_of_a_step_and_what_each_block_took(call, blog, write):
    write(blog, "posts", (4, 200, "new"))
    call("run", "--json", folder=blog)

    told = call("log", "process_posts")
    assert told.code == 0
    assert told.out.startswith("process_posts  writes feed\n")
    assert [line.split()[-1] for line in told.out.splitlines()[-2:]] == ["done", "done"]
    runs = call("log", "process_posts", "--limit", "1", "--json").document["runs"]
    assert [(run["mode"], run["rows_in"], run["rows_out"], run["outcome"]) for run in runs] == [
        ("changes", 1, 1, "done")
    ]

    blocks = call("log", "feed", "--events", "data", "--json").document["blocks"]
    taken = [[(i["table"], i["prev_offset"], i["new_offset"]) for i in block["inputs"]] for block in blocks]
    assert taken == [[("posts", 2, 3), ("profiles", 1, None)], [("posts", None, 2), ("profiles", None, 1)]]
    people = call("log", "feed").out
    assert "posts: 3 – 3" in people
    assert "nothing new" not in people
    misspelt = call("log", "process_post")
    assert (misspelt.code, "did you mean 'process_posts'" in misspelt.err) == (2, True)


@pytest.mark.scenario("C27")
def test_verify_replay_says_how_many_blocks_were_computed_again(call, blog, write):
    told = call("verify", "--replay", folder=blog)
    assert (told.code, told.out.splitlines()[1]) == (0, "  1 block computed again")

    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))
    write(blog, "posts", (4, 200, "new"))
    assert call("run", "--on-change", "keep").code == 0
    told = call("verify", "feed", "--replay")
    assert "made by another definition" in told.out
    document = call("verify", "feed", "--replay", "--json").document
    assert (document["ok"], document["not_replayable"]) == (True, 1)
    assert document["replayed"] >= 1
    assert call("verify", "feed", "--json").document["replayed"] is None


# --- the first to need Spark ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.scenario("C20")
def test_a_pandas_step_may_be_the_first_to_need_spark(command, project):
    file = project / "pipeline.py"
    file.write_text(file.read_text() + PANDAS)

    told = command("run", "measure", folder=project)

    assert told.code == 0, told.out + told.err
    assert "+3 ~0 -0" in told.out
