"""Every error a person can meet: what happened, with which value, what was left as it was, and what to do next."""

from __future__ import annotations

import difflib
import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import Self


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(name: str, known: Sequence[str], what: str) -> str:
    """A hint with the nearest known name, and all of them."""
    close = nearest(name, known)
    listed = ", ".join(known) if known else "none"
    return (f"did you mean '{close}'? " if close else "") + f"{what}: {listed}."


class SeamarkError(Exception):
    """The base of all of Seamark's errors. `message` says what happened, `hint` what to do next.

    `outcome` is the end of the message, what was left as it was, where others may know better; `what` is the rest.
    """

    def __init__(self, message: str, hint: str | None = None, *, outcome: str | None = None) -> None:
        self.what = message
        self.message = f"{message} {outcome}" if outcome else message
        self.hint = hint
        super().__init__(f"{self.message} Hint: {hint}" if hint else self.message)

    def without_outcome(self) -> Self:
        """The same error where nothing was to be changed, so that it need not say that nothing was."""
        self.message = self.what
        self.args = (f"{self.what} Hint: {self.hint}" if self.hint else self.what,)
        return self


class SeamarkWarning(UserWarning):
    """The base of all of Seamark's warnings: something that may be meant, and may be a mistake."""


def warn(log: logging.Logger, text: str, kind: type[SeamarkWarning], stacklevel: int) -> None:
    """Say that something may be a mistake, as a warning of Python's, and in the log where there is one.

    Where nobody has set up logging both would end up on the screen.
    """
    if log.hasHandlers():
        log.warning("%s", text)
    warnings.warn(text, kind, stacklevel=stacklevel + 1)


NOTHING_WRITTEN = "Nothing was written."

# --- the project and its surroundings ---------------------------------------------------------------------------------


class ConfigError(SeamarkError):
    """`seamark.toml`, the environment or an argument says something that Seamark cannot use."""


class ConfigWarning(SeamarkWarning):
    """A setting that may be misspelt."""


class UsedWrongly(SeamarkError):
    """The command line was given a verb, an option or a value that does not fit."""


class SparkUnavailable(SeamarkError):
    """A Spark session could not be started: Java or the jars are missing."""


class MetricsUnavailable(SeamarkError):
    """`/metrics` cannot be served at the address that was asked for."""


# --- the ledger -------------------------------------------------------------------------------------------------------


class LedgerError(SeamarkError):
    """Something about a chain, its blocks or its objects."""


class MalformedBlock(LedgerError):
    """The bytes are not a block."""


class UnsupportedBlockVersion(LedgerError):
    """The block was written in a manifest version that cannot be read."""

    def __init__(self, found: int, supported: Sequence[int]) -> None:
        self.found = found
        listed = " and ".join(str(v) for v in supported)
        super().__init__(
            f"a block has manifest version {found}; the supported versions are {listed}.",
            hint="the block was written by another generation of Open Data Fabric software.",
        )


class InvalidIdentifier(LedgerError):
    """A hash or dataset id is not written as Open Data Fabric writes them."""


class UnhashableType(LedgerError):
    """The logical hash is not defined for this type."""


class ChainRuleBroken(LedgerError):
    """A block may not follow the chain as it is. `rule` names the rule, `expected` and `found` the two values."""

    def __init__(self, rule: str, *, expected: object, found: object, table: str | None = None) -> None:
        self.rule = rule
        self.expected = expected
        self.found = found
        self.table = table
        where = f"table '{table}': " if table else ""
        super().__init__(
            f"{where}{rule}: expected {_shown(expected)}, found {_shown(found)}. The block was not appended."
        )

    def on(self, table: str) -> ChainRuleBroken:
        """The same error, naming the table whose chain it is about."""
        return ChainRuleBroken(self.rule, expected=self.expected, found=self.found, table=table)


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


class ObjectMissing(LedgerError):
    """A block, slice or checkpoint that is named somewhere is not in the object store."""

    def __init__(self, kind: str, name: str, where: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"the {kind} object {name} is not in {where}.",
            hint="restore the file from a copy of the warehouse; `seamark verify` lists everything that is missing.",
        )


class ObjectChanged(LedgerError):
    """A block, slice or checkpoint has other bytes than the ones that its name stands for."""

    def __init__(self, kind: str, name: str, where: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"the {kind} object {name} in {where} was changed: its bytes have another hash. Nothing was taken from it.",
            hint="restore the file from a copy of the warehouse; `seamark verify` lists everything that was changed.",
        )


# --- the control database ---------------------------------------------------------------------------------------------


class ControlError(SeamarkError):
    """Something about the control database."""


class ControlUnavailable(ControlError):
    """The control database cannot be reached."""


class InvalidControlUrl(ControlUnavailable, ConfigError):
    """The control database's URL says nothing that Seamark can use."""


class SchemaTooNew(ControlError):
    """The control database was made by a newer Seamark."""


class CommitConflict(ControlError):
    """Somebody else committed to the table in between: the change must be planned again from the new head."""

    def __init__(self, table: str, planned: str | None, found: str | None) -> None:
        self.table = table
        self.planned = planned
        self.found = found
        super().__init__(
            f"table '{table}' moved while a change to it was prepared: planned on head {planned or 'none'}, "
            f"found {found or 'none'}. Nothing of this change was written.",
            hint="try the write again; it will be planned on the new head.",
        )


class PositionConflict(ControlError):
    """An input's position was reset while a batch was in flight: the batch must be planned again."""


class LeaseLost(ControlError):
    """A lease ran out or was taken over, so that what was done under it may not be committed; `lease` is its name."""

    def __init__(self, message: str, hint: str | None = None, *, lease: str | None = None) -> None:
        self.lease = lease
        super().__init__(message, hint)


class LeaseHeld(ControlError):
    """Somebody else holds a lease that is needed, and kept it for longer than we wait; `lease` is its name."""

    def __init__(self, message: str, hint: str | None = None, *, lease: str | None = None) -> None:
        self.lease = lease
        super().__init__(message, hint)


class StagedFilesGone(ControlError):
    """Files staged for a commit are no longer registered, so they may have been collected."""


class OffsetError(ControlError):
    """An offset of a step was to be set or reset in a way that cannot be."""


# --- tables -----------------------------------------------------------------------------------------------------------


class TableError(SeamarkError):
    """Something about a table, its schema or a frame written to it."""


class InvalidTableName(TableError):
    """The name cannot be a table's name."""


class InvalidSchema(TableError):
    """The schema, key or event time that a table was declared with cannot be used."""


class SchemaChangeRefused(TableError):
    """The declared schema differs from the table's in a way that would lose or change data."""


class UnknownTable(TableError):
    """No table of this name is declared or stored."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no table '{name}'.", hint=did_you_mean(name, known, "Tables"))


class UnknownColumn(TableError):
    """A column is named that the table does not have."""


class WrongVerb(TableError):
    """The verb does not fit this kind of table."""


class FrameMismatch(TableError):
    """A frame's columns or types do not fit the table."""


class BadValue(TableError):
    """A value does not fit its column."""


class NullKey(TableError):
    """Rows have NULL where the table needs a value."""


class UnfitKey(TableError):
    """The values given for a table's key are not as many as its columns."""


class DuplicateKey(TableError):
    """A frame has two rows with one key."""


class NotACommit(TableError):
    """`as_of` is not the end of a commit."""


class ComputeFailed(TableError):
    """Spark failed while it computed the frame that was to be written; `__cause__` has its error."""


# --- the store --------------------------------------------------------------------------------------------------------


class StoreError(SeamarkError):
    """Control database and warehouse do not fit together."""


class HeadMismatch(StoreError):
    """A table's `refs/head` is not in the control database's chain, so the database is older than the warehouse."""


# --- steps ------------------------------------------------------------------------------------------------------------


class StepError(SeamarkError):
    """Something about a step: what it reads, writes or does."""


class InvalidStep(StepError):
    """A step was declared with inputs, outputs or options that do not fit together."""


class UnknownStep(StepError):
    """No step of this name is declared."""

    def __init__(self, name: str, known: Sequence[str], what: str = "Steps") -> None:
        super().__init__(f"there is no step '{name}'.", hint=did_you_mean(name, known, what))


class DefinitionChanged(StepError):
    """A step's definition is no longer the one that its rows were made by, and nobody has said what to do with them."""


class AlreadyRunning(StepError):
    """Another run of the step holds its lease."""


class BadOutput(StepError):
    """A step's function gave a frame that its output cannot take: wrong columns, a NULL, doubled or foreign key."""


class FunctionFailed(StepError):
    """A step's function failed, and the run was to stop at that; `__cause__` has its error."""


class StepInterrupted(StepError):
    """What a step runs on failed: a worker was killed, memory or disk ran out. No key is to blame.

    `__cause__` has the error.
    """


class VisitFailed(StepError):
    """A visit of a diff cannot be taken, and the first such one was to stop the run."""


class TooManyFailures(StepError):
    """More keys of a step failed than `max_failed_keys`, so the run stopped and recorded none of them."""


def moved_offsets_of_diff(name: str) -> InvalidStep:
    """That the offsets of a diff cannot be moved by hand, whoever declares it."""
    return InvalidStep(
        f"the offsets of diff '{name}' cannot be moved by hand: its state holds what the records up to them brought. "
        "Nothing was changed.",
        hint="declare the diff under another name to start over.",
    )


class NoSuchRow(StepError):
    """The table has no row with this key."""


# --- sinks ------------------------------------------------------------------------------------------------------------


class SinkError(SeamarkError):
    """Something about a sink: where it leads, what it carries, or what its target says."""


class InvalidSink(SinkError):
    """A sink was declared with a table, a name or options that do not fit together."""


class UnknownSink(SinkError):
    """No sink of this name is declared."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no sink '{name}'.", hint=did_you_mean(name, known, "Sinks"))


class SinkUnavailable(SinkError):
    """A sink's target cannot be reached or opened: host, password, database, folder, or a package that is missing."""


class TargetMismatch(SinkError):
    """The table in the target is not one that the sink may write to: columns, engine or deduplication do not fit."""


class TargetConflict(SinkError):
    """What the target says of its position does not fit the table's chain, so that sending on could double or lose."""


class UnfitValue(SinkError):
    """A record holds a value that the target cannot hold as it is."""


# --- views ------------------------------------------------------------------------------------------------------------


class UnreadableSource(SeamarkError):
    """A file, folder or table of views is not there, or cannot be read."""


class ViewError(SeamarkError):
    """Views have errors and were not loaded; `issues` has all of them."""

    def __init__(self, issues: Sequence[object]) -> None:
        self.issues = issues
        errors = [issue for issue in issues if getattr(issue, "is_error", True)]
        shown = "\n".join(map(str, errors))
        super().__init__(f"views were not loaded: {len(errors)} error{'s' * (len(errors) != 1)}.\n{shown}")


class UnknownView(StepError):
    """No view of this name is loaded."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no view '{name}'.", hint=did_you_mean(name, known, "Views"))


class UnknownHandler(StepError):
    """No handler of this name is loaded."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no handler '{name}'.", hint=did_you_mean(name, known, "Handlers"))


class HandlerHeld(StepError):
    """A handler is at work already, in this process or another one."""

    def __init__(self, handler: str, holder: str) -> None:
        super().__init__(
            f"handler '{handler}' is at work already, held by {holder}. It was not started.",
            hint="stop it there; after a kill its lease runs out by itself.",
        )


class ViewPaused(StepError):
    """A view is paused, so nothing of it is computed."""

    def __init__(self, view: str) -> None:
        super().__init__(
            f"view '{view}' is paused. Nothing was computed.",
            hint=f'let it go on with `seamark view resume {view}` or ds.view("{view}").resume().',
        )


class ScanRunning(StepError):
    """A view is being scanned already."""

    def __init__(self, view: str, holder: str) -> None:
        super().__init__(
            f"view '{view}' is being scanned already, by {holder}. Nothing was scanned.",
            hint="wait until it is done; after a kill the lease runs out by itself, and a scan continues.",
        )
