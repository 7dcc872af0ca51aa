"""Pins, how far a run reads its inputs, and what is pending: what a step has not incorporated up to there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seamark.control import BlockEntry, Position, TableHead


@dataclass(frozen=True, slots=True)
class Pin:
    """How far a run reads an input: fixed before it selects anything."""

    table: str
    dataset_id: str
    block_hash: str
    sequence: int
    offset: int | None
    system_time: datetime
    data_block: str | None = None
    schema_block: str | None = None

    @staticmethod
    def at(head: TableHead) -> Pin:
        """The pin at a table's head."""
        return Pin(
            head.table,
            head.dataset_id,
            head.head_hash,
            head.sequence,
            head.last_offset,
            head.system_time,
            head.data_block,
            head.schema_block,
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """Blocks of one input that a batch covers: records in (after, upto]; `end` is the newest block covered."""

    table: str
    after: int | None
    upto: int | None
    blocks: tuple[BlockEntry, ...]
    end_hash: str
    end_sequence: int

    @property
    def records(self) -> int:
        """How many records these are."""
        return 0 if self.upto is None else self.upto - (-1 if self.after is None else self.after)


@dataclass(frozen=True, slots=True)
class Pending:
    """The records of an input, up to a pin, that a step has not incorporated yet."""

    pin: Pin
    position: Position | None
    blocks: tuple[BlockEntry, ...]  # those with data, oldest first

    @property
    def table(self) -> str:
        """The input."""
        return self.pin.table

    @property
    def after(self) -> int | None:
        """The last record that is incorporated, or None."""
        return self.position.record_offset if self.position else None

    @property
    def records(self) -> int:
        """How many records wait."""
        return (-1 if self.pin.offset is None else self.pin.offset) - (-1 if self.after is None else self.after)

    @property
    def was_read(self) -> bool:
        """Whether the step has a position here: it has neither before its first run nor after a reset."""
        return self.position is not None and self.position.block_sequence is not None

    def whole(self) -> Taken:
        """All that waits, as one piece."""
        return self.upto_block(len(self.blocks))

    def upto_block(self, count: int, begin: int = 0) -> Taken:
        """The blocks from number `begin` up to `count`; with the last of them the input is covered up to its pin."""
        blocks = self.blocks[begin:count]
        after = self.blocks[begin - 1].last_offset if begin else self.after
        if count >= len(self.blocks):
            upto = self.pin.offset
            return Taken(self.table, after, upto, blocks, self.pin.block_hash, self.pin.sequence)
        last = blocks[-1]
        return Taken(self.table, after, last.last_offset, blocks, last.hash, last.sequence)
