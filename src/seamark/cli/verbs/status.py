"""`status`: the state of the project, once or again and again."""

from __future__ import annotations

from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.verbs import Verb
from seamark.errors import UsedWrongly

WATCH_SECONDS = 2.0


def status(
    call: Call,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C; on a terminal only.")
    ] = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print the metrics of all steps as Prometheus text instead.")
    ] = False,
) -> None:
    """Show how far each step is and why, how fresh each table is, who is at work, and how the last runs ended."""
    from seamark.cli import render_project
    from seamark.facts.project import gather_status

    _check(call, watch=watch, prometheus=prometheus)
    with call.store() as store:
        if prometheus:
            from seamark.metrics import metrics_text

            call.output.text(metrics_text(store))
        elif watch:
            call.output.again_and_again(lambda: render_project.status(gather_status(store)), WATCH_SECONDS)
        else:
            call.show(gather_status(store), render_project.status)


def _check(call: Call, *, watch: bool, prometheus: bool) -> None:
    given = [
        name
        for name, is_given in (("--watch", watch), ("--prometheus", prometheus), ("--json", call.output.json))
        if is_given
    ]
    if len(given) > 1:
        raise UsedWrongly(f"{' and '.join(given)} do not go together.", hint="leave one of them out.")
    if watch and not call.output.is_terminal:
        raise UsedWrongly(
            "--watch needs a terminal to draw on, and stdout is not one.",
            hint="leave it out, or use --json in a loop of your own.",
        )


VERBS = [Verb("status", status, "seamark status --watch", "Look")]
