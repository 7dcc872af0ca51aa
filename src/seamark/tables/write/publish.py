"""From staged slices to a commit: blocks, the transaction, and the mirrored head. No Spark."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seamark import faults
from seamark.control import (
    UNKNOWN_OUTPUTS,
    BlockEntry,
    CommitRequest,
    CoveredKey,
    FailedKey,
    Lease,
    Position,
    RunRecord,
    Scan,
    ScanId,
    TableAppend,
    TableHead,
)
from seamark.errors import (
    ChainRuleBroken,
    SeamarkError,
)
from seamark.ledger import (
    AddData,
    Block,
    ChainState,
    DatasetKind,
    DataSlice,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetTransform,
    SourceState,
    new_dataset_id,
)
from seamark.ledger.chain import ChainDraft, ChainTip, state_at
from seamark.ledger.events import ExecuteTransform
from seamark.ledger.objects import ChainFiles
from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.slices import OpCounts, SliceInfo
from seamark.tables.write.writing import Writing

log = logging.getLogger("seamark.commit")


@dataclass(frozen=True, slots=True)
class Planned:
    """A table at the moment a change to it was planned; `head` and `state` are None before its first commit."""

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


def plan_unwritten(context: TableContext, table: str) -> Planned:
    """Plan for a table that has no chain yet, without asking: if it has one by now, the commit meets a conflict."""
    return Planned(table, context.files(table), None, None)


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
    """Add a SetDataSchema, if the chain does not have this schema yet. Hidden columns that it has stay."""
    standing = draft.state.schema if draft.state is not None else None
    if standing is not None:
        schema = schema.with_hidden_of(TableSchema.from_ledger(standing))
    wanted = schema.to_ledger()
    if standing != wanted:
        draft.add(SetDataSchema(wanted))


def add_data(
    draft: ChainDraft,
    slices: Sequence[SliceInfo],
    *,
    watermark: datetime | None = None,
    source_state: SourceState | None = None,
) -> None:
    """Add one AddData per slice, or one without data; watermark and source state are carried on if none is given."""
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


@dataclass(frozen=True, slots=True)
class Progress:
    """What a step's commit moves besides its blocks: positions, failed and recovered keys, covered keys, scans."""

    positions: tuple[Position, ...] = ()
    failed: tuple[FailedKey, ...] = ()
    covered: tuple[CoveredKey, ...] = ()
    recovered: tuple[tuple[str, str], ...] = ()  # (step, key)
    scans: tuple[Scan, ...] = ()
    dropped_scans: tuple[ScanId, ...] = ()
    batch: int | None = None
    outputs: str = UNKNOWN_OUTPUTS  # which outputs all of this is about


def publish(
    context: TableContext,
    run: Writing,
    record: RunRecord,
    drafts: Sequence[tuple[Planned, ChainDraft]],
    *,
    counts: Mapping[str, OpCounts] | None = None,
    leases: tuple[Lease, ...] = (),
    progress: Progress | None = None,
) -> None:
    """Commit drafted blocks, all or none, together with the run's new chains, and mirror the heads.

    `counts` is what the log line of each table shows.
    """
    progress, counts = progress or Progress(), counts or {}
    together = [*run.new_chains, *drafts]
    new_heads = {head.dataset_id: head.head_hash for head in new_chain_heads(run).values()}
    for planned, draft in together:
        run.put_blocks(planned.files, draft.blocks)
        run.check(planned.table, planned.files, draft.blocks, new_heads)
    faults.reached("blocks-staged")
    appends = tuple(table_append(planned, draft) for planned, draft in together)
    context.control.commit(
        CommitRequest(
            run=record,
            appends=appends,
            staged=tuple(run.registered),
            positions=progress.positions,
            failed=progress.failed,
            covered=progress.covered,
            recovered=progress.recovered,
            scans=progress.scans,
            dropped_scans=progress.dropped_scans,
            leases=leases,
            outputs=progress.outputs,
        )
    )
    run.registered.clear()  # part of chains now; the run's next commit registers its own
    run.new_chains.clear()
    faults.reached("committed")
    for planned, _ in together:
        _mirror_if_possible(context, planned)
    faults.reached("mirrored")
    for number, append in enumerate(appends[len(together) - len(drafts) :]):
        _log_commit(record, append, counts.get(append.table, OpCounts()), progress, names_failures=number == 0)


def _mirror_if_possible(context: TableContext, planned: Planned) -> None:
    """Mirror the head. The commit is made already, so an error here must not look like a failed write."""
    try:
        mirror_head(context, planned.files, planned.table)
    except (SeamarkError, OSError) as error:
        log.warning("refs/head of '%s' could not be mirrored; the next open does it: %s", planned.table, error)


def _log_commit(
    record: RunRecord, append: TableAppend, counts: OpCounts, progress: Progress, *, names_failures: bool
) -> None:
    """Log one line per table. Failed keys belong to the whole commit, so only its first line names them."""
    head = append.new_head
    positions = {position.input_table: position.record_offset for position in progress.positions}
    failures = [{"key": json.loads(failed.key), "error": failed.error} for failed in progress.failed]
    upto = ", ".join(f"{table} {'–' if offset is None else offset}" for table, offset in positions.items())
    log.info(
        "%s %s: block %d, offset %s, +%d ~%d -%d%s%s",
        record.mode if progress.batch is None else f"{record.step}, batch {progress.batch} ({record.mode}):",
        append.table,
        head.sequence,
        head.last_offset,
        counts.appended,
        counts.corrected,
        counts.retracted,
        f", read up to {upto}" if upto else "",
        f", {len(failures)} failed" if failures else "",
        extra={
            "seamark": {
                "step": record.step,
                "mode": record.mode,
                "batch": progress.batch,
                "positions": positions,
                "rows_in": record.rows_in,
                "failed": len(progress.failed),
                "failures": failures if names_failures else [],
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


def new_chain_heads(run: Writing) -> dict[str, TableHead]:
    """The heads of the chains that the run's next commit will begin, by table."""
    return {planned.table: _new_head(planned, draft) for planned, draft in run.new_chains}


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
