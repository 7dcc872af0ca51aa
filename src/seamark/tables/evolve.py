"""Adding columns to a standing table."""

from __future__ import annotations

from seamark.clock import commit_time
from seamark.control import RunRecord, write_lease_name
from seamark.errors import CommitConflict, LeaseHeld, StagedFilesGone
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.publish import declare_schema, plan_table, publish, writing
from seamark.tables.schema import TableSchema, check_evolution
from seamark.tables.slices import OpCounts


def grow_schema(context: TableContext, table: str, declared: TableSchema) -> None:
    """Write one SetDataSchema with the declared schema, unless somebody else has done so meanwhile."""
    while True:
        context.control.leases.wait_until_free(write_lease_name(table), context.write_wait)
        planned = plan_table(context, table)
        if planned.state is None or planned.state.schema is None:
            return
        if not check_evolution(table, TableSchema.from_ledger(planned.state.schema), declared):
            return
        moment = commit_time(context.clock, planned.state.system_time)
        draft = ChainDraft(planned.state, moment)
        declare_schema(draft, declared)
        try:
            with writing(context) as run:
                record = RunRecord(run.run_id, table, "schema", moment.timestamp(), moment.timestamp(), rows_out=0)
                publish(context, run, record, [(planned, draft)], counts=OpCounts())
            return
        except (CommitConflict, LeaseHeld, StagedFilesGone):
            continue
