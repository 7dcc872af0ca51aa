"""Tables: writing changes, reading changes and rows, folding, schema. Spark meets the ledger here."""

from __future__ import annotations

from seamark.tables.collect import CollectReport
from seamark.tables.fold import FoldReport
from seamark.tables.rebuild import RebuildReport
from seamark.tables.schema import Column, TableSchema
from seamark.tables.table import Head, Table
from seamark.tables.write import Commit

__all__ = ["CollectReport", "Column", "Commit", "FoldReport", "Head", "RebuildReport", "Table", "TableSchema"]
