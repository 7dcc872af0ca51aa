"""The likely cause of a step's state, as docs/monitoring.md tells them apart."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.steps.standing.diagnosis import QUIET_SECONDS, LikelyCause, StepFacts, likely_cause

NOW = 1_700_000_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0

SETTLED = StepFacts(
    pending_records=0,
    lag_seconds=0.0,
    offset_age_seconds=MINUTE,
    last_run_started=NOW - MINUTE,
    last_run_outcome="done",
    failed_keys=0,
    oldest_pending_at=None,
)


def pending(since: float, last_run: float | None, **rest) -> StepFacts:
    """A step on which a record has waited for `since` seconds, last run `last_run` seconds ago."""
    return replace(
        SETTLED,
        pending_records=5,
        lag_seconds=since,
        oldest_pending_at=NOW - since,
        last_run_started=None if last_run is None else NOW - last_run,
        last_run_outcome=None if last_run is None else "done",
        **rest,
    )


@pytest.mark.scenario("C36")
@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        # nothing pending
        pytest.param(SETTLED, LikelyCause.SETTLED, id="fresh"),
        pytest.param(replace(SETTLED, offset_age_seconds=QUIET_SECONDS - 1), LikelyCause.SETTLED, id="not yet quiet"),
        pytest.param(
            replace(SETTLED, offset_age_seconds=QUIET_SECONDS), LikelyCause.NO_NEW_DATA, id="quiet for an hour"
        ),
        pytest.param(replace(SETTLED, offset_age_seconds=30 * DAY), LikelyCause.NO_NEW_DATA, id="quiet for a month"),
        pytest.param(
            replace(SETTLED, offset_age_seconds=DAY, last_run_started=NOW - DAY),
            LikelyCause.NO_NEW_DATA,
            id="idle, no runs",
        ),
        pytest.param(replace(SETTLED, offset_age_seconds=-5.0), LikelyCause.SETTLED, id="a clock that went back"),
        pytest.param(
            replace(SETTLED, offset_age_seconds=None, last_run_started=None, last_run_outcome=None),
            LikelyCause.SETTLED,
            id="never run, and empty inputs",
        ),
        # pending
        pytest.param(pending(since=2 * HOUR, last_run=DAY), LikelyCause.NOT_RUN, id="last run a day ago"),
        pytest.param(pending(since=5.0, last_run=MINUTE), LikelyCause.NOT_RUN, id="just come in"),
        pytest.param(pending(since=HOUR, last_run=None), LikelyCause.NOT_RUN, id="never run"),
        pytest.param(
            pending(since=HOUR, last_run=None, offset_age_seconds=None), LikelyCause.NOT_RUN, id="never run, no offset"
        ),
        pytest.param(
            pending(since=HOUR, last_run=HOUR), LikelyCause.NOT_RUN, id="a run at the very time: it may have missed it"
        ),
        pytest.param(
            replace(pending(since=HOUR, last_run=MINUTE), oldest_pending_at=None),
            LikelyCause.NOT_RUN,
            id="since when is unknown",
        ),
        pytest.param(pending(since=HOUR, last_run=MINUTE), LikelyCause.TOO_SLOW, id="a run left records behind"),
        pytest.param(
            pending(since=DAY, last_run=HOUR, offset_age_seconds=2 * DAY),
            LikelyCause.TOO_SLOW,
            id="and did so for days",
        ),
        pytest.param(
            replace(pending(since=HOUR, last_run=MINUTE), last_run_outcome="running"),
            LikelyCause.TOO_SLOW,
            id="still at it",
        ),
        # failing
        pytest.param(replace(SETTLED, last_run_outcome="failed"), LikelyCause.FAILING, id="failed, nothing pending"),
        pytest.param(
            replace(pending(since=HOUR, last_run=MINUTE), last_run_outcome="failed"),
            LikelyCause.FAILING,
            id="failed, pending",
        ),
        pytest.param(
            replace(pending(since=MINUTE, last_run=HOUR), last_run_outcome="failed"),
            LikelyCause.FAILING,
            id="failed, and not tried again since",
        ),
        pytest.param(replace(SETTLED, failed_keys=1), LikelyCause.FAILING, id="a failed key"),
        pytest.param(
            replace(SETTLED, failed_keys=1, offset_age_seconds=DAY),
            LikelyCause.FAILING,
            id="a failed key and no new data",
        ),
        pytest.param(
            pending(since=HOUR, last_run=MINUTE, failed_keys=3), LikelyCause.FAILING, id="failed keys, a run behind"
        ),
        pytest.param(
            pending(since=HOUR, last_run=DAY, failed_keys=3),
            LikelyCause.NOT_RUN,
            id="failed keys do not hold the offset back",
        ),
    ],
)
def test_the_likely_cause(facts, cause):
    assert likely_cause(facts) is cause


@given(
    st.builds(
        StepFacts,
        pending_records=st.integers(0, 3),
        lag_seconds=st.floats(0, 1e6),
        offset_age_seconds=st.none() | st.floats(-10, 1e6),
        last_run_started=st.none() | st.integers(0, 4).map(float),
        last_run_outcome=st.sampled_from([None, "done", "failed"]),
        failed_keys=st.integers(0, 2),
        oldest_pending_at=st.none() | st.integers(0, 4).map(float),
    )
)
def test_all_is_well_only_if_nothing_is_pending_and_nothing_failed(facts):
    is_well = facts.pending_records == 0 and facts.failed_keys == 0 and facts.last_run_outcome != "failed"
    assert likely_cause(facts).needs_attention is not is_well


@pytest.mark.parametrize("cause", LikelyCause)
def test_every_cause_has_a_sentence_for_people(cause):
    assert cause.sentence[0].isupper()
    assert cause.sentence.endswith(".")
