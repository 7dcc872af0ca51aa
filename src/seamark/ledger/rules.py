"""Which block may follow which. One pure function decides, both when a block is appended and when a chain is verified.

What needs more than the chain itself is decided elsewhere: whether files are there and hold the rows that a block
promises, and whether an input really has the blocks that are named.
"""

from __future__ import annotations

from dataclasses import replace

from seamark.errors import ChainRuleBroken
from seamark.ledger.codec import block_hash, encode
from seamark.ledger.definition_rules import check_polling_source, check_push_source, check_schema, check_transform
from seamark.ledger.events import (
    AddData,
    Block,
    DataEvent,
    DatasetKind,
    ExecuteTransform,
    Seed,
    SetDataSchema,
)
from seamark.ledger.input_rules import check_inputs, positions_after
from seamark.ledger.multiformats import normal_dataset_id, normal_hash
from seamark.ledger.sources import AddPushSource, DisablePollingSource, DisablePushSource, SetPollingSource
from seamark.ledger.state import ChainState
from seamark.ledger.transform import SetTransform


def check_append(
    state: ChainState | None,
    block: Block,
    declared_hash: str | None = None,
    *,
    data: bytes | None = None,
) -> ChainState:
    """The state after `block`, or `ChainRuleBroken` if it may not follow `state` (None: an empty chain).

    `data` are the block's bytes where it is stored; they are hashed as they are. Without them the block is encoded.
    `declared_hash` is what somebody says that the hash is.
    """
    head = block_hash(encode(block) if data is None else data)
    _hash_is_as_declared(declared_hash, head)
    if state is None:
        return _seeded(block, head)
    _is_no_second_seed(state, block)
    _follows_the_head(state, block)
    _sequence_follows_on(state, block)
    _time_does_not_go_back(state, block)
    after = _after_event(state, block)
    return replace(after, head=head, sequence=block.sequence_number, system_time=block.system_time)


def _after_event(state: ChainState, block: Block) -> ChainState:
    match block.event:
        case AddData() | ExecuteTransform() as event:
            return _after_data_event(state, event)
        case SetDataSchema() as event:
            check_schema(state, event)
            return replace(state, schema=event.schema, raw_arrow_schema=event.raw_arrow_schema)
        case SetTransform() as event:
            check_transform(event)
            return replace(state, transform=event, transform_is_new=True)
        case AddPushSource() as event:
            check_push_source(state, event)
            return replace(state, push_sources=(*_other_sources(state, event.source_name), event))
        case DisablePushSource(source_name):
            return replace(state, push_sources=_other_sources(state, source_name))
        case SetPollingSource() as event:
            check_polling_source(state, event)
            return replace(state, polling_source=event)
        case DisablePollingSource():
            return replace(state, polling_source=None)
        case _:  # vocabulary, attachments, info and licence say nothing that a later block depends on
            return state


def _other_sources(state: ChainState, name: str) -> tuple[AddPushSource, ...]:
    return tuple(source for source in state.push_sources if source.source_name != name)


# --- the block itself -------------------------------------------------------------------------------------------------


def _hash_is_as_declared(declared: str | None, computed: str) -> None:
    if declared is not None and normal_hash(declared) != computed:
        raise ChainRuleBroken("block hash", expected=declared, found=computed)


def _seeded(block: Block, head: str) -> ChainState:
    if not isinstance(block.event, Seed):
        raise ChainRuleBroken("first block", expected="a Seed", found=type(block.event).__name__)
    if block.prev_block_hash is not None:
        raise ChainRuleBroken("prevBlockHash of a Seed", expected=None, found=block.prev_block_hash)
    if block.sequence_number != 0:
        raise ChainRuleBroken("sequenceNumber of a Seed", expected=0, found=block.sequence_number)
    return ChainState(
        dataset_id=normal_dataset_id(block.event.dataset_id),
        kind=block.event.dataset_kind,
        head=head,
        sequence=0,
        system_time=block.system_time,
    )


def _is_no_second_seed(state: ChainState, block: Block) -> None:
    if isinstance(block.event, Seed):
        found = f"a second Seed, of {block.event.dataset_id}"
        raise ChainRuleBroken("event", expected=f"any but a Seed: the chain is that of {state.dataset_id}", found=found)


def _follows_the_head(state: ChainState, block: Block) -> None:
    if _normal(block.prev_block_hash) != state.head:
        raise ChainRuleBroken("prevBlockHash", expected=state.head, found=block.prev_block_hash)


def _sequence_follows_on(state: ChainState, block: Block) -> None:
    if block.sequence_number != state.sequence + 1:
        raise ChainRuleBroken("sequenceNumber", expected=state.sequence + 1, found=block.sequence_number)


def _time_does_not_go_back(state: ChainState, block: Block) -> None:
    if block.system_time < state.system_time:
        raise ChainRuleBroken("systemTime", expected=f"{state.system_time} or later", found=block.system_time)


# --- data events ------------------------------------------------------------------------------------------------------


def _after_data_event(state: ChainState, event: DataEvent) -> ChainState:
    _fits_the_kind(state, event)
    if isinstance(event, ExecuteTransform):
        check_inputs(state, event)
    _offsets_follow_on(state, event)
    _data_has_a_schema(state, event)
    _checkpoint_follows_on(state, event)
    _watermark_is_carried(state, event)
    if isinstance(event, AddData):
        _source_state_is_carried(state, event)
    _changes_something(state, event)
    return replace(
        state,
        last_offset=event.last_offset,
        watermark=event.new_watermark,
        checkpoint=_normal(event.new_checkpoint.physical_hash) if event.new_checkpoint else None,
        source_state=event.new_source_state if isinstance(event, AddData) else state.source_state,
        inputs=positions_after(event) if isinstance(event, ExecuteTransform) else state.inputs,
        transform_is_new=state.transform_is_new and not isinstance(event, ExecuteTransform),
        has_data_event=True,
    )


def _fits_the_kind(state: ChainState, event: DataEvent) -> None:
    fitting = AddData if state.kind is DatasetKind.ROOT else ExecuteTransform
    if not isinstance(event, fitting):
        expected = f"{fitting.__name__}, as {state.dataset_id} is a {state.kind.name.lower()} dataset"
        raise ChainRuleBroken("data event", expected=expected, found=type(event).__name__)


def _offsets_follow_on(state: ChainState, event: DataEvent) -> None:
    if event.prev_offset != state.last_offset:
        raise ChainRuleBroken("prevOffset", expected=state.last_offset, found=event.prev_offset)
    if event.new_data is None:
        return
    interval = event.new_data.offset_interval
    if interval.start != state.next_offset:
        raise ChainRuleBroken("offsetInterval.start", expected=state.next_offset, found=interval.start)
    if interval.end < interval.start:
        raise ChainRuleBroken("offsetInterval.end", expected=f"{interval.start} or more", found=interval.end)


def _data_has_a_schema(state: ChainState, event: DataEvent) -> None:
    if event.new_data is not None and not state.has_schema:
        raise ChainRuleBroken(
            "newData", expected="a SetDataSchema before the first data", found="data without a schema"
        )


def _checkpoint_follows_on(state: ChainState, event: DataEvent) -> None:
    if _normal(event.prev_checkpoint) != state.checkpoint:
        raise ChainRuleBroken("prevCheckpoint", expected=state.checkpoint, found=event.prev_checkpoint)


def _watermark_is_carried(state: ChainState, event: DataEvent) -> None:
    if state.watermark is None:
        return
    if event.new_watermark is None or event.new_watermark < state.watermark:
        raise ChainRuleBroken("newWatermark", expected=f"{state.watermark} or later", found=event.new_watermark)


def _source_state_is_carried(state: ChainState, event: AddData) -> None:
    # The next poll starts from the last event's state: an event that drops it makes the source be read again from
    # its beginning.
    if state.source_state is not None and event.new_source_state is None:
        raise ChainRuleBroken("newSourceState", expected=f"{state.source_state} or a newer one", found=None)


def _changes_something(state: ChainState, event: DataEvent) -> None:
    changes = [
        event.new_data is not None,
        event.new_checkpoint is not None and _normal(event.new_checkpoint.physical_hash) != state.checkpoint,
        event.new_watermark != state.watermark,
    ]
    if isinstance(event, AddData):
        changes.append(event.new_source_state != state.source_state)
        possible = "new data, checkpoint, watermark or source state"
    else:
        changes.extend(source.new_block_hash is not None for source in event.query_inputs)
        possible = "new data, checkpoint, watermark or input blocks"
    if not any(changes):
        raise ChainRuleBroken("empty event", expected=possible, found=f"{type(event).__name__} that changes nothing")


def _normal(text: str | None) -> str | None:
    return None if text is None else normal_hash(text)
