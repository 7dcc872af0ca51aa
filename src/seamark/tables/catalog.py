"""The tables of a store: those that a program declares, and those in chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.control import TableHead
from seamark.errors import UnknownTable
from seamark.tables.context import TableContext
from seamark.tables.schema.evolution import check_evolution
from seamark.tables.schema.growth import standing_schema
from seamark.tables.schema.table_schema import TableSchema, check_table_name, declare
from seamark.tables.table import Head, Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Catalog:
    """Tables by name. A declared one is as the program declares it, any other as its chain describes it."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self.declared: dict[str, Table] = {}

    def declare(
        self,
        name: str,
        schema: str | pa.Schema | StructType | None,
        key: str | Sequence[str] | None = None,
        event_time: str | None = None,
        changefeeds: Mapping[str, Sequence[str]] | None = None,
    ) -> Table:
        """The table of this name, declared now; without a schema it must be known."""
        check_table_name(name)
        if schema is None:
            return self.known(name)
        declared = declare(name, schema, key, event_time)
        standing = self.schema_at(self._context.control.index.head(name))
        if standing is not None:
            grows = check_evolution(name, standing, declared)
            # Else the same columns, in the order that the table has them.
            declared = declared.with_hidden_of(standing) if grows else standing
        table = Table(self._context, name, declared, changefeeds=dict(changefeeds or {}))
        self.declared[name] = table
        return table

    def declare_schema(self, name: str, schema: TableSchema) -> Table:
        """The table of this name with a schema that a step gives it; columns that it had once stay, and are NULL."""
        check_table_name(name)
        standing = self.schema_at(self._context.control.index.head(name))
        if standing is not None:
            dropped = tuple(column for column in standing.columns if column.name not in schema.names)
            merged = replace(schema, columns=(*schema.columns, *dropped))
            schema = merged if check_evolution(name, standing, merged) else standing
        self.declared[name] = Table(self._context, name, schema)
        return self.declared[name]

    def known(self, name: str) -> Table:
        """The table of this name, or `UnknownTable`."""
        return self.declared.get(name) or self._table_at(name, self._context.control.index.head(name))

    def all(self) -> dict[str, Table]:
        """All tables, declared or stored, by name."""
        return {name: self._table_at(name, head) for name, head in self._heads().items()}

    def heads(self) -> dict[str, Head]:
        """How far all tables are, declared or stored, by name."""
        return {name: Head.of(head) for name, head in self._heads().items()}

    def names(self) -> list[str]:
        """The names of all tables, declared or stored."""
        return list(self._heads())

    def schema_at(self, head: TableHead | None) -> TableSchema | None:
        """The schema that a chain has at its head; None if there is no chain."""
        return standing_schema(self._context, head)

    def _heads(self) -> dict[str, TableHead | None]:
        heads = self._context.control.index.heads()
        return {name: heads.get(name) for name in sorted({*self.declared, *heads})}

    def _table_at(self, name: str, head: TableHead | None) -> Table:
        if name in self.declared:
            return self.declared[name]
        stored = self.schema_at(head)
        if stored is None:
            raise UnknownTable(name, self.names())
        return Table(self._context, name, stored)
