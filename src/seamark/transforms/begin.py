"""Beginning the chains of inputs that nobody has written to: a commit names its inputs by their ids, empty or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.clock import commit_time
from seamark.control import RunRecord
from seamark.errors import CommitConflict
from seamark.ledger import DatasetKind
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.publish import begin_chain, declare_schema, plan_table, publish, writing
from seamark.tables.read import TableSource
from seamark.tables.slices import OpCounts
from seamark.transforms.commit import Maker

Makers = Mapping[str, Maker]
"""The step that writes each derived table."""


def begin_chains(context: TableContext, tables: Sequence[TableSource], makers: Makers) -> None:
    """Give each table that has no chain one without records, so that it can be read as empty."""
    for source in tables:
        if context.control.index.head(source.name) is not None:
            continue
        maker = makers.get(source.name)
        if maker is not None:
            begin_chains(context, list(maker.sources.values()), makers)
        try:
            _begin(context, source, maker)
        except CommitConflict:  # somebody else has begun it: that is as good, if it is really there
            if context.control.index.head(source.name) is None:
                raise


def _begin(context: TableContext, source: TableSource, maker: Maker | None) -> None:
    planned = plan_table(context, source.name)
    draft = ChainDraft(planned.state, commit_time(context.clock, None))
    begin_chain(draft, DatasetKind.ROOT if maker is None else DatasetKind.DERIVATIVE)
    if maker is not None:
        heads = context.control.index.heads()
        draft.add(maker.definition.set_transform({table: heads[table].dataset_id for table in maker.sources}))
    declare_schema(draft, source.schema)
    now = context.clock.now().timestamp()
    with writing(context) as run:
        record = RunRecord(run_id=run.run_id, step=source.name, mode="begin", started=now, ended=now)
        publish(context, run, record, [(planned, draft)], counts=OpCounts())
