"""Tables: writing changes, reading changes and rows, folding, schema. Spark meets the ledger here."""

from __future__ import annotations

from seamark.tables.care.collect import CollectReport
from seamark.tables.care.fold import FoldReport
from seamark.tables.care.rebuild import RebuildReport
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.tables.table import Head, Table
from seamark.tables.write.write_change import Commit

__all__ = ["CollectReport", "Column", "Commit", "FoldReport", "Head", "RebuildReport", "Table", "TableSchema"]
