"""Runs at work, as the control database knows them."""

from sqlalchemy import update

from seamark.control import LiveRun
from seamark.control.schema import lease as leases


def _begin(control, run_id="run-1", step="process_posts", pins=None):
    lease = control.leases.acquire(f"step:{step}", "host:17")
    control.live.begin(LiveRun(run_id, step, lease, "run", 100.0, pins=pins or {"posts": 41, "profiles": None}))
    return lease


def test_a_run_at_work_is_listed_until_it_ends(control):
    lease = _begin(control)
    control.live.at_batch("run-1", 2, 5, "changes")

    pins = {"posts": 41, "profiles": None}
    assert control.live.all() == [LiveRun("run-1", "process_posts", lease, "changes", 100.0, pins, batch=2, batches=5)]
    control.live.end("run-1")
    assert control.live.all() == []
    assert control.index.runs() == []


def test_a_run_whose_lease_is_over_was_killed_and_the_next_one_puts_that_on_record(control):
    lease = _begin(control)
    with control.database.write() as connection:
        connection.execute(update(leases).values(expires_at=0.0))
    assert [run.is_alive for run in control.live.all()] == [False]

    _begin(control, "run-2")

    assert [(run.run_id, run.is_alive, run.lease.epoch) for run in control.live.all()] == [
        ("run-2", True, lease.epoch + 1)
    ]
    [killed] = control.index.runs()
    assert (killed.run_id, killed.outcome, killed.started) == ("run-1", "killed", 100.0)
    assert "killed" in killed.error


def test_a_killed_run_keeps_what_its_commits_recorded(control, commits):
    _begin(control)
    control.commit(commits.request(commits.append("posts"), run_id="run-1"))
    with control.database.write() as connection:
        connection.execute(update(leases).values(expires_at=0.0))

    _begin(control, "run-2")

    [killed] = control.index.runs()
    assert (killed.outcome, killed.rows_out, killed.ended) == ("killed", 1, 2.0)


def test_runs_of_other_steps_are_left_alone(control):
    _begin(control)
    _begin(control, "run-2", step="digest")
    assert [run.run_id for run in control.live.all()] == ["run-1", "run-2"]
