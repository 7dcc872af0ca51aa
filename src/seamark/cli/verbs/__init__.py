"""The verbs. A file has a list `VERBS`; to add a verb add it there, to add a file add its name here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FILES = ("start", "run", "mend", "look", "status", "why", "care", "doctor")


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its name, its function (which takes a `Call`, then typer's parameters), an example, and its group."""

    name: str
    function: Callable[..., None]
    example: str
    panel: str
