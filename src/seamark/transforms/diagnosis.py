"""Why a step stands where it stands: the likely cause, from a few facts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FAILED = "failed"  # the outcome of a run that failed as a whole
QUIET_SECONDS = 3600.0  # an offset older than this is worth a word, even if nothing is pending


class Cause(Enum):
    """What a step's state most likely comes from; `sentence` says it to people."""

    SETTLED = "settled"
    NO_NEW_DATA = "no new data"
    NOT_RUN = "not run"
    FAILING = "failing"
    TOO_SLOW = "too slow"

    @property
    def sentence(self) -> str:
        """The cause in a sentence, with what to do about it."""
        return _SENTENCES[self]

    @property
    def needs_attention(self) -> bool:
        """Whether somebody should do something."""
        return self not in (Cause.SETTLED, Cause.NO_NEW_DATA)


_SENTENCES = {
    Cause.SETTLED: "Everything that has come in is processed.",
    Cause.NO_NEW_DATA: "Everything is processed, and nothing new has come in for a while: "
    "if that is not expected, look at what writes the inputs.",
    Cause.NOT_RUN: "Records are pending, and no run has begun since the oldest of them came in: "
    "run the step, or look whether the scheduler lives.",
    Cause.FAILING: "The last run failed, or keys could not be computed: "
    "look at the error, mend the function or the data, then run or retry the step.",
    Cause.TOO_SLOW: "Runs end well, but leave records behind that were there before they began: "
    "run the step more often, without limits, or give it more cores.",
}


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What is known of a step on all its inputs together. Times are seconds since 1970.

    Of several inputs, pending records are their sum, lag and age the greatest, and the oldest pending record the oldest
    of all. `last_run_started` and `last_run_outcome` are those of the newest run that did something.
    """

    pending_records: int
    lag_seconds: float
    offset_age_seconds: float | None
    last_run_started: float | None
    last_run_outcome: str | None
    failed_keys: int
    oldest_pending_at: float | None


def likely_cause(facts: StepFacts) -> Cause:
    """The cause that explains the facts best; the first that fits, in the order of the code."""
    if facts.last_run_outcome == FAILED:
        return Cause.FAILING
    # Failed keys never hold an offset back. So when records wait and nobody has run since, that comes first: a run
    # would take both.
    if facts.pending_records and not _has_run_since(facts):
        return Cause.NOT_RUN
    if facts.failed_keys:
        return Cause.FAILING
    if facts.pending_records:
        return Cause.TOO_SLOW
    if facts.offset_age_seconds is not None and facts.offset_age_seconds >= QUIET_SECONDS:
        return Cause.NO_NEW_DATA
    return Cause.SETTLED


def _has_run_since(facts: StepFacts) -> bool:
    """Whether a run has begun after the oldest pending record was committed, so that it could have taken it."""
    if facts.last_run_started is None or facts.oldest_pending_at is None:
        return False
    return facts.last_run_started > facts.oldest_pending_at
