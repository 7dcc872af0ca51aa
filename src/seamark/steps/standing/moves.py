"""What a step does next, as a value: a run carries it out, `plan` prints it, `status` explains it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from seamark.errors import SeamarkError
from seamark.steps.standing.pins import Pending


class Mode(StrEnum):
    """How a run finds its keys, or why it needs none. The texts are in checkpoints and in the record of runs."""

    SETTLED = "settled"
    REFUSED = "refused"
    CHANGES = "changes"
    ALL_KEYS = "all keys"
    RECOMPUTE = "recompute"
    RETRY = "retry"
    EXPIRE = "expire"
    DEFINITION = "definition"
    WATERMARK = "watermark"
    # What somebody asks for, or has chosen when the step was declared.
    V1 = "v1"
    LIMIT = "limit"
    FILTER = "filter"
    CHANGELIST = "changelist"
    KEYS = "keys"
    GIVE_UP = "give up"
    INITIALISE = "initialise"
    # What a report says of a run that has not committed anything.
    RUN = "run"
    FAILED = "failed"

    @property
    def is_idle(self) -> bool:
        """Whether a run does nothing: it has nothing to do, or refuses."""
        return self in (Mode.SETTLED, Mode.REFUSED)

    @property
    def takes_no_keys(self) -> bool:
        """Whether no key is computed, though something may be committed."""
        return self.is_idle or self in (Mode.DEFINITION, Mode.WATERMARK)

    @property
    def takes_all_keys(self) -> bool:
        """Whether every key there is is computed."""
        return self in (Mode.ALL_KEYS, Mode.RECOMPUTE)

    @property
    def leaves_records(self) -> bool:
        """Whether a run takes some keys only, and may leave records behind that wait."""
        return self in (Mode.CHANGELIST, Mode.KEYS, Mode.FILTER, Mode.LIMIT, Mode.RETRY, Mode.GIVE_UP)


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
