"""Facts as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path

from seamark.clock import to_millis


def plain(value: object) -> object:
    """Dataclasses as objects, times as ISO 8601 in UTC; what JSON has no word for as text."""
    match value:
        case None | bool() | str():
            return value
        case Enum():
            return value.name.lower()
        case int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return iso(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal() | Path():
            return str(value)
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)


def iso(moment: datetime) -> str:
    """A moment in ISO 8601: in UTC with milliseconds and `Z`; one that has no time zone stays without."""
    if moment.tzinfo is None:
        return moment.isoformat()
    in_utc = moment.astimezone(UTC)
    if in_utc.microsecond % 1000:
        return in_utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return f"{in_utc:%Y-%m-%dT%H:%M:%S}.{to_millis(in_utc) % 1000:03d}Z"
