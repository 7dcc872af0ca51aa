"""The spans of time that a diff is declared with: how long visits stay in the state, and how long their marks do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from seamark.diffs.compute.merge import MergeColumn
from seamark.diffs.declare.complaints import refused
from seamark.diffs.declare.spec import TimeToLive
from seamark.errors import UnknownColumn, did_you_mean


def time_to_live(name: str, ttl: tuple[str, str | timedelta], columns: Sequence[MergeColumn]) -> TimeToLive:
    """How long visits stay in the state, or an error that names what is wrong with it."""
    try:
        column, given = ttl
        span = _parsed(given)
    except (TypeError, ValueError):
        raise refused(
            name, f"ttl={ttl!r} is not a column and a span of time.", 'give ttl=("start_time", "30 days").'
        ) from None
    if not span > timedelta(0):
        raise refused(name, f"ttl={ttl!r} is not a span of time that passes.", 'give ttl=("start_time", "30 days").')
    known = next((entry for entry in columns if entry.name == column), None)
    if known is None:
        names = [entry.name for entry in columns]
        raise UnknownColumn(
            f"diff '{name}': ttl names column '{column}', which none of its logs has. It was not added.",
            hint=did_you_mean(column, names, "Columns of its logs"),
        )
    if not (pa.types.is_timestamp(known.type) or pa.types.is_date(known.type)):
        raise refused(name, f"ttl names column '{column}', which is {known.spark_type}, not a time.")
    return TimeToLive(column, span)


def kept_marks(name: str, given: str | timedelta) -> timedelta:
    """How long marks are kept, or an error that names what is wrong with it."""
    try:
        span: timedelta = _parsed(given)
    except (TypeError, ValueError):
        span = timedelta(0)
    if not span > timedelta(0):
        raise refused(name, f"keep_gone={given!r} is not a span of time that passes.", 'give keep_gone="400 days".')
    return span


def _parsed(given: str | timedelta) -> timedelta:
    if type(given) is timedelta:  # those of pandas are some, too
        return given
    import pandas as pd

    span: timedelta = pd.Timedelta(given).to_pytimedelta()
    return span
