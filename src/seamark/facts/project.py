"""What `ls` and `status` show of a whole project."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seamark.facts.live import RunningLine, running_lines, with_killed, writing_now
from seamark.facts.sinks import SinkLine, SinkStatus, list_sinks, sink_statuses
from seamark.facts.steps import StepLine, StepState, list_steps, step_states
from seamark.facts.tables import (
    LeaseLine,
    RunLine,
    TableLine,
    TableState,
    list_tables,
    live_leases,
    run_lines,
    table_states,
)
from seamark.store import DataStore

RUNS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that a project declares or stores. `sinks` are their names, `carried` says what they carry where."""

    tables: tuple[TableLine, ...]
    steps: tuple[StepLine, ...]
    feeds: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    carried: tuple[SinkLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the project: its tables and steps, who works, which leases are held, and the newest runs.

    `running` are runs of steps, `writing` the ids of all runs that write now, by hand too.
    """

    at: datetime
    tables: tuple[TableState, ...]
    steps: tuple[StepState, ...]
    sinks: tuple[SinkStatus, ...]
    writing: tuple[str, ...]
    leases: tuple[LeaseLine, ...]
    runs: tuple[RunLine, ...]
    running: tuple[RunningLine, ...]

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The runs that write now and are no step's."""
        steps = {run.run_id for run in self.running}
        return tuple(run for run in self.writing if run not in steps)


def list_project(store: DataStore) -> Listing:
    """All tables, steps and sinks."""
    carried = list_sinks(store)
    return Listing(list_tables(store), list_steps(store), sinks=tuple(line.name for line in carried), carried=carried)


def gather_status(store: DataStore) -> Status:
    """The state of the project now."""
    now = store.clock.now()
    live = store.live_runs()
    return Status(
        at=now,
        tables=table_states(store, now),
        steps=step_states(store, live, now),
        sinks=sink_statuses(store),
        writing=writing_now(store.control, live),
        leases=live_leases(store),
        runs=run_lines(with_killed(store.control.index.runs(newest=RUNS_SHOWN), live, RUNS_SHOWN)),
        running=running_lines(live, now),
    )
