"""Moments and the columns that they are compared with, whatever the time zone of the session.

A day or a time without a zone is one of UTC, in a program whose session is in Los Angeles too.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def literal(kind: pa.DataType, moment: datetime) -> Column:
    """A moment as a value of a time column's type."""
    at = moment.astimezone(UTC)
    if pa.types.is_date(kind):
        return F.lit(at.date().isoformat()).cast("date")
    if kind.tz is None:
        return F.lit(at.replace(tzinfo=None).isoformat()).cast("timestamp_ntz")
    return F.timestamp_micros(F.lit((at - _EPOCH) // timedelta(microseconds=1)))


def scalar(kind: pa.DataType, moment: datetime) -> pa.Scalar:
    """The same for rows on the driver."""
    at = moment.astimezone(UTC)
    if pa.types.is_date(kind):
        return pa.scalar(at.date(), kind)
    return pa.scalar(at if kind.tz is not None else at.replace(tzinfo=None), kind)


def as_moment(value: pa.Scalar) -> datetime | None:
    """A value of a time column as a moment; one that Python's years 1 to 9999 do not hold is the nearest that they do.

    Columns hold more: a visit of the year 10000 is in no hurry, and one from before our era has long been due.
    """
    if not value.is_valid:
        return None
    span = {"days": value.value} if pa.types.is_date(value.type) else {"microseconds": value.value}
    try:
        return _EPOCH + timedelta(**span)
    except OverflowError:
        return EARLIEST if value.value < 0 else LATEST
