"""Errors as a person or a program is told of them, and the exit codes that they end with."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

from seamark.errors import ConfigError, NotACommit, SeamarkError, UnknownColumn, UnknownStep, UnknownTable, UsedWrongly

FAILED, USED_WRONGLY = 1, 2

_WRONG_USE = (ConfigError, UsedWrongly, UnknownTable, UnknownStep, UnknownColumn, NotACommit)


class PipelineRaised(Exception):
    """The user's pipeline raised something that is not ours: `__cause__`. `trace` begins at the user's own file."""

    def __init__(self, where: str, trace: str) -> None:
        super().__init__(where)
        self.where = where
        self.trace = trace


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: kind and text of the error, what to do, the exit code, and a stack trace if one is shown."""

    type: str
    message: str
    hint: str | None
    exit_code: int
    trace: str | None = None


def failure_of(error: BaseException, *, debug: bool) -> Failure:
    """An error as it is told; with `debug` with its whole stack trace."""
    told = _told(error)
    trace = "".join(traceback.format_exception(error)) if debug else told.trace
    return Failure(
        told.type,
        without_secrets(told.message),
        without_secrets(told.hint) if told.hint else None,
        told.exit_code,
        without_secrets(trace) if trace else None,
    )


def _told(error: BaseException) -> Failure:
    match error:
        case SeamarkError():
            code = USED_WRONGLY if isinstance(error, _WRONG_USE) else FAILED
            return Failure(type(error).__name__, error.message, error.hint, code)
        case PipelineRaised(__cause__=BaseException() as cause):
            text = f"{error.where}: {type(cause).__name__}: {cause}".rstrip(": ")
            hint = "the project's own pipeline raised this; nothing was done."
            return Failure(type(cause).__name__, text, hint, FAILED, error.trace)
        case Interrupted():
            hint = "what was committed stays; nothing is half done."
            return Failure("Interrupted", "interrupted.", hint, FAILED)
        case _:
            text = f"unexpected {type(error).__name__}: {error}".rstrip(": ")
            return Failure(type(error).__name__, text, "run it again with --debug to see where it happened.", FAILED)


_CREDENTIALS = re.compile(r"(\b[A-Za-z][\w+.-]*://[^\s/:@'\"]*):[^\s'\"]*@")
_NAMED = re.compile(r"(?i)((?:password|passwd|pwd|token|secret)\s*=\s*)(?!\*\*\*)('[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)")


def without_secrets(text: str) -> str:
    """The text with `***` in place of passwords in URLs and of values that are named as secrets.

    Our own errors hold none; a stack trace shows lines of other people's programs, which may.
    """
    return _NAMED.sub(r"\1***", _CREDENTIALS.sub(r"\1:***@", text))
