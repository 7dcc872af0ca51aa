"""`failures`, `retry` and `reset`: which keys failed, another try for them, and all keys again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import OneKey, Verb
from seamark.errors import StoreError, UsedWrongly, did_you_mean

StepName = Annotated[str, typer.Argument(metavar="STEP", show_default=False, help="The step's name.")]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How many failed keys of a step were forgotten, or visits of a diff left out."""

    step: str
    given_up: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The inputs on which a step's position was taken back, and how many of their records are pending now."""

    step: str
    tables: tuple[str, ...]
    pending_records: int


def failures(
    call: Call,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", show_default=False, help="One step; without it all of them.")
    ] = None,
    key: OneKey = None,
    errors: Annotated[bool, typer.Option("--errors", help="Show the whole error of each key.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many keys to show.")] = 50,
) -> None:
    """List the keys that could not be computed: the error, how often they were tried, and when they are tried next.

    Keys that were given up are not among them.
    """
    from seamark.cli import render_failures
    from seamark.facts.failed_keys import list_failures

    if key and step is None:
        raise UsedWrongly("--key needs a step.", hint="name it, as in `seamark failures process_posts --key 1`.")
    with call.store() as store:
        found = list_failures(store, step, key or [], limit)
    call.show(found, lambda facts: render_failures.failed_keys(facts, step, with_errors=errors))


def retry(
    call: Call,
    step: StepName,
    key: OneKey = None,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="Forget them instead: they are tried again when their data changes. A diff leaves out what is bad.",
        ),
    ] = False,
) -> None:
    """Compute the failed keys of a step now, whether they are due or not.

    Ends with 1 if any of them fails again.
    """
    from seamark.cli import render_diffs, render_steps
    from seamark.facts.runs import step_result
    from seamark.facts.values import part_of_key
    from seamark.tables.kinds import kind_of

    with call.store() as store:
        chosen = store.step(step)
        keys = [part_of_key(key, chosen.key_types, f"step '{step}'")] if key else None
        if give_up:
            given_up = GivenUp(step, chosen.give_up(keys))
            _refuse_unfailed(step, key, found=given_up.given_up > 0)
            takes_once = kind_of(chosen.spec.definition.kind).takes_once
            call.show(given_up, render_diffs.given_up if takes_once else render_steps.given_up)
            return
        with call.output.working(f"Retrying {step}"):
            report = chosen.retry(keys=keys)
        _refuse_unfailed(step, key, found=report.did_something)
        result = step_result(store, report)
    call.show(result, render_steps.retried)
    if not result.ok:
        raise typer.Exit(FAILED)


def _refuse_unfailed(step: str, key: list[str] | None, *, found: bool) -> None:
    if key and not found:
        raise UsedWrongly(
            f"step '{step}' has no failed key {' '.join(key)}. Nothing was done.",
            hint=f"`seamark failures {step}` lists those that have.",
        )


def reset(
    call: Call,
    step: StepName,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", show_default=False, help="One input; without it all of them.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Forget how far a step has come, so that its next run computes all keys.

    Current rows stay until then, and only those that come out different are written.
    """
    from seamark.cli import render_steps
    from seamark.facts.steps import step_states

    with call.store() as store:
        inputs = store.step(step).inputs
        if table is not None and table not in inputs:
            raise UsedWrongly(
                f"step '{step}' does not read a table '{table}'. Nothing was changed.",
                hint=did_you_mean(table, list(inputs), f"Inputs of '{step}'"),
            )
        tables = inputs if table is None else (table,)
        question = f"Forget how far step '{step}' has come on {', '.join(tables)}? Its next run computes all keys."
        if not call.confirm(question, yes=yes):
            raise StoreError("not confirmed. Nothing was changed.")
        store.offset_table.reset_offset(step, table)
        (state,) = [state for state in step_states(store, (), store.clock.now()) if state.name == step]
        pending = sum(entry.pending_records for entry in state.inputs if entry.table in tables)
        call.show(Reset(step, tables, pending), render_steps.reset)


VERBS = [
    Verb("failures", failures, "seamark failures process_posts --errors", "Run"),
    Verb("retry", retry, "seamark retry process_posts --key post_id=1", "Run"),
    Verb("reset", reset, "seamark reset process_posts posts", "Run"),
]
