"""The care of a store: verify it, fold tables, remove files that nobody names, build the control database again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seamark.control import GRACE_SECONDS, TableHead
from seamark.errors import HeadMismatch
from seamark.ledger.verify import OnBlock, VerifyReport
from seamark.steps.running.pipeline import Pipeline
from seamark.tables.care.collect import CollectReport, collect_garbage
from seamark.tables.care.fold import FoldReport, fold_where_needed
from seamark.tables.care.rebuild import RebuildReport, rebuild_store
from seamark.tables.catalog import Catalog
from seamark.tables.context import TableContext
from seamark.tables.table import Head
from seamark.tables.verify import normal_heads, verify_tables


class StoreCare:
    """What keeps a store in order. `DataStore` is one of these, so that people find all of it there."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self.control = context.control
        self._catalog = Catalog(context)
        self._pipeline = Pipeline(context)
        self._folded_at: dict[str, int] = {}

    def verify(
        self,
        table: str | None = None,
        replay: bool = False,
        *,
        rows: bool = False,
        expect: Mapping[str, str | Head] | None = None,
        on_block: OnBlock | None = None,
    ) -> VerifyReport:
        """Compare the files, chains and control database of one table or of all, and report what does not agree.

        `rows` also compares the rows that folds keep with the log, `replay` computes derived tables again, by the steps
        that make them; a derived table without a step in this program is counted as not replayable. `expect` has heads,
        by table, that were written down elsewhere and that chains must still hold. What this shows, and against whom,
        docs/verify.md says.
        """
        expected = None if expect is None else normal_heads(expect)
        try:
            chains = self._chains(table)
        except HeadMismatch:
            if replay:
                raise
            return verify_tables(self._context, table, rows=rows, expect=expected, on_block=on_block)
        if table is not None and not chains and expected is None:
            return VerifyReport(0)
        report = verify_tables(self._context, table, rows=rows, replays=replay, expect=expected, on_block=on_block)
        return report + self._pipeline.replay(chains, on_block) if replay else report

    def _chains(self, table: str | None) -> dict[str, TableHead]:
        heads = self.control.index.heads()
        if table is None:
            return dict(sorted(heads.items()))
        if table in heads:  # the schema is not asked for: it may be the very block that is damaged
            return {table: heads[table]}
        self._catalog.known(table)
        return {}

    def fold(self, *tables: str) -> list[FoldReport]:
        """Bring the bases of these tables, or of all, up to their heads."""
        names = tables or sorted(self.control.index.heads())
        return [self._catalog.known(name).fold() for name in names]

    def fold_where_needed(self) -> list[FoldReport]:
        """Fold the tables whose tail has grown past the configured share of the base, or number of slices.

        A table that another process folds is left to it, and trouble is in the report.
        """
        return fold_where_needed(self._context, lambda name: self._catalog.known(name).source)

    def gc(self, *, dry_run: bool = False, grace: float = GRACE_SECONDS) -> CollectReport:
        """Remove files older than the grace (seconds) that no chain names and no live run has registered."""
        sources = [self._catalog.known(name).source for name in sorted(self.control.index.heads())]
        return collect_garbage(self._context, sources, grace=grace, dry_run=dry_run)

    def _fold_what_moved(self) -> list[FoldReport]:
        """Fold what has grown long, if anything has moved since this was last looked at, or was left then."""
        heads = {name: head.sequence for name, head in self.control.index.heads().items()}
        if heads == self._folded_at:
            return []
        reports = self.fold_where_needed()
        self._folded_at = heads if all(report.folded for report in reports) else {}
        return reports

    @staticmethod
    def rebuild(
        control: str | None = None, warehouse: str | Path | None = None, control_schema: str | None = None
    ) -> RebuildReport:
        """Build the control database again from the chains in a warehouse, and say what was restored."""
        return rebuild_store(control, warehouse, control_schema)
