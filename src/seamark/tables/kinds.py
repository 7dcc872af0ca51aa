"""The kinds of steps that definitions in chains name, and what each means to a reader of a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Fills = Callable[[str, Sequence[str]], list[str]]
"""From a step's name and its outputs to the tables that its positions and failed keys are about."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of step is.

    `is_function` says that a definition names a function of its inputs' frames. `takes_once` says that it takes in each
    record exactly once, so that no position of it can be moved and no key handed to it. `has_signs` says that its
    records have a sign and a version, by which they cancel each other. `runs_from_chain` says that the text in a chain
    can be run again, whatever the program declares; so it stays there as it was written. `names_columns` says that its
    text decides which columns of its inputs it reads, so that these may grow by others while a program runs.
    """

    is_function: bool = False
    takes_once: bool = False
    has_signs: bool = False
    runs_from_chain: bool = False
    names_columns: bool = False
    fills: Fills = lambda _step, outputs: list(outputs)


DIFF = "diff"
VIEW = "view"

KINDS: Mapping[str, Kind] = {
    "python": Kind(is_function=True),
    "pandas": Kind(is_function=True),
    "sql": Kind(is_function=True, runs_from_chain=True),
    DIFF: Kind(takes_once=True, has_signs=True, fills=lambda step, _outputs: [f"{step}_state"]),
    VIEW: Kind(names_columns=True),
}
FUNCTIONS = tuple(name for name, kind in KINDS.items() if kind.is_function)
_UNKNOWN = Kind()


def kind_of(name: object) -> Kind:
    """The kind that a definition names; one that is not known has nothing special."""
    return KINDS.get(name, _UNKNOWN) if isinstance(name, str) else _UNKNOWN
