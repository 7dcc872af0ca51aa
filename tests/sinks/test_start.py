"""Where a sink goes on: decided from what the target and the control database remember, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import TargetConflict
from seamark.sinks.layout import Layout
from seamark.sinks.start import Known, Start, decide_start
from seamark.sinks.target import Marker, Place

HASHES = {3: "three", 4: "four", 7: "seven"}
THREE, FOUR = Place(3, "three"), Place(4, "four")
LOG = Layout.diff(("VisitID",))
KEYED = Layout.keyed(("id",))

FIRST_TIME = Known("out", "log", "there", LOG, position=None, marker=None, is_new=True, is_empty=True)
IN_BETWEEN = replace(FIRST_TIME, position=3, marker=Marker(THREE), is_new=False, is_empty=False)


def test_a_new_target_gets_everything_whatever_was_sent_before():
    assert decide_start(FIRST_TIME, HASHES.get) == Start(None, anew=True)
    dropped = replace(IN_BETWEEN, is_new=True, is_empty=True)
    assert decide_start(dropped, HASHES.get) == Start(None, anew=True)


@pytest.mark.parametrize("position", [None, 2, 3, 7])
def test_the_targets_word_counts_more_than_the_control_databases(position):
    assert decide_start(replace(IN_BETWEEN, position=position), HASHES.get) == Start(3)


def test_the_block_in_doubt_comes_next():
    doubted = replace(IN_BETWEEN, marker=Marker(THREE, FOUR))
    assert decide_start(doubted, HASHES.get) == Start(3, begun=FOUR)
    first = replace(IN_BETWEEN, marker=Marker(None, THREE))
    assert decide_start(first, HASHES.get) == Start(None, begun=THREE)


def test_a_doubt_that_the_target_may_have_forgotten_stops_all_but_keyed_tables():
    forgotten = replace(IN_BETWEEN, marker=Marker(THREE, FOUR, is_covered=False))
    for layout in (LOG, Layout.append()):
        with pytest.raises(TargetConflict, match=r"stopped while it sent block 4 of 'log' to there"):
            decide_start(replace(forgotten, layout=layout), HASHES.get)
    assert decide_start(replace(forgotten, layout=KEYED), HASHES.get) == Start(3, begun=FOUR)


def test_nothing_in_doubt_never_grows_too_old():
    assert decide_start(replace(IN_BETWEEN, marker=Marker(THREE, is_covered=False)), HASHES.get) == Start(3)


@pytest.mark.parametrize(
    "marker", [Marker(Place(3, "other")), Marker(Place(5, "five")), Marker(THREE, Place(4, "other"))]
)
def test_a_target_of_another_chain_is_refused(marker):
    with pytest.raises(TargetConflict, match="was filled from another chain"):
        decide_start(replace(IN_BETWEEN, marker=marker), HASHES.get)


def test_without_a_marker_only_a_first_time_or_an_empty_target_is_sent_everything():
    rows_of_others = replace(FIRST_TIME, is_new=False, is_empty=False)
    assert decide_start(rows_of_others, HASHES.get) == Start(None)
    emptied = replace(IN_BETWEEN, marker=None, is_empty=True)
    assert decide_start(emptied, HASHES.get) == Start(None, anew=True)
    with pytest.raises(TargetConflict, match=r"up to block 3, but there does not know of it"):
        decide_start(replace(IN_BETWEEN, marker=None), HASHES.get)
    assert decide_start(replace(IN_BETWEEN, marker=None, layout=KEYED), HASHES.get) == Start(None, anew=True)


def test_a_target_that_somebody_emptied_is_filled_again_if_it_is_keyed():
    emptied = replace(IN_BETWEEN, is_empty=True)
    assert decide_start(replace(emptied, layout=KEYED), HASHES.get) == Start(None, anew=True)
    assert decide_start(emptied, HASHES.get) == Start(3)  # a log may well have cancelled itself out
