"""Who is to blame when a step's function fails: one of the keys, or the environment that the step runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seamark.errors import FunctionFailed, SeamarkError, StepInterrupted, TableError
from seamark.spark.causes import SPARK_ERRORS, Fault, explained, fault_of
from seamark.tables.schema.convert import misfit_in


class KeyTrouble(Exception):
    """The function failed on some key of a scope; which one, the search in `isolate` finds out."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause
        super().__init__(self.text)

    @property
    def text(self) -> str:
        """The error as it is recorded with the key."""
        if isinstance(self.cause, TableError):
            return self.cause.what
        misfit = misfit_in(self.cause)
        if misfit is None:
            return explained(self.cause)
        column, value = misfit
        return f"the value {value} does not fit column '{column}'"


def blamed(error: BaseException) -> Exception:
    """`KeyTrouble` if a key is to blame for the error; otherwise the error itself."""
    if isinstance(error, SeamarkError):
        return error
    if isinstance(error, Exception) and fault_of(error) is not Fault.ROWS:
        return error
    return KeyTrouble(error)


@contextmanager
def interruptions_named(step: str) -> Iterator[None]:
    """Turn an error of the environment into `StepInterrupted`: the first line of Spark's own only names a JVM call."""
    try:
        yield
    except SPARK_ERRORS as error:
        if fault_of(error) is Fault.SURROUNDINGS:
            raise interrupted(step, error) from error
        raise


def interrupted(step: str, error: BaseException) -> StepInterrupted:
    """The error that stops a run when the environment has failed."""
    return StepInterrupted(
        f"step '{step}' could not continue: {explained(error).rstrip('.')}. No key is to blame, and none was recorded "
        "as failed; nothing of this batch was written.",
        hint="look at memory and disk space: a worker that vanishes was most often killed because memory ran out. Give "
        "it more, or less at once (batch_rows, batch_keys), and run again: what was committed stays.",
    )


def function_failed(step: str, key: str, trouble: KeyTrouble) -> FunctionFailed:
    """The error that stops a run with `fail_fast`."""
    error = FunctionFailed(
        f"step '{step}' failed on key {key}: {trouble.text}. Nothing of this batch was written.",
        hint="fix the function or the row, then run again; without fail_fast the other keys continue.",
    )
    error.__cause__ = trouble.cause
    return error
