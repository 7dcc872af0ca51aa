"""From staged slices to a commit: blocks, the transaction, and the mirrored head. No Spark."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from seamark import faults
from seamark.control import (
    BlockEntry,
    CommitRequest,
    CoveredKey,
    FailedKey,
    Lease,
    Position,
    RunRecord,
    TableAppend,
    TableHead,
)
from seamark.errors import ChainRuleBroken, SeamarkError
from seamark.ledger import (
    AddData,
    Block,
    ChainState,
    Checkpoint,
    DatasetKind,
    DataSlice,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetTransform,
    SourceState,
    multihash,
    new_dataset_id,
)
from seamark.ledger.chain import ChainDraft, ChainTip, DraftBlock, state_at
from seamark.ledger.events import ExecuteTransform
from seamark.ledger.objects import ChainFiles, sync_folder
from seamark.tables.commit_checks import check_blocks
from seamark.tables.context import TableContext
from seamark.tables.schema import TableSchema
from seamark.tables.slices import OpCounts, SliceInfo

log = logging.getLogger("seamark.commit")


@dataclass(frozen=True, slots=True)
class Planned:
    """A table as it stood when a change to it was planned: nothing before its first commit."""

    table: str
    files: ChainFiles
    head: TableHead | None
    state: ChainState | None

    @property
    def last_offset(self) -> int | None:
        """The offset of the last record, or None while there is none."""
        return self.state.last_offset if self.state else None

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self.state.next_offset if self.state else 0


def plan_table(context: TableContext, table: str, known_head: TableHead | None = None) -> Planned:
    """A table's head and the state that the next block follows on from: one database row and at most three blocks."""
    files = context.files(table)
    head = known_head or context.control.index.head(table)
    return Planned(table, files, head, state_at(files, chain_tip(head)) if head else None)


def chain_tip(head: TableHead) -> ChainTip:
    """A row of the control database as the ledger sees it."""
    return ChainTip(
        dataset_id=head.dataset_id,
        kind=DatasetKind[head.kind.upper()],
        head=head.head_hash,
        sequence=head.sequence,
        system_time=head.system_time,
        data_block=head.data_block,
        schema_block=head.schema_block,
        transform_block=head.transform_block,
    )


def begin_chain(draft: ChainDraft, kind: DatasetKind) -> None:
    """Add the Seed, if the table has no chain yet."""
    if draft.state is None:
        draft.add(Seed(new_dataset_id(), kind))


def declare_schema(draft: ChainDraft, schema: TableSchema) -> None:
    """Add a SetDataSchema, if the chain does not have this schema yet."""
    wanted = schema.to_ledger()
    if draft.state is None or draft.state.schema != wanted:
        draft.add(SetDataSchema(wanted))


def add_data(
    draft: ChainDraft,
    slices: Sequence[SliceInfo],
    *,
    watermark: datetime | None = None,
    source_state: SourceState | None = None,
) -> None:
    """Add one AddData a slice, or one without data if there is none; watermark and source state never get lost."""
    for piece in slices or (None,):
        state = _state_of(draft)
        draft.add(
            AddData(
                prev_checkpoint=state.checkpoint,
                prev_offset=state.last_offset,
                new_data=data_slice(piece) if piece else None,
                new_watermark=later(state.watermark, watermark),
                new_source_state=source_state or state.source_state,
            )
        )


def _state_of(draft: ChainDraft) -> ChainState:
    if draft.state is None:
        raise ChainRuleBroken("first block", expected="Seed", found="AddData")
    return draft.state


def data_slice(piece: SliceInfo) -> DataSlice:
    """A written slice as a block names it."""
    interval = OffsetInterval(piece.first_offset, piece.last_offset)
    return DataSlice(piece.logical_hash, piece.physical_hash, interval, piece.size)


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """The later of two moments, either of which may be unknown."""
    return max((moment for moment in (one, other) if moment is not None), default=None)


class Writing:
    """One run that writes: the folder for what it stages, and the objects that it has registered."""

    def __init__(self, context: TableContext, run_id: str) -> None:
        self._context = context
        self.run_id = run_id
        self.folder = context.staging_folder(run_id)
        self.registered: list[str] = []

    def folder_of(self, table: str) -> Path:
        """Where the slices of one table are staged: those of two may be equal, and each needs its own."""
        return self.folder / "slices" / table

    def adopt_slices(self, files: ChainFiles, slices: Sequence[SliceInfo]) -> None:
        """Register slices that lie in the run's folder, then move them into the table's.

        In this order, so that no file is ever among the table's objects without being registered or committed.
        """
        names = list(dict.fromkeys(piece.physical_hash for piece in slices))
        self._register(files.folder, "data", names)
        files.data.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            os.replace(self.folder_of(files.folder.name) / name, files.data.path(name))
        if names:
            sync_folder(files.data.folder)

    def put_checkpoint(self, files: ChainFiles, data: bytes) -> Checkpoint:
        """Register a checkpoint, then write it; gives it as a block names it."""
        name = multihash(data)
        self._register(files.folder, "checkpoints", [name])
        files.checkpoints.put(data)
        return Checkpoint(name, len(data))

    def put_blocks(self, files: ChainFiles, blocks: Sequence[DraftBlock]) -> None:
        """Register blocks, then write them."""
        self._register(files.folder, "blocks", [block.hash for block in blocks])
        for block in blocks:
            files.blocks.put(block.data)

    def _register(self, folder: Path, kind: str, names: list[str]) -> None:
        objects = [f"{folder.name}/{kind}/{name}" for name in dict.fromkeys(names)]
        objects = [name for name in objects if name not in self.registered]
        self._context.control.staging.register(self.run_id, objects)
        self.registered += objects


@contextmanager
def writing(context: TableContext) -> Iterator[Writing]:
    """A run that writes: it is known to live while the block runs, and leaves nothing staged behind."""
    run = Writing(context, str(uuid.uuid4()))
    with context.control.staging.run(run.run_id):
        try:
            yield run
        finally:
            shutil.rmtree(run.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step's commit moves besides its blocks: positions, failed and recovered keys, covered keys, its lease."""

    positions: tuple[Position, ...] = ()
    failed: tuple[FailedKey, ...] = ()
    covered: tuple[CoveredKey, ...] = ()
    recovered: tuple[tuple[str, str], ...] = ()  # (step, key)
    lease: Lease | None = None
    batch: int | None = None


def publish(
    context: TableContext,
    run: Writing,
    record: RunRecord,
    drafts: Sequence[tuple[Planned, ChainDraft]],
    *,
    counts: OpCounts,
    write_leases: tuple[Lease, ...] = (),
    progress: Progress | None = None,
) -> None:
    """Make drafted blocks true, all of them or none, and mirror the heads."""
    progress = progress or Progress()
    for planned, draft in drafts:
        run.put_blocks(planned.files, draft.blocks)
        check_blocks(planned.table, planned.files, draft.blocks, context.control.index)
    faults.reached("blocks-staged")
    appends = tuple(table_append(planned, draft) for planned, draft in drafts)
    context.control.commit(
        CommitRequest(
            run=record,
            appends=appends,
            staged=tuple(run.registered),
            positions=progress.positions,
            failed=progress.failed,
            covered=progress.covered,
            recovered=progress.recovered,
            lease=progress.lease,
            write_leases=write_leases,
        )
    )
    run.registered.clear()  # they are part of chains now; a further commit of this run has registrations of its own
    faults.reached("committed")
    for planned, _ in drafts:
        _mirror_if_possible(context, planned)
    faults.reached("mirrored")
    for append in appends:
        _log_commit(record, append, counts, progress)


def _mirror_if_possible(context: TableContext, planned: Planned) -> None:
    """Mirror the head. The commit stands whether or not this works: trouble here must not look like a failed write."""
    try:
        mirror_head(context, planned.files, planned.table)
    except (SeamarkError, OSError) as error:
        log.warning("refs/head of '%s' could not be mirrored; the next open does it: %s", planned.table, error)


def _log_commit(record: RunRecord, append: TableAppend, counts: OpCounts, progress: Progress) -> None:
    head = append.new_head
    positions = {position.input_table: position.record_offset for position in progress.positions}
    log.info(
        "%s %s: block %d, offset %s, +%d ~%d -%d",
        record.mode if progress.batch is None else f"{record.step}, batch {progress.batch} ({record.mode}):",
        append.table,
        head.sequence,
        head.last_offset,
        counts.appended,
        counts.corrected,
        counts.retracted,
        extra={
            "seamark": {
                "step": record.step,
                "mode": record.mode,
                "batch": progress.batch,
                "positions": positions,
                "rows_in": record.rows_in,
                "failed": len(progress.failed),
                "table": append.table,
                "sequence": head.sequence,
                "offset": head.last_offset,
                "appended": counts.appended,
                "corrected": counts.corrected,
                "retracted": counts.retracted,
            }
        },
    )


def table_append(planned: Planned, draft: ChainDraft) -> TableAppend:
    """Drafted blocks as the control database takes them."""
    return TableAppend(
        planned_head=planned.head.head_hash if planned.head else None,
        new_head=_new_head(planned, draft),
        blocks=tuple(index_entry(entry.hash, entry.block) for entry in draft.blocks),
    )


def _new_head(planned: Planned, draft: ChainDraft) -> TableHead:
    old = planned.head
    return table_head(
        planned.table,
        _state_of(draft),
        data_block=_newest(draft, (AddData, ExecuteTransform)) or (old.data_block if old else None),
        schema_block=_newest(draft, (SetDataSchema,)) or (old.schema_block if old else None),
        transform_block=_newest(draft, (SetTransform,)) or (old.transform_block if old else None),
    )


def table_head(
    table: str, state: ChainState, *, data_block: str | None, schema_block: str | None, transform_block: str | None
) -> TableHead:
    """The state after a chain's newest block as the control database holds it."""
    return TableHead(
        table=table,
        dataset_id=state.dataset_id,
        kind=state.kind.name.lower(),
        head_hash=state.head,
        sequence=state.sequence,
        last_offset=state.last_offset,
        system_time=state.system_time,
        data_block=data_block,
        schema_block=schema_block,
        transform_block=transform_block,
    )


def _newest(draft: ChainDraft, kinds: tuple[type, ...]) -> str | None:
    return next((entry.hash for entry in reversed(draft.blocks) if isinstance(entry.block.event, kinds)), None)


def index_entry(block_hash: str, block: Block) -> BlockEntry:
    """A block as the index of the chain holds it."""
    event = block.event
    data = event if isinstance(event, AddData | ExecuteTransform) else None
    piece = data.new_data if data else None
    return BlockEntry(
        sequence=block.sequence_number,
        hash=block_hash,
        kind=type(event).__name__,
        system_time=block.system_time,
        first_offset=piece.offset_interval.start if piece else None,
        last_offset=piece.offset_interval.end if piece else None,
        slice_hash=piece.physical_hash if piece else None,
        slice_size=piece.size if piece else None,
        checkpoint_hash=data.new_checkpoint.physical_hash if data and data.new_checkpoint else None,
    )


def mirror_head(context: TableContext, files: ChainFiles, table: str) -> None:
    """Write the database's head to `refs/head` until both agree: another writer may have moved it meanwhile."""
    while (head := context.control.index.head(table)) is not None and files.head() != head.head_hash:
        if not (files.folder / "info" / "alias").is_file():
            files.set_alias(table)
        files.set_head(head.head_hash)
