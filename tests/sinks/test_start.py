"""Where a sink goes on: decided from what the target and the control database remember, and from nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.control import SinkPosition
from seamark.errors import TargetConflict
from seamark.sinks.layout import Layout
from seamark.sinks.start import Start, StartFacts, decide_start
from seamark.sinks.target import Marker, Place, Trace

HASHES = {3: "three", 4: "four", 7: "seven"}
THREE, FOUR = Place(3, "three"), Place(4, "four")
LOG = Layout.diff(("VisitID",))
KEYED = Layout.keyed(("id",))

SENT = SinkPosition("out", "log", 3, "there")
FIRST_TIME = StartFacts("out", "log", "there", LOG, sent=None, is_new=True, is_empty=True)
IN_BETWEEN = replace(FIRST_TIME, sent=SENT, markers={"out": Marker(THREE)}, is_new=False, is_empty=False)


def marked(marker: Marker, **others: Marker) -> StartFacts:
    return replace(IN_BETWEEN, markers={"out": marker, **others})


def test_a_new_target_gets_everything_whatever_was_sent_before():
    assert decide_start(FIRST_TIME, HASHES.get) == Start(None, starts_over=True)
    dropped = replace(IN_BETWEEN, is_new=True, is_empty=True)
    assert decide_start(dropped, HASHES.get) == Start(None, starts_over=True)


@pytest.mark.parametrize("position", [None, 2, 3, 7])
def test_the_targets_word_counts_more_than_the_control_databases(position):
    sent = None if position is None else replace(SENT, sequence=position)
    start = decide_start(replace(IN_BETWEEN, sent=sent), HASHES.get)
    assert start == Start(3, afresh=position == 7)  # set back: it may still know tokens of blocks that it lost


def test_the_block_in_doubt_comes_next():
    assert decide_start(marked(Marker(THREE, FOUR)), HASHES.get) == Start(3, begun=FOUR)
    first = replace(marked(Marker(None, THREE)), sent=None)
    assert decide_start(first, HASHES.get) == Start(None, begun=THREE)


def test_a_target_that_was_set_back_while_a_block_was_in_doubt_is_asked_about_unless_it_is_keyed():
    back = replace(marked(Marker(THREE, FOUR)), sent=replace(SENT, sequence=7))
    with pytest.raises(TargetConflict, match=r"sent block 4 of 'log' to there, and since then the target was set back"):
        decide_start(back, HASHES.get)
    assert decide_start(replace(back, layout=KEYED), HASHES.get) == Start(3, afresh=True)
    elsewhere = replace(back, sent=replace(SENT, sequence=7, target="another place"))
    assert decide_start(elsewhere, HASHES.get) == Start(3, begun=FOUR)


def test_a_doubt_that_the_target_may_have_forgotten_stops_all_but_keyed_tables():
    forgotten = marked(Marker(THREE, FOUR, is_covered=False))
    for layout in (LOG, Layout.append()):
        with pytest.raises(TargetConflict, match=r"stopped while it sent block 4 of 'log' to there"):
            decide_start(replace(forgotten, layout=layout), HASHES.get)
    assert decide_start(replace(forgotten, layout=KEYED), HASHES.get) == Start(3, begun=FOUR)


def test_nothing_in_doubt_never_grows_too_old():
    assert decide_start(marked(Marker(THREE, is_covered=False)), HASHES.get) == Start(3)


@pytest.mark.parametrize(
    "marker", [Marker(Place(3, "other")), Marker(Place(5, "five")), Marker(THREE, Place(4, "other"))]
)
def test_a_target_of_another_chain_is_refused(marker):
    with pytest.raises(TargetConflict, match="was filled from another chain"):
        decide_start(marked(marker), HASHES.get)


def test_without_a_marker_only_a_first_time_or_an_empty_target_is_sent_everything():
    rows_of_others = replace(FIRST_TIME, is_new=False, is_empty=False)
    assert decide_start(rows_of_others, HASHES.get) == Start(None)
    unmarked = replace(IN_BETWEEN, markers={})
    for layout in (Layout.append(), KEYED):
        assert decide_start(replace(unmarked, layout=layout, is_empty=True), HASHES.get) == Start(
            None, starts_over=True
        )
    with pytest.raises(TargetConflict, match=r"does not know of it, and is empty.*have cancelled each other.*\(None\)"):
        decide_start(replace(unmarked, is_empty=True), HASHES.get)
    assert decide_start(replace(unmarked, is_empty=True, sent=None), HASHES.get) == Start(None, starts_over=True)
    with pytest.raises(TargetConflict, match=r"up to block 3, but there does not know of it"):
        decide_start(unmarked, HASHES.get)
    assert decide_start(replace(unmarked, layout=KEYED), HASHES.get) == Start(None, starts_over=True)


@pytest.mark.scenario("D39")
def test_a_sink_that_leads_elsewhere_now_does_not_take_rows_it_does_not_know_for_somebody_elses():
    moved = replace(IN_BETWEEN, markers={}, sent=replace(SENT, target="another place"))
    with pytest.raises(TargetConflict, match="up to block 3 to another place, but there does not know of it"):
        decide_start(moved, HASHES.get)
    assert decide_start(replace(moved, is_empty=True), HASHES.get) == Start(None, starts_over=True)


def test_a_marker_without_a_block_says_that_nothing_was_sent():
    assert decide_start(marked(Marker(None)), HASHES.get) == Start(None, starts_over=True)


def test_a_target_that_somebody_emptied_is_filled_again_if_it_is_keyed():
    emptied = replace(IN_BETWEEN, is_empty=True)
    assert decide_start(replace(emptied, layout=KEYED), HASHES.get) == Start(None, starts_over=True)
    assert decide_start(emptied, HASHES.get) == Start(3)  # a log may well have cancelled itself out


# --- sinks of other names ---------------------------------------------------------------------------------------------

OLD = {"old": Marker(THREE, FOUR)}
RENAMED = replace(FIRST_TIME, is_new=False, is_empty=False, markers=OLD)


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("layout", [LOG, Layout.append()])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_sink_of_another_name_is_refused_and_told_how_to_go_on(layout, is_empty):
    with pytest.raises(TargetConflict) as caught:
        decide_start(replace(RENAMED, layout=layout, is_empty=is_empty), HASHES.get)
    assert "sink 'old' does so already: up to block 4. Nothing was sent" in str(caught.value)
    assert 'ds.sink(…, adopt="old")' in str(caught.value)


@pytest.mark.scenario("D39")
def test_adopting_goes_on_from_the_other_ones_position_and_doubt():
    adopting = replace(RENAMED, adopts="old")
    assert decide_start(adopting, HASHES.get) == Start(3, begun=FOUR, adopts="old")
    done = replace(adopting, markers={"out": Marker(FOUR), "old": replace(OLD["old"], adopted_by="out")})
    assert decide_start(done, HASHES.get) == Start(4)  # in an earlier run
    too_old = replace(adopting, markers={"old": Marker(THREE, FOUR, is_covered=False)})
    with pytest.raises(TargetConflict, match="sink 'out' was stopped while it sent block 4"):
        decide_start(too_old, HASHES.get)


@pytest.mark.scenario("D39")
def test_a_sink_that_was_adopted_does_not_go_on_unless_it_adopts_back():
    markers = {"out": Marker(FOUR, adopted_by="new"), "new": Marker(Place(7, "seven"))}
    adopted = replace(IN_BETWEEN, markers=markers)
    with pytest.raises(TargetConflict, match=r"sink 'new' continues in its place.*adopt=\"new\""):
        decide_start(adopted, HASHES.get)
    assert decide_start(replace(adopted, adopts="new"), HASHES.get) == Start(7, adopts="new")


@pytest.mark.scenario("D39")
def test_adopting_a_sink_that_never_was_there_names_the_one_that_was():
    with pytest.raises(TargetConflict, match="sink 'old' does so already, not 'odl': up to block 4"):
        decide_start(replace(RENAMED, adopts="odl"), HASHES.get)
    unknown = replace(RENAMED, adopts="old", markers={})
    with pytest.raises(
        TargetConflict, match=r"to take the place of 'old', .* nowhere that is known, but there does not"
    ):
        decide_start(unknown, HASHES.get)
    assert decide_start(replace(unknown, is_empty=True), HASHES.get) == Start(
        None, starts_over=True
    )  # nothing to adopt


@pytest.mark.scenario("D39")
def test_a_keyed_target_is_filled_anew_under_another_name():
    assert decide_start(replace(RENAMED, layout=KEYED), HASHES.get) == Start(None, starts_over=True)
    assert decide_start(replace(RENAMED, layout=KEYED, adopts="old"), HASHES.get) == Start(3, begun=FOUR, adopts="old")


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("other", [Marker(None), Marker(Place(3, "of another chain")), Marker(THREE, adopted_by="x")])
def test_other_sinks_that_do_not_write_this_chain_are_nobodys_business(other):
    assert decide_start(replace(RENAMED, markers={"old": other}), HASHES.get) == Start(None)


@pytest.mark.scenario("D39")
def test_a_sink_that_was_adopted_twice_over_goes_on_with_the_last_one():
    markers = {
        "out": Marker(THREE, adopted_by="b"),
        "b": Marker(FOUR, adopted_by="c"),
        "c": Marker(Place(7, "seven")),
    }
    adopted = replace(IN_BETWEEN, markers=markers)
    for adopts in (None, "b"):
        with pytest.raises(TargetConflict, match=r"sink 'c' continues in its place.*adopt=\"c\""):
            decide_start(replace(adopted, adopts=adopts), HASHES.get)
    assert decide_start(replace(adopted, adopts="c"), HASHES.get) == Start(7, adopts="c")
    circle = replace(adopted, markers=markers | {"b": Marker(FOUR, adopted_by="out")})
    with pytest.raises(TargetConflict, match="continues in its place"):  # which nobody writes; and it ends
        decide_start(circle, HASHES.get)


# --- rows that nobody knows -------------------------------------------------------------------------------------------

UNKNOWN_ROWS = replace(FIRST_TIME, is_new=False, is_empty=False)
ELSEWHERE = SinkPosition("old", "log", 4, "another place")


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("layout", [LOG, Layout.append()])
def test_rows_in_the_target_of_a_new_sink_may_be_a_copy_of_what_another_one_has_sent(layout):
    copied = replace(UNKNOWN_ROWS, layout=layout, carried=[ELSEWHERE])
    for adopts in (None, "old"):
        with pytest.raises(TargetConflict) as caught:
            decide_start(replace(copied, adopts=adopts), HASHES.get)
        assert "'old' has carried 'log' up to block 4 to another place, but there does not know" in str(caught.value)
        assert "go_on_after(4) continues from there" in str(caught.value)
        assert "go_on_after(None) sends everything" in str(caught.value)
    assert decide_start(replace(copied, is_empty=True), HASHES.get) == Start(None, starts_over=True)
    assert decide_start(replace(copied, markers={"out": Marker(None)}), HASHES.get) == Start(None, starts_over=True)


def test_a_keyed_target_is_filled_over_rows_only_where_they_are_known_to_be_of_this_chain():
    keyed = replace(UNKNOWN_ROWS, layout=KEYED)
    for known in (keyed, replace(keyed, carried=[ELSEWHERE]), replace(keyed, sent=replace(SENT, target="elsewhere"))):
        with pytest.raises(TargetConflict, match=r"holds rows, and does not know from where.*go_on_after\(None\)"):
            decide_start(known, HASHES.get)
    for known in (
        replace(keyed, is_empty=True),
        replace(keyed, sent=SENT),
        replace(keyed, carried=[replace(ELSEWHERE, target="there")]),
        replace(keyed, markers={"old": Marker(THREE, adopted_by="x")}),
        replace(keyed, markers={"out": Marker(None)}),
    ):
        assert decide_start(known, HASHES.get) == Start(None, starts_over=True)


def test_a_keyed_target_does_not_mix_chains():
    another = Marker(Place(3, "of another chain"))
    keyed = replace(IN_BETWEEN, layout=KEYED)
    mixed = replace(keyed, markers={"out": Marker(THREE), "old": another})
    with pytest.raises(TargetConflict, match="was filled from another chain: its block 3 is of another chain"):
        decide_start(mixed, HASHES.get)
    shared = replace(keyed, strangers=[Trace("other", "users", "there", another)])
    with pytest.raises(TargetConflict, match=r"sink 'other' carries 'users' there.*the older one could stay"):
        decide_start(shared, HASHES.get)
    for known in (mixed, shared):
        assert decide_start(replace(known, is_empty=True), HASHES.get) == Start(None, starts_over=True)
    gone = replace(keyed, strangers=[Trace("other", "users", "there", Marker(None))])
    assert decide_start(gone, HASHES.get) == Start(3)
    assert decide_start(replace(shared, layout=LOG), HASHES.get) == Start(3)  # each record is a row of its own there


# --- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("D41")
@pytest.mark.parametrize(
    "known",
    [
        marked(Marker(THREE, FOUR, is_covered=False)),
        marked(Marker(Place(3, "other"))),
        replace(IN_BETWEEN, markers={}),
        RENAMED,
        marked(Marker(THREE, adopted_by="new")),
        replace(UNKNOWN_ROWS, carried=[ELSEWHERE]),
        replace(UNKNOWN_ROWS, layout=KEYED),
        replace(IN_BETWEEN, layout=KEYED, strangers=[Trace("other", "users", "there", Marker(THREE))]),
    ],
)
def test_no_way_out_destroys_what_others_have_written(known):
    with pytest.raises(TargetConflict) as caught:
        decide_start(known, HASHES.get)
    assert caught.value.hint
    for word in ("drop", "empty it", "truncate", "delete", "remove"):
        assert word not in str(caught.value).lower()
