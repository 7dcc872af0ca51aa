"""Verification of tables: their chains and files, the control database beside them, their inputs and their rows."""

from __future__ import annotations

from seamark.tables.verify.heads import normal_heads, read_heads
from seamark.tables.verify.store import verify_tables
from seamark.tables.verify.unopened import verify_unopened

__all__ = ["normal_heads", "read_heads", "verify_tables", "verify_unopened"]
