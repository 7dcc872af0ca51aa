"""The units of a page, as a run and its replay find them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.spark.frames import arrow_rows
from seamark.steps.rows.keys import keys_of
from seamark.steps.rows.scope import AllKeys, Scope, rows_within
from seamark.tables.computed import computed
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, quoted
from seamark.tables.ordering import in_order
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.transforms.declare.safe_sql import checked_query
from seamark.transforms.keying import Changes, Read
from seamark.transforms.keys.scopes import as_scope, joined_scope
from seamark.views.passes.page import Bound, Page
from seamark.views.refresh.gather import PartReader, every_unit, units_of_leftmost
from seamark.views.refresh.query import over_frames
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.units import PartUnits

if TYPE_CHECKING:
    from seamark.views.keying import ViewKeying


@dataclass(frozen=True)
class PageUnits:
    """Finds the units of pages, at the positions that a run reads at.

    Without `changes` they are all there are, with those that are gone and still have rows; else what these lead to.
    """

    keying: ViewKeying
    read: Read
    before: Read
    changes: Sequence[Changes] | None = None

    def within(self, page: Page) -> CheckedFrame:
        """The units of a page, each once."""
        keying = self.keying
        if self.changes is not None:
            found = [entry.keys for entry in keying.changed_keys(self.changes, self.read, self.before)]
        else:
            tables = keying.tables(self.read, self.read)
            parts = [part for part in keying.units.parts if page.part in (None, part.part.alias)]
            found = [self._all_of(part, tables, page.where) for part in parts]
            if page.where is None:
                found.append(keying.standing_units(page.part))
        return self._bounded(page, keying.units.union(found, self._session)).distinct()

    def first(self, page: Page, most: int, stack: ExitStack) -> tuple[Page, Scope]:
        """A page with the first `most` units of another one, and these; the same page if it has no more."""
        keying = self.keying
        units = stack.enter_context(computed(keying.context, self.within(page), keying.units.schema))
        if units.count() > most:
            page = page.ending(self._place(units, most))
            units = self._bounded(page, units)
        return page, as_scope(keying.context, keying.keys, units)

    def scope(self, page: Page, others: Sequence[str], stack: ExitStack) -> Scope:
        """The units of a page, together with some that are listed."""
        keying = self.keying
        if page.is_range:
            return page.bounds
        listed = LocalFrame(keys_of(others, keying.keys, keying.key_types))
        return joined_scope(keying, keying.keys, [self.within(page), listed], stack)

    def leftmost_where(self, part: PartUnits, tables: ViewTables, where: str) -> CheckedFrame:
        """The left-most rows of a part for which a condition holds; `UnsafeSql` if it is more than a condition."""
        reader, number = PartReader(part, tables, tables.rows), part.unit.leftmost
        source = tables.sources[reader.table(number)]
        alias = quoted(part.part.source(number).alias or source.name)
        text = f"SELECT * FROM {{rows}} AS {alias} WHERE ({where}\n)"  # the last line may be a comment
        checked_query(text, ["rows"])
        rows = tables.rows(source.name, AllKeys(), source.schema.names)
        found = over_frames(self._session, lambda names: text.replace("{rows}", names[number], 1), {number: rows}, text)
        chosen = SparkFrame(found).select(reader.columns(number))
        return chosen if rows.in_memory is None else LocalFrame(chosen.to_arrow())

    @property
    def _session(self) -> Session:
        return self.keying.context.session

    def _all_of(self, part: PartUnits, tables: ViewTables, where: str | None) -> CheckedFrame:
        """The units of a part that its tables have, or those of the left-most rows for which a condition holds."""
        if where is None:
            found = every_unit(part, tables)
        else:
            rows = self.leftmost_where(part, tables, where)
            found = units_of_leftmost(PartReader(part, tables, tables.rows), rows)
        return self.keying.units.as_keys(part, found, self._session)

    def _bounded(self, page: Page, units: CheckedFrame) -> CheckedFrame:
        schema = TableSchema(tuple(Column(name, kind, True) for name, kind in self.keying.key_types.items()))
        return rows_within(page.bounds, TableSource(self.keying.context, "units", schema), units)

    def _place(self, units: CheckedFrame, number: int) -> Bound:
        """The unit that is at some place, counted from 1, in Spark's order."""
        local, names = units.in_memory, list(map(quoted, self.keying.keys))
        if local is not None:
            row = in_order(local).slice(number - 1, 1)
        else:
            ordered = units.to_spark(self._session).orderBy(*names).offset(number - 1).limit(1)
            row = arrow_rows(ordered).cast(self.keying.units.schema)
        return tuple(column[0].as_py() for column in row.columns)
