"""`check`, `sql`, `scan` and `view`: what is wrong with views, what they run, all rows again, and pauses."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb
from seamark.errors import UsedWrongly

ViewName = Annotated[str, typer.Argument(metavar="VIEW", show_default=False, help="The view's name.")]


class DialectChoice(StrEnum):
    """In which dialect of SQL a table is proposed."""

    spark = "spark"
    postgres = "postgres"
    clickhouse = "clickhouse"


class Action(StrEnum):
    """What `view` does."""

    ls = "ls"
    pause = "pause"
    resume = "resume"


def check(
    call: Call,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Files of statements, or folders of files *.sql; without it those of `views.files`.",
        ),
    ] = None,
    hints: Annotated[bool, typer.Option("--hints", help="Also show what could be quicker.")] = False,
    no_analysis: Annotated[
        bool, typer.Option("--no-analysis", help="Leave out what only Spark can tell: quicker, and no Java.")
    ] = False,
) -> None:
    """Show all issues of views and handlers, each with its line and column. Nothing is changed.

    Several files are checked together. Ends with 1 if there is an error.
    """
    from seamark.cli import render_views
    from seamark.facts.views import check_sources

    given = [Path.cwd() / file if not file.is_absolute() else file for file in files or []]
    with call.store(loads_views=False) as store, call.output.working("Checking"):
        sources = [_shown(file) for file in given] or store.project_views()
        if not sources:
            raise UsedWrongly(
                "there is nothing to check: no file was named, and the project has no `views.files`.",
                hint="name files, as in `seamark check views.sql`.",
            )
        checked = check_sources(store, sources, hints=hints, analyse=not no_analysis)
    call.show(checked, render_views.checked)
    if not checked.ok:
        raise typer.Exit(FAILED)


def _shown(file: Path) -> Path:
    """The file as it is shown: by its way from the project's folder, which is the current one by now."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def sql(
    call: Call,
    view: ViewName,
    dialect: Annotated[
        DialectChoice, typer.Option("--dialect", help="In which dialect of SQL its table is proposed.")
    ] = DialectChoice.spark,
) -> None:
    """Show the queries that the runs of a view amount to, and the table that it is kept in.

    They run as they are shown, over its tables and the relations `changed` and `keys`.
    """
    from seamark.cli import render_views
    from seamark.facts.views import sql_of

    with call.store() as store:
        shown = sql_of(store, view, dialect.value)
    call.show(shown, render_views.queries)


def scan(
    call: Call,
    view: ViewName,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", metavar="N", show_default=False, help="At most N left-most rows, or groups, per second."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITION", show_default=False, help="Only where this holds for the left-most row."
        ),
    ] = None,
    part: Annotated[
        str | None, typer.Option("--part", metavar="ALIAS", show_default=False, help="Only this part of a UNION ALL.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin again, also after one that was cut off.")] = False,
) -> None:
    """Compute all rows of a view again, page by page; a scan that was cut off continues.

    Ends with 1 if a key failed.
    """
    from seamark.cli import render_views
    from seamark.cli.progress import RunProgress
    from seamark.facts.runs import step_result

    with call.store() as store, call.output.bar(f"Scanning {view}") as tell:
        progress = RunProgress(tell, [view])
        report = store.view(view).scan(rate, where, part, restart, on_batch=progress.on_page)
        result = step_result(store, report)
    call.show(result, render_views.scanned)
    if not result.ok:
        raise typer.Exit(FAILED)


def view(
    call: Call,
    action: Annotated[Action, typer.Argument(metavar="ls|pause|resume", show_default=False, help="What to do.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="VIEW", show_default=False, help="The views; for `ls` all by default.")
    ] = None,
) -> None:
    """List views, let some stand still, or let them run again.

    A view that is paused is left out of all runs, in every program, until it is resumed; then the next run catches up.
    """
    from seamark.cli import render_views
    from seamark.facts.views import list_views

    if action is not Action.ls and not names:
        raise UsedWrongly(f"`view {action}` needs a view.", hint=f"name it, as in `seamark view {action} order_v`.")
    with call.store() as store:
        chosen = [store.view(name) for name in names or []]
        for each in chosen:
            if action is Action.pause:
                each.pause()
            elif action is Action.resume:
                each.resume()
        listed = list_views(store, names or [])
    call.show(listed, render_views.views)


VERBS = [
    Verb("check", check, "seamark check views.sql", "Look"),
    Verb("sql", sql, "seamark sql order_v --dialect postgres", "Look"),
    Verb("scan", scan, "seamark scan order_v --rate 1000", "Run"),
    Verb("view", view, "seamark view pause order_v", "Run"),
]
