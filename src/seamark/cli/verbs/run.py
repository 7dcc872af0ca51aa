"""`plan` and `run`: bring the outputs of steps up to their inputs, and what that would mean."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED, HAS_WORK
from seamark.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.diffs.diff import Diff
    from seamark.facts.runs import RunResult
    from seamark.transforms.step import Step

StepNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="STEP", show_default=False, help="Some steps or sinks; without it all of them."),
]


class OnChangeChoice(StrEnum):
    """What becomes of rows that were made by an older definition."""

    keep = "keep"
    recompute = "recompute"


class DictionariesChoice(StrEnum):
    """Which waiting changes of dictionaries views take."""

    due = "due"
    now = "now"
    never = "never"


def plan(
    call: Call,
    steps: StepNames = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 3 if a run would do anything, for scripts.")
    ] = False,
) -> None:
    """Show what a run would do: which steps, why, how many keys and batches, what waits, and what sinks would carry.

    Nothing is computed and nothing is changed. Ends with 1 if a step would refuse to run.
    """
    from seamark.cli import render_steps
    from seamark.facts.steps import make_plan

    with call.store() as store:
        planned = make_plan(store, steps or [])
    call.show(planned, render_steps.plan)
    if planned.is_refused:
        raise typer.Exit(FAILED)
    if exit_code and planned.has_work:
        raise typer.Exit(HAS_WORK)


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
        int | None, typer.Option("--limit", min=1, metavar="N", show_default=False, help="At most N keys per step.")
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
    dictionaries: Annotated[
        DictionariesChoice,
        typer.Option(
            "--dictionaries",
            help="Which waiting changes of dictionaries views take: those that have waited long enough, all, or none.",
        ),
    ] = DictionariesChoice.due,
) -> None:
    """Run every step that has work, in order, and then the sinks; or some of them.

    Ends with 1 if a step or sink could not run, while a key of these steps is failed, or if a view was left out for its
    errors; the others are done.
    """
    from seamark.cli import render_steps
    from seamark.cli.logs import without_stopped_steps
    from seamark.cli.progress import RunProgress
    from seamark.facts.runs import run_result
    from seamark.facts.steps import chosen

    with call.store(shows_errors_of_views=True) as store:
        sinks, wanted_steps = chosen(store, steps or [])
        wanted = _wanted(wanted_steps, filters or [])
        names = [*[step.name for step in wanted_steps], *sinks]
        with without_stopped_steps(), call.output.bar("Running") as tell:
            progress = RunProgress(tell, names)
            with progress.observing():
                report = store.run(
                    *(names if steps else ()),
                    filters=wanted,
                    limit=limit,
                    fail_fast=fail_fast or None,
                    on_change=on_change.value if on_change else None,
                    dictionaries=dictionaries.value,
                    on_batch=progress.on_batch,
                    on_block=progress.on_block,
                    on_step=progress.on_step,
                )
        result = run_result(store, report)
    for done in (*report.steps.values(), *report.sinks.values()):
        call.output.trace(done.error)
    call.show(result, render_steps.run)
    if not result.did_something:
        _say_why_not(call, result, on_change)
    if not result.ok:
        raise typer.Exit(FAILED)


def _say_why_not(call: Call, result: RunResult, on_change: OnChangeChoice | None) -> None:
    """What somebody can do who expected a run to do something."""
    if result.how_to_load:
        call.output.note(f"Hint: {result.how_to_load}.")
    if on_change == OnChangeChoice.recompute:
        call.output.note(
            "Hint: no definition differs from the one that its rows were made by, or kept under. "
            "`seamark reset STEP` has all keys computed again."
        )


def _wanted(steps: Sequence[Step | Diff], filters: Sequence[str]) -> dict[str, Any]:
    """The filters' values in the types of the keys; each step must have the columns, or nothing is run."""
    from seamark.facts.values import named_values

    wanted: dict[str, Any] = {}
    for step in steps if filters else []:
        wanted = named_values(filters, step.filter_types(), f"step '{step.name}'") | wanted
    return wanted


VERBS = [
    Verb("plan", plan, "seamark plan process_posts", "Run"),
    Verb("run", run, "seamark run process_posts --filter post_id=1", "Run"),
]
