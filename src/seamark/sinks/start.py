"""Where a sink goes on: a pure decision from what the target and the control database remember."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seamark.errors import TargetConflict
from seamark.sinks.layout import Layout
from seamark.sinks.target import Marker, Place


@dataclass(frozen=True, slots=True)
class Start:
    """Send what comes after `after` (None: everything).

    `anew` says that the target is filled from the beginning; `begun` is the block that an earlier run began to send.
    """

    after: int | None
    anew: bool = False
    begun: Place | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a sink begins to work."""

    sink: str
    table: str
    where: str
    layout: Layout
    position: int | None  # the control database's
    marker: Marker | None
    is_new: bool  # the target's table was made just now
    is_empty: bool


def decide_start(known: Known, hash_at: Callable[[int], str | None]) -> Start:
    """Where to go on, or `TargetConflict` where sending on could count a record twice or leave one out.

    The target's own marker decides: it was written beside the data, so it is right after a crash, after the control
    database was built again and after the target was restored from a copy. The control database's position only saves a
    look at the target when there is nothing to send.
    """
    if known.is_new:
        return Start(None, anew=True)
    if known.marker is None:
        return _without_marker(known)
    if known.is_empty and known.layout.is_idempotent:
        return Start(None, anew=True)  # somebody emptied it
    for place in (known.marker.done, known.marker.doubt):
        _refuse_another_chain(known, place, hash_at)
    if known.marker.doubt is not None and not known.marker.is_covered and not known.layout.is_idempotent:
        raise _doubt_too_old(known, known.marker.doubt)
    done = known.marker.done
    return Start(None if done is None else done.sequence, begun=known.marker.doubt)


def _without_marker(known: Known) -> Start:
    if known.is_empty or known.layout.is_idempotent:
        return Start(None, anew=True)
    if known.position is None:
        return Start(None)  # its first run: the rows that are there are somebody else's, such as a fast supplier's
    raise TargetConflict(
        f"sink '{known.sink}' has carried '{known.table}' up to block {known.position}, but {known.where} does not "
        "know of it, and holds rows. Nothing was sent: they may be the same ones.",
        hint="if the target is another one than before, give the sink another name, and everything is sent; "
        "if it is the same, empty it first.",
    )


def _refuse_another_chain(known: Known, place: Place | None, hash_at: Callable[[int], str | None]) -> None:
    if place is None:
        return
    found = hash_at(place.sequence)
    if found != place.hash:
        raise TargetConflict(
            f"sink '{known.sink}': {known.where} was filled from another chain: its block {place.sequence} is "
            f"{place.hash}, and that of '{known.table}' is {found or 'not there'}. Nothing was sent.",
            hint="the table was made anew, or two projects share the target: drop the target's table and run again, "
            "or give the sink another one.",
        )


def _doubt_too_old(known: Known, doubt: Place) -> TargetConflict:
    return TargetConflict(
        f"sink '{known.sink}' was stopped while it sent block {doubt.sequence} of '{known.table}' to {known.where}, "
        "and since then so much was inserted there that it would no longer be noticed if the block came twice. "
        "Nothing was sent.",
        hint="drop the target's table, and everything is sent again; or look whether the block's records are there, "
        "and write that into the sink's newest row of seamark_sink_positions.",
    )
