"""A table to read from or write to: its name, schema and context."""

from __future__ import annotations

from dataclasses import dataclass, replace

from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table to read from or write to, as this program declares it. It has the columns that its schema names."""

    context: TableContext
    name: str
    schema: TableSchema

    @property
    def visible(self) -> TableSource:
        """The table to read from as people and functions see it, without hidden columns."""
        return replace(self, schema=self.schema.visible) if self.schema.hidden else self

    @property
    def base_folder(self) -> str:
        """The folder of the base, a Delta table."""
        return str(self.context.warehouse / self.name / "rows")
