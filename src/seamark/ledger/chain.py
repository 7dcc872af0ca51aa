"""Going from a chain's head to what the next block needs: from a few carried blocks, or by walking the whole chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from seamark.errors import ChainRuleBroken, MalformedBlock
from seamark.ledger.codec import encode
from seamark.ledger.events import AddData, Block, DatasetKind, ExecuteTransform, MetadataEvent, SetDataSchema
from seamark.ledger.objects import ChainFiles
from seamark.ledger.rules import check_append
from seamark.ledger.state import ChainState, InputPosition
from seamark.ledger.transform import SetTransform


@dataclass(frozen=True, slots=True)
class ChainTip:
    """Where a chain ends, and which blocks carry what the next one follows on from."""

    dataset_id: str
    kind: DatasetKind
    head: str
    sequence: int
    system_time: datetime
    data_block: str | None
    schema_block: str | None
    transform_block: str | None


def state_at(files: ChainFiles, tip: ChainTip) -> ChainState:
    """The state after the tip, from at most three blocks however long the chain is: that is what RFC-014 is for."""
    data = files.block(tip.data_block) if tip.data_block else None
    schema = files.block(tip.schema_block).event if tip.schema_block else None
    transform = files.block(tip.transform_block) if tip.transform_block else None
    state = ChainState(
        dataset_id=tip.dataset_id,
        kind=tip.kind,
        head=tip.head,
        sequence=tip.sequence,
        system_time=tip.system_time,
        schema=schema.schema if isinstance(schema, SetDataSchema) else None,
        transform=transform.event if transform and isinstance(transform.event, SetTransform) else None,
    )
    if data is None:
        return replace(state, transform_is_new=transform is not None)
    event = data.event
    if not isinstance(event, AddData | ExecuteTransform):
        raise MalformedBlock(f"block {tip.data_block} should carry data, and is a {type(event).__name__}.")
    inputs: tuple[InputPosition, ...] = ()
    if isinstance(event, ExecuteTransform):
        inputs = tuple(InputPosition(i.dataset_id, i.last_block, i.last_offset) for i in event.query_inputs)
    return replace(
        state,
        last_offset=event.last_offset,
        watermark=event.new_watermark,
        checkpoint=event.new_checkpoint.physical_hash if event.new_checkpoint else None,
        source_state=event.new_source_state if isinstance(event, AddData) else None,
        inputs=inputs,
        transform_is_new=transform is not None and transform.sequence_number > data.sequence_number,
        has_data_event=True,
    )


def walk_back(files: ChainFiles, head: str) -> Iterator[tuple[str, Block]]:
    """The blocks of a chain with their hashes, newest first; `ChainRuleBroken` if it leads in a circle."""
    name: str | None = head
    follower: Block | None = None
    while name is not None:
        block = files.block(name)
        if follower is not None and block.sequence_number >= follower.sequence_number:
            expected = follower.sequence_number - 1
            raise ChainRuleBroken("sequenceNumber", expected=expected, found=block.sequence_number)
        yield name, block
        name, follower = block.prev_block_hash, block


@dataclass(frozen=True, slots=True)
class DraftBlock:
    """A block that is ready to be written."""

    hash: str
    data: bytes
    block: Block


class ChainDraft:
    """New blocks of one commit, each checked against the chain as it is added; nothing is written yet."""

    def __init__(self, state: ChainState | None, system_time: datetime) -> None:
        self.state = state
        self.system_time = system_time
        self.blocks: list[DraftBlock] = []

    def add(self, event: MetadataEvent) -> None:
        """Add an event as the next block, or `ChainRuleBroken`."""
        previous = self.state
        block = Block(
            system_time=self.system_time,
            prev_block_hash=previous.head if previous else None,
            sequence_number=previous.sequence + 1 if previous else 0,
            event=event,
        )
        data = encode(block)
        self.state = check_append(previous, block, data=data)
        self.blocks.append(DraftBlock(self.state.head, data, block))
