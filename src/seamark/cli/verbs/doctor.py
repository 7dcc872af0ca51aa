"""`doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb
from seamark.errors import StoreError, UsedWrongly

if TYPE_CHECKING:
    from seamark.config import Config


def doctor(
    call: Call,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark and run a small job.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the control database again from the chains in the warehouse.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --rebuild: do it without asking.")] = False,
) -> None:
    """Check Java, Python, Spark, the Delta jars, the database, the warehouse and every table's head.

    Each is ok, or it says what to do; ends with 1 if anything is bad. The pipeline is not run.
    """
    config = call.config()
    if rebuild:
        _rebuild(call, config, yes=yes)
        return
    if yes:
        raise UsedWrongly("--yes goes with --rebuild.", hint="leave it out: looking changes nothing.")
    from seamark.cli import render
    from seamark.facts.health import examine

    with call.output.working("Starting Spark" if spark else "Looking"):
        health = examine(config, with_spark=spark)
    call.show(health, render.health)
    if not health.ok:
        raise typer.Exit(FAILED)


def _rebuild(call: Call, config: Config, *, yes: bool) -> None:
    from pathlib import Path

    from seamark.cli import render
    from seamark.config import masked
    from seamark.store import DataStore
    from seamark.tables.care.rebuild import chain_folders

    chains = len(list(chain_folders(Path(config.warehouse))))
    if chains == 0:
        raise StoreError(
            f"there is no table in {config.warehouse} to build the control database from. Nothing was changed.",
            hint="correct 'warehouse' in seamark.toml.",
        )
    question = f"Replace what {masked(config.control)} knows by the {chains} chains in {config.warehouse}?"
    if not call.confirm(question, yes=yes):
        raise StoreError("not confirmed. Nothing was changed.")
    with call.output.working("Reading all chains"):
        report = DataStore.rebuild(config.control, config.warehouse, config.control_schema)
    call.show(report, render.rebuilt)
    if report.lost:
        raise typer.Exit(FAILED)


VERBS = [Verb("doctor", doctor, "seamark doctor --spark", "Take care")]
