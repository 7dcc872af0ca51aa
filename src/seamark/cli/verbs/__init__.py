"""The verbs. A file has a list `VERBS`; to add a verb add it there, to add a file add its name here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

FILES = ("start", "run", "repair", "look", "status", "why", "views", "care", "doctor")

OneKey = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="[COLUMN=]VALUE",
        show_default=False,
        help="Only this key; several columns one by one.",
    ),
]
"""The option that names one key to a verb."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its name, its function (which takes a `Call`, then typer's parameters), an example, and its group."""

    name: str
    function: Callable[..., None]
    example: str
    panel: str
