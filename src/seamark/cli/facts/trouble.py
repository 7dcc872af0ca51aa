"""What stopped a step or a sink, as the command line reports errors."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.cli.failures import failure_of
from seamark.errors import SeamarkError
from seamark.texts import without_secrets


@dataclass(frozen=True, slots=True)
class Trouble:
    """What stopped something: the kind of error, its message and its hint."""

    type: str
    message: str
    hint: str | None


def trouble_of(error: BaseException) -> Trouble:
    """An error as it is reported."""
    told = failure_of(error, debug=False)
    if isinstance(error, SeamarkError):
        return Trouble(told.type, told.message.strip(), told.hint)
    first = str(error).strip().partition("\n")[0]  # Spark's errors go on with a plan
    return Trouble(told.type, without_secrets(f"{told.type}: {first}".rstrip(": ")), told.hint)
