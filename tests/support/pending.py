"""What waits in an input, made by hand: for tests of decisions that need neither files nor database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from seamark.control import BlockEntry, Position
from seamark.steps.standing.pins import Pending, Pin

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def waiting(table: str, sizes: list[int], *, done: int = 0, quiet: int = 0) -> Pending:
    """An input whose blocks have these sizes; the first `done` are incorporated, `quiet` ones without data follow."""
    blocks, first = [], 0
    for number, size in enumerate(sizes, start=2):
        moment = NOON + timedelta(seconds=number)
        blocks.append(BlockEntry(number, f"{table}{number}", "AddData", moment, first, first + size - 1))
        first += size
    offset = first - 1 if sizes else None
    last = len(sizes) + 1 + quiet
    pin = Pin(table, f"id of {table}", f"{table}{last}", last, offset, NOON)
    position = None
    if done:
        at = blocks[done - 1]
        position = Position("step", table, 1.0, at.last_offset, at.sequence, at.hash)
    return Pending(pin, position, tuple(blocks[done:]))
