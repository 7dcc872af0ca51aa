"""Verification: every block, slice and checkpoint of a chain, read again and compared with what the chain says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.errors import ChainRuleBroken, LedgerError
from seamark.ledger.codec import block_hash, decode
from seamark.ledger.events import AddData, Block, DataEvent, DatasetKind, DataSlice, ExecuteTransform, Op
from seamark.ledger.logical_hash import LogicalHasher
from seamark.ledger.objects import ChainFiles, file_hash
from seamark.ledger.rules import check_append
from seamark.ledger.state import ChainState

OnBlock: TypeAlias = Callable[[str, int, int], None]
"""Called after each block with the table, how many of its blocks are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as the chain says: in which table and block, what kind of difference, and both values."""

    table: str
    block: str | None
    kind: str
    expected: str
    found: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The outcome of a verification: how many blocks were looked at, and all that was found wrong.

    Of the blocks that a step made, `replayed` were computed again; `not_replayable` were made by a function that is no
    longer there.
    """

    blocks: int
    findings: tuple[Finding, ...] = field(default=())
    replayed: int = 0
    not_replayable: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.findings

    def __add__(self, other: VerifyReport) -> VerifyReport:
        return VerifyReport(
            self.blocks + other.blocks,
            self.findings + other.findings,
            self.replayed + other.replayed,
            self.not_replayable + other.not_replayable,
        )


def verify_chain(table: str, files: ChainFiles, head: str, on_block: OnBlock | None = None) -> VerifyReport:
    """Verify a whole chain from its head back to its seed, with the data and checkpoints that it names."""
    stored, findings = _stored_blocks(table, files, head)
    state: ChainState | None = None
    broken = bool(findings)
    for done, (name, data, block) in enumerate(reversed(stored), start=1):
        if not broken:
            try:
                state = check_append(state, block, name, data=data)
            except ChainRuleBroken as error:
                broken = True  # what follows rests on this block, so it cannot be judged by the rules any more
                found = _shown(error.found)
                findings.append(Finding(table, name, error.rule, _shown(error.expected), found, str(error.on(table))))
        if isinstance(block.event, AddData | ExecuteTransform):
            findings += _verify_data(table, files, name, block, block.event, _kind_of(stored))
        if on_block is not None:
            on_block(table, done, len(stored))
    return VerifyReport(len(stored), tuple(findings))


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def _kind_of(stored: list[tuple[str, bytes, Block]]) -> DatasetKind:
    kind = getattr(stored[-1][2].event, "dataset_kind", DatasetKind.ROOT)
    return DatasetKind(kind)


def _stored_blocks(table: str, files: ChainFiles, head: str) -> tuple[list[tuple[str, bytes, Block]], list[Finding]]:
    """All blocks that can be read, newest first, and why the walk ended if it did not end at a seed."""
    found: list[tuple[str, bytes, Block]] = []
    findings: list[Finding] = []
    name: str | None = head
    while name is not None:
        try:
            data = files.blocks.read(name)
        except LedgerError as error:
            findings.append(Finding(table, name, "missing block", name, "nothing", f"table '{table}': {error}"))
            break
        actual = block_hash(data)
        if actual != name:
            findings.append(_block_differs(table, name, actual))
        try:
            block = decode(data)
        except LedgerError as error:
            text = f"table '{table}': block {name} cannot be read: {error}"
            findings.append(Finding(table, name, "unreadable block", "a block", "other bytes", text))
            break
        if found and block.sequence_number >= found[-1][2].sequence_number:
            findings.append(_chain_breaks(table, found[-1][0], found[-1][2], block))
            break
        found.append((name, data, block))
        name = block.prev_block_hash
    return found, findings


def _chain_breaks(table: str, after: str, follower: Block, block: Block) -> Finding:
    """Without this the walk could go round for ever: a block that was put in an older one's place leads back to it."""
    expected, found = str(follower.sequence_number - 1), str(block.sequence_number)
    text = f"table '{table}': the block before {after} has sequence {found}, where {expected} belongs."
    return Finding(table, after, "sequenceNumber", expected, found, text)


def _block_differs(table: str, expected: str, found: str) -> Finding:
    text = (
        f"table '{table}': the bytes of block {expected} have the hash {found}. "
        "The block was damaged or replaced; whatever follows it does not prove anything."
    )
    return Finding(table, expected, "block hash", expected, found, text)


def _verify_data(
    table: str, files: ChainFiles, name: str, block: Block, event: DataEvent, kind: DatasetKind
) -> Iterator[Finding]:
    if event.new_checkpoint is not None:
        yield from _verify_checkpoint(table, files, name, event.new_checkpoint.physical_hash, event.new_checkpoint.size)
    if event.new_data is not None:
        yield from _verify_slice(table, files, name, block, event.new_data, kind)


def _verify_checkpoint(table: str, files: ChainFiles, block: str, expected: str, size: int) -> Iterator[Finding]:
    path = files.checkpoints.path(expected)
    if not path.is_file():
        yield _finding(table, block, "missing checkpoint", expected, "nothing", f"checkpoint {expected} is not there")
    elif (found := file_hash(path)) != expected:
        yield _finding(table, block, "checkpoint hash", expected, found, f"checkpoint {expected} was changed")
    elif path.stat().st_size != size:
        found = str(path.stat().st_size)
        yield _finding(table, block, "checkpoint size", str(size), found, f"checkpoint {expected} has another size")


def _verify_slice(
    table: str, files: ChainFiles, block_name: str, block: Block, piece: DataSlice, kind: DatasetKind
) -> Iterator[Finding]:
    """One finding at the most: the first thing that is wrong explains the others."""
    expected = piece.physical_hash
    path = files.data.path(expected)
    if not path.is_file():
        yield _finding(table, block_name, "missing data", expected, "nothing", f"slice {expected} is not there")
        return
    found = file_hash(path)
    trouble = _trouble_with_file(path, piece, block) if found == expected else _trouble_with_records(path, piece, block)
    # A derived table may be encoded anew, for it can be computed again; a root table's bytes are all that there is.
    if found != expected and kind == DatasetKind.ROOT:
        also = f" ({trouble.what})" if trouble else " (its records are the same, encoded anew)"
        yield _finding(table, block_name, "physical hash", expected, found, f"slice {expected} was changed{also}")
    elif trouble is not None:
        yield _finding(table, block_name, trouble.kind, trouble.expected, trouble.found, trouble.what)


@dataclass(frozen=True, slots=True)
class _Trouble:
    kind: str
    expected: str
    found: str
    what: str


def _trouble_with_file(path: Path, piece: DataSlice, block: Block) -> _Trouble | None:
    size = path.stat().st_size
    if size != piece.size:
        return _Trouble("size", str(piece.size), str(size), f"slice {piece.physical_hash} has another size")
    return _trouble_with_records(path, piece, block)


def _trouble_with_records(path: Path, piece: DataSlice, block: Block) -> _Trouble | None:
    try:
        return _first_in_records(pq.ParquetFile(path), piece, block)
    except (pa.ArrowException, OSError, KeyError) as error:
        reason = str(error).splitlines()[0]
        return _Trouble("unreadable data", "a slice", reason, f"slice {piece.physical_hash} cannot be read")


def _first_in_records(opened: pq.ParquetFile, piece: DataSlice, block: Block) -> _Trouble | None:
    """Count, offsets, times and ops of the records, and their logical hash, reading the slice once."""
    interval = piece.offset_interval
    wanted, counted = interval.end - interval.start + 1, opened.metadata.num_rows
    if counted != wanted:
        return _Trouble("records", str(wanted), str(counted), "its slice has another number of records")
    hasher: LogicalHasher | None = None
    next_offset, last_op = interval.start, None
    for batch in opened.iter_batches(batch_size=128 * 1024):
        hasher = hasher or LogicalHasher(batch.schema)
        hasher.update(batch)
        trouble = _first_trouble(batch, next_offset, block, last_op)
        if trouble is not None:
            return _Trouble(*trouble)
        next_offset += batch.num_rows
        last_op = batch.column("op")[-1].as_py() if batch.num_rows else last_op
    found = (hasher or LogicalHasher(opened.schema_arrow)).text()
    if found != piece.logical_hash:
        what = f"the records of slice {piece.physical_hash} are not those that were committed"
        return _Trouble("logical hash", piece.logical_hash, found, what)
    return None


def _first_trouble(
    batch: pa.RecordBatch, first: int, block: Block, last_op: int | None
) -> tuple[str, str, str, str] | None:
    """What is wrong with the system columns of some records: kind, expected, found, message."""
    offsets = batch.column("offset")
    place = pc.index(pc.not_equal(offsets, pa.array(range(first, first + batch.num_rows), offsets.type)), True).as_py()
    if place >= 0:
        found = str(offsets[place].as_py())
        return "offsets", str(first + place), found, f"record {first + place} of its slice has another offset"
    times = pc.unique(batch.column("system_time"))
    if len(times) != 1 or times[0].as_py() != block.system_time:
        found = ", ".join(str(moment) for moment in times.to_pylist()[:3])
        return "system time", str(block.system_time), found, "its records have another system time"
    return _broken_pair(batch, first, last_op)


def _broken_pair(batch: pa.RecordBatch, first: int, last_op: int | None) -> tuple[str, str, str, str] | None:
    ops = batch.column("op")
    before = pa.concat_arrays([pa.array([last_op], ops.type), ops.slice(0, len(ops) - 1)])
    from_before = pc.fill_null(pc.equal(before, int(Op.CORRECT_FROM)), False)
    is_to = pc.equal(ops, int(Op.CORRECT_TO))
    place = pc.index(pc.xor(from_before, is_to), True).as_py()
    if place < 0:
        return None
    found = Op(ops[place].as_py()).sign
    return "ops", "-C followed by +C", found, f"record {first + place} breaks the two records of a correction"


def _finding(table: str, block: str, kind: str, expected: str, found: str, what: str) -> Finding:
    text = f"table '{table}', block {block}: {what}: {kind} expected {expected}, found {found}."
    return Finding(table, block, kind, expected, found, text)
