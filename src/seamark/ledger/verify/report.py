"""What a verification says: what it looked at, what is not as it should be, and what it could not compute again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

OnBlock: TypeAlias = Callable[[str, int, int], None]
"""Called after each block with the table, how many of its blocks are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be: in which table and block, what kind of difference, and both values."""

    table: str
    block: str | None
    kind: str
    expected: str
    found: str
    message: str


@dataclass(frozen=True, slots=True)
class NotReplayable:
    """Blocks of a table that were not computed again, the first of them, and why."""

    table: str
    block: str
    blocks: int
    reason: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The outcome of a verification: how many blocks were looked at, and all that was found wrong.

    Of the blocks that a step made, `replayed` were computed again and `not_replayable` were not; `skipped` says why.
    """

    blocks: int
    findings: tuple[Finding, ...] = field(default=())
    replayed: int = 0
    not_replayable: int = 0
    skipped: tuple[NotReplayable, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.findings

    def __add__(self, other: VerifyReport) -> VerifyReport:
        return VerifyReport(
            self.blocks + other.blocks,
            self.findings + other.findings,
            self.replayed + other.replayed,
            self.not_replayable + other.not_replayable,
            self.skipped + other.skipped,
        )


def shown(value: object) -> str:
    """A value as a finding shows it."""
    return "null" if value is None else str(value)
