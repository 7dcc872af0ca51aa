"""Why a step is where it is: the likely cause, from a few facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from seamark.control import Mode
from seamark.control.live import KILLED
from seamark.errors import DefinitionChanged
from seamark.steps.standing.moves import NOTHING_NEW, Move

FAILED = "failed"  # the outcome of a run that failed as a whole
STOPPED = "stopped"  # the outcome of a run that somebody stopped before it was done
QUIET_SECONDS = 3600.0  # an offset older than this is worth mentioning, even if nothing is pending
_PARTIAL_MODES = frozenset(mode for mode in Mode if mode.leaves_records)


class LikelyCause(Enum):
    """What a step's state most likely comes from; `sentence` says it to people."""

    SETTLED = "settled"
    RUNNING = "running"
    PAUSED = "paused"
    NO_NEW_DATA = "no new data"
    WAITING = "waiting"
    EMPTY = "empty"
    CHANGED = "changed"
    REFUSED = "refused"
    ALL_KEYS = "all keys"
    NOT_RUN = "not run"
    ONLY_PARTS = "only parts were run"
    STOPPED = "stopped"
    FAILING = "failing"
    TOO_SLOW = "too slow"

    @property
    def sentence(self) -> str:
        """The cause in a sentence, with what to do about it."""
        return _SENTENCES[self]

    @property
    def needs_attention(self) -> bool:
        """Whether somebody should do something."""
        return self not in (
            LikelyCause.SETTLED,
            LikelyCause.RUNNING,
            LikelyCause.NO_NEW_DATA,
            LikelyCause.WAITING,
        )


_SENTENCES = {
    LikelyCause.SETTLED: "Everything that has come in is processed.",
    LikelyCause.RUNNING: "A run is at work.",
    LikelyCause.PAUSED: "It is paused: `seamark view resume` lets it run again.",
    LikelyCause.NO_NEW_DATA: "Everything is processed, and nothing new has come in for a while: "
    "if that is not expected, look at what writes the inputs.",
    LikelyCause.WAITING: "Only changes of dictionaries are pending: they wait for a pass.",
    LikelyCause.EMPTY: "The inputs have no records yet: load them first.",
    LikelyCause.CHANGED: "The step's definition is not the one that its rows were made by: "
    "a run shows the difference and asks what becomes of these rows.",
    LikelyCause.REFUSED: "A run would refuse: `seamark plan` shows why and what to do.",
    LikelyCause.ALL_KEYS: "All keys are to be computed, and are not yet: run the step.",
    LikelyCause.NOT_RUN: "Records are pending, and no run has begun since the oldest of them came in: "
    "run the step, or look at what should run it.",
    LikelyCause.ONLY_PARTS: "Records are pending, and only parts were run since the oldest of them came in: "
    "run the step in full.",
    LikelyCause.STOPPED: "Records are pending, and the last run was stopped or killed before it was done: "
    "run the step again.",
    LikelyCause.FAILING: "The last run failed, or keys could not be computed: "
    "look at the error, fix the function or the data, then run or retry the step.",
    LikelyCause.TOO_SLOW: "Runs end well, but leave records behind that were there before they began: "
    "run the step more often, without limits, or give it more cores.",
}


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What is known of a step on all its inputs together. Times are seconds since 1970.

    Of several inputs, pending records are their sum, lag and age the greatest, and the oldest pending record the oldest
    of all. `last_run_started` and `last_run_outcome` are those of the newest run that did something, `modes_since` the
    modes of all that have begun since the oldest pending record was committed. It `lacks_position` on an input that has
    records: it was reset, or never ran over it in full. `next_move` is what a run would do first. Records of
    dictionaries that wait for a pass that is not due are counted as `waiting_on_purpose`, and not as pending.
    """

    pending_records: int
    lag_seconds: float
    offset_age_seconds: float | None
    last_run_started: float | None
    last_run_outcome: str | None
    failed_keys: int
    oldest_pending_at: float | None
    modes_since: tuple[str, ...] = ()
    inputs_are_empty: bool = False
    is_running: bool = False
    lacks_position: bool = False
    next_move: Move = NOTHING_NEW
    waiting_on_purpose: int = 0


def likely_cause(facts: StepFacts) -> LikelyCause:
    """The cause that explains the facts best; the first that fits, in the order of the code."""
    if facts.is_running:
        return LikelyCause.RUNNING
    if facts.next_move.mode is Mode.PAUSED:
        return LikelyCause.PAUSED
    if facts.next_move.refusal is not None:  # until somebody decides, no run does anything
        return LikelyCause.CHANGED if isinstance(facts.next_move.refusal, DefinitionChanged) else LikelyCause.REFUSED
    if facts.last_run_outcome == FAILED:
        return LikelyCause.FAILING
    if facts.inputs_are_empty:
        return LikelyCause.EMPTY
    # Failed keys never hold an offset back. So when records wait and nobody has run since, or only in part, that comes
    # first: a full run would take both.
    if facts.pending_records and not _has_run_since(facts):
        return LikelyCause.NOT_RUN
    if facts.pending_records and facts.modes_since and _PARTIAL_MODES.issuperset(facts.modes_since):
        return LikelyCause.ONLY_PARTS
    if facts.pending_records and facts.last_run_outcome in (STOPPED, KILLED):
        return LikelyCause.STOPPED
    if facts.failed_keys:
        return LikelyCause.FAILING
    if facts.pending_records:
        return LikelyCause.NOT_RUN if facts.lacks_position else LikelyCause.TOO_SLOW
    if (
        facts.next_move.mode.takes_all_keys
    ):  # for instance a new output, or a pass that was interrupted after its last record
        return LikelyCause.ALL_KEYS
    if facts.waiting_on_purpose:
        return LikelyCause.WAITING
    if facts.offset_age_seconds is not None and facts.offset_age_seconds >= QUIET_SECONDS:
        return LikelyCause.NO_NEW_DATA
    return LikelyCause.SETTLED


def _has_run_since(facts: StepFacts) -> bool:
    """Whether a run has begun after the oldest pending record was committed, so that it could have taken it."""
    if facts.last_run_started is None or facts.oldest_pending_at is None:
        return False
    return facts.last_run_started > facts.oldest_pending_at


def advice(cause: LikelyCause, step: str, facts: StepFacts, empty: Sequence[str] = (), loads: str = "") -> str:
    """What to do about a step, with the command that does it.

    `empty` names the inputs without records, and `loads` says how they are filled.
    """
    match cause:
        case LikelyCause.PAUSED:
            return f"It is {facts.next_move.reason}: `seamark view resume {step}` lets it run again."
        case LikelyCause.EMPTY:
            has = "has" if len(empty) == 1 else "have"
            return f"{', '.join(empty)} {has} no records yet: {loads}."
        case LikelyCause.CHANGED:
            return (
                "Its definition is not the one that its rows were made by: "
                f"`seamark run {step}` shows the difference and what to choose from."
            )
        case LikelyCause.REFUSED:
            return f"A run would refuse: {facts.next_move.reason.strip()} `seamark plan {step}` shows it."
        case LikelyCause.ALL_KEYS:
            return f"All keys are to be computed ({facts.next_move.reason}): `seamark run {step}` does it."
        case LikelyCause.NOT_RUN if facts.lacks_position and _has_run_since(facts):
            return f"An input has no position: it was reset, or is new. `seamark run {step}` computes all keys."
        case LikelyCause.NOT_RUN:
            return (
                "Records are pending, and no run has begun since the oldest of them came in: "
                f"`seamark run {step}`, or look at what should run it."
            )
        case LikelyCause.ONLY_PARTS:
            return (
                f"Only parts were run ({', '.join(facts.modes_since)}) since the oldest pending record came in: "
                f"`seamark run {step}` takes all."
            )
        case LikelyCause.STOPPED:
            how = "was killed" if facts.last_run_outcome == KILLED else "was stopped"
            return f"The last run {how} before it was done: `seamark run {step}` continues with what is left."
        case LikelyCause.FAILING if facts.last_run_outcome == FAILED:
            return (
                f"The last run failed: `seamark log {step} --errors` shows the error. "
                f"Fix the function or the data, then `seamark run {step}`."
            )
        case LikelyCause.FAILING:
            return (
                f"Keys could not be computed: `seamark failures {step}` lists them. "
                f"Fix the function or the data, then `seamark retry {step}`."
            )
    return cause.sentence
