"""The kinds of steps that definitions in chains name, and what each means to a reader of a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Fills = Callable[[str, Sequence[str]], list[str]]
"""From a step's name and its outputs to the tables that its positions and failed keys are about."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of step is.

    `takes_once` says that it takes in each record exactly once, so that no position of it can be moved and no key
    handed to it. `runs_from_chain` says that the text in a chain can be run again, whatever the program declares.
    """

    takes_once: bool = False
    runs_from_chain: bool = False
    fills: Fills = lambda _step, outputs: list(outputs)


DIFF = "diff"

KINDS: Mapping[str, Kind] = {
    "python": Kind(),
    "pandas": Kind(),
    "sql": Kind(runs_from_chain=True),
    DIFF: Kind(takes_once=True, fills=lambda step, _outputs: [f"{step}_state"]),
}
_UNKNOWN = Kind()


def kind_of(name: object) -> Kind:
    """The kind that a definition names; one that is not known has nothing special."""
    return KINDS.get(name, _UNKNOWN) if isinstance(name, str) else _UNKNOWN
