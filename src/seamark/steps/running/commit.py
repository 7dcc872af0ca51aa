"""From computed rows to a commit: compare with the current rows, stage, draft the blocks, publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from seamark.control import Lease, Position, RunRecord
from seamark.errors import ChainRuleBroken, ComputeFailed, SchemaChangeRefused, SeamarkError, TableError
from seamark.ledger import AddData, ChainState, DatasetKind, ExecuteTransform, ExecuteTransformInput, SetTransform
from seamark.ledger.chain import ChainDraft
from seamark.spark.frames import empty_frame
from seamark.steps.definition.definition import Definition, is_same
from seamark.steps.past.checkpoint import Checkpoint, ReadAt, decode
from seamark.steps.rows.fetch import OFFSET, read_for
from seamark.steps.rows.scope import KeyValues, Scope
from seamark.steps.standing.pins import Pin
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, by_name
from seamark.tables.read.source import TableSource
from seamark.tables.small import fits_on_driver
from seamark.tables.write import compare, compare_local
from seamark.tables.write.change import Change, FrameChange, LocalChange, NoRecords, appended_rows
from seamark.tables.write.publish import Planned, Progress, data_slice, later, new_chain_heads
from seamark.tables.write.slices import OpCounts
from seamark.tables.write.stage import StagedChange
from seamark.tables.write.transaction import TablePart, Transaction
from seamark.tables.write.writing import Writing

MakeChange = Callable[[int | None], Change]
"""From the last record of an output, or None while it is empty, to the records that follow it."""


class Maker(Protocol):
    """What a commit needs to know of a step that makes tables from tables."""

    @property
    def name(self) -> str:
        """The step's name."""
        ...

    @property
    def definition(self) -> Definition:
        """What its rows are made by."""
        ...

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that it reads, each once, by name."""
        ...

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The tables that were declared as its outputs."""
        ...

    @property
    def written(self) -> tuple[TableSource, ...]:
        """All tables that a commit of it writes, the outputs first."""
        ...

    @property
    def may_have_written(self) -> tuple[TableSource, ...]:
        """The same with the tables that earlier commits may have written."""
        ...

    @property
    def filled(self) -> tuple[str, ...]:
        """The tables that its positions and failed keys are about, by name."""
        ...

    @property
    def outputs_key(self) -> str:
        """The outputs that its positions and failed keys are about, as the control database names them."""
        ...

    def explain(self, output: TableSource, error: TableError) -> SeamarkError:
        """The error as a person should meet it, when what was computed does not fit an output."""
        ...


@dataclass(frozen=True)
class Covered:
    """How far an input is incorporated after a commit."""

    table: str
    dataset_id: str
    block_hash: str
    sequence: int
    offset: int | None


@dataclass(frozen=True)
class Batch:
    """What one commit holds: a change for each table in `written`, and how far inputs are incorporated after it."""

    changes: tuple[MakeChange, ...]
    checkpoint: Checkpoint
    covered: tuple[Covered, ...] = ()
    watermark: datetime | None = None


@dataclass(frozen=True)
class Committed:
    """What a commit did: counts over all outputs, and the records it added to each, as (after, upto]."""

    counts: OpCounts
    added: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)


# --- what changes -----------------------------------------------------------------------------------------------------


def change_of(
    output: TableSource, rows: Sequence[CheckedFrame], scope: Scope, failed: pa.Table | None, last: int | None
) -> Change:
    """The change from the rows of a scope after the record `last` to the wanted rows.

    The current rows of `failed` keys stay as they are.
    """
    local = [table for piece in rows if (table := piece.in_memory) is not None]
    sizes = sum(piece.num_rows for piece in local), sum(piece.nbytes for piece in local)
    few = len(local) == len(rows) and fits_on_driver(*sizes)
    if isinstance(scope, KeyValues) and scope.columns and scope.values.num_rows == 0:
        return NoRecords()
    if last is None:
        if not few:
            # A doubled key is found when slices are written.
            return FrameChange(compare.appended(output.schema, _union(output, rows)))
        return LocalChange(appended_rows(_concat(output, local))) if sum(p.num_rows for p in local) else NoRecords()
    standing = read_for(output, scope, last)
    session = output.context.session
    if failed is not None and failed.num_rows and failed.column_names:
        standing = standing.anti_join(LocalFrame(failed), by_name(failed.column_names), session)
    if few and standing.in_memory is not None:
        known = compare_local.StandingRows.from_rows(output.schema, standing.in_memory)
        return LocalChange(compare_local.replaced(output.schema, _concat(output, local), known))
    new = compare.refuse_doubled(output.schema, _union(output, rows))
    return FrameChange(compare.replaced(output.schema, new, standing.drop(OFFSET).to_spark(session)))


def _concat(output: TableSource, pieces: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([piece.cast(output.schema.arrow) for piece in pieces]) if pieces else _empty(output)


def _empty(output: TableSource) -> pa.Table:
    return output.schema.arrow.empty_table()


def _union(output: TableSource, pieces: Sequence[CheckedFrame]) -> DataFrame:
    session, types = output.context.session, output.schema.spark()
    frames = [piece.to_spark(session, types) for piece in pieces] or [empty_frame(session(), types)]
    return reduce(DataFrame.unionByName, frames)


# --- the commit -------------------------------------------------------------------------------------------------------


class Committer:
    """Commits the batches of one run of a step, for as long as the run's leases are held."""

    def __init__(self, context: TableContext, maker: Maker, run: Writing, leases: Sequence[Lease] = ()) -> None:
        self._context = context
        self._maker = maker
        self._run = run
        self._leases = leases

    def commit(self, batch: Batch, record: Callable[[OpCounts], RunRecord], progress: Progress) -> Committed:
        """Commit a batch, all or nothing; `CommitConflict` if somebody else wrote an output meanwhile."""
        maker = self._maker
        transaction = Transaction(self._context, self._run, leases=self._leases)
        parts = [transaction.table(output) for output in maker.written]
        staged: list[StagedChange] = []
        for part, make in zip(parts, batch.changes, strict=True):
            _refuse_older_read(part.planned, batch.checkpoint.read)
            self._refuse_older_schema(part)
            staged.append(self._stage(part, make))
        for part, change in zip(parts, staged, strict=True):
            self._draft(part, change, batch)
        counts = sum((change.counts for change in staged[: len(maker.outputs)]), OpCounts())
        added = transaction.commit(
            record(counts),
            counts={part.source.name: counts for part in parts},  # each line of the log shows those of all outputs
            progress=replace(progress, outputs=maker.outputs_key),
        )
        return Committed(counts, added)

    def _refuse_older_schema(self, part: TablePart) -> None:
        """Refuse an output that grew while the batch was computed; one that grows from now on makes a conflict."""
        try:
            part.refuse_old_schema()
        except SchemaChangeRefused as refusal:
            raise older_program(self._maker.name, refusal) from None

    def _stage(self, part: TablePart, make: MakeChange) -> StagedChange:
        try:
            return part.stage(make(part.planned.last_offset))
        except ComputeFailed:
            raise
        except TableError as error:
            raise self._maker.explain(part.source, error) from error

    def _draft(self, part: TablePart, change: StagedChange, batch: Batch) -> None:
        draft = part.draft(DatasetKind.DERIVATIVE, self._new_definition(part.planned))
        pieces = change.slices or (None,)
        for number, piece in enumerate(pieces, start=1):
            state = draft.state
            assert state is not None
            covered = {entry.dataset_id: entry for entry in batch.covered} if number == 1 else {}
            checkpoint = batch.checkpoint.as_part(number, len(pieces))
            event = ExecuteTransform(
                query_inputs=tuple(self._interval(draft, table, covered) for table in self._maker.sources),
                prev_checkpoint=state.checkpoint,
                prev_offset=state.last_offset,
                new_data=data_slice(piece) if piece else None,
                new_checkpoint=self._run.put_checkpoint(part.planned.files, checkpoint.encode()),
                new_watermark=later(state.watermark, batch.watermark),
            )
            if not _repeats(state, event):
                draft.add(event)

    def _new_definition(self, planned: Planned) -> SetTransform | None:
        """The step's definition as an event, if the chain does not have it yet."""
        heads = {**self._context.control.index.heads(), **new_chain_heads(self._run)}
        ids = {table: heads[table].dataset_id for table in self._maker.sources}
        standing = planned.state.transform if planned.state else None
        if standing is not None and is_same(standing, self._maker.definition, ids):
            return None
        return self._maker.definition.set_transform(ids)

    def _interval(self, draft: ChainDraft, table: str, covered: Mapping[str, Covered]) -> ExecuteTransformInput:
        """How far this commit advances an input from where the chain has it; never backwards."""
        assert draft.state is not None
        assert draft.state.transform is not None
        dataset_id = next(i.dataset_ref for i in draft.state.transform.inputs if i.alias == table)
        carried, entry = draft.state.input(dataset_id), covered.get(dataset_id)
        stays = ExecuteTransformInput(dataset_id, carried.block_hash, None, carried.offset, None)
        if entry is None or entry.block_hash == carried.block_hash:
            return stays
        if carried.block_hash is not None:
            known = self._context.control.index.block_at(table, carried.block_hash)
            if known is not None and known.sequence >= entry.sequence:
                return stays
        moved = entry.offset is not None and (carried.offset is None or entry.offset > carried.offset)
        new_offset = entry.offset if moved else None
        return ExecuteTransformInput(dataset_id, carried.block_hash, entry.block_hash, carried.offset, new_offset)


def _repeats(state: ChainState, event: ExecuteTransform) -> bool:
    """Whether an event adds nothing to the chain: keys were computed again at the same pins, with equal rows."""
    checkpoint = event.new_checkpoint.physical_hash if event.new_checkpoint else None
    moves = event.new_data is not None or any(entry.new_block_hash is not None for entry in event.query_inputs)
    return not moves and checkpoint == state.checkpoint and event.new_watermark == state.watermark


def older_program(step: str, refusal: SchemaChangeRefused) -> SchemaChangeRefused:
    """The refusal of an outdated schema with the step's name in it."""
    return SchemaChangeRefused(f"step '{step}' was declared before a table of it grew: {refusal.message}", refusal.hint)


def _refuse_older_read(plan: Planned, read: Mapping[str, ReadAt]) -> None:
    """Refuse a commit that read an input at an older position than the table's last commit did."""
    checkpoint = last_checkpoint(plan)
    for table, at in (checkpoint.read if checkpoint else {}).items():
        if table in read and read[table].sequence < at.sequence:
            rule = f"position at which input '{table}' was read"
            expected = f"block {at.sequence} or later"
            raise ChainRuleBroken(rule, expected=expected, found=f"block {read[table].sequence}", table=plan.table)


def last_checkpoint(plan: Planned) -> Checkpoint | None:
    """The checkpoint of a derived table's last commit, or None before its first."""
    if plan.state is None or plan.state.checkpoint is None:
        return None
    return decode(plan.files.checkpoints.read_intact(plan.state.checkpoint))


def least_watermark(context: TableContext, pins: Iterable[Pin]) -> datetime | None:
    """The least watermark of some tables at their pins; None while one of them has none."""
    found = []
    for pin in pins:
        event = context.files(pin.table).block(pin.data_block).event if pin.data_block else None
        mark = event.new_watermark if isinstance(event, AddData | ExecuteTransform) else None
        if mark is None:
            return None
        found.append(mark)
    return min(found, default=None)


def position_at(context: TableContext, step: str, covered: Covered, generation: int) -> Position:
    """A step's position that says it has incorporated an input up to here."""
    newest = context.control.index.newest_before(covered.table, covered.sequence)
    return Position(
        step=step,
        input_table=covered.table,
        update_ts=newest.system_time.timestamp() if newest else None,
        record_offset=covered.offset,
        block_sequence=covered.sequence,
        block_hash=covered.block_hash,
        generation=generation,
    )
