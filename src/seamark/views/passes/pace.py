"""How fast pages follow each other."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.clock import Clock
from seamark.errors import InvalidStep

SLOWEST = 0.001  # rows per second, as in the configuration: one in a quarter of an hour
PAGE_UNITS = 200_000  # of a page whose units are looked up first


@dataclass(frozen=True, slots=True)
class Pace:
    """At most so many rows per second; as fast as it goes without a rate."""

    clock: Clock
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not _is_rate(self.rate):
            raise InvalidStep(
                f"rate={self.rate!r} is not a number of rows per second. Nothing was scanned.",
                hint=f"give a number from {SLOWEST} on, or none for no limit.",
            )

    @property
    def most(self) -> int | None:
        """How many units a page may have: as many as one second allows."""
        return None if self.rate is None else max(1, int(self.rate))

    def now(self) -> float:
        """The present time, in seconds since 1970."""
        return self.clock.now().timestamp()

    def wait(self, begun: float, rows: int) -> None:
        """Return when so many rows may have been done since a moment."""
        if self.rate is not None and rows:
            self.clock.sleep(max(0.0, begun + rows / self.rate - self.now()))


def _is_rate(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and SLOWEST <= given < 1e15
