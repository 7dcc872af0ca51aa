"""Reading the tables of a view: rows at the positions that a run reads at, and versions since its positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.steps.rows.fetch import read_for, read_interval
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, filter_rows
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, by_name, union_of
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import TableSchema
from seamark.transforms.keying import Read
from seamark.transforms.keys.hops import fitting
from seamark.views.model import MvPart


@dataclass(frozen=True)
class ViewTables:
    """The tables of a view, each read up to the record in `read`; `before` is what its rows were made from."""

    sources: Mapping[str, TableSource]
    read: Read
    before: Read

    def rows(self, table: str, scope: Scope, columns: Sequence[str]) -> CheckedFrame:
        """The rows of a table that belong to a scope, with these columns only."""
        source = self.sources[table]
        return read_for(source, scope, self.read[table], columns).select(columns)

    def versions(self, table: str, scope: Scope, columns: Sequence[str]) -> CheckedFrame:
        """The same with all images of the records since the rows were made: every state in between is among them."""
        rows = self.rows(table, scope, columns)
        images = self.waiting_images(table, columns)
        if images is None:
            return rows
        return union_of([rows, self._within(scope, images)], self.session).distinct()

    def waiting_images(self, table: str, columns: Sequence[str]) -> CheckedFrame | None:
        """All images of the records since the rows were made; None if there are none."""
        source, upto = self.sources[table], self.read[table]
        if upto is None:
            return None
        blocks = source.context.control.index.slices(table, after=self.before[table], upto=upto)
        return read_interval(source, blocks, columns).select(columns) if blocks else None

    def schemas(self, part: MvPart) -> dict[int, TableSchema]:
        """The columns of the tables of a part, by the numbers of their occurrences."""
        return {source.number: self.sources[str(source.table)].schema for source in part.tables}

    def has_waiting(self, table: str) -> bool:
        """Whether a table has records since the rows were made."""
        upto, before = self.read[table], self.before[table]
        return upto is not None and (before is None or upto > before)

    def _within(self, scope: Scope, rows: CheckedFrame) -> CheckedFrame:
        local = rows.in_memory
        if isinstance(scope, AllKeys) or not scope.columns:
            return rows
        if isinstance(scope, KeyValues):
            return rows.semi_join(LocalFrame(scope.values), by_name(scope.columns), self.session)
        if isinstance(scope, KeyFrame):
            return rows.semi_join(SparkFrame(scope.frame), by_name(scope.columns), self.session)
        assert isinstance(scope, KeyRange)
        if local is not None:
            return LocalFrame(filter_rows(scope, local))
        raise AssertionError("versions are read by listed values")

    @property
    def context(self) -> TableContext:
        """Where the tables are."""
        return next(iter(self.sources.values())).context

    @property
    def session(self) -> Session:
        """Gives the session, starting Spark if nobody has."""
        return self.context.session

    def scope_of(self, table: str, values: CheckedFrame) -> Scope:
        """The rows of a table whose columns, those of `values`, hold one of these tuples; NULL holds nothing."""
        source = self.sources[table]
        for name in values.names:
            values = values.where_null(name, is_null=False)
        local = values.in_memory
        if local is None:
            return KeyFrame(tuple(values.names), values.distinct().to_spark(self.session))
        types = {name: source.schema.column(name).type for name in values.names}
        return KeyValues(LocalFrame(fitting(local, types)).distinct().rows)
