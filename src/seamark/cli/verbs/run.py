"""`plan` and `run`: bring the outputs of steps up to their inputs, and what that would mean."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.cli.output import OnProgress
    from seamark.diffs.diff import Diff
    from seamark.sinks.report import SinkReport
    from seamark.sinks.run import OnSent
    from seamark.transforms.report import StepReport
    from seamark.transforms.run import OnBatch
    from seamark.transforms.step import Step

StepNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="STEP", show_default=False, help="Some steps; without it all of them."),
]


class OnChangeChoice(StrEnum):
    """What becomes of rows that were made by an older definition."""

    keep = "keep"
    recompute = "recompute"


def plan(call: Call, steps: StepNames = None) -> None:
    """Tell what a run would do: which steps, why, how many keys and batches, and what waits in each input.

    Nothing is computed and nothing is changed.
    """
    from seamark.cli import render_steps
    from seamark.cli.facts.steps import make_plan

    with call.store() as store:
        call.show(make_plan(store, steps or []), render_steps.plan)


def run(
    call: Call,
    steps: StepNames = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="COLUMN=VALUE", show_default=False, help="Only keys with this value; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", show_default=False, help="At most so many keys a step.")
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first key that fails.")] = False,
    on_change: Annotated[
        OnChangeChoice | None,
        typer.Option(
            "--on-change",
            show_default=False,
            help="What becomes of rows that an older definition of the step has made.",
        ),
    ] = None,
) -> None:
    """Run every step that has work, in order, and then the sinks; or some of them.

    Ends with 1 if a key failed, or a step or sink could not run; the others are done all the same.
    """
    from seamark.cli import render_steps
    from seamark.cli.facts.runs import run_result
    from seamark.cli.facts.steps import chosen_steps
    from seamark.cli.logs import without_stopped_steps

    with call.store() as store:
        sinks = [name for name in store.sinks() if not steps or name in steps]
        names = [name for name in steps or [] if name not in sinks]
        chosen = chosen_steps(store, names) if names or not steps else []
        wanted = _wanted(chosen, filters or [])
        with without_stopped_steps(), call.output.bar("Running") as tell:
            report = store.run(
                *[step.name for step in chosen],
                *sinks,
                filters=wanted,
                limit=limit,
                fail_fast=fail_fast or None,
                on_change=on_change.value if on_change else None,
                on_batch=_progress(tell),
                on_block=_sink_progress(tell),
            )
        result = run_result(store, report)
    for done in (*report.steps.values(), *report.sinks.values()):
        call.output.trace(done.error)
    call.show(result, render_steps.run)
    if not result.ok:
        raise typer.Exit(FAILED)


def _wanted(steps: Sequence[Step | Diff], filters: Sequence[str]) -> dict[str, Any]:
    """The filters' values in the types of the keys; each step must have the columns, or nothing is run."""
    from seamark.cli.facts.values import named_values
    from seamark.diffs.diff import Diff
    from seamark.transforms.declare import RunConfig

    wanted: dict[str, Any] = {}
    for step in steps if filters else []:
        if isinstance(step, Diff):
            step.refuse_parts(RunConfig(filters={"": None}))
            continue
        shape = step.spec.shape
        types = {name: shape.key_types[name] for name in shape.group}
        wanted = named_values(filters, types, f"step '{step.name}'") | wanted
    return wanted


def _progress(tell: OnProgress) -> OnBatch:
    from seamark.cli.cells import counted

    def on_batch(report: StepReport, left: int) -> None:
        what = f"batch {report.batches} of {report.batches + left}" if left else "done"
        tell(f"{report.step}: {what}, {counted(report.keys, 'key')}", report.batches, report.batches + left)

    return on_batch


def _sink_progress(tell: OnProgress) -> OnSent:
    from seamark.cli.cells import counted

    def on_block(report: SinkReport, left: int) -> None:
        what = f"block {report.blocks} of {report.blocks + left}" if left else "done"
        tell(f"{report.sink}: {what}, {counted(report.records, 'record')}", report.blocks, report.blocks + left)

    return on_block


VERBS = [
    Verb("plan", plan, "seamark plan process_posts", "Run"),
    Verb("run", run, "seamark run process_posts --filter post_id=1", "Run"),
]
