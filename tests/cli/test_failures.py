"""Keys that stand failed: what `run` ends with, what `failures` lists, and what the log says of them."""

import json

import pytest
from tests.support.json_page import assert_same_shape
from tests.support.readers import read_only, run_as_reader


def failures_of(call, *words):
    return call("failures", *words, "--json").document["failures"]


@pytest.mark.scenario("C44")
def test_run_ends_with_1_while_keys_stand_failed_due_or_waiting(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (2, 200, "boom"), (4, 200, "new"))
    assert call("run", folder=blog).code == 1  # they fail

    again = call("run")  # they are due, and fail again
    assert again.code == 1
    assert "process_posts: 2 keys failed" in again.out

    waiting = call("run")  # from their second failure on they wait: nothing is computed, and nothing is well
    assert waiting.code == 1
    assert "✓" not in waiting.out
    assert "process_posts: 2 keys are still failed from earlier runs" in waiting.out
    assert "`seamark failures process_posts` shows error and next try" in waiting.out
    document = call("run", "--json").document
    assert (document["ok"], document["steps"][0]["waiting_keys"], document["steps"][0]["failed"]) == (False, 2, 0)

    write(blog, "posts", (4, 200, "newer"))
    other = call("run")  # other keys are computed, which does not make these well
    assert other.code == 1
    assert other.out.splitlines()[2].split()[:2] == ["✗", "process_posts"]

    assert call("retry", "process_posts", "--give-up", "--key", "1").code == 0
    assert call("run", "--json").document["steps"][0]["waiting_keys"] == 1
    assert call("retry", "process_posts", "--give-up").code == 0
    settled = call("run")
    assert (settled.code, settled.out) == (0, "✓ Nothing to do: 1 step up to date.\n")


@pytest.mark.scenario("C44")
def test_plan_ends_with_3_where_there_is_work_if_it_is_asked(call, blog, write):
    assert call("plan", "--exit-code", folder=blog).code == 0
    write(blog, "posts", (4, 200, "new"))
    assert call("plan").code == 0
    told = call("plan", "--exit-code")
    assert (told.code, "changes: records wait" in told.out) == (3, True)
    assert call("plan", "--exit-code", "--json").code == 3

    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))
    for words in (["plan"], ["plan", "--exit-code"], ["plan", "process_posts", "--json"]):
        assert call(*words).code == 1  # refused comes before work: a script must not run it


@pytest.mark.scenario("C50")
def test_failures_lists_error_tries_and_next_try(call, blog, write):
    none = call("failures", folder=blog)
    assert (none.code, none.out) == (0, "No failed keys.\n")
    assert call("failures", "process_posts").out == "Step 'process_posts' has no failed keys.\n"

    write(blog, "posts", (1, 100, "boom"), (2, 200, "boom"))
    call("run", "--json")
    told = call("failures")
    assert told.code == 0
    assert ["process_posts", "post_id=1", "1", "with", "the", "next", "run"] in [
        line.split()[:7] for line in told.out.splitlines()
    ]
    assert "no way" in told.out
    document = call("failures", "process_posts", "--json").document
    assert_same_shape("failures", document)
    assert [(entry["key"], entry["attempts"], entry["is_due"]) for entry in document["failures"]] == [
        ({"post_id": 1}, 1, True),
        ({"post_id": 2}, 1, True),
    ]

    call("run", "--json")
    waiting = failures_of(call, "process_posts", "--key", "post_id=2")
    assert [(entry["key"], entry["attempts"], entry["is_due"]) for entry in waiting] == [({"post_id": 2}, 2, False)]
    assert waiting[0]["next_try"] > waiting[0]["failed_at"]
    assert waiting[0]["next_try"][:16].replace("T", " ") in call("failures").out
    assert call("failures", "--limit", "1").out.count("post_id=") == 1
    assert "and 1 more: --limit shows them" in call("failures", "--limit", "1").out
    whole = call("failures", "process_posts", "--key", "1", "--errors").out
    assert waiting[0]["error"] in whole  # every line of it

    assert_same_shape("failures", call("failures", "--json").document)


@pytest.mark.scenario("C50")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["proces_posts"], "did you mean 'process_posts'"),
        (["process_posts", "--key", "pots_id=1"], "did you mean 'post_id'"),
        (["process_posts", "--key", "x"], "'x' is no value of the column 'post_id'"),
        (["--key", "1"], "--key needs a step"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_what_failures_cannot_mean_is_used_wrongly(call, blog, words, told):
    found = call("failures", *words, folder=blog)
    assert (found.code, found.out) == (2, "")
    assert told in found.err


@pytest.mark.scenario("C50")
def test_the_log_has_the_error_of_each_failed_key_and_nothing_secret(call, blog, write):
    file = blog / "pipeline.py"
    secret = "raise_error('no way to postgresql://me:hunter2@host/db')"
    program = file.read_text().replace("raise_error('no way')", secret)
    file.write_text(program.replace("outputs=[feed])", 'outputs=[feed], on_change="keep")'))
    write(blog, "posts", (1, 100, "boom"), (2, 200, "boom"), (4, 200, "new"))

    told = call("run", "--log-json", "--json", folder=blog)

    (line,) = [json.loads(line) for line in told.err.splitlines() if '"seamark.commit"' in line]
    assert line["failed"] == 2
    assert [entry["key"] for entry in line["failures"]] == [{"post_id": 1}, {"post_id": 2}]
    assert all("no way to postgresql://me:***@host/db" in entry["error"] for entry in line["failures"])
    for text in (told.out, told.err, call("failures", "--errors").out, call("failures", "--json").out):
        assert "hunter2" not in text


@pytest.mark.scenario("C52")
def test_the_plain_log_line_has_the_positions(call, blog, write):
    write(blog, "posts", (1, 100, "boom"), (4, 200, "new"))
    told = call("run", "-v", folder=blog)
    (line,) = [line for line in told.err.splitlines() if "seamark.commit" in line]
    assert line.endswith(
        "process_posts, batch 1 (changes): feed: block 4, offset 3, +1 ~0 -0, read up to posts 5, 1 failed"
    )


@pytest.mark.scenario("C52")
@pytest.mark.parametrize("mode", ["limit", "filter", "keys", "changelist"])
def test_status_says_that_only_parts_were_run(call, blog, write, mode):
    write(blog, "posts", (1, 100, "one"), (2, 200, "two"), (4, 200, "new"))
    if mode == "limit":
        assert call("run", "--limit", "1", folder=blog).code == 0
    elif mode == "filter":
        assert call("run", "--filter", "post_id=2", folder=blog).code == 0
    else:
        part_of(blog, mode)

    told = call("status", folder=blog)
    (step,) = call("status", "--json").document["steps"]

    assert (step["cause"], step["needs_attention"]) == ("only parts were run", True)
    assert step["advice"] == (
        f"Only parts were run ({mode}) since the oldest pending record came in: `seamark run process_posts` takes all."
    )
    assert step["advice"] in told.out
    assert call("run").code == 0
    assert call("status", "--json").document["steps"][0]["cause"] == "settled"


def part_of(folder, mode):
    """Runs some keys, as a program does."""
    import os
    import runpy

    import pandas as pd
    from tests.support.cli import surroundings_kept

    import seamark as sm

    with surroundings_kept():
        os.chdir(folder)
        with runpy.run_path("pipeline.py")["ds"] as store:
            keys = pd.DataFrame({"post_id": [1]})
            step = store.step("process_posts")
            report = step.run_idx(keys) if mode == "keys" else step.run_changelist(sm.ChangeList({"posts": keys}))
            assert report.keys == 1


@pytest.mark.scenario("C46")
def test_a_changed_definition_is_called_changed(call, blog):
    file = blog / "pipeline.py"
    file.write_text(file.read_text().replace("': '", "' says '"))

    for _ in range(2):  # also after a run that was refused
        call("status", folder=blog)
        (step,) = call("status", "--json").document["steps"]
        assert (step["cause"], step["needs_attention"]) == ("changed", True)
        assert "`seamark run process_posts` shows the difference" in step["advice"]
        assert call("run").code == 1
    assert call("run", "--on-change", "keep").code == 0
    assert call("status", "--json").document["steps"][0]["cause"] == "settled"


@pytest.mark.scenario("C46")
def test_empty_inputs_are_called_empty_with_what_loads_them(call, tmp_path):
    call("init", folder=tmp_path)
    told = call("status")
    (step,) = call("status", "--json").document["steps"]
    assert (step["cause"], step["needs_attention"]) == ("empty", True)
    assert [entry["is_empty"] for entry in step["inputs"]] == [True, True]
    assert "posts, profiles have no records yet: load posts, profiles with a program" in told.out
    assert "`python load.py`" in told.out
    assert "no records yet in posts, profiles" in call("plan").out
    empty = call("run")
    assert (empty.code, empty.out) == (0, "Nothing to do: posts, profiles have no records yet.\n")
    assert "`python load.py`" in empty.err

    (tmp_path / "load.py").unlink()
    file = tmp_path / "pipeline.py"
    file.write_text(file.read_text() + SECOND)
    states = {step["name"]: step for step in call("status", "--json").document["steps"]}
    assert states["shout"]["advice"] == "feed has no records yet: `seamark run process_posts` makes feed."
    assert "load.py" not in states["process_posts"]["advice"]


SECOND = """

shouts = ds.table("shouts", "post_id long, line string", key="post_id")


@ds.transform(inputs=[feed], outputs=[shouts])
def shout(feed):
    return feed.selectExpr("post_id", "upper(line) AS line")
"""


# --- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C50")
def test_a_read_only_database_says_so(blog):
    with read_only(blog):
        program = "import sys; from seamark.cli import run; sys.exit(run(sys.argv[1:]))"
        told = run_as_reader(program, "reset", "process_posts", "--yes", cwd=blog)

    assert told.returncode == 1
    assert "readonly database" in told.stderr
    assert "Hint: the file is read-only: give yourself the right to write to it and to its folder." in told.stderr


@pytest.mark.scenario("C50")
def test_a_warehouse_that_is_not_there_is_named(call, blog):
    (blog / "warehouse").rename(blog / "elsewhere")
    told = call("ls", folder=blog)
    assert told.code == 1
    assert f"the warehouse folder {blog / 'warehouse'} is not there" in told.err
    assert "Hint: mount or restore the folder, or correct `warehouse`" in told.err


@pytest.mark.scenario("C50")
def test_init_without_a_folder_makes_the_project_here(call, tmp_path):
    told = call("init", folder=tmp_path)
    assert told.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".gitignore",
        "data",
        "load.py",
        "pipeline.py",
        "seamark.toml",
    ]
    assert "cd " not in told.out
    again = call("init")
    assert (again.code, again.out) == (2, "")
    assert call("init", "--json").code == 2

    told = call("init", "/proc/nope/demo")
    assert (told.code, "name a folder that you may write to" in told.err) == (1, True)
