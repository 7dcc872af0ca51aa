"""`check`: what is wrong with views before any of them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb


def check(
    call: Call,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", show_default=False, help="Files of statements, or folders of files *.sql."),
    ],
    hints: Annotated[bool, typer.Option("--hints", help="Also show what could be quicker.")] = False,
    no_analysis: Annotated[
        bool, typer.Option("--no-analysis", help="Leave out what only Spark can tell: quicker, and no Java.")
    ] = False,
) -> None:
    """Show all issues of views and handlers, each with its line and column. Nothing is changed.

    Several files are checked together. Ends with 1 if there is an error.
    """
    from seamark.cli import render_views
    from seamark.facts.views import check_files

    given = [Path.cwd() / file if not file.is_absolute() else file for file in files]
    with call.store() as store, call.output.working("Checking"):
        checked = check_files(store, [_shown(file) for file in given], hints=hints, analyse=not no_analysis)
    call.show(checked, render_views.checked)
    if not checked.ok:
        raise typer.Exit(FAILED)


def _shown(file: Path) -> Path:
    """The file as it is shown: by its way from the project's folder, which is the current one by now."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


VERBS = [Verb("check", check, "seamark check views.sql", "Look")]
