"""What a run of a sink would carry: a pure decision, asked by planning and by running."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from seamark.control import SinkBacklog, TableHead


class SinkMode(Enum):
    """What a run of a sink would do."""

    SETTLED = "settled"  # nothing
    POSITION = "position"  # only blocks without data have come: its position moves, and the target is not asked
    BLOCKS = "blocks"  # send the blocks after its position
    EVERYTHING = "everything"  # ask the target what it has, and send all blocks after that
    CHECK = "check"  # its position is beyond the chain: the target is compared with it, and refused if it differs


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What a run of a sink would carry now. Nothing was sent, and the target was not asked.

    `blocks` with `records` in all come after the block `after` (None: nothing is known to be sent) up to the block
    `upto`. `maker` is the step that writes the table, if there is one: what it writes in the same run comes on top.
    """

    sink: str
    table: str
    target: str
    mode: SinkMode
    reason: str
    blocks: int = 0
    records: int = 0
    after: int | None = None
    upto: int | None = None
    maker: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a run would send nothing, if no step writes to the table before."""
        return self.mode in (SinkMode.SETTLED, SinkMode.POSITION)


def plan_sending(
    sink: str, table: str, target: str, head: TableHead | None, waiting: SinkBacklog, maker: str | None = None
) -> SinkPlan:
    """What a run would carry, from where the chain ends and what waits of it."""
    mode, reason = decide_mode(head, waiting)
    return SinkPlan(
        sink=sink,
        table=table,
        target=target,
        mode=mode,
        reason=reason,
        blocks=waiting.blocks,
        records=waiting.records,
        after=waiting.position,
        upto=None if head is None else head.sequence,
        maker=maker,
    )


def decide_mode(head: TableHead | None, waiting: SinkBacklog) -> tuple[SinkMode, str]:
    """What a run would do, and why."""
    if head is None:
        return SinkMode.SETTLED, "its table has no blocks yet"
    if waiting.position is None:
        return SinkMode.EVERYTHING, "nothing is known to be sent: the target is asked first what it has"
    if waiting.position == head.sequence:
        return SinkMode.SETTLED, "everything was sent"
    if waiting.position > head.sequence:
        return SinkMode.CHECK, f"it has sent up to block {waiting.position}, and the chain ends at {head.sequence}"
    if waiting.blocks == 0:
        return SinkMode.POSITION, "only blocks without data have come"
    return SinkMode.BLOCKS, f"blocks have come after block {waiting.position}"
