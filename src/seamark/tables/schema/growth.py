"""Adding columns to a standing table: the first write or run of a program that declares them does it, not opening."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seamark.clock import commit_time
from seamark.control import Lease, RunRecord, TableHead
from seamark.ledger import SetDataSchema
from seamark.ledger.chain import ChainDraft
from seamark.tables.context import TableContext
from seamark.tables.read.rows import TableSource
from seamark.tables.schema.table_schema import TableSchema, check_evolution
from seamark.tables.write.conflicts import until_committed
from seamark.tables.write.publish import Planned, Writing, declare_schema, plan_table, publish, writing
from seamark.tables.write.slices import OpCounts


def standing_schema(context: TableContext, head: TableHead | None) -> TableSchema | None:
    """The schema that a table's chain has, or None while it has none."""
    if head is None or head.schema_block is None:
        return None
    event = context.files(head.table).block(head.schema_block).event
    if not isinstance(event, SetDataSchema) or event.schema is None:
        return None
    return TableSchema.from_ledger(event.schema)


def grow_declared(sources: Iterable[TableSource], heads: Mapping[str, TableHead]) -> bool:
    """Add the columns that a program declares to the tables that stand without them; whether there were any."""
    grown = False
    for source in sources:
        standing = standing_schema(source.context, heads.get(source.name))
        # A table that has columns this program does not know is left alone: its writes and runs refuse it.
        if standing is not None and set(standing.names) < set(source.schema.names):
            _grow(source)
            grown = True
    return grown


def _grow(source: TableSource) -> None:
    """Write one SetDataSchema with the declared schema, unless somebody else has done so meanwhile."""
    context = source.context

    def attempt(leases: tuple[Lease, ...]) -> None:
        planned = plan_table(context, source.name)
        with writing(context) as run:
            grow_planned(source, run, planned, leases)

    until_committed(source, attempt)


def grow_planned(source: TableSource, run: Writing, planned: Planned, leases: tuple[Lease, ...] = ()) -> None:
    """Commit the declared schema, and nothing else, if the chain lacks columns of it."""
    state, context = planned.state, source.context
    if state is None or state.schema is None:
        return
    if not check_evolution(source.name, TableSchema.from_ledger(state.schema), source.schema):
        return
    moment = commit_time(context.clock, state.system_time)
    draft = ChainDraft(state, moment)
    declare_schema(draft, source.schema)
    record = RunRecord(run.run_id, source.name, "schema", moment.timestamp(), moment.timestamp(), rows_out=0)
    publish(context, run, record, [(planned, draft)], counts=OpCounts(), write_leases=leases)
