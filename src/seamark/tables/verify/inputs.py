"""Derived tables against their inputs: the blocks and records that one was made from must be in the other's chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seamark.ledger import ExecuteTransformInput
from seamark.ledger.multiformats import normal_dataset_id, normal_hash
from seamark.ledger.verify import Finding
from seamark.ledger.verify.report import shown
from seamark.tables.care.chain_facts import ChainFacts, Era, MadeFrom, UnusableCheckpoint, read_checkpoint

# Up to this many blocks that name what an input does not have are listed one by one; beyond it, only their number.
MOST_BLOCKS = 5


def check_inputs(derived: ChainFacts, inputs: Mapping[str, ChainFacts]) -> Iterator[Finding]:
    """What a derived table was made from and its inputs, by dataset id, do not have."""
    current = set(derived.eras[-1].inputs.values()) if derived.eras else set()
    found: dict[str, list[Finding]] = {}
    for era in derived.eras:
        for made in era.made:
            for source, finding in _of_commit(derived, era, made, inputs, current):
                found.setdefault(source, []).append(finding)
    for source, findings in found.items():
        yield from findings[:MOST_BLOCKS]
        if len(findings) > MOST_BLOCKS:
            more = len(findings) - MOST_BLOCKS
            text = f"table '{derived.table}': {more} more blocks were made from what '{source}' does not have."
            yield Finding(derived.table, None, "input", f"blocks of '{source}'", f"{more} more", text)


def _of_commit(
    derived: ChainFacts, era: Era, made: MadeFrom, inputs: Mapping[str, ChainFacts], current: set[str]
) -> Iterator[tuple[str, Finding]]:
    names = {dataset_id: alias for alias, dataset_id in era.inputs.items()}
    for taken in made.inputs:
        dataset_id = normal_dataset_id(taken.dataset_id)
        chain, name = inputs.get(dataset_id), names.get(dataset_id, dataset_id)
        if chain is not None:
            wrong = _wrong_interval(taken, chain)
        elif dataset_id in current and taken.new_block_hash is not None:
            wrong = (f"a table with the dataset id {dataset_id}", "no such table in this store")
        else:
            continue  # the definition has since turned to another table: what it once read may be gone
        if wrong is not None:
            place = _place(taken.last_block, taken.last_offset)
            yield name, _finding(derived.table, made.block, f"up to {place} of input '{name}'", *wrong)
    yield from _wrong_reads(derived, era, made, inputs)


def _wrong_reads(
    derived: ChainFacts, era: Era, made: MadeFrom, inputs: Mapping[str, ChainFacts]
) -> Iterator[tuple[str, Finding]]:
    """Where a commit says that it read its inputs, which may be further than it incorporated them."""
    for name, at in _read_positions(derived, made).items():
        chain = inputs.get(era.inputs.get(name, ""))
        if chain is None:
            continue
        if not isinstance(at, dict) or not isinstance(at.get("block"), str):
            wrong: tuple[str, str] | None = ("a block", str(at)[:200])
        elif (place := chain.places.get(at["block"])) is None:
            wrong = _no_block(chain)
        else:
            there, said = (place.sequence, place.last_offset), (at.get("sequence"), at.get("offset"))
            wrong = None if there == said else (f"sequence and record {there}", str(said))
        if wrong is not None:
            block = at.get("block") if isinstance(at, dict) else None
            yield name, _finding(derived.table, made.block, f"by reading '{name}' at block {shown(block)}", *wrong)


def _read_positions(derived: ChainFacts, made: MadeFrom) -> dict[str, Any]:
    """The positions at which a commit of Seamark's read its inputs; none if its checkpoint does not say."""
    if made.checkpoint is None:
        return {}
    try:
        found = read_checkpoint(derived.files, made.checkpoint).get("read")
    except UnusableCheckpoint:
        return {}  # this has been found already
    return found if isinstance(found, dict) else {}


def _wrong_interval(taken: ExecuteTransformInput, chain: ChainFacts) -> tuple[str, str] | None:
    """What is wrong with how far an input is incorporated: what was expected, and what there is."""
    if taken.last_block is None:
        return None
    place = chain.places.get(normal_hash(taken.last_block))
    if place is None:
        return _no_block(chain)
    if place.last_offset != taken.last_offset:
        return (
            f"record {shown(place.last_offset)} as the last one up to that block",
            f"record {shown(taken.last_offset)}",
        )
    if taken.new_block_hash is not None and taken.prev_block_hash is not None:
        before = chain.places.get(normal_hash(taken.prev_block_hash))
        if before is not None and before.sequence >= place.sequence:
            return f"a block after {before.sequence}", f"block {place.sequence}"
    return None


def _no_block(chain: ChainFacts) -> tuple[str, str]:
    if chain.head is None:
        return "a block of its chain", "a chain that cannot be read to its beginning"
    return "a block of its chain", "no such block in it"


def _finding(table: str, block: str, how: str, expected: str, found: str) -> Finding:
    text = (
        f"table '{table}', block {block}: it was made {how}: expected {expected}, found {found}. "
        "The input's chain was cut or replaced."
    )
    return Finding(table, block, "input", f"{how}: {expected}", found, text)


def _place(block: str | None, offset: int | None) -> str:
    return f"record {shown(offset)}, block {shown(block)}"
