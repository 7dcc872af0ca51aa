"""`status` of steps, the metrics that it prints, watching it; and `reset`."""

import os
import pty
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from seamark import DataStore
from seamark.control import RunRecord


def step_of(call):
    (step,) = call("status", "--json").document["steps"]
    return step


def line_with(text, word):
    (line,) = [line.split() for line in text.splitlines() if line.split()[:1] == [word]]
    return line


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C12")
def test_ls_lists_the_steps(call, blog):
    told = call("ls", folder=blog)
    assert line_with(told.out, "process_posts") == ["process_posts", "python", "post_id", "posts,", "profiles", "feed"]
    assert call("ls", "--json").document["steps"] == [
        {
            "name": "process_posts",
            "kind": "python",
            "inputs": ["posts", "profiles"],
            "outputs": ["feed"],
            "keys": ["post_id"],
        }
    ]


@pytest.mark.scenario("C13")
def test_a_settled_step_has_zeros(call, blog):
    told = call("status", folder=blog)
    assert told.code == 0
    steps = told.out.partition("step, input")[2].partition("Last runs")[0]
    assert line_with(steps, "process_posts")[:5] == ["process_posts", "0", "0", "s", "0"]
    assert line_with(steps, "process_posts")[-1] == "settled"
    assert line_with(steps, "posts")[:2] == ["posts", "2"]
    assert line_with(steps, "profiles")[:2] == ["profiles", "1"]

    step = step_of(call)
    assert (step["pending_records"], step["lag_seconds"], step["failed_keys"], step["cause"]) == (0, 0, 0, "settled")
    assert step["last_run"]["mode"] == "all keys"
    assert [(entry["table"], entry["record_offset"]) for entry in step["inputs"]] == [("posts", 2), ("profiles", 1)]


@pytest.mark.scenario("C13")
@pytest.mark.scenario("C36")
def test_pending_records_and_their_likely_cause_are_told(call, blog, write):
    write(blog, "posts", (4, 200, "new"))

    told = call("status", folder=blog)

    assert line_with(told.out, "process_posts")[-2:] == ["not", "run"]
    assert line_with(told.out, "process_posts")[1] == "1"
    assert "process_posts: Records are pending, and no run has begun since" in told.out
    step = step_of(call)
    assert [entry["pending_records"] for entry in step["inputs"]] == [1, 0]
    assert step["lag_seconds"] > 0
    assert step["needs_attention"] is True

    with DataStore(f"sqlite:///{blog / 'seamark.db'}", blog / "warehouse") as store:
        store.control.record_run(RunRecord("r", "process_posts", "run", 2e9, 2e9 + 1, outcome="failed", error="no way"))
    step = step_of(call)
    assert (step["cause"], step["last_run"]["error"]) == ("failing", "no way")


@pytest.mark.scenario("C36")
def test_a_step_without_new_data_for_long_says_so(call, blog):
    with sqlite3.connect(blog / "seamark.db") as database:
        database.execute("UPDATE transform_input_offset SET update_ts_offset = update_ts_offset - 7200")

    call("status", folder=blog)
    step = step_of(call)
    assert (step["cause"], step["needs_attention"]) == ("no new data", False)


@pytest.mark.scenario("C13")
def test_a_step_that_never_ran_waits_for_everything(call, blog_as_it_ran, tmp_path, write):
    for name in ("seamark.toml", "pipeline.py"):
        (tmp_path / name).write_bytes((blog_as_it_ran / name).read_bytes())
    write(tmp_path, "posts", (1, 100, "hello"), (2, 200, "hi"))

    call("status", folder=tmp_path)
    step = step_of(call)

    assert [(entry["record_offset"], entry["pending_records"]) for entry in step["inputs"]] == [(None, 2), (None, 0)]
    assert (step["last_run"], step["cause"]) == (None, "not run")


# --- reset ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C23")
def test_reset_makes_all_records_pending(call, blog):
    refused = call("reset", "process_posts", "posts", folder=blog)
    assert (refused.code, refused.out) == (2, "")
    assert "add --yes" in refused.err
    assert step_of(call)["pending_records"] == 0

    told = call("reset", "process_posts", "posts", "--yes")
    assert told.code == 0
    assert "process_posts has forgotten how far it was on posts: 3 records pending." in told.out
    step = step_of(call)
    assert [(entry["record_offset"], entry["pending_records"]) for entry in step["inputs"]] == [(None, 3), (1, 0)]

    everything = call("reset", "process_posts", "--yes", "--json").document
    assert everything == {"step": "process_posts", "tables": ["posts", "profiles"], "pending_records": 5}
    (ran,) = call("run", "--json").document["steps"]
    assert (ran["mode"], ran["keys"], ran["corrected"]) == ("all keys", 3, 0)


@pytest.mark.scenario("C23")
def test_reset_asks_on_a_terminal(blog, on_a_terminal, call):
    told = on_a_terminal("reset", "process_posts", "posts", folder=blog, answer=b"n\n")
    assert told.code == 1
    assert "Forget how far step 'process_posts' has come on posts?" in told.err
    assert "not confirmed. Nothing was changed." in told.err

    assert on_a_terminal("reset", "process_posts", "posts", folder=blog, answer=b"y\n").code == 0
    call("status", folder=blog)
    assert step_of(call)["pending_records"] == 3


@pytest.mark.scenario("C23")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reset", "proces_posts"], "did you mean 'process_posts'"),
        (["reset", "process_posts", "post"], "did you mean 'posts'"),
        (["retry", "proces_posts"], "did you mean 'process_posts'"),
        (["plan", "proces_posts"], "did you mean 'process_posts'"),
    ],
)
def test_an_unknown_step_or_input_is_refused(call, blog, words, told):
    found = call(*words, folder=blog)
    assert found.code == 2
    assert told in found.err


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C35")
def test_prometheus_prints_the_metrics(call, blog, write):
    write(blog, "posts", (4, 200, "new"))

    told = call("status", "--prometheus", folder=blog)

    assert (told.code, told.err) == (0, "")
    labels = '{input_table_name="posts",transformation_id="process_posts"}'
    assert f"seamark_pending_records{labels} 1.0" in told.out
    assert f"seamark_lag_seconds{labels} " in told.out
    assert f"seamark_offset_age_seconds{labels} " in told.out
    assert 'seamark_failed_keys{transformation_id="process_posts"} 0.0' in told.out
    assert 'seamark_runs_total{outcome="done",step="process_posts"} 1.0' in told.out


@pytest.mark.scenario("C35")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--watch"], "--watch needs a terminal"),
        (["--watch", "--json"], "--watch and --json do not go together"),
        (["--prometheus", "--json"], "--prometheus and --json do not go together"),
        (["--watch", "--prometheus"], "--watch and --prometheus do not go together"),
    ],
)
def test_what_does_not_go_together_is_refused(call, blog, words, told):
    found = call("status", *words, folder=blog)
    assert found.code == 2
    assert told in found.out + found.err


@pytest.mark.scenario("C35")
def test_watch_redraws_on_a_terminal_until_control_c(blog, write):
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
    command = [Path(sys.executable).with_name("seamark"), "status", "--watch"]
    with subprocess.Popen(
        command, cwd=blog, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(theirs)
        read_until(ours, "settled")
        write(blog, "posts", (4, 200, "new"))
        read_until(ours, "not run")
        process.send_signal(signal.SIGINT)
        read_until(ours, None)
        _, err = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, err) == (0, "")


def read_until(terminal, word):
    """Reads what is drawn until a word comes, or to the end."""
    shown = ""
    while word is None or word not in shown:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            assert word is None, shown
            return
        shown += piece.decode(errors="replace")
