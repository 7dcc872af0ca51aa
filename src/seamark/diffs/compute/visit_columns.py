"""What is known of a visit between two logs: which column holds what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.diffs.compute.blocks import Fast, Side, State
from seamark.diffs.declare.spec import SLOW, DiffLog, DiffSpec, stored_wide
from seamark.tables.frame import quoted
from seamark.tables.schema.types import spark_name

# A column's name holds no space, so these are nobody's.
WIDE_BY_VERSION = "its wide"
AT_SLOW, AT_FAST, AT_WIDE = "at S", "at F", "at wide"  # what remains of the visit after the diff's records
LIVES = "it lives"  # False: it has left the state by its age, and its last version remains
LAST_SLOW = "last S"  # the greatest slow version that was ever used for the visit, 0 if none was
MARK, MARK_SLOW, ENDED = "mark F", "mark S", "it ended"  # the newest version of its lives that are over
ENDS = "ends F"  # the versions at which its lives ended, as far as the run knows
LINES, COUNTS, MISSING, DELETED_WITHOUT_VERSION = "lines", "it counts", "missing wide", "deleted without version"
TOO_LARGE, LATE = "too large", "its late records"
HORIZON, NOW = "its horizon", "now"  # the same for all visits of a run; columns, so that expressions can be kept


@dataclass(frozen=True)
class Applying:
    """How the logs of a run are applied: what the frame has, and whether to keep what is known after each log.

    `marks` says whether it has the marks of visits that left before, and `asleep` whether it has, of those that left
    by their age, the rows that they left with.
    """

    keep_intermediate: bool = False
    marks: bool = False
    asleep: bool = False


def old(column: str) -> str:
    """The column of the state before."""
    return f"old {column}"


def gone(column: str) -> str:
    """The column of the mark that a visit left when it last went."""
    return f"gone {column}"


def asleep(column: str) -> str:
    """The column of the row that a visit left the state with by its age."""
    return f"asleep {column}"


def intermediate_columns(spec: DiffSpec) -> list[str]:
    """The columns of all levels, in the order of the tables that keep them."""
    names = [intermediate_column(0)]
    for log in spec.logs:
        names += [intermediate_column(log.number), intermediate_column(log.number, new_only=True)]
    return names


def intermediate_column(number: int, *, new_only: bool = False) -> str:
    """The column of what is known after a log, as a row of the state; 0 is the state before all of them."""
    return f"level {number}" + (" new" if new_only else "")


def states_by(spec: DiffSpec, name: Callable[[str], str]) -> State:
    """The state's columns, from columns that are named by them."""
    return {column.name: F.col(quoted(name(column.name))) for column in spec.columns}


def state_name(column: str) -> str:
    """The column of what is known now of one of the state's."""
    return f"state {column}"


def known_side(spec: DiffSpec) -> Side:
    """What there is of a visit now."""
    wide = F.col(quoted(AT_WIDE)) if spec.wide_columns else None
    return Side(F.col(quoted(AT_SLOW)), Fast(F.col(quoted(AT_FAST)), wide), states_by(spec, state_name))


def kept_wide(spec: DiffSpec, name: Callable[[str], str]) -> Column:
    """The wide columns of a stored version, as they were when it was written."""
    return F.struct(*[F.col(quoted(name(stored_wide(c.name)))).alias(c.name) for c in spec.wide_columns])


def stored_side(spec: DiffSpec, name: Callable[[str], str]) -> Side:
    """A row of the state, from columns that are named by its own."""
    fast = Fast(F.col(quoted(name(spec.fast_version.name))), kept_wide(spec, name) if spec.wide_columns else None)
    return Side(F.col(quoted(name(SLOW))), fast, states_by(spec, name))


def state_row(spec: DiffSpec, side: Side) -> list[Column]:
    """What is known of a visit, as a row of the state."""
    row = [F.col(quoted(name)) for name in spec.key_names]
    row.append(side.fast.version.cast(spark_name(spec.fast_version.type)).alias(spec.fast_version.name))
    row.append(side.slow.alias(SLOW))
    row += [side.state[column.name].alias(column.name) for column in spec.columns]
    wide = side.fast.wide
    return row + [wide[c.name].alias(stored_wide(c.name)) for c in spec.wide_columns if wide is not None]


def column_names(spec: DiffSpec) -> list[str]:
    """The names of the state's columns."""
    return [column.name for column in spec.columns]


def applied_name(log: DiffLog) -> str:
    """The column of the records of a log that are applied to the visit."""
    return f"applied {log.number}"


def heard_name(log: DiffLog) -> str:
    """The column of the offsets of those records of a log that did not come too late for the life they are about."""
    return f"heard {log.number}"


def written_records(spec: DiffSpec) -> Column:
    """The records that the diff writes of a visit, in their order."""
    parts = []
    for log in spec.logs:
        parts += [lines_name(log, "delete")] if log.deletes_by is not None else []
        parts.append(lines_name(log, "news"))
    return F.concat(*[F.col(quoted(part)) for part in parts])


def lines_name(log: DiffLog, what: str) -> str:
    """The column of the records that a log leads to, by its deletes or by its news."""
    return f"{LINES} {log.number} {what}"
