"""What stopped a step or a sink, as it is reported."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.errors import SeamarkError
from seamark.texts import storable, without_secrets

MOST_SHOWN = 200_000  # letters: a stack trace through Spark is long
SHOW_WHERE = "run it again with --debug to see where it happened."


@dataclass(frozen=True, slots=True)
class Trouble:
    """What stopped something: the kind of error, its message and its hint."""

    type: str
    message: str
    hint: str | None


def trouble_of(error: BaseException) -> Trouble:
    """An error as it is reported."""
    kind = type(error).__name__
    if isinstance(error, SeamarkError):
        hint = storable(error.hint, MOST_SHOWN) if error.hint else None
        return Trouble(kind, storable(error.message, MOST_SHOWN).strip(), hint)
    first = str(error).strip().partition("\n")[0]  # Spark's errors continue with a plan
    return Trouble(kind, without_secrets(f"{kind}: {first}".rstrip(": ")), SHOW_WHERE)
