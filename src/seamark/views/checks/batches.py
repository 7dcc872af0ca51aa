"""Which tables of a view are dictionaries."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.views.context import MvHandler
from seamark.views.model import MvTarget


@dataclass(frozen=True, slots=True)
class Batches:
    """The tables that a view reads and whose changes wait for a dictionary pass."""

    tables: frozenset[str]

    @staticmethod
    def of(target: MvTarget, handler: MvHandler | None) -> Batches:
        """Those of a view and the handler that processes it."""
        inputs = handler.inputs if handler is not None else ()
        return Batches(frozenset({*target.dictionaries, *(found.table for found in inputs if found.is_batch)}))

    def is_batch(self, table: str) -> bool:
        """Whether a table is a dictionary."""
        return table in self.tables
