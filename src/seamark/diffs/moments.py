"""Moments and the columns that they are compared with, whatever the time zone of the session.

A day or a time without a zone is one of UTC, in a program whose session is in Los Angeles too.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def as_moment(value: date | datetime | None) -> datetime | None:
    """A value of a time column as a moment."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
