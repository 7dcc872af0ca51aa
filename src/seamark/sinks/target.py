"""What every sink is to the run that drives it: something that opens a target, and a target that takes blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seamark.control import BlockEntry
from seamark.sinks.layout import Layout
from seamark.tables.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Place:
    """A block in a chain: its number and its hash."""

    sequence: int
    hash: str

    @staticmethod
    def of(block: BlockEntry) -> Place:
        """The place of a block in its chain."""
        return Place(block.sequence, block.hash)


@dataclass(frozen=True, slots=True)
class Marker:
    """What the target remembers: the last block that it surely has, and the one whose insert was begun after that.

    `doubt` is None when nothing was begun. `is_covered` says whether the target would still notice that the block in
    doubt is sent again. `adopted_by` is the sink that continues in this one's place.
    """

    done: Place | None
    doubt: Place | None = None
    is_covered: bool = True
    adopted_by: str | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """The blocks that it names."""
        return tuple(place for place in (self.done, self.doubt) if place is not None)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a layout is asked for: a table with its schema, and what the step that makes it says of its records.

    `collapsing_key` is what records with a sign cancel each other by; `constant` are columns that are the same in all
    records of such a key.
    """

    table: str
    schema: TableSchema
    collapsing_key: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What is carried: the sink's name, the table's name and schema, and the layout of the target."""

    sink: str
    table: str
    schema: TableSchema
    layout: Layout


@dataclass(frozen=True, slots=True)
class Trace:
    """What a target's system remembers of a sink that carries another table here, or this table to another place."""

    sink: str
    table: str
    target: str  # as it may be shown
    marker: Marker


class Target(Protocol):
    """An open target."""

    @property
    def is_new(self) -> bool:
        """Whether the table was made just now, so that it holds nothing, whatever was sent before."""

    def is_empty(self) -> bool:
        """Whether the table holds no row."""

    def markers(self) -> Mapping[str, Marker]:
        """What the target remembers of each sink that has carried this table here, by name."""

    def strangers(self) -> Sequence[Trace]:
        """What is remembered of sinks that have carried other tables to this target."""

    def elsewhere(self) -> Sequence[Trace]:
        """What is remembered of sinks that have carried a table of this name to other targets of the same system."""

    def mark(self, done: Place | None, doubt: Place | None, *, afresh: bool = False) -> None:
        """Let the target remember how far it is, and what is about to be sent.

        `afresh` says that it may take blocks for such as it has, and does not have them (any more): from now on all
        blocks of this sink count, each once, whatever was sent before.
        """

    def void(self) -> None:
        """Let the target, which holds no row, remember that it has nothing of any sink."""

    def adopt(self, sink: str, *, afresh: bool = False) -> None:
        """Continue in another sink's place, from where it was, all or nothing: that one must not continue then.

        `afresh` as in `mark`, and in the same step: nobody else knows that it is needed once the place is taken.
        """

    def send(self, block: BlockEntry, slice_path: Path, *, in_doubt: bool) -> None:
        """Insert a block's records, all or none, and not again if the target has had this block.

        `in_doubt` says that an earlier run may have sent it, or only begun to.
        """


class Outlet(Protocol):
    """Something that a table can be bound to: it knows where the target is and how to open it."""

    @property
    def kind(self) -> str:
        """The target's system: "clickhouse"."""

    @property
    def where(self) -> str:
        """The target as it may be shown, without secrets. Two sinks with the same one write to the same place."""

    @property
    def label(self) -> str:
        """What distinguishes this target from others of its kind: the name of its table."""

    def layout_for(self, asked: Asked) -> Layout:
        """The layout of a table's copy, or `InvalidSink` if the table cannot be carried there."""

    def open(self, carried: Carried) -> AbstractContextManager[Target]:
        """The target, made ready to take blocks."""
