"""One transaction: collects what a commit will hold, table by table, and commits all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from seamark import faults
from seamark.clock import commit_time
from seamark.control import Lease, RunRecord
from seamark.ledger import DatasetKind, SetTransform
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.schema.evolution import refuse_old_schema
from seamark.tables.write.change import Change, stage_change
from seamark.tables.write.publish import Planned, Progress, begin_chain, declare_schema, plan_table, publish
from seamark.tables.write.slices import OpCounts
from seamark.tables.write.stage import SliceTarget, StagedChange
from seamark.tables.write.writing import Writing

Added = Mapping[str, tuple[int | None, int | None]]
"""The records that a commit added to each table that it wrote, as (after, upto]."""


class Transaction:
    """What one commit of a run will hold. Every lease must still be ours when it commits.

    Its tables are planned first, then changes are staged, then blocks are drafted, then all is committed. A conflict
    ends it: a retry begins another transaction, planned on the new heads.
    """

    def __init__(self, context: TableContext, run: Writing, *, leases: Sequence[Lease] = ()) -> None:
        self.context = context
        self.run = run
        self._leases = tuple(leases)
        self._parts: list[TablePart] = []
        self._system_time: datetime | None = None

    def table(self, source: TableSource, planned: Planned | None = None) -> TablePart:
        """Add a table, planned on its current head or as the caller planned it."""
        assert self._system_time is None, "the time of a commit is after the heads of all its tables"
        assert source.name not in [part.source.name for part in self._parts], f"'{source.name}' takes part already"
        part = TablePart(self, source, planned or plan_table(self.context, source.name))
        self._parts.append(part)
        return part

    def system_time(self) -> datetime:
        """The time of the commit, the same for all its tables.

        The first call fixes it, after the first records are computed: it is the commit's time, not the start's.
        """
        if self._system_time is None:
            heads = [part.planned.head for part in self._parts]
            previous = max((head.system_time for head in heads if head), default=None)
            self._system_time = commit_time(self.context.clock, previous)
        return self._system_time

    @property
    def drafts(self) -> list[tuple[Planned, ChainDraft]]:
        """The tables that get new blocks, each with its blocks."""
        drafts = [(part.planned, part.blocks) for part in self._parts]
        return [(planned, draft) for planned, draft in drafts if draft is not None and draft.blocks]

    def commit(
        self, record: RunRecord, *, counts: Mapping[str, OpCounts] | None = None, progress: Progress | None = None
    ) -> Added:
        """Commit everything or nothing, and return what was added.

        `counts` is what the log shows per table, by default what was staged. Raises what `Control.commit` raises.
        """
        staged = {part.planned.table: part.staged.counts for part in self._parts if part.staged is not None}
        if staged:
            faults.reached("slices-staged")
        drafts = self.drafts
        publish(self.context, self.run, record, drafts, counts=counts or staged, leases=self._leases, progress=progress)
        return {plan.table: (plan.last_offset, draft.state.last_offset) for plan, draft in drafts if draft.state}


class TablePart:
    """One table's part in a transaction: as it was planned, the change that is staged for it, and its new blocks."""

    def __init__(self, transaction: Transaction, source: TableSource, planned: Planned) -> None:
        self._transaction = transaction
        self.source = source
        self.planned = planned
        self.staged: StagedChange | None = None
        self.blocks: ChainDraft | None = None

    def refuse_old_schema(self) -> None:
        """Refuse a table that has columns which the program does not know."""
        state = self.planned.state
        refuse_old_schema(self.source.name, state.schema if state else None, self.source.schema, is_written=True)

    def stage(self, change: Change) -> StagedChange:
        """Compute the slices of a change and write them to the run's folder."""
        target = SliceTarget(
            table=self.source.name,
            schema=self.source.schema,
            folder=self._transaction.run.folder_of(self.source.name),
            first_offset=self.planned.next_offset,
            commit_time=self._transaction.system_time,
            cut=self._transaction.context.cut,
        )
        self.staged = stage_change(self.source, target, change)
        return self.staged

    def draft(self, kind: DatasetKind, transform: SetTransform | None = None) -> ChainDraft:
        """The table's new blocks up to its data: the caller adds the data events.

        These are the Seed if it has no chain yet, the definition if one is given, and the schema if it is new. Staged
        slices are moved into the table's folder here.
        """
        if self.staged is not None:
            self._transaction.run.adopt_slices(self.planned.files, self.staged.slices)
        draft = self.blocks = ChainDraft(self.planned.state, self._transaction.system_time())
        begin_chain(draft, kind)
        if transform is not None:
            draft.add(transform)
        declare_schema(draft, self.source.schema)
        return draft
