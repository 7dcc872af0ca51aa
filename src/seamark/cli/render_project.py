"""A project for people: its tables, steps and sinks, and how far they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from seamark.cli.cells import DASH, age, counted, heading, moment, number
from seamark.cli.grid import grid
from seamark.cli.render import Parts, running, runs

if TYPE_CHECKING:
    from seamark.facts.project import Listing, Status
    from seamark.facts.sinks import SinkLine, SinkStatus
    from seamark.facts.steps import InputState, StepLine, StepState

_NO_TABLES = "No tables yet: declare one in the pipeline with ds.table(…)."


def listing(facts: Listing) -> Parts:
    """`ls`."""
    if not facts.tables:
        return [_NO_TABLES]
    shown = grid("table", "kind", "~key", ">block", ">offset", ">to fold", ">rows", "last change (UTC)")
    for line in facts.tables:
        shown.add_row(
            Text(line.name, "bold"),
            line.kind or DASH,
            ", ".join(line.key) if line.keyed else Text("append-only", "dim"),
            number(line.sequence),
            number(line.offset),
            number(line.waiting),
            f"{'' if line.rows_are_exact else '≤ '}{line.rows:,}",
            moment(line.last_change),
        )
    return [shown, *_steps(facts.steps), *_sinks(facts.carried)]


def _steps(steps: tuple[StepLine, ...]) -> Parts:
    if not steps:
        return []
    shown = grid("step", "kind", "~by", "~reads", "~writes")
    for line in steps:
        by = ", ".join(line.keys) or Text("one result", "dim")
        shown.add_row(Text(line.name, "bold"), line.kind, by, ", ".join(line.inputs), ", ".join(line.outputs))
    return [Text(), shown]


def _sinks(sinks: tuple[SinkLine, ...]) -> Parts:
    if not sinks:
        return []
    shown = grid("sink", "carries", "~to")
    for line in sinks:
        shown.add_row(Text(line.name, "bold"), line.table, line.target)
    return [Text(), shown]


def status(facts: Status) -> Parts:
    """`status`."""
    if not facts.tables:
        return [_NO_TABLES]
    tables = grid("table", "last commit (UTC)", "age", ">to fold")
    for state in facts.tables:
        tables.add_row(
            Text(state.name, "bold"), moment(state.last_commit), age(state.age_seconds), number(state.waiting)
        )
    parts: Parts = [tables, *_step_states(facts.steps, facts.at), *_sink_states(facts.sinks)]
    if facts.running:
        parts += [heading("Running now"), running(facts.running)]
    if facts.by_hand:
        parts += [heading("Writing now"), *[f"  run {run}" for run in facts.by_hand]]
    if facts.leases:
        leases = grid("lease", "~holder", ">seconds left")
        for lease in facts.leases:
            leases.add_row(lease.name, lease.holder, f"{lease.seconds_left:.0f}")
        parts += [heading("Leases"), leases]
    shown = {sink.error for sink in facts.sinks if sink.error}  # beside the sinks, where there is more room
    return parts + runs("Last runs", [replace(run, error=None) if run.error in shown else run for run in facts.runs])


def _sink_states(sinks: tuple[SinkStatus, ...]) -> Parts:
    if not sinks:
        return []
    shown = grid("sink", "carries", "~to", ">block", ">pending blocks", ">records", ">lag")
    for sink in sinks:
        waiting = [number(count or None) for count in (sink.pending_blocks, sink.pending_records)]
        shown.add_row(
            Text(sink.name, "bold"), sink.table, sink.target, number(sink.position), *waiting, age(sink.lag_seconds)
        )
    stopped = [
        Text("✗ ", "red").append(s.name, "bold default").append(f" could not continue: {s.error}", "default")
        for s in sinks
        if s.error
    ]
    return [Text(), shown, *stopped]


def _step_states(steps: tuple[StepState, ...], now: datetime) -> Parts:
    if not steps:
        return []
    shown = grid("step, input", ">offset", ">age", ">pending", ">lag", ">failed", ">last run", "state")
    for step in steps:
        shown.add_row(
            Text(step.name, "bold"),
            "",
            "",
            number(step.pending_records),
            age(step.lag_seconds),
            Text(f"{step.failed_keys:,}", "red" if step.failed_keys else ""),
            age(max(0.0, (now - step.last_run.started).total_seconds())) if step.last_run else DASH,
            Text(step.cause, "yellow" if step.needs_attention else "green"),
        )
        for entry in step.inputs:
            shown.add_row(f"  {entry.table}", *_input_cells(entry))
    advice = [Text(f"{step.name}: ", "bold").append(step.advice, "not bold") for step in steps if step.needs_attention]
    late = [f"{step.name}: {counted(step.too_late, 'record')} came too late so far" for step in steps if step.too_late]
    return [Text(), shown, *advice, *late]


def _input_cells(entry: InputState) -> list[str | Text]:
    if entry.is_empty:
        return [Text("empty", "yellow")]
    offset, pending = number(entry.record_offset), number(entry.pending_records)
    return [offset, age(entry.age_seconds), pending, age(entry.lag_seconds)]
