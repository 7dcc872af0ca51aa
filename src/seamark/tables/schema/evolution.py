"""Which schema may follow which: a table only grows, by columns that can be NULL. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from seamark import ledger
from seamark.errors import SchemaChangeRefused
from seamark.tables.schema.table_schema import TableSchema


def check_evolution(table: str, standing: TableSchema, declared: TableSchema) -> bool:
    """Whether the declared schema adds columns to the existing one; `SchemaChangeRefused` if it does anything else.

    It need not have the hidden columns, which nobody can declare.
    """
    if standing.key != declared.key:
        raise _refused(table, f"its key is ({_listed(standing.key)}), not ({_listed(declared.key)})")
    if standing.event_time != declared.event_time:
        raise _refused(
            table, f"its event time is {standing.event_time or 'not set'}, not {declared.event_time or 'not set'}"
        )
    for column in standing.columns:
        if column.hidden and column.name not in declared.names:
            continue
        if column.name not in declared.names:
            others = [name for name in declared.names if name not in standing.names]
            instead = f"; {_listed(others)}: new here. A column cannot be renamed" if others else ""
            raise _refused(table, f"column '{column.name}' {column.shown} is missing{instead}")
        new = declared.column(column.name)
        if (new.type, new.nullable, new.hidden) != (column.type, column.nullable, column.hidden):
            raise _refused(table, f"column '{column.name}' is {column.shown}, not {new.shown}")
    added = [column for column in declared.columns if column.name not in standing.names]
    for column in added:
        if not column.nullable:
            raise _refused(
                table, f"the new column '{column.name}' is {column.shown}, and existing rows have no value for it"
            )
    return bool(added)


def refuse_old_schema(
    table: str, standing: ledger.DataSchema | None, declared: TableSchema, *, is_written: bool = False
) -> None:
    """Refuse a declared schema that lacks columns of a chain's: others have added them since it was declared.

    Whoever only reads need not know the hidden ones.
    """
    if standing is None:
        return
    stored = TableSchema.from_ledger(standing)
    try:
        check_evolution(table, stored, declared)
        if is_written and (lacking := [c.name for c in stored.hidden if c.name not in declared.names]):
            raise _refused(table, f"its hidden columns {_listed(lacking)} are missing")
    except SchemaChangeRefused as refusal:
        raise SchemaChangeRefused(
            refusal.message, hint="another program has added columns: declare the table again with all of them."
        ) from None


def _refused(table: str, what: str) -> SchemaChangeRefused:
    return SchemaChangeRefused(
        f"table '{table}' has another schema: {what}. Nothing was changed.",
        hint="a schema may only grow by columns that can be NULL; for anything else declare a table under "
        "another name: if a step fills it, its next run does.",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
