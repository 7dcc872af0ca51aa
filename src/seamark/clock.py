"""The wall clock, as something that can be passed in and turned."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """A source of the current time, and what waits for it to pass."""

    def now(self) -> datetime:
        """The present time, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when that much time has passed on this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present time, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Return after that many seconds."""
        time.sleep(max(seconds, 0.0))


def to_millis(moment: datetime) -> int:
    """Whole milliseconds since 1970 of a moment, cut off, not rounded."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // MILLISECOND


def from_millis(millis: int) -> datetime:
    """The moment that many milliseconds after 1970, in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def commit_time(clock: Clock, previous: datetime | None) -> datetime:
    """The system time of the next commit: now, and at least 1 ms after the previous one, whatever the clock does."""
    now = from_millis(to_millis(clock.now()))
    return now if previous is None else max(now, previous + MILLISECOND)
