"""`ls`, `log`, `show`: looking at a project without changing anything."""

from __future__ import annotations

from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.verbs import OneKey, Verb
from seamark.errors import UsedWrongly

TableName = Annotated[str, typer.Argument(metavar="TABLE", show_default=False, help="The table's name.")]


def ls(call: Call) -> None:
    """List the tables (kind, key, rows, newest block, last offset, last change), the steps and the sinks."""
    from seamark.cli import render_project
    from seamark.facts.project import list_project

    with call.store() as store:
        call.show(list_project(store), render_project.listing)


def log(
    call: Call,
    table: Annotated[
        str, typer.Argument(metavar="TABLE|STEP", show_default=False, help="The table's name, or a step's.")
    ],
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many blocks or runs to show.")] = 20,
    events: Annotated[
        str | None,
        typer.Option(
            "--events", metavar="KINDS", help="Only these: seed, schema, transform, data; several with commas."
        ),
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Also show the runs that wrote the table.")] = False,
    errors: Annotated[bool, typer.Option("--errors", help="Show the whole error of each run that failed.")] = False,
) -> None:
    """Show a table's newest blocks: when, what kind of event, which records, and from which inputs.

    Of a step: its newest runs, and how they ended.
    """
    from seamark.cli import render
    from seamark.facts.chains import names_a_step, read_log, read_step_log

    with call.store() as store:
        if names_a_step(store, table):
            log_of_step = read_step_log(store, table, limit=limit)
            call.show(log_of_step, lambda facts: render.step_log(facts, with_errors=errors))
            return
        found = read_log(store, table, limit=limit, events=events)
        call.show(found, lambda facts: render.log(facts, with_runs=runs or errors, with_errors=errors))


def show(
    call: Call,
    table: TableName,
    limit: Annotated[int, typer.Option("--limit", min=0, metavar="N", help="How many rows to show.")] = 20,
    as_of: Annotated[
        int | None,
        typer.Option("--as-of", metavar="OFFSET", help="The rows as they were after this record, the end of a commit."),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option("--block", metavar="HASH", help="One block of the chain instead: its hash, or how it begins."),
    ] = None,
    key: OneKey = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="Of a diff: all that it has written of the visit with this --key.")
    ] = False,
) -> None:
    """Show a table's schema, key and rows; or one block of its chain, or what a diff has written of a visit."""
    from seamark.cli import render, render_block, render_diffs
    from seamark.facts.chains import read_block
    from seamark.facts.rows import read_rows
    from seamark.facts.versions import read_versions

    _refuse_together({"--block": block is not None, "--as-of": as_of is not None, "--key": bool(key)})
    if versions and not key:
        raise UsedWrongly("--versions needs a visit.", hint="name it, as in `seamark show visits --key 42 --versions`.")
    with call.store() as store:
        if versions:
            with call.output.working(f"Reading {table}"):
                history = read_versions(store, table, key or [])
            call.show(history, render_diffs.versions)
            return
        if block is not None:
            call.show(read_block(store, table, block), render_block.block)
            return
        with call.output.working(f"Reading {table}"):
            rows = read_rows(store, table, limit=limit, as_of=as_of, key=key or [])
        call.show(rows, render.rows)


def _refuse_together(given: dict[str, bool]) -> None:
    """Refuse options of which only one can be meant."""
    both = [name for name, is_given in given.items() if is_given]
    if len(both) > 1:
        raise UsedWrongly(f"{both[0]} and {both[1]} do not go together.", hint="leave one of them out.")


VERBS = [
    Verb("ls", ls, "seamark ls", "Look"),
    Verb("log", log, "seamark log posts --limit 5 --events data", "Look"),
    Verb("show", show, "seamark show posts --as-of 7", "Look"),
]
