"""Which way leads from a change in each source to the units that it concerns."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from seamark.views.model import MvPart
from seamark.views.paths.facts import Facts, LiteralCondition
from seamark.views.paths.lineage import LeafColumn
from seamark.views.paths.units import MvUnit, unit_of


class PathKind(StrEnum):
    """The kinds of path, as `plan` shows them."""

    SYNC = "sync"
    TRANSFORM = "transform"
    GRAB = "grab"
    EVERY_KEY = "every key"


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a path: rows of `after` lead to those rows of `upto` that agree in all pairs of columns.

    NULL leads nowhere. Rows that fail a literal condition of `upto` are left out.
    """

    after: int
    upto: int
    pairs: tuple[tuple[str, str], ...]
    literals: tuple[LiteralCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """What is done with a changed image of a source that passes its literal conditions.

    `used` are the columns that count: a correction that agrees in them changes nothing. An image with NULL in one of
    `leaves_by` leads nowhere.
    """

    source: int
    table: str
    used: frozenset[str]
    literals: tuple[LiteralCondition, ...]

    @property
    def kind(self) -> PathKind:
        """The kind of path."""
        raise NotImplementedError

    @property
    def leaves_by(self) -> tuple[str, ...]:
        """The columns by which the path leaves the source."""
        return ()


@dataclass(frozen=True, slots=True)
class ActionSync(Action):
    """The left-most source: its own key is the owner, and for groups the left-most row to begin with."""

    key: tuple[str, ...] = ()

    @property
    def kind(self) -> PathKind:
        """The kind of path."""
        return PathKind.SYNC


@dataclass(frozen=True, slots=True)
class ActionKeysTransform(Action):
    """The image itself holds the unit: `columns` are those of the source, in the order of the unit's."""

    columns: tuple[str, ...] = ()
    is_owner: bool = True

    @property
    def kind(self) -> PathKind:
        """The kind of path."""
        return PathKind.TRANSFORM

    @property
    def leaves_by(self) -> tuple[str, ...]:
        """The columns by which the path leaves the source: a group may be NULL, an owner's key is not."""
        return self.columns if self.is_owner else ()


@dataclass(frozen=True, slots=True)
class ActionKeysGrab(Action):
    """Rows are read hop after hop, to the left-most table. For groups the hops go over versions too."""

    hops: tuple[Hop, ...] = ()

    @property
    def kind(self) -> PathKind:
        """The kind of path."""
        return PathKind.GRAB

    @property
    def leaves_by(self) -> tuple[str, ...]:
        """The columns by which the path leaves the source."""
        return tuple(dict.fromkeys(column for column, _ in self.hops[0].pairs))


@dataclass(frozen=True, slots=True)
class ActionEveryKey(Action):
    """No equality leads on: an image that is left concerns every unit."""

    @property
    def kind(self) -> PathKind:
        """The kind of path."""
        return PathKind.EVERY_KEY


@dataclass(frozen=True)
class Paths:
    """The unit of a linked part, and the action of each source."""

    part: MvPart

    @cached_property
    def facts(self) -> Facts:
        """What the part's conditions say."""
        return Facts(self.part)

    @cached_property
    def unit(self) -> MvUnit:
        """What is refreshed at once."""
        return unit_of(self.part)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The action of each occurrence of a table, in the order of their numbers."""
        return tuple(self.action(source.number) for source in self.part.tables)

    def action(self, number: int) -> Action:
        """What is done with a changed image of this source."""
        source = self.part.source(number)
        known = (number, str(source.table), self.facts.used[number], self.facts.literals(number))
        if number == self.unit.leftmost:
            return ActionSync(*known, source.info.schema.key if source.info is not None else ())
        columns = self._transformed(number)
        if columns is not None:
            return ActionKeysTransform(*known, columns, self.unit.is_owner)
        hops = self.hops(number, self.unit.leftmost)
        return ActionKeysGrab(*known, hops) if hops else ActionEveryKey(*known)

    # --- equalities ---------------------------------------------------------------------------------------------------

    @cached_property
    def leads(self) -> dict[int, dict[int, set[tuple[str, str]]]]:
        """From each source, to which others equalities lead, and by which pairs of columns."""
        found: defaultdict[int, dict[int, set[tuple[str, str]]]] = defaultdict(dict)
        for equality in self.facts.equalities:
            for one, other in equality.directed():
                if one.source != other.source:
                    found[one.source].setdefault(other.source, set()).add((one.column, other.column))
        return dict(found)

    @cached_property
    def _equal_to(self) -> dict[LeafColumn, set[LeafColumn]]:
        found: defaultdict[LeafColumn, set[LeafColumn]] = defaultdict(set)
        for equality in self.facts.equalities:
            for one, other in equality.directed():
                found[one].add(other)
        return dict(found)

    def closure(self, column: LeafColumn) -> frozenset[LeafColumn]:
        """All columns that a column's value is led to, itself among them."""
        found, waiting = {column}, [column]
        while waiting:
            for other in self._equal_to.get(waiting.pop(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return frozenset(found)

    def hops(self, number: int, upto: int, within: frozenset[int] | None = None) -> tuple[Hop, ...]:
        """The shortest way by equalities from a source to another; empty if there is none."""
        before: dict[int, int | None] = {number: None}
        waiting = deque([number])
        while waiting and upto not in before:
            here = waiting.popleft()
            for there in sorted(self.leads.get(here, {})):
                if there not in before and (within is None or there in within):
                    before[there] = here
                    waiting.append(there)
        found: list[Hop] = []
        there = upto
        while (here_now := before.get(there)) is not None:
            pairs = tuple(sorted(self.leads[here_now][there]))
            found.append(Hop(here_now, there, pairs, self.facts.literals(there)))
            there = here_now
        return tuple(reversed(found))

    def _transformed(self, number: int) -> tuple[str, ...] | None:
        """The columns of a source that are equal to those of the unit, or None.

        Where a unit column may be NULL because its source is LEFT-joined, the image tells only of one of two groups
        that change: that with the value, and the one of NULL.
        """
        if not self.unit.columns or any(column.leaf is None for column in self.unit.columns):
            return None
        if not self.unit.is_owner:
            nullable = self.facts.lineage.nullable(self.unit.query)
            if any(column.leaf is not None and column.leaf.source in nullable for column in self.unit.columns):
                return None
        found = [self._equal_column(number, column.leaf) for column in self.unit.columns if column.leaf is not None]
        return tuple(name for name in found if name is not None) if None not in found else None

    def _equal_column(self, number: int, leaf: LeafColumn) -> str | None:
        own = sorted(column.column for column in self._columns(number))
        return next((name for name in own if leaf in self.closure(LeafColumn(number, name))), None)

    def _columns(self, number: int) -> set[LeafColumn]:
        found = {column for column in self._equal_to if column.source == number}
        found |= {column.leaf for column in self.unit.columns if column.leaf and column.leaf.source == number}
        return found


def paths_of(part: MvPart) -> Paths:
    """The unit and the paths of a linked part."""
    return Paths(part)
