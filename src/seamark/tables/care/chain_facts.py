"""Heads, positions and failed keys as the chains alone have them, without the control database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from seamark.control import UNKNOWN_OUTPUTS, FailedKey, Position, TableHead, may_be_output, outputs_key
from seamark.ledger import (
    AddData,
    Block,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetTransform,
    TransformSql,
)
from seamark.ledger.multiformats import is_dataset_id, normal_dataset_id, normal_hash
from seamark.ledger.objects import ChainFiles
from seamark.ledger.verify.files import look
from seamark.tables.kinds import kind_of

MOST_CHECKPOINT_BYTES = 32 << 20  # JSON needs twenty times as much memory as it has bytes

NamedBlock = tuple[str, Block]
"""A block with its hash."""


class Place(NamedTuple):
    """A block in its chain: its number, the last record up to it, and when the last records up to it were committed."""

    sequence: int
    last_offset: int | None
    data_time: datetime | None


class MadeFrom(NamedTuple):
    """An ExecuteTransform block: its hash and time, how far it incorporates each input, and its checkpoint."""

    block: str
    system_time: datetime
    inputs: tuple[ExecuteTransformInput, ...]
    checkpoint: str | None


@dataclass(frozen=True)
class Era:
    """The blocks that one definition of a step made: its name, what it fills, its inputs by alias, and the commits.

    The commits are in order, the oldest first; `outputs` is written as the control database has it. A step that
    `takes_once` adds each record to its state once, so its positions must never move back.
    """

    step: str | None
    outputs: str
    inputs: Mapping[str, str]
    made: tuple[MadeFrom, ...]
    takes_once: bool = False


@dataclass(frozen=True)
class ChainFacts:
    """One table's chain, as far as it can be read.

    `head` is the row that the control database should have; None if the chain does not lead back to a Seed. `places`
    has every block by its hash, `eras` what the definitions of a derived table made.
    """

    table: str
    files: ChainFiles
    dataset_id: str | None
    head: TableHead | None
    places: Mapping[str, Place]
    eras: tuple[Era, ...]

    @staticmethod
    def of(table: str, files: ChainFiles, blocks: Iterable[NamedBlock]) -> ChainFacts:
        """The facts of a chain, from its blocks, oldest first."""
        reading = _Reading()
        for name, block in blocks:
            reading.take(name, block)
        return ChainFacts(
            table, files, reading.dataset_id, reading.head(table), reading.places, tuple(reading.all_eras())
        )


class _Reading:
    """Collects the facts of a chain, block by block."""

    def __init__(self) -> None:
        self.dataset_id: str | None = None
        self.places: dict[str, Place] = {}
        self._seed: Seed | None = None
        self._newest: dict[str, str] = {}
        self._last: NamedBlock | None = None
        self._last_offset: int | None = None
        self._data_time: datetime | None = None
        self._eras: list[tuple[SetTransform | None, list[MadeFrom]]] = [(None, [])]

    def take(self, name: str, block: Block) -> None:
        event = block.event
        if isinstance(event, Seed):
            self._seed, self.dataset_id = event, normal_dataset_id(event.dataset_id)
        elif isinstance(event, SetTransform):
            self._eras.append((event, []))
        elif isinstance(event, AddData | ExecuteTransform):
            self._last_offset = event.last_offset
            self._data_time = block.system_time if event.new_data is not None else self._data_time
        if isinstance(event, ExecuteTransform):
            checkpoint = event.new_checkpoint.physical_hash if event.new_checkpoint else None
            self._eras[-1][1].append(MadeFrom(name, block.system_time, event.query_inputs, checkpoint))
        self._newest[role_of(block)] = name
        self.places[name] = Place(block.sequence_number, self._last_offset, self._data_time)
        self._last = (name, block)

    def head(self, table: str) -> TableHead | None:
        if self._seed is None or self._last is None or self.dataset_id is None:
            return None
        name, block = self._last
        return TableHead(
            table=table,
            dataset_id=self.dataset_id,
            kind=self._seed.dataset_kind.name.lower(),
            head_hash=name,
            sequence=block.sequence_number,
            last_offset=self._last_offset,
            system_time=block.system_time,
            data_block=self._newest.get("data"),
            schema_block=self._newest.get("schema"),
            transform_block=self._newest.get("transform"),
        )

    def all_eras(self) -> Iterator[Era]:
        for event, made in self._eras:
            if event is not None:
                step = step_of(event)
                takes_once = step is not None and takes_once_as(event, step)
                yield Era(step, outputs_of(event), _inputs_of(event), tuple(made), takes_once)


def step_of(event: MetadataEvent) -> str | None:
    """The step whose definition a SetTransform holds: the alias of its first query."""
    if isinstance(event, SetTransform) and isinstance(event.transform, TransformSql) and event.transform.queries:
        return event.transform.queries[0].alias
    return None


def outputs_of(event: MetadataEvent) -> str:
    """The outputs that a definition's positions belong to, as the control database names them."""
    try:
        facts = _definition_of(event)
        return outputs_key(kind_of(facts["kind"]).fills(str(step_of(event)), facts["outputs"]))
    except (KeyError, TypeError):  # somebody else's definition
        return UNKNOWN_OUTPUTS


def takes_once_as(event: MetadataEvent, name: str) -> bool:
    """Whether a SetTransform defines the step of this name as one that takes in each record exactly once."""
    return step_of(event) == name and kind_of(_definition_of(event).get("kind")).takes_once


def _definition_of(event: MetadataEvent) -> dict[str, Any]:
    """The JSON document in a SetTransform; empty if Seamark did not write it."""
    if not isinstance(event, SetTransform) or not isinstance(event.transform, TransformSql):
        return {}
    first = next(iter(event.transform.queries or ()), None)
    try:
        facts = json.loads(first.query) if first else {}
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _inputs_of(event: SetTransform) -> dict[str, str]:
    """The inputs that a definition resolved, by alias."""
    known = [entry for entry in event.inputs if is_dataset_id(entry.dataset_ref)]
    return {entry.alias or entry.dataset_ref: normal_dataset_id(entry.dataset_ref) for entry in known}


def role_of(block: Block) -> str:
    """The role of a block for the next one: `data`, `schema`, `transform`, `seed` or `other`."""
    match block.event:
        case AddData() | ExecuteTransform():
            return "data"
        case SetDataSchema():
            return "schema"
        case SetTransform():
            return "transform"
        case Seed():
            return "seed"
        case _:
            return "other"


# --- positions --------------------------------------------------------------------------------------------------------


def positions_of(chains: Iterable[ChainFacts]) -> dict[tuple[str, str, str], Position]:
    """How far each step has come on each of its inputs, by step, outputs and input.

    That is what the newest block of each output says, of the output that is furthest behind. Tables that a diff has
    beside its state do not count: it may have stopped writing them.
    """
    every = list(chains)
    by_id = {chain.dataset_id: chain for chain in every if chain.dataset_id is not None}
    least: dict[tuple[str, str, str], Position] = {}
    for chain in every:
        newest: dict[tuple[str, str, str], Position] = {}
        for era in chain.eras:
            for position in _positions(era, by_id) if may_be_output(chain.table, era.outputs) else ():
                place = (position.step, position.outputs, position.input_table)
                newest[place] = max(newest.get(place, position), position, key=lambda p: p.block_sequence or 0)
        for place, position in newest.items():
            least[place] = min(least.get(place, position), position, key=lambda p: p.block_sequence or 0)
    return least


def _positions(era: Era, chains: Mapping[str, ChainFacts]) -> Iterator[Position]:
    if era.step is None or not era.made:
        return
    for taken in era.made[-1].inputs:
        chain = chains.get(normal_dataset_id(taken.dataset_id))
        if chain is None or taken.last_block is None:
            continue
        block = normal_hash(taken.last_block)
        place = chain.places.get(block)
        yield Position(
            step=era.step,
            outputs=era.outputs,
            input_table=chain.table,
            update_ts=place.data_time.timestamp() if place and place.data_time else None,
            record_offset=taken.last_offset,
            block_sequence=place.sequence if place else None,
            block_hash=block,
        )


# --- failed keys ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LostCheckpoint:
    """The last checkpoint of a step's table, which cannot be used, and why."""

    step: str
    table: str
    block: str
    checkpoint: str
    reason: str
    is_intact: bool = False  # its file is as it was committed


@dataclass(frozen=True)
class StepFailures:
    """What the newest checkpoint of each step says: its failed keys, or that it cannot be read."""

    failed: Mapping[tuple[str, str, str], FailedKey]
    lost: tuple[LostCheckpoint, ...]


def failures_of(chains: Iterable[ChainFacts]) -> StepFailures:
    """The current failed keys, by step, outputs and key, from the newest checkpoint of each step.

    A table that a step has not written since then names keys that are cured. All tables of one commit have the same
    checkpoint, so that any of them will do.
    """
    newest: dict[tuple[str, str], list[tuple[ChainFacts, MadeFrom]]] = {}
    for chain in chains:
        for era in chain.eras:
            last = era.made[-1] if era.made else None
            if era.step is None or last is None or last.checkpoint is None:
                continue
            known = newest.setdefault((era.step, era.outputs), [])
            if known and known[0][1].system_time < last.system_time:
                known.clear()
            if not known or known[0][1].system_time == last.system_time:
                known.append((chain, last))
    failed: dict[tuple[str, str, str], FailedKey] = {}
    lost: list[LostCheckpoint] = []
    for (step, outputs), copies in newest.items():
        by_copy = [_failures_in_checkpoint(step, chain, made) for chain, made in copies]
        usable = next((keys for keys in by_copy if not isinstance(keys, LostCheckpoint)), None)
        failed |= {(step, outputs, key.key): replace(key, outputs=outputs) for key in usable or ()}
        lost += [entry for entry in by_copy if isinstance(entry, LostCheckpoint)] if usable is None else []
    return StepFailures(failed, tuple(lost))


def _failures_in_checkpoint(step: str, chain: ChainFacts, made: MadeFrom) -> list[FailedKey] | LostCheckpoint:
    assert made.checkpoint is not None
    try:
        return list(_failed_keys(step, read_checkpoint(chain.files, made.checkpoint)))
    except UnusableCheckpoint as error:
        return LostCheckpoint(step, chain.table, made.block, made.checkpoint, str(error), error.is_intact)


class UnusableCheckpoint(ValueError):
    """A checkpoint's file is not the one that its block names; or, with `is_intact`, Seamark did not write it."""

    def __init__(self, reason: str, *, is_intact: bool = False) -> None:
        super().__init__(reason)
        self.is_intact = is_intact


def read_checkpoint(files: ChainFiles, name: str) -> dict[str, Any]:
    """The document in a checkpoint; `UnusableCheckpoint` if its file is missing, or its bytes do not match its name."""
    seen = look(files.checkpoints.path(name), MOST_CHECKPOINT_BYTES)
    if seen.instead is not None:
        raise UnusableCheckpoint("it is missing" if seen.instead == "nothing" else f"in its place is {seen.instead}")
    if seen.hash != name:
        raise UnusableCheckpoint("it is empty" if seen.size == 0 else "its bytes were changed")
    if seen.data is None:
        raise UnusableCheckpoint(f"it has {seen.size} bytes, more than any checkpoint", is_intact=True)
    try:
        document = json.loads(seen.data)
    except (ValueError, RecursionError):
        raise UnusableCheckpoint("it is not JSON", is_intact=True) from None
    if not isinstance(document, dict):
        raise UnusableCheckpoint("it is not a JSON object", is_intact=True)
    return document


_FAILED_KEY = {
    "key": str,
    "process_ts": int | float,
    "error": str,
    "attempts": int,
    "retry_after": int | float | None,
    "read_at": str | None,
}


def _failed_keys(step: str, checkpoint: Mapping[str, Any]) -> Iterator[FailedKey]:
    entries = checkpoint.get("failed", [])
    for entry in entries if isinstance(entries, list) else [entries]:
        fits = isinstance(entry, dict) and set(entry) <= set(_FAILED_KEY)
        if not fits or not all(isinstance(entry.get(name), kind) for name, kind in _FAILED_KEY.items()):
            reason = f"a failed key in it is not one: {json.dumps(entry)[:200]}"
            raise UnusableCheckpoint(reason, is_intact=True)
        yield FailedKey(step=step, **entry)
