"""Writing a table: plan on the head, find out what changes, stage it, commit it; and again if somebody was faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from seamark import faults
from seamark.clock import commit_time
from seamark.control import Lease, RunRecord
from seamark.ledger import DatasetKind, SourceState
from seamark.ledger.chain import ChainDraft
from seamark.tables.read.rows import TableSource
from seamark.tables.schema.growth import grow_planned
from seamark.tables.schema.table_schema import refuse_old_schema
from seamark.tables.write.change import Change, stage_change
from seamark.tables.write.conflicts import until_committed
from seamark.tables.write.publish import (
    Planned,
    Writing,
    add_data,
    begin_chain,
    declare_schema,
    plan_table,
    publish,
    writing,
)
from seamark.tables.write.stage import StagedChange, Target


@dataclass(frozen=True, slots=True)
class Commit:
    """What a write did: the head's sequence after it, its data blocks, its offsets and how many rows it touched."""

    table: str
    sequence: int
    blocks: int
    first_offset: int | None
    last_offset: int | None
    appended: int
    corrected: int
    retracted: int
    block_hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advance:
    """What may move besides the records."""

    watermark: datetime | None = None
    source_state: SourceState | None = None


NOTHING_ELSE = Advance()


def write_change(
    source: TableSource, mode: str, make_change: Callable[[Planned], Change], advance: Advance = NOTHING_ELSE
) -> Commit | None:
    """Commit the change that `make_change` finds, or None if nothing differs.

    It is asked again, on the new head, whenever somebody else commits first.
    """
    return until_committed(source, lambda leases: _attempt(source, mode, make_change, advance, leases))


def _attempt(
    source: TableSource,
    mode: str,
    make_change: Callable[[Planned], Change],
    advance: Advance,
    leases: tuple[Lease, ...],
) -> Commit | None:
    context = source.context
    started = context.clock.now().timestamp()
    planned = plan_table(context, source.name)
    refuse_old_schema(source.name, planned.state.schema if planned.state else None, source.schema)
    with writing(context) as run:
        staged = _stage(source, run, planned, make_change(planned))
        if not staged.slices and not _advances(planned, advance):
            grow_planned(source, run, planned, leases)
            return None
        run.adopt_slices(planned.files, staged.slices)
        faults.reached("slices-staged")
        draft = _draft(source, planned, staged, advance)
        record = RunRecord(
            run_id=run.run_id,
            step=source.name,
            mode=mode,
            started=started,
            ended=context.clock.now().timestamp(),
            rows_out=staged.counts.records,
        )
        publish(context, run, record, [(planned, draft)], counts=staged.counts, write_leases=leases)
        return _commit(source, draft, staged)


def _stage(source: TableSource, run: Writing, planned: Planned, change: Change) -> StagedChange:
    previous = planned.head.system_time if planned.head else None
    target = Target(
        table=source.name,
        schema=source.schema,
        folder=run.folder_of(source.name),
        first_offset=planned.next_offset,
        commit_time=lambda: commit_time(source.context.clock, previous),
        cut=source.context.cut,
    )
    return stage_change(source, target, change)


def _advances(planned: Planned, advance: Advance) -> bool:
    """Whether the watermark or the source's state would move: a change of nothing writes no block."""
    state = planned.state
    watermark = state.watermark if state else None
    if advance.watermark is not None and (watermark is None or advance.watermark > watermark):
        return True
    return advance.source_state is not None and (state is None or advance.source_state != state.source_state)


def _draft(source: TableSource, planned: Planned, staged: StagedChange, advance: Advance) -> ChainDraft:
    draft = ChainDraft(planned.state, staged.system_time)
    begin_chain(draft, DatasetKind.ROOT)
    declare_schema(draft, source.schema)
    newest = max((s.newest_event_time for s in staged.slices if s.newest_event_time is not None), default=None)
    watermark = advance.watermark if advance.watermark is not None else newest
    add_data(draft, staged.slices, watermark=watermark, source_state=advance.source_state)
    return draft


def _commit(source: TableSource, draft: ChainDraft, staged: StagedChange) -> Commit:
    slices, counts = staged.slices, staged.counts
    data_blocks = draft.blocks[-max(len(slices), 1) :]
    return Commit(
        table=source.name,
        sequence=draft.blocks[-1].block.sequence_number,
        blocks=len(data_blocks),
        first_offset=slices[0].first_offset if slices else None,
        last_offset=slices[-1].last_offset if slices else None,
        appended=counts.appended,
        corrected=counts.corrected,
        retracted=counts.retracted,
        block_hashes=tuple(entry.hash for entry in data_blocks),
    )
