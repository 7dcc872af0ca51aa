"""`why`: where a row came from."""

from __future__ import annotations

from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.verbs import Verb


def why(
    call: Call,
    table: Annotated[str, typer.Argument(metavar="TABLE", show_default=False, help="The table's name.")],
    key: Annotated[
        list[str],
        typer.Argument(metavar="COLUMN=VALUE", show_default=False, help="The row's key, a value for each column."),
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="How many rows of each input to follow.")
    ] = 20,
) -> None:
    """Show where a row came from: its block, the step that made it, and the input records behind it, down to the roots.

    Ends with 1 if the table has no such row.
    """
    from seamark.cli import render_steps
    from seamark.facts.origins import find_origins

    with call.store() as store:
        with call.output.working(f"Looking behind {table}"):
            found = find_origins(store, table, key, limit)
        call.show(found, render_steps.origins)


VERBS = [Verb("why", why, "seamark why feed post_id=1", "Look")]
