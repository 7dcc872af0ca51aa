"""Adding columns to a standing table: the first write or run of a program that declares them does it, not opening."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from seamark.control import Lease, Mode, RunRecord, TableHead
from seamark.ledger import SetDataSchema
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.schema.evolution import check_evolution
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.conflicts import until_committed
from seamark.tables.write.transaction import TablePart, Transaction
from seamark.tables.write.writing import writing


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
        if standing is not None and set(standing.names) < {*source.schema.names, *(c.name for c in standing.hidden)}:
            _grow(source)
            grown = True
    return grown


def _grow(source: TableSource) -> None:
    """Write one SetDataSchema with the declared schema, unless somebody else has done so meanwhile."""
    context = source.context

    def attempt(leases: tuple[Lease, ...]) -> None:
        with writing(context) as run:
            transaction = Transaction(context, run, leases=leases)
            grow_part(transaction.table(source))
            commit_growth(transaction, source.name)

    until_committed(context, [source.name], attempt)


def grow_part(part: TablePart) -> None:
    """Draft the declared schema, and nothing else, if the chain lacks columns of it."""
    state = part.planned.state
    if state is None or state.schema is None:
        return
    if check_evolution(part.source.name, TableSchema.from_ledger(state.schema), part.source.schema):
        part.draft(state.kind)


def commit_growth(transaction: Transaction, name: str) -> None:
    """Commit the schemas that were drafted, if there are any; `name` is whose run it is."""
    if transaction.drafts:
        moment = transaction.system_time().timestamp()
        transaction.commit(RunRecord(transaction.run.run_id, name, Mode.SCHEMA.value, moment, moment, rows_out=0))
