"""Runs that are stopped or killed: what is given back, what stands on record, and what others see meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seamark import DataStore
from seamark.cli.signals import Terminated

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
LEASE = 4.0  # seconds: long enough to be renewed on a busy machine, short enough to wait for its end


@pytest.fixture
def gated(blog):
    """The blog with a step that stops in its second batch of two, in the middle of a Spark job."""
    file = blog / "pipeline.py"
    program = file.read_text().replace(
        "def process_posts(posts, profiles):\n", f"def process_posts(posts, profiles):{GATE}"
    )
    file.write_text(program.replace("outputs=[feed])", 'outputs=[feed], batch_keys=2, on_change="recompute")'))
    (blog / "seamark.toml").write_text((blog / "seamark.toml").read_text() + f"[scheduler]\nlease = {LEASE}\n")
    (blog / "gate").write_text("open")
    return blog


def _as_in_a_terminal() -> None:
    """Tests that run under `nohup` would pass on that SIGHUP does not matter."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@contextmanager
def running(folder, *arguments):
    """The real command in a process of its own, at the gate."""
    command = [Path(sys.executable).with_name("seamark"), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, preexec_fn=_as_in_a_terminal, **pipes) as process:
        try:
            wait_until((folder / "reached").exists, process)
            yield process
        finally:
            process.kill()


def wait_until(holds, process=None):
    """Waits until something holds, as long as the process lives."""
    pause = threading.Event()
    while not holds():
        assert process is None or process.poll() is None, process.stderr.read()
        pause.wait(0.1)


def store_of(folder):
    return DataStore(f"sqlite:///{folder / 'seamark.db'}", folder / "warehouse")


def step_of(told):
    (step,) = told.document["steps"]
    return step


@pytest.mark.scenario("C46")
@pytest.mark.scenario("C49")
def test_a_run_is_seen_at_work_and_sigterm_stops_it(call, gated):
    with running(gated, "run") as process:
        status = call("status", "--json", folder=gated).document
        (run,) = status["running"]
        assert (run["step"], run["mode"], run["batch"], run["batches"]) == ("process_posts", "recompute", 2, 2)
        assert (run["host"], run["process"]) == (socket.gethostname(), process.pid)
        assert status["writing"] == [run["run_id"]]
        assert (status["steps"][0]["cause"], status["steps"][0]["running"]) == ("running", run)
        people = call("status").out
        assert "Running now" in people
        assert ["2", "of", "2", run["host"], str(process.pid)] in [line.split()[-5:] for line in people.splitlines()]
        assert "Writing now" not in people
        assert "Running now" in call("log", "process_posts").out

        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        took = time.monotonic() - begun

    assert (process.returncode, out) == (143, "")
    assert err == "Error: stopped by SIGTERM.\nHint: what was committed stays; nothing is half done.\n"
    assert took < 10
    with store_of(gated) as store:
        assert store.control.leases.live() == []
        assert store.control.live.all() == []
        assert store.control.staging.live_runs() == []
        last = store.control.index.runs("process_posts")[0]
        assert (last.outcome, last.error) == ("stopped", "stopped by SIGTERM")
        assert last.mode == run["mode"] != "run"  # what was at work, as people had seen it
    state = step_of(call("status", "--json"))
    assert (state["last_run"]["outcome"], state["running"]) == ("stopped", None)

    (gated / "gate").unlink()
    rest = step_of(call("run", "--json", folder=gated))
    assert (rest["keys"], rest["batches"]) == (1, 1)  # the first batch was whole, and is not done again
    assert call("run").out.startswith("✓ Nothing to do")


@pytest.mark.long
@pytest.mark.scenario("C46")
def test_a_run_that_was_killed_is_not_at_work_once_its_lease_is_over(call, gated):
    with running(gated, "run") as process:
        process.kill()
        process.wait()

    call("status", folder=gated)
    wait_until(lambda: not call("status", "--json").document["running"])
    status = call("status", "--json").document
    assert (status["running"], status["writing"], status["leases"]) == ([], [], [])
    killed = status["runs"][0]
    assert (killed["step"], killed["outcome"]) == ("process_posts", "killed")
    assert "killed, or its machine went down" in killed["error"]
    assert status["steps"][0]["last_run"]["outcome"] == "killed"
    people = call("status").out
    assert "Running now" not in people
    assert "Writing now" not in people
    assert call("log", "process_posts", "--json").document["runs"][0]["outcome"] == "killed"

    (gated / "gate").unlink()
    assert call("run", "--json").code == 0
    outcomes = [run["outcome"] for run in call("log", "process_posts", "--json").document["runs"]]
    assert outcomes == ["done", "killed", "done"]  # now it is on record


# --- without Spark ----------------------------------------------------------------------------------------------------

STUBBORN = """
import sys, threading
from seamark import DataStore
from seamark.cli import signals
from seamark.cli.signals import ended_by_signals, given_back
from seamark.control import LiveRun
from seamark.steps.running.attempt import give_back_runs

signals.GIVE_BACK_AFTER, signals.GONE_AFTER = 0.5, 2.0
store = DataStore(sys.argv[1], sys.argv[2])
control = store.control
with ended_by_signals(), given_back(lambda: give_back_runs(control)):
    with control.leases.held("step:x") as lease, control.leases.held("sink:y"):
        control.live.begin(LiveRun("run-1", "x", lease, "changes", 1e9, pins={}))
        print("ready", flush=True)
        while True:
            try:
                threading.Event().wait()
            except BaseException:  # a program that does not let itself be interrupted
                pass
"""


@pytest.mark.scenario("C49")
def test_a_program_that_cannot_be_interrupted_gives_back_its_leases_and_is_gone(tmp_path):
    url, warehouse = f"sqlite:///{tmp_path / 'control.db'}", str(tmp_path / "warehouse")
    command = [sys.executable, "-c", STUBBORN, url, warehouse]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with DataStore(url, warehouse) as store:
            assert {lease.name for lease in store.control.leases.live()} == {"step:x", "sink:y"}
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # a second one must not break what the first began
        assert process.wait(timeout=60) == 143
        assert "Traceback" not in process.stderr.read()
    with DataStore(url, warehouse) as store:
        assert store.control.leases.live() == []
        assert store.control.live.all() == []
        (run,) = store.control.index.runs("x")
        assert run.outcome == "stopped"


SLOW_PIPELINE = """
import pathlib, threading
pathlib.Path("reached").touch()
threading.Event().wait()
"""


@pytest.mark.scenario("C49")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_every_verb_ends_so_whatever_it_is_at(empty_project, number, code):
    (empty_project / "pipeline.py").write_text(SLOW_PIPELINE)
    with running(empty_project, "ls", "--json") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    assert f'"message": "stopped by {number.name}."' in out


@pytest.mark.scenario("C49")
def test_a_closed_terminal_does_not_matter_where_nohup_said_so(empty_project):
    (empty_project / "pipeline.py").write_text(SLOW_PIPELINE)
    program = textwrap.dedent(
        """
        import signal, sys
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        from seamark.cli import main
        sys.argv = ["seamark", "ls"]
        main()
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=empty_project, stderr=subprocess.PIPE) as process:
        wait_until((empty_project / "reached").exists)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143  # it was the second one that ended it


def test_a_terminated_program_passes_where_control_c_does():
    assert issubclass(Terminated, KeyboardInterrupt)
    assert (str(Terminated(15)), Terminated(15).exit_code) == ("stopped by SIGTERM", 143)
    assert os.name == "posix"
