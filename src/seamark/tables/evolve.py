"""Adding columns to a standing table."""

from __future__ import annotations

import logging

from seamark.clock import commit_time
from seamark.control import RunRecord, write_lease_name
from seamark.errors import CommitConflict, LeaseHeld, StagedFilesGone
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.publish import declare_schema, plan_table, publish, writing
from seamark.tables.schema import TableSchema, check_evolution
from seamark.tables.slices import OpCounts

log = logging.getLogger("seamark.commit")


def grow_schema(context: TableContext, table: str, declared: TableSchema) -> None:
    """Write one SetDataSchema with the declared schema, unless somebody else has done so meanwhile."""
    while not _try_to_grow(context, table, declared):
        log.info("schema of '%s': somebody else wrote to the table, so it is planned again", table)


def _try_to_grow(context: TableContext, table: str, declared: TableSchema) -> bool:
    """Whether the table has the declared schema now; False if somebody was faster."""
    context.control.leases.wait_until_free(write_lease_name(table), context.write_wait)
    planned = plan_table(context, table)
    if planned.state is None or planned.state.schema is None:
        return True
    if not check_evolution(table, TableSchema.from_ledger(planned.state.schema), declared):
        return True
    moment = commit_time(context.clock, planned.state.system_time)
    draft = ChainDraft(planned.state, moment)
    declare_schema(draft, declared)
    try:
        with writing(context) as run:
            record = RunRecord(run.run_id, table, "schema", moment.timestamp(), moment.timestamp(), rows_out=0)
            publish(context, run, record, [(planned, draft)], counts=OpCounts())
    except (CommitConflict, LeaseHeld, StagedFilesGone):
        return False
    return True
