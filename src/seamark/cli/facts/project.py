"""What `ls` and `status` tell of a whole project."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seamark.cli.facts.sinks import StandingSink, standing_sinks
from seamark.cli.facts.steps import StepLine, StepState, list_steps, step_states
from seamark.cli.facts.tables import (
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
    """Everything that a project declares or stores."""

    tables: tuple[TableLine, ...]
    steps: tuple[StepLine, ...]
    feeds: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """How the project stands: its tables and steps, who writes now, which leases are held, and the newest runs."""

    at: datetime
    tables: tuple[TableState, ...]
    steps: tuple[StepState, ...]
    sinks: tuple[StandingSink, ...]
    writing: tuple[str, ...]
    leases: tuple[LeaseLine, ...]
    runs: tuple[RunLine, ...]


def list_project(store: DataStore) -> Listing:
    """All tables, steps and sinks."""
    return Listing(list_tables(store), list_steps(store), sinks=tuple(store.sinks()))


def gather_status(store: DataStore) -> Status:
    """How the project stands now."""
    now = store.clock.now()
    return Status(
        at=now,
        tables=table_states(store, now),
        steps=step_states(store),
        sinks=standing_sinks(store),
        writing=tuple(store.control.staging.live_runs()),
        leases=live_leases(store),
        runs=run_lines(store.control.index.runs(newest=RUNS_SHOWN)),
    )
