"""What a step does next, as a value: a run carries it out, `plan` prints it, `status` explains it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seamark.control import Mode
from seamark.errors import SeamarkError
from seamark.steps.standing.pins import Pending


@dataclass(frozen=True)
class Move:
    """What a run would do next, and why. A move that is refused carries the error that a run raises."""

    mode: Mode
    reason: str
    refusal: SeamarkError | None = None

    @staticmethod
    def refused(refusal: SeamarkError) -> Move:
        """A run would raise this and change nothing."""
        return Move(Mode.REFUSED, refusal.message, refusal)

    def raise_refusal(self) -> None:
        """Raise the error of a move that is refused; do nothing for any other."""
        if self.refusal is not None:
            raise self.refusal


NOTHING_NEW = Move(Mode.SETTLED, "nothing new")


def changes_move(pending: Iterable[Pending]) -> Move:
    """Records wait: compute the keys that they lead to."""
    waiting = [f"{entry.records} in '{entry.table}'" for entry in pending if entry.records > 0]
    return Move(Mode.CHANGES, f"records wait: {', '.join(waiting)}")


def retry_move(due: int, of: str) -> Move:
    """Nothing is new, but failed keys (or visits) may be tried again."""
    return Move(Mode.RETRY, f"{due} failed {of}{' is' if due == 1 else 's are'} due")
