"""Writing tables: plan on the heads, find what changes, stage it, commit it; again if another writer was first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from seamark.control import Lease, Mode, RunRecord
from seamark.ledger import DatasetKind, SourceState
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.schema.growth import commit_growth, grow_part
from seamark.tables.write.change import Change
from seamark.tables.write.conflicts import until_committed
from seamark.tables.write.publish import Planned, add_data
from seamark.tables.write.stage import StagedChange
from seamark.tables.write.transaction import TablePart, Transaction
from seamark.tables.write.writing import writing


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
    """What a write may advance besides adding records."""

    watermark: datetime | None = None
    source_state: SourceState | None = None


NOTHING_ELSE = Advance()


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A write of one table: how its change is computed from the current head, and what it advances."""

    source: TableSource
    make_change: Callable[[Planned], Change]
    advance: Advance = NOTHING_ELSE


def write_change(
    source: TableSource, mode: Mode, make_change: Callable[[Planned], Change], advance: Advance = NOTHING_ELSE
) -> Commit | None:
    """Commit the change that `make_change` finds, or None if nothing differs.

    `make_change` is called again, on the new head, whenever another writer commits first.
    """
    write = TableWrite(source, make_change, advance)
    return write_changes(source.context, source.name, mode, [write]).get(source.name)


def write_changes(
    context: TableContext, name: str, mode: Mode, writes: Sequence[TableWrite], *, leases: Sequence[Lease] = ()
) -> dict[str, Commit]:
    """Commit changes of several tables at once, with one time: all of them or none, and only while `leases` are held.

    Returns a `Commit` for each table in which something differs. `name` goes into the record of runs. All changes are
    computed again, on the new heads, whenever another writer commits first to one of the tables.
    """

    def attempt(reserved: tuple[Lease, ...]) -> dict[str, Commit]:
        with writing(context) as run:
            return _write(Transaction(context, run, leases=(*leases, *reserved)), name, mode, writes)

    return until_committed(context, [write.source.name for write in writes], attempt)


def _write(transaction: Transaction, name: str, mode: Mode, writes: Sequence[TableWrite]) -> dict[str, Commit]:
    clock = transaction.context.clock
    started = clock.now().timestamp()
    parts = [(write, transaction.table(write.source)) for write in writes]
    for _, part in parts:
        part.refuse_old_schema()
    written: list[tuple[TablePart, StagedChange, ChainDraft]] = []
    staged = [(write, part, part.stage(write.make_change(part.planned))) for write, part in parts]
    for write, part, change in staged:
        if change.slices or _advances(part.planned, write.advance):
            written.append((part, change, _draft(part, change, write.advance)))
        else:
            grow_part(part)
    if not written:
        commit_growth(transaction, name)
        return {}
    record = RunRecord(
        run_id=transaction.run.run_id,
        step=name,
        mode=mode.value,
        started=started,
        ended=clock.now().timestamp(),
        rows_out=sum(change.counts.records for _, change, _ in written),
    )
    transaction.commit(record)
    return {part.source.name: _commit(part.source, draft, change) for part, change, draft in written}


def _advances(planned: Planned, advance: Advance) -> bool:
    """Whether the watermark or the source's state would move: a change of nothing writes no block."""
    state = planned.state
    watermark = state.watermark if state else None
    if advance.watermark is not None and (watermark is None or advance.watermark > watermark):
        return True
    return advance.source_state is not None and (state is None or advance.source_state != state.source_state)


def _draft(part: TablePart, staged: StagedChange, advance: Advance) -> ChainDraft:
    draft = part.draft(DatasetKind.ROOT)
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
