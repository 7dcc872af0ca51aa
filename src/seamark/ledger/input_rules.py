"""What an ExecuteTransform may say about its inputs: all of them, in order, each continuing from where it was."""

from __future__ import annotations

from seamark.errors import ChainRuleBroken
from seamark.ledger.events import ExecuteTransform, ExecuteTransformInput
from seamark.ledger.multiformats import is_dataset_id, normal_dataset_id, normal_hash
from seamark.ledger.state import ChainState, InputPosition
from seamark.ledger.transform import SetTransform


def check_inputs(state: ChainState, event: ExecuteTransform) -> None:
    """`ChainRuleBroken` if the event's inputs are not the declared ones, or one of them does not continue."""
    if state.transform is None:
        raise ChainRuleBroken("ExecuteTransform", expected="a SetTransform before it", found="none")
    _are_the_declared_ones(state, state.transform, event)
    for source in event.query_inputs:
        name = _named(state.transform, normal_dataset_id(source.dataset_id))
        _goes_on(state, source, name)
        _moves_forward(source, name)


def positions_after(event: ExecuteTransform) -> tuple[InputPosition, ...]:
    """How far each input is incorporated after the event, in the event's order."""
    return tuple(
        InputPosition(
            normal_dataset_id(source.dataset_id),
            normal_hash(source.last_block) if source.last_block is not None else None,
            source.last_offset,
        )
        for source in event.query_inputs
    )


def _are_the_declared_ones(state: ChainState, transform: SetTransform, event: ExecuteTransform) -> None:
    found = [normal_dataset_id(source.dataset_id) for source in event.query_inputs]
    declared = _declared_ids(state, transform)
    fits = len(found) == len(declared) and all(want in (None, got) for want, got in zip(declared, found, strict=True))
    if not fits or len(set(found)) != len(found):
        expected = ", ".join(
            _named(transform, dataset_id) if dataset_id else source.dataset_ref
            for dataset_id, source in zip(declared, transform.inputs, strict=True)
        )
        raise ChainRuleBroken(
            "queryInputs", expected=expected, found=", ".join(_named(transform, dataset_id) for dataset_id in found)
        )


def _declared_ids(state: ChainState, transform: SetTransform) -> list[str | None]:
    """The ids that the inputs must have; None where the chain does not say.

    A declaration by name was not resolved by its writer. What it stands for is then known from the last event on.
    """
    carried: list[str | None] = [position.dataset_id for position in state.inputs]
    if state.transform_is_new or len(carried) != len(transform.inputs):
        carried = [None] * len(transform.inputs)
    return [
        normal_dataset_id(source.dataset_ref) if is_dataset_id(source.dataset_ref) else known
        for source, known in zip(transform.inputs, carried, strict=True)
    ]


def _goes_on(state: ChainState, source: ExecuteTransformInput, name: str) -> None:
    if state.transform_is_new and source.prev_block_hash is None and source.prev_offset is None:
        return  # an input whose chain was replaced is read again from its beginning
    carried = state.input(normal_dataset_id(source.dataset_id))
    prev_block = normal_hash(source.prev_block_hash) if source.prev_block_hash is not None else None
    if prev_block != carried.block_hash:
        raise ChainRuleBroken(
            f"prevBlockHash of input {name}", expected=carried.block_hash, found=source.prev_block_hash
        )
    if source.prev_offset != carried.offset:
        raise ChainRuleBroken(f"prevOffset of input {name}", expected=carried.offset, found=source.prev_offset)


def _moves_forward(source: ExecuteTransformInput, name: str) -> None:
    new_block = normal_hash(source.new_block_hash) if source.new_block_hash is not None else None
    prev_block = normal_hash(source.prev_block_hash) if source.prev_block_hash is not None else None
    if new_block is not None and new_block == prev_block:
        raise ChainRuleBroken(
            f"newBlockHash of input {name}", expected="another block than prevBlockHash, or null", found=new_block
        )
    if source.new_offset is None:
        return
    if source.new_block_hash is None:
        raise ChainRuleBroken(
            f"newBlockHash of input {name}", expected=f"the block with record {source.new_offset}", found=None
        )
    if source.prev_offset is not None and source.new_offset <= source.prev_offset:
        raise ChainRuleBroken(
            f"newOffset of input {name}", expected=f"more than {source.prev_offset}, or null", found=source.new_offset
        )


def _named(transform: SetTransform, dataset_id: str) -> str:
    for source in transform.inputs:
        if source.alias and is_dataset_id(source.dataset_ref) and normal_dataset_id(source.dataset_ref) == dataset_id:
            return f"{source.alias} ({dataset_id})"
    return dataset_id
