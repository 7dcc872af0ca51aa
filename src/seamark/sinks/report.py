"""What a sink reports of a run, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SinkState:
    """How far a sink is: the last block that its target is done with, what waits, and how long the oldest of it has."""

    position: int | None
    pending_blocks: int
    pending_records: int
    lag_seconds: float


@dataclass
class SinkReport:
    """What a run of one sink did.

    `blocks` were sent, with `records` in all; `position` is the sequence of the last block that the target is done
    with, None if there is none; `error` is what stopped the sink, or None.
    """

    sink: str
    table: str
    blocks: int = 0
    records: int = 0
    seconds: float = 0.0
    error: BaseException | None = None
    position: int | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing stopped the sink."""
        return self.error is None

    @property
    def did_something(self) -> bool:
        """Whether a block was sent, or trouble met."""
        return self.blocks > 0 or not self.ok
