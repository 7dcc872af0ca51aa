"""Errors as a person or a program sees them, and the exit codes that they end with."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from seamark.cli.signals import Terminated
from seamark.errors import (
    ConfigError,
    NotACommit,
    SeamarkError,
    UnknownColumn,
    UnknownHandler,
    UnknownStep,
    UnknownTable,
    UnknownView,
    UsedWrongly,
)
from seamark.facts.trouble import MOST_SHOWN, SHOW_WHERE
from seamark.texts import storable

FAILED, USED_WRONGLY, HAS_WORK = 1, 2, 3

_WRONG_USE = (
    ConfigError,
    UsedWrongly,
    UnknownTable,
    UnknownStep,
    UnknownView,
    UnknownHandler,
    UnknownColumn,
    NotACommit,
)


class PipelineRaised(Exception):
    """The user's pipeline raised something that is not ours: `__cause__`. `trace` begins at the user's own file."""

    def __init__(self, where: str, trace: str) -> None:
        super().__init__(where)
        self.where = where
        self.trace = trace


class Interrupted(Exception):
    """Somebody pressed Ctrl-C, or a signal asked the process to end: `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: kind and text of the error, what to do, the exit code, and a stack trace if one is shown."""

    type: str
    message: str
    hint: str | None
    exit_code: int
    trace: str | None = None


def failure_of(error: BaseException, *, debug: bool) -> Failure:
    """An error as it is reported; with `debug` with its whole stack trace."""
    shown = _shown(error)
    trace = "".join(traceback.format_exception(error)) if debug else shown.trace
    return Failure(
        shown.type,
        storable(shown.message, MOST_SHOWN),
        storable(shown.hint, MOST_SHOWN) if shown.hint else None,
        shown.exit_code,
        storable(trace, MOST_SHOWN) if trace else None,
    )


def _shown(error: BaseException) -> Failure:
    match error:
        case SeamarkError():
            code = USED_WRONGLY if isinstance(error, _WRONG_USE) else FAILED
            return Failure(type(error).__name__, error.message, error.hint, code)
        case PipelineRaised(__cause__=BaseException() as cause):
            text = f"{error.where}: {type(cause).__name__}: {cause}".rstrip(": ")
            hint = "the project's own pipeline raised this; nothing was done."
            return Failure(type(cause).__name__, text, hint, FAILED, error.trace)
        case Interrupted():
            return _shown(error.cause) if isinstance(error.cause, KeyboardInterrupt) else _interrupted()
        case Terminated():
            return _interrupted(f"{error}.", error.exit_code)
        case KeyboardInterrupt():
            return _interrupted()
        case _:
            text = f"unexpected {type(error).__name__}: {error}".rstrip(": ")
            return Failure(type(error).__name__, text, SHOW_WHERE, FAILED)


def _interrupted(message: str = "interrupted.", exit_code: int = FAILED) -> Failure:
    return Failure("Interrupted", message, "what was committed stays; nothing is half done.", exit_code)
