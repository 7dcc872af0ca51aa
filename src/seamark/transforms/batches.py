"""How a run's work is cut into batches: pure decisions over pins, positions and the index of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seamark.control import BlockEntry, Position, TableHead

# Below this many pending records going by changes is always quick enough; only above it is it worth asking whether
# computing everything would be cheaper.
ALL_KEYS_FLOOR = 100_000
FIRST_RUN = "first run"


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
    end_time: float | None

    @property
    def records(self) -> int:
        """How many records these are."""
        return 0 if self.upto is None else self.upto - (-1 if self.after is None else self.after)


@dataclass(frozen=True, slots=True)
class Pending:
    """What an input has that a step has not incorporated."""

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
            time = self.blocks[-1].system_time.timestamp() if self.blocks else None
            upto = self.pin.offset
            return Taken(self.table, after, upto, blocks, self.pin.block_hash, self.pin.sequence, time)
        last = blocks[-1]
        time = last.system_time.timestamp()
        return Taken(self.table, after, last.last_offset, blocks, last.hash, last.sequence, time)


def cut_batches(pending: Sequence[Pending], batch_rows: int) -> list[tuple[Taken, ...]]:
    """The batches in which pending changes are taken: one if they are few enough, else input after input.

    A batch ends where a block ends, and holds more than `batch_rows` records only if one block does.
    """
    waiting = [entry for entry in pending if entry.records > 0]
    if sum(entry.records for entry in waiting) <= batch_rows:
        return [tuple(entry.whole() for entry in waiting)] if waiting else []
    batches: list[tuple[Taken, ...]] = []
    for entry in waiting:
        begin = 0
        while begin < len(entry.blocks):
            end = begin + 1
            while end < len(entry.blocks) and entry.upto_block(end + 1, begin).records <= batch_rows:
                end += 1
            batches.append((entry.upto_block(end, begin),))
            begin = end
    return batches


def all_keys_because(pending: Sequence[Pending], concerns_all: Mapping[str, bool], rows: int) -> str | None:
    """Why a run must, or had better, go through all keys; None if changes lead to them.

    `concerns_all` says for each input whether a change there concerns every key; `rows` is how many rows all inputs
    have.
    """
    fresh = [entry.table for entry in pending if not entry.was_read]
    if fresh:
        never = all(entry.position is None for entry in pending)
        return FIRST_RUN if never else f"no position on {', '.join(fresh)}: it was reset or is a new input"
    changed = [entry for entry in pending if entry.records > 0]
    for entry in changed:
        if concerns_all[entry.table]:
            return f"'{entry.table}' changed, which concerns every key"
    waiting = sum(entry.records for entry in changed)
    if waiting > max(rows, ALL_KEYS_FLOOR):
        return f"{waiting} records wait, more than the inputs have rows ({rows})"
    return None
