"""What failed when Spark did: the rows, the query, or what Spark runs on.

That is decided by classes and conditions of errors and by marks that nobody else knows, never by the words of a
message: those may come from a row. A value "cancelled" fails its cast; it does not cancel a job.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException

from seamark.texts import storable, words_of

SPARK_ERRORS = (PySparkException, Py4JError)
# No row can hold it, as every process makes another one.
_NOBODY_KNOWS = uuid.uuid4().hex[:12]


class Fault(Enum):
    """Who is to blame for an error: some row, the query as a whole, or what it runs on."""

    ROWS = "rows"
    QUERY = "query"
    SURROUNDINGS = "surroundings"
    CANCELLED = "cancelled"


def mark(what: str) -> str:
    """The beginning of a text by which an error that Seamark itself raises inside Spark is recognised."""
    return f"seamark {_NOBODY_KNOWS}: {what} "


@dataclass(frozen=True, slots=True)
class Cause:
    """One error in a row of causes: its class, Spark's name for it, and what it says."""

    kind: str
    condition: str | None = None
    message: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


# --- our own code on executors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnTrouble:
    """Travels to the executors with our code there, and marks what goes wrong in it."""

    marked: str

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Mark errors of the machine, so that the driver recognises them: no row is to blame for a full disk."""
        try:
            yield
        except (OSError, MemoryError) as error:
            raise self.error(error) from error

    def error(self, error: BaseException) -> RuntimeError:
        """The error to raise for one that no row is to blame for."""
        return RuntimeError(self.marked + words_of(error))


OWN_TROUBLE = OwnTrouble(mark("trouble of its own:"))

# --- the decision -----------------------------------------------------------------------------------------------------

_USER_RAISED, _PYTHON = "USER_RAISED_EXCEPTION", "PYTHON_EXCEPTION"
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
# Spark's conditions that speak of files, memory, executors and connections. The part before the first dot counts.
_OF_SURROUNDINGS = frozenset(
    (
        "AGGREGATE_OUT_OF_MEMORY",
        "CANNOT_RESTORE_PERMISSIONS_FOR_PATH",
        "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
        "CODEC_NOT_AVAILABLE",
        "CONNECT",
        "FAILED_READ_FILE",
        "FAILED_RENAME_TEMP_FILE",
        "INTERNAL_ERROR_BROADCAST",
        "INTERNAL_ERROR_EXECUTOR",
        "INTERNAL_ERROR_MEMORY",
        "INTERNAL_ERROR_NETWORK",
        "INTERNAL_ERROR_SHUFFLE",
        "INTERNAL_ERROR_STORAGE",
        "INVALID_HANDLE",
        "POINTER_ARRAY_OUT_OF_MEMORY",
        "SPARK_CONNECT_ILLEGAL_STATE",
        "SPILL_OUT_OF_MEMORY",
        "TASK_WRITE_FAILED",
        "UNABLE_TO_ACQUIRE_MEMORY",
        "_LEGACY_ERROR_TEMP_2097",  # a broadcast took too long
        "_LEGACY_ERROR_TEMP_2105",  # these and the next ones: not enough memory
        "_LEGACY_ERROR_TEMP_2106",
        "_LEGACY_ERROR_TEMP_2107",
        "_LEGACY_ERROR_TEMP_2248",
        "_LEGACY_ERROR_TEMP_2249",
        "_LEGACY_ERROR_TEMP_2250",
    )
)
_OF_SPARKS_CORE = "_LEGACY_ERROR_TEMP_30"  # scheduler, executors and shuffles have the numbers from 3000 on
# Errors that only hold another one. What ends with one of them had no better reason: an executor or a worker was lost.
_WRAPPERS = (
    "org.apache.spark.SparkException",
    "java.util.concurrent.ExecutionException",
    "java.util.concurrent.CompletionException",
    "java.lang.reflect.InvocationTargetException",
    "java.lang.reflect.UndeclaredThrowableException",
    "java.security.PrivilegedActionException",
)
_SEVERAL_AT_ONCE = "STAGE_MATERIALIZATION_MULTIPLE_FAILURES"
# Classes, or packages of them, that no row can make: files, network, memory, a worker that is gone.
_KINDS_OF_SURROUNDINGS = (
    "java.io.",
    "java.net.",
    "java.nio.channels.",
    "java.nio.file.",
    "java.lang.IllegalStateException",
    "java.lang.InternalError",
    "java.lang.InterruptedException",
    "java.lang.NoClassDefFoundError",
    "java.lang.OutOfMemoryError",
    "java.lang.UnsatisfiedLinkError",
    "java.util.concurrent.CancellationException",
    "java.util.concurrent.RejectedExecutionException",
    "java.util.concurrent.TimeoutException",
    "org.apache.hadoop.",
    "org.apache.spark.TaskKilledException",
    "org.apache.spark.memory.",
    "org.apache.spark.rpc.",
    "org.apache.spark.shuffle.",
    "org.apache.spark.storage.",
)
_MACHINE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS))


def fault_of(error: BaseException) -> Fault:
    """Who is to blame for an error that a function raised, or that came out of Spark."""
    if isinstance(error, AnalysisException):
        return Fault.QUERY
    if isinstance(error, PythonException):
        return Fault.SURROUNDINGS if OWN_TROUBLE.marked in str(error) else Fault.ROWS
    if isinstance(error, SPARK_ERRORS):
        return judged(causes_of(error))
    is_ours = is_of_the_machine(error) or isinstance(error, ConnectionError)  # the one to Spark, most likely
    return Fault.SURROUNDINGS if is_ours else Fault.ROWS


def is_of_the_machine(error: BaseException) -> bool:
    """Whether a Python error says that memory has run out or that a disk has failed."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _MACHINE)


def judged(causes: list[Cause]) -> Fault:
    """Who is to blame, by an error and its causes, the outermost first: the first that says anything decides."""
    for cause in causes:
        if cause.condition == _SEVERAL_AT_ONCE or (cause.condition is None and cause.kind in _WRAPPERS):
            continue
        if cause.condition in _CANCELLED:
            return Fault.CANCELLED
        if cause.condition == _PYTHON:
            return Fault.SURROUNDINGS if OWN_TROUBLE.marked in cause.message else Fault.ROWS
        if cause.condition is not None:
            is_ours = cause.condition.partition(".")[0] in _OF_SURROUNDINGS
            return Fault.SURROUNDINGS if is_ours or cause.condition.startswith(_OF_SPARKS_CORE) else Fault.ROWS
        return Fault.SURROUNDINGS if cause.kind.startswith(_KINDS_OF_SURROUNDINGS) else Fault.ROWS
    return Fault.SURROUNDINGS


def causes_of(error: PySparkException | Py4JError) -> list[Cause]:
    """An error of Spark's and its causes, the outermost first. Empty if it is not known what it was."""
    try:
        if isinstance(error, Py4JJavaError):
            return list(_java_causes(error.java_exception))
        return [] if isinstance(error, Py4JError) else [_own_cause(error)]
    except (Py4JError, OSError):  # the JVM, which knows more of an error than Python does, is gone
        return []


def _own_cause(error: PySparkException) -> Cause:
    condition = error.getCondition()
    if condition is None and hasattr(error, "getStackTrace"):  # over Spark Connect the class is there, by itself
        kind = (error.getStackTrace() or _WRAPPERS[0]).splitlines()[0].strip()
    else:
        kind = type(error).__name__
    parameters = error.getMessageParameters() if condition == _USER_RAISED else None
    return Cause(kind, condition, str(error), parameters or {})


def _java_causes(found: Any) -> Iterator[Cause]:
    while found is not None:
        condition = _condition(found)
        parameters = dict(found.getMessageParameters()) if condition == _USER_RAISED else {}
        yield Cause(found.getClass().getName(), condition, found.getMessage() or "", parameters)
        found = found.getCause()


def _condition(found: Any) -> str | None:
    try:
        condition = found.getCondition()
    except Py4JJavaError:
        raise
    except Py4JError:  # it has no such method: it is not one of Spark's
        return None
    return condition if isinstance(condition, str) else None


# --- what they say ----------------------------------------------------------------------------------------------------


def raised_text(error: BaseException, marked: str) -> str | None:
    """What follows a mark in a text that `raise_error` was given, if that is what made Spark fail."""
    if not isinstance(error, SPARK_ERRORS) or isinstance(error, AnalysisException | PythonException):
        return None
    for cause in causes_of(error):
        if cause.condition == _USER_RAISED:
            text = cause.parameters.get("errorMessage", "")
            return text.removeprefix(marked) if text.startswith(marked) else None
    return None


def explained(error: BaseException) -> str:
    """What went wrong, in a line or two that can be kept: for people, never to decide by."""
    if not isinstance(error, SPARK_ERRORS):
        return words_of(error)
    if isinstance(error, PythonException):
        return storable(final_line(str(error)))
    if isinstance(error, Py4JError):
        return storable(_of_causes(causes_of(error)) or _first_line(str(error)) or type(error).__name__)
    return storable(_first_line(str(error)) or type(error).__name__)


def final_line(text: str) -> str:
    """The end of a Python stack trace: the line that names the error; after our mark, what we said."""
    own = text.rpartition(OWN_TROUBLE.marked)[2] if OWN_TROUBLE.marked in text else None
    if own is not None:
        return _first_line(own)
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else lines
    return next((line.strip() for line in after if line.strip() and not line[0].isspace()), _first_line(text))


def _of_causes(causes: list[Cause]) -> str:
    """The cause that has a name, else the innermost that says anything."""
    named = [cause for cause in causes if cause.condition is not None and cause.condition != _SEVERAL_AT_ONCE]
    speaking = named[:1] or [cause for cause in causes if cause.message.strip()][-1:]
    if not speaking:
        return ""
    cause = speaking[0]
    if cause.condition == _PYTHON:
        return final_line(cause.message)
    text = _first_line(cause.message)
    return text if cause.condition or cause.kind in _WRAPPERS else f"{cause.kind.rpartition('.')[2]}: {text}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
