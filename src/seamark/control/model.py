"""What goes into the control database and comes out of it, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

UNKNOWN_OUTPUTS = ""  # of positions that were written before their outputs were
_MOST_SIGNS = 200  # the key is part of an index, and PostgreSQL has none for long texts
_CUT = "… sha256 "


def outputs_key(tables: Iterable[str]) -> str:
    """The outputs of a step as the control database names them, whatever their order.

    Positions, failed keys and covered keys belong to a step *and* to the outputs that they were made with: a step of
    the same name with other outputs, in this program or another, has its own.
    """
    key = ",".join(sorted(tables))
    if len(key) <= _MOST_SIGNS:
        return key
    return f"{key[: _MOST_SIGNS - 80]}{_CUT}{hashlib.sha256(key.encode()).hexdigest()}"


def may_be_output(table: str, outputs: str) -> bool:
    """Whether a table can be one of the outputs that `outputs_key` named: a long key does not show them all."""
    return outputs == UNKNOWN_OUTPUTS or _CUT in outputs or table in outputs.split(",")


def step_lease_name(step: str, outputs: str) -> str:
    """The lease that one run of a step holds at a time."""
    return f"step:{step}>{outputs}"


def outputs_of_lease(name: str) -> str | None:
    """The outputs of the step whose lease has this name, if it says."""
    return name.partition(">")[2] or None


@dataclass(frozen=True, slots=True)
class TableHead:
    """Where a table's chain ends, and the blocks from which its next transaction is planned."""

    table: str
    dataset_id: str
    kind: str
    head_hash: str
    sequence: int
    last_offset: int | None
    system_time: datetime
    data_block: str | None
    schema_block: str | None
    transform_block: str | None


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One block in the index of a chain. The offsets and the slice are None for a block without data."""

    sequence: int
    hash: str
    kind: str
    system_time: datetime
    first_offset: int | None = None
    last_offset: int | None = None
    slice_hash: str | None = None
    slice_size: int | None = None
    checkpoint_hash: str | None = None


@dataclass(frozen=True, slots=True)
class TableAppend:
    """New blocks of one table: the head they were planned on, the head that they lead to, and the blocks themselves."""

    planned_head: str | None
    new_head: TableHead
    blocks: tuple[BlockEntry, ...]

    @property
    def table(self) -> str:
        """The table's name."""
        return self.new_head.table


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """A Delta version of a table's rows, and the block up to which it is true."""

    table: str
    delta_version: int
    sequence: int
    last_offset: int
    row_count: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far a step has incorporated an input, for its `outputs`. `generation` counts resets."""

    step: str
    input_table: str
    update_ts: float | None
    record_offset: int | None
    block_sequence: int | None
    block_hash: str | None
    generation: int = 0
    outputs: str = UNKNOWN_OUTPUTS


def indexed_key(key: str) -> str:
    """A key's text as an index can hold it: itself, or its beginning and its hash. PostgreSQL refuses long ones."""
    if len(key) <= 400:
        return key
    return f"{key[:300]}… sha256 {hashlib.sha256(key.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class FailedKey:
    """A key that a step could not compute; `key` is its JSON text."""

    step: str
    key: str
    process_ts: float
    error: str
    attempts: int
    retry_after: float | None = None
    read_at: str | None = None
    outputs: str = UNKNOWN_OUTPUTS


@dataclass(frozen=True, slots=True)
class CoveredKey:
    """A key that a limited run has computed, and the record offset that each input was read at, as JSON."""

    step: str
    key: str
    process_ts: float
    read_at: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was granted. The epoch fences: it grows with every new holder."""

    name: str
    holder: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LiveLease:
    """A lease that somebody holds now, and how long it still lasts if it is not renewed."""

    name: str
    holder: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run did, for people: a row of the `run` table."""

    run_id: str
    step: str
    mode: str
    started: float
    ended: float | None = None
    pins: str | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    outcome: str = "done"
    error: str | None = None
    outputs: str | None = None  # of a step's run


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run of a step that has begun and not ended: where, since when, how far it reads, and the batch at work.

    `is_alive` is False when its lease is over: the process was killed. `batch` is 0 before the first one.
    """

    run_id: str
    step: str
    lease: Lease
    mode: str
    started: float
    pins: dict[str, int | None]
    batch: int = 0
    batches: int = 0
    is_alive: bool = True


@dataclass(frozen=True, slots=True)
class RunTotals:
    """All runs of a step together, and the newest of them."""

    step: str
    runs: dict[str, int]  # by outcome
    rows_in: int
    rows_out: int
    newest: RunRecord


class ScanKind(StrEnum):
    """What goes through a view page by page."""

    SCAN = "scan"
    DICTIONARY = "dictionary"


@dataclass(frozen=True, slots=True)
class ScanId:
    """Which scan: of which job and view, of which part, and the digest of its filter, empty without one."""

    job: str
    target: str
    part: str
    kind: ScanKind
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """How far a scan has come. `position` and `interval` are JSON texts of whoever runs it; `rate` is in rows a second.

    `position` is None before the first page; `done_at` is None until the last.
    """

    id: ScanId
    started_at: float
    position: str | None = None
    interval: str | None = None
    rows_done: int = 0
    rate: float | None = None
    done_at: float | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Everything that becomes true together. Positions and keys are written for the `outputs` of the step.

    All `leases` must still be held: those that fence the run, and those that reserve tables for it.
    """

    run: RunRecord
    appends: tuple[TableAppend, ...]
    staged: tuple[str, ...] = ()
    positions: tuple[Position, ...] = ()
    failed: tuple[FailedKey, ...] = ()
    covered: tuple[CoveredKey, ...] = ()
    recovered: tuple[tuple[str, str], ...] = ()  # (step, key)
    scans: tuple[Scan, ...] = ()
    dropped_scans: tuple[ScanId, ...] = ()
    leases: tuple[Lease, ...] = ()
    outputs: str = UNKNOWN_OUTPUTS


@dataclass(frozen=True, slots=True)
class Adoption:
    """Positions and keys of a step that were written for other outputs, or before outputs were, and are its own now.

    `lowered` are the positions that its outputs' chains do not bear out, as those have them.
    """

    step: str
    from_outputs: str
    to_outputs: str
    lowered: tuple[Position, ...] = ()
