"""Where a sink goes on: a pure decision from what the target and the control database remember."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seamark.control import SinkPosition
from seamark.errors import TargetConflict
from seamark.sinks.layout import Layout
from seamark.sinks.target import Marker, Place

HashAt = Callable[[int], str | None]
"""The hash of the chain's block with a sequence, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Start:
    """Send what comes after `after` (None: everything).

    `anew` says that the target is filled from the beginning; `begun` is the block that an earlier run began to send;
    `adopts` is the sink whose place is taken first.
    """

    after: int | None
    anew: bool = False
    begun: Place | None = None
    adopts: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a sink begins to work."""

    sink: str
    table: str
    where: str
    layout: Layout
    sent: SinkPosition | None  # how far it has carried records as the control database knows it, here or elsewhere
    is_new: bool  # the target's table was made just now
    is_empty: bool
    markers: Mapping[str, Marker] = field(default_factory=dict)  # the target's, of this sink and of others
    adopts: str | None = None  # the sink whose place this one was told to take


def decide_start(known: Known, hash_at: HashAt) -> Start:
    """Where to go on, or `TargetConflict` where sending on could count a record twice or leave one out.

    The target's own marker decides: it was written beside the data, so it is right after a crash, after the control
    database was built again and after the target was restored from a copy. The control database's position only saves a
    look at the target when there is nothing to send.
    """
    if known.is_new:
        return Start(None, anew=True)
    adopts = adopted(known, hash_at)
    marker = known.markers.get(adopts or known.sink)
    if marker is None or not marker.places:
        return _without_marker(known, marker)
    if known.is_empty and known.layout.is_idempotent:
        return Start(None, anew=True, adopts=adopts)  # somebody emptied it
    for place in marker.places:
        _refuse_another_chain(known, place, hash_at)
    if marker.doubt is not None and not marker.is_covered and not known.layout.is_idempotent:
        raise _doubt_too_old(known, marker.done, marker.doubt)
    return Start(None if marker.done is None else marker.done.sequence, begun=marker.doubt, adopts=adopts)


# --- other sinks ------------------------------------------------------------------------------------------------------


def writers(known: Known, hash_at: HashAt) -> dict[str, Marker]:
    """The other sinks that have sent blocks of this very chain to this target, and were not adopted."""
    return {
        name: marker
        for name, marker in known.markers.items()
        if name != known.sink
        and marker.adopted_by is None
        and marker.places
        and all(hash_at(place.sequence) == place.hash for place in marker.places)
    }


def adopted(known: Known, hash_at: HashAt) -> str | None:
    """The sink whose place is to be taken, or None where this one goes on as itself.

    `TargetConflict` where another sink has sent the same records: sent again under another name they would count twice.
    """
    mine, others = known.markers.get(known.sink), writers(known, hash_at)
    if mine is not None and mine.adopted_by is not None and mine.adopted_by != known.adopts:
        raise TargetConflict(
            f"sink '{known.sink}' has carried '{known.table}' to {known.where}, and sink '{mine.adopted_by}' goes on "
            "in its place. Nothing was sent.",
            hint=f"take this one out of the program, or go on under this name with {_adopt(mine.adopted_by)}.",
        )
    if mine is not None and mine.places and mine.adopted_by is None:
        return None  # adopting was done in an earlier run
    if known.adopts in others:
        return known.adopts
    if not others or (known.layout.is_idempotent and known.adopts is None):
        return None  # nobody was here before; or everything may be sent again
    first = min(others)
    told = f", not '{known.adopts}'" if known.adopts is not None else ""
    raise TargetConflict(
        f"sink '{known.sink}' is to carry '{known.table}' to {known.where}, and sink '{first}' does so already{told}: "
        f"up to block {_sequence(others[first])}. Nothing was sent, for every record would count twice.",
        hint=f"if it is the same sink under another name, go on from its position with {_adopt(first)}; "
        f'else give this one a target of its own, or the old name, name="{first}".',
    )


def _adopt(sink: str) -> str:
    return f'ds.sink(…, adopt="{sink}")'


def _sequence(marker: Marker) -> int:
    return max(place.sequence for place in marker.places)


# --- this sink --------------------------------------------------------------------------------------------------------


def _without_marker(known: Known, marker: Marker | None) -> Start:
    if marker is not None or known.is_empty or known.layout.is_idempotent:
        return Start(None, anew=True)  # a marker without a block says that nothing was sent
    if known.sent is None:
        return Start(None)  # its first run: the rows that are there are somebody else's, such as a fast supplier's
    last, elsewhere = known.sent.sequence, "" if known.sent.is_in(known.where) else f" to {known.sent.target}"
    raise TargetConflict(
        f"sink '{known.sink}' has carried '{known.table}' up to block {last}{elsewhere}, but {known.where} does not "
        "know of it, and holds rows. Nothing was sent: they may be the same ones.",
        hint=f"if this is the target that has them, {_say(known.sink, last)} goes on from there; "
        f"if it is another one, {_say(known.sink, None)} sends everything.",
    )


def _refuse_another_chain(known: Known, place: Place, hash_at: HashAt) -> None:
    found = hash_at(place.sequence)
    if found != place.hash:
        raise TargetConflict(
            f"sink '{known.sink}': {known.where} was filled from another chain: its block {place.sequence} is "
            f"{place.hash}, and that of '{known.table}' is {found or 'not there'}. Nothing was sent.",
            hint="the table was made anew, or two projects share the target: give the sink a table of its own with "
            "another table=, and everything is sent there.",
        )


def _doubt_too_old(known: Known, done: Place | None, doubt: Place) -> TargetConflict:
    return TargetConflict(
        f"sink '{known.sink}' was stopped while it sent block {doubt.sequence} of '{known.table}' to {known.where}, "
        "and since then so much was inserted or changed there that it would no longer be noticed if the block came "
        "twice. Nothing was sent.",
        hint="look whether the block's records are there: if they are, "
        f"{_say(known.sink, doubt.sequence)} goes on after it; if they are not, "
        f"{_say(known.sink, done.sequence if done else None)} sends it.",
    )


def _say(sink: str, sequence: int | None) -> str:
    return f"ds.sinks()[{sink!r}].go_on_after({sequence})"
