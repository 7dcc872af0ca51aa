"""Where a sink continues: a pure decision from what the target and the control database remember."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from seamark.control import SinkPosition
from seamark.errors import TargetConflict
from seamark.sinks.layout import Layout, RowKind
from seamark.sinks.target import Marker, Place, Trace

HashAt = Callable[[int], str | None]
"""The hash of the chain's block with a sequence, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Start:
    """Send what comes after `after` (None: everything).

    `starts_over` says that the target is filled from the beginning; `begun` is the block that an earlier run began to
    send; `adopts` is the sink whose place is taken first. `afresh` says that the target may take blocks for ones that
    it has, and no longer has them.
    """

    after: int | None
    starts_over: bool = False
    begun: Place | None = None
    adopts: str | None = None
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What is known when a sink begins to work."""

    sink: str
    table: str
    where: str
    layout: Layout
    sent: SinkPosition | None  # how far it has carried records as the control database knows it, here or elsewhere
    is_new: bool  # the target's table was made just now
    is_empty: bool
    markers: Mapping[str, Marker] = field(default_factory=dict)  # the target's, of this sink and of others
    adopts: str | None = None  # the sink whose place this one was asked to take
    strangers: Sequence[Trace] = ()  # the sinks that have carried other tables to this target
    carried: Sequence[SinkPosition] = ()  # how far others have carried this very table, wherever to

    @property
    def is_sent_here(self) -> bool:
        """Whether this sink has sent records to this target, as far as the control database knows."""
        return self.sent is not None and self.sent.is_in(self.where)

    @property
    def may_remember(self) -> bool:
        """Whether the target may take blocks for such as it has, because it had them before somebody emptied it.

        A marker without a block was written when the target was started over, and its tokens are already new. Of a
        target of records that cancel each other nobody knows whether it was emptied: they may all be there.
        """
        if self.is_new:
            return False
        if self.is_sent_here or any(marker.places for marker in self.markers.values()):
            return True
        return self.sink not in self.markers and self.layout.kind is not RowKind.DIFF

    def sent_by(self, sink: str) -> int:
        """The last block that a sink has sent to this target, as far as the control database knows; -1 if none."""
        positions = [self.sent] if sink == self.sink else [each for each in self.carried if each.sink == sink]
        return max((each.sequence for each in positions if each is not None and each.is_in(self.where)), default=-1)


def decide_start(facts: StartFacts, hash_at: HashAt) -> Start:
    """Where to continue, or `TargetConflict` where sending more could count a record twice or leave one out.

    The target's own marker decides: it was written beside the data, so it is right after a crash, after the control
    database was built again and after the target was restored from a copy. The control database's position only saves a
    look at the target when there is nothing to send.
    """
    if facts.is_new:
        return Start(None, starts_over=True)
    if facts.layout.is_idempotent and not facts.is_empty:
        _refuse_rows_of_others(facts, hash_at)
    adopts = adopted(facts, hash_at)
    marker = facts.markers.get(adopts or facts.sink)
    if facts.is_empty and facts.layout.is_idempotent:
        return Start(None, starts_over=True, adopts=adopts)  # nothing was sent yet, or somebody emptied it
    if marker is None or not marker.places:
        return _without_marker(facts, marker, hash_at)
    for place in marker.places:
        _refuse_another_chain(facts, place, hash_at)
    return replace(_after(facts, marker, facts.sent_by(adopts or facts.sink)), adopts=adopts)


def _after(facts: StartFacts, marker: Marker, sent: int) -> Start:
    done = None if marker.done is None else marker.done.sequence
    if sent > (-1 if done is None else done):
        # The target was set back, to a copy perhaps: it may know blocks still that it does not have any more.
        if marker.doubt is None or facts.layout.is_idempotent:
            return Start(done, afresh=True)
        raise _doubt_too_old(facts, marker, "and since then the target was set back to where it was before")
    if marker.doubt is not None and not marker.is_covered and not facts.layout.is_idempotent:
        raise _doubt_too_old(
            facts,
            marker,
            "and since then so much was inserted or changed there that it would no longer be noticed if the block came "
            "twice",
        )
    return Start(done, begun=marker.doubt)


# --- other sinks ------------------------------------------------------------------------------------------------------


def writers(facts: StartFacts, hash_at: HashAt) -> dict[str, Marker]:
    """The other sinks that have sent blocks of this very chain to this target, and were not adopted."""
    return {
        name: marker
        for name, marker in facts.markers.items()
        if name != facts.sink and marker.adopted_by is None and _is_of_chain(marker, hash_at)
    }


def adopted(facts: StartFacts, hash_at: HashAt) -> str | None:
    """The sink whose place is to be taken, or None where this one continues as itself.

    `TargetConflict` where another sink has sent the same records: sent again under another name they would count twice.
    """
    mine, others = facts.markers.get(facts.sink), writers(facts, hash_at)
    if mine is not None and mine.places and mine.adopted_by is None:
        return None  # adopting was done in an earlier run
    if facts.adopts in others:
        return facts.adopts
    if mine is not None and mine.adopted_by is not None:
        last = _last_adopter(facts, mine.adopted_by)
        raise TargetConflict(
            f"sink '{facts.sink}' has carried '{facts.table}' to {facts.where}, and sink '{last}' continues in its "
            "place. Nothing was sent.",
            hint=f"take this one out of the program, or continue under this name with {_adopt(last)}.",
        )
    if not others or (facts.layout.is_idempotent and facts.adopts is None):
        return None  # nobody was here before; or everything may be sent again
    first = min(others)
    instead = f", not '{facts.adopts}'" if facts.adopts is not None else ""
    raise TargetConflict(
        f"sink '{facts.sink}' is to carry '{facts.table}' to {facts.where}, and sink '{first}' does so already{instead}"
        f": up to block {_sequence(others[first])}. Nothing was sent, for every record would count twice.",
        hint=f"if it is the same sink under another name, continue from its position with {_adopt(first)}; "
        f'else give this one a target of its own, or the old name, name="{first}".',
    )


def _last_adopter(facts: StartFacts, sink: str) -> str:
    """The sink that continues now, where one that has adopted another was adopted itself."""
    met = {facts.sink}
    while sink not in met:
        met.add(sink)
        marker = facts.markers.get(sink)
        sink = marker.adopted_by if marker is not None and marker.adopted_by is not None else sink
    return sink


def _adopt(sink: str) -> str:
    return f'ds.sink(…, adopt="{sink}")'


def _sequence(marker: Marker) -> int:
    return max(place.sequence for place in marker.places)


# --- this sink --------------------------------------------------------------------------------------------------------


def _without_marker(facts: StartFacts, marker: Marker | None, hash_at: HashAt) -> Start:
    """Everything, where nothing of it can be there, or where it does no harm if it is.

    Rows that nobody knows of may be this table's own: in a copy of another target, or in one that was renamed.
    """
    if marker is not None:
        return Start(None, starts_over=True)  # a marker without a block says that nothing was sent
    if facts.layout.is_idempotent:
        return _over_own_rows(facts, hash_at)
    if facts.is_empty:
        if facts.is_sent_here and facts.layout.kind is RowKind.DIFF:
            raise _unknown_rows(facts, "is empty", "they may have been there and have cancelled each other")
        return Start(None, starts_over=True)
    if facts.sent is None and facts.adopts is None and not facts.carried:
        return Start(None)  # its first run: the rows that are there are somebody else's, such as a fast supplier's
    raise _unknown_rows(facts, "holds rows", "they may be the same ones")


def _over_own_rows(facts: StartFacts, hash_at: HashAt) -> Start:
    """Everything over rows of the same chain. Over others' it would leave the newer one of two that are not related."""
    is_own = facts.is_sent_here or any(each.is_in(facts.where) for each in facts.carried)
    if is_own or any(_is_of_chain(marker, hash_at) for marker in facts.markers.values()):
        return Start(None, starts_over=True)
    raise TargetConflict(
        f"sink '{facts.sink}' is to carry '{facts.table}' to {facts.where}, which holds rows, and does not know from "
        "where. Nothing was sent: rows of another origin could stay in front of newer ones.",
        hint=f"if they are rows of '{facts.table}', in a copy perhaps, {_say(facts.sink, None)} sends everything over "
        "them; if not, give the sink a table of its own with another table=.",
    )


def _unknown_rows(facts: StartFacts, what: str, why: str) -> TargetConflict:
    """What a sink is stopped with before a target of which nobody knows what it has of the chain."""
    before = facts.sent or next((each for each in facts.carried if each.sink == facts.adopts), None)
    before = before or max(facts.carried, key=lambda each: each.sequence, default=None)
    if before is None:
        done = f"is to take the place of '{facts.adopts}', which has carried '{facts.table}' nowhere that is known"
        here = f"{_say(facts.sink, '…')} with the last block that it has"
    else:
        elsewhere = "" if before.is_in(facts.where) else f" to {before.target}"
        carried = f"has carried '{facts.table}' up to block {before.sequence}{elsewhere}"
        done = carried if before.sink == facts.sink else f"goes there for the first time, and '{before.sink}' {carried}"
        here = _say(facts.sink, before.sequence)
    return TargetConflict(
        f"sink '{facts.sink}' {done}, but {facts.where} does not know of it, and {what}. Nothing was sent: {why}.",
        hint=f"if this is the target that has them, or a copy of it, {here} continues from there; "
        f"if it has none of them, {_say(facts.sink, None)} sends everything.",
    )


def _is_of_chain(marker: Marker, hash_at: HashAt) -> bool:
    return bool(marker.places) and all(hash_at(place.sequence) == place.hash for place in marker.places)


def _refuse_rows_of_others(facts: StartFacts, hash_at: HashAt) -> None:
    """Refuse to mix chains where there is one row per key: each counts its own records, so a stale one may win."""
    for stranger in facts.strangers:
        if stranger.marker.places:
            raise TargetConflict(
                f"sink '{facts.sink}' is to carry '{facts.table}' to {facts.where}, and sink '{stranger.sink}' carries "
                f"'{stranger.table}' there. Nothing was sent: of two rows with one key the older one could stay.",
                hint="give the sink a table of its own with another table=; a step before it, or a view in the target, "
                "can bring both together.",
            )
    for name, marker in facts.markers.items():
        for place in marker.places if name != facts.sink else ():
            _refuse_another_chain(facts, place, hash_at)


def _refuse_another_chain(facts: StartFacts, place: Place, hash_at: HashAt) -> None:
    found = hash_at(place.sequence)
    if found != place.hash:
        raise TargetConflict(
            f"sink '{facts.sink}': {facts.where} was filled from another chain: its block {place.sequence} is "
            f"{place.hash}, and that of '{facts.table}' is {found or 'not there'}. Nothing was sent.",
            hint="the table was made again, or two projects share the target: give the sink a table of its own with "
            "another table=, and everything is sent there.",
        )


def _doubt_too_old(facts: StartFacts, marker: Marker, why: str) -> TargetConflict:
    assert marker.doubt is not None, "there is a doubt"
    return TargetConflict(
        f"sink '{facts.sink}' was stopped while it sent block {marker.doubt.sequence} of '{facts.table}' to "
        f"{facts.where}, {why}. Nothing was sent.",
        hint="look whether the block's records are there: if they are, "
        f"{_say(facts.sink, marker.doubt.sequence)} continues after it; if they are not, "
        f"{_say(facts.sink, marker.done.sequence if marker.done else None)} sends it.",
    )


def _say(sink: str, sequence: int | str | None) -> str:
    return f"ds.sinks()[{sink!r}].go_on_after({sequence})"
