"""Checks right before a commit, beyond the rules of the chain alone: files, slices, and input chains."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.control import BlockEntry, Index
from seamark.errors import ChainRuleBroken, ObjectMissing
from seamark.ledger import AddData, DataSlice, ExecuteTransform, ExecuteTransformInput
from seamark.ledger.chain import DraftBlock
from seamark.ledger.objects import ChainFiles


def check_blocks(
    table: str, files: ChainFiles, blocks: list[DraftBlock], index: Index, new_heads: Mapping[str, str]
) -> None:
    """Refuse a block whose files are missing, whose slice holds other offsets, or whose inputs are in no chain.

    `new_heads` are the heads of chains that this commit begins, by the ids of their tables.
    """
    for entry in blocks:
        event = entry.block.event
        if not isinstance(event, AddData | ExecuteTransform):
            continue
        if event.new_checkpoint and not files.checkpoints.has(event.new_checkpoint.physical_hash):
            raise ObjectMissing("checkpoint", event.new_checkpoint.physical_hash, str(files.checkpoints.folder))
        if event.new_data:
            check_slice_offsets(table, files, event.new_data)
        if isinstance(event, ExecuteTransform):
            others = tuple(i for i in event.query_inputs if new_heads.get(i.dataset_id) != i.new_block_hash)
            _check_inputs(table, others, index)


def check_slice_offsets(table: str, files: ChainFiles, piece: DataSlice) -> None:
    """Refuse a slice that does not hold exactly the offsets of its interval, in order."""
    if not files.data.has(piece.physical_hash):
        raise ObjectMissing("data", piece.physical_hash, str(files.data.folder))
    offsets = pq.read_table(files.data.path(piece.physical_hash), columns=["offset"]).column("offset")
    interval = piece.offset_interval
    expected = interval.end - interval.start + 1
    if len(offsets) != expected:
        raise ChainRuleBroken("records in the slice", expected=expected, found=len(offsets), table=table)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    steps = pc.unique(pc.pairwise_diff(offsets.combine_chunks(), 1).drop_null()).to_pylist() if expected > 1 else [1]
    if first != interval.start or steps != [1]:
        found = f"{first} to {last} with steps {steps}" if steps != [1] else f"{first} to {last}"
        wanted = f"{interval.start} to {interval.end} with step 1"
        raise ChainRuleBroken("offsets in the slice", expected=wanted, found=found, table=table)


def _check_inputs(table: str, inputs: tuple[ExecuteTransformInput, ...], index: Index) -> None:
    """Refuse an interval of blocks that the input's chain does not have, in that order."""
    names = {head.dataset_id: head.table for head in index.heads().values()}
    for taken in inputs:
        if taken.new_block_hash is None:
            continue
        name = names.get(taken.dataset_id)
        if name is None:
            raise ChainRuleBroken("input", expected="a table of this store", found=taken.dataset_id, table=table)
        new = _block_of(table, name, taken.new_block_hash, index)
        if taken.prev_block_hash is not None:
            previous = _block_of(table, name, taken.prev_block_hash, index)
            if new.sequence <= previous.sequence:
                rule = f"newBlockHash of input '{name}'"
                raise ChainRuleBroken(rule, expected=f"a block after {previous.hash}", found=new.hash, table=table)


def _block_of(table: str, input_table: str, block_hash: str, index: Index) -> BlockEntry:
    found = index.block_at(input_table, block_hash)
    if found is None:
        rule = f"block of input '{input_table}'"
        raise ChainRuleBroken(rule, expected="one of its chain's", found=block_hash, table=table)
    return found
