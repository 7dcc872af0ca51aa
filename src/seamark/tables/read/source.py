"""A table as whoever reads or writes it takes it."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.tables.context import TableContext
from seamark.tables.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table to read from."""

    context: TableContext
    name: str
    schema: TableSchema

    @property
    def base_folder(self) -> str:
        """Where the base lies."""
        return str(self.context.warehouse / self.name / "rows")
