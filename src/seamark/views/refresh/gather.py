"""The rows that a refresh of some units needs: left-most rows, then level by level what they are joined with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame
from seamark.tables.ordering import distinct, in_order
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.views.model import MvUnitKind
from seamark.views.paths.reading import LeftmostRead, Lookup, ReadingPlan, reading_plan
from seamark.views.refresh.frames import named
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.unit_query import tables_of_units, units_by_query
from seamark.views.refresh.units import PART, PartUnits, ViewUnits

ITS_UNIT = "its unit "  # before the names of key columns beside those of a table; none of these has a space in it

Reader = Callable[[str, Scope, Sequence[str]], CheckedFrame]
"""Reads the rows of a table that belong to a scope, with some columns."""


@dataclass(frozen=True)
class PartRows:
    """The rows of a part's tables, by the numbers of their occurrences; none where no unit of the scope is its own."""

    part: PartUnits
    frames: Mapping[int, CheckedFrame]

    @property
    def has_no_unit(self) -> bool:
        """Whether it is known that no unit has a row."""
        return not self.frames or self.frames[self.part.unit.leftmost].is_known_empty


@dataclass(frozen=True)
class GatheredUnits:
    """The rows of all tables for a scope, part by part."""

    units: ViewUnits
    tables: ViewTables
    scope: Scope
    parts: tuple[PartRows, ...]

    @property
    def are_local(self) -> bool:
        """Whether all of them are in memory."""
        return all(frame.in_memory is not None for rows in self.parts for frame in rows.frames.values())

    @property
    def holds_no_key(self) -> bool:
        """Whether it is known that there is nothing to compute."""
        return bool(self.units.keys) and all(rows.has_no_unit for rows in self.parts)

    @property
    def is_narrowed_by_values(self) -> bool:
        """Whether a part of the scope is taken by listed units: where a left-most row does not hold its unit."""
        return self.are_local or not all(part.are_of_leftmost for part in self.units.parts)

    def narrowed(self, scope: Scope) -> GatheredUnits:
        """The rows for a part of the scope, read again: with them go rows that only other units are joined with."""
        return gather_units(self.units, self.tables, scope)

    def kept(self, context: TableContext, stack: ExitStack) -> GatheredUnits:
        """The same: a part of the scope is read on its own."""
        return self

    def sorted_keys(self) -> pa.Table:
        """The units of the scope, in Spark's order."""
        if isinstance(self.scope, KeyValues):
            return in_order(self.scope.values)
        keys = distinct(self._every_unit().to_arrow(self.units.schema))
        if isinstance(self.scope, KeyFrame):
            wanted = SparkFrame(self.scope.frame)
            pairs = [(name, name) for name in self.units.keys]
            keys = LocalFrame(keys).semi_join(wanted, pairs, self.tables.session).to_arrow(self.units.schema)
        return in_order(keys)

    def unit_count(self) -> int:
        """How many units the rows are of."""
        return self._every_unit().distinct().count()

    def _every_unit(self) -> CheckedFrame:
        """The units of all left-most rows that were read."""
        frames, session = [], self.tables.session
        for rows in self.parts:
            part = rows.part
            if not rows.frames:
                continue
            if part.are_of_leftmost:
                found = named(rows.frames[part.unit.leftmost], part.leftmost_columns, part.names)
            else:
                inside = {n: rows.frames[n] for n in tables_of_units(part)}
                found = units_by_query(part, inside, (), self.tables)
            frames.append(self.units.as_keys(part, found, session))
        return self.units.union(frames, session)


def every_unit(part: PartUnits, tables: ViewTables) -> CheckedFrame:
    """The units of all left-most rows of a part, as queries name them."""
    reader = PartReader(part, tables, tables.rows)
    return units_of_leftmost(reader, reader.rows(part.unit.leftmost, AllKeys()))


def units_of_leftmost(reader: PartReader, leftmost: CheckedFrame) -> CheckedFrame:
    """The units of some left-most rows of a part, as queries name them."""
    part = reader.part
    if part.are_of_leftmost:
        return named(leftmost, part.leftmost_columns, part.names).distinct()
    return units_by_query(part, reader.around(leftmost, tables_of_units(part)), (), reader.tables)


def gather_units(units: ViewUnits, tables: ViewTables, scope: Scope) -> GatheredUnits:
    """The rows of every table that the units of a scope are made of; it may hold rows that none of them is made of."""
    parts = []
    for part in units.parts:
        reader = PartReader(part, tables, tables.rows)
        leftmost = leftmost_rows(units, reader, scope)
        parts.append(PartRows(part, {} if leftmost is None else reader.around(leftmost)))
    return GatheredUnits(units, tables, scope, tuple(parts))


@dataclass(frozen=True)
class PartReader:
    """Reads the rows that left-most rows of a part are joined with: as they are at the pins, or all their versions."""

    part: PartUnits
    tables: ViewTables
    read: Reader

    @cached_property
    def plan(self) -> ReadingPlan:
        """The levels in which they are read."""
        return reading_plan(self.part.paths)

    def table(self, number: int) -> str:
        """The table of an occurrence."""
        return str(self.part.part.source(number).table)

    def columns(self, number: int) -> list[str]:
        """The columns of an occurrence that the part uses; one of them where it uses none."""
        names = self.tables.sources[self.table(number)].schema.names
        if self.part.unit.kind is MvUnitKind.ALL:
            return list(names)
        used = self.part.paths.facts.used[number]
        return [name for name in names if name in used] or list(names[:1])

    def rows(self, number: int, scope: Scope) -> CheckedFrame:
        """The rows of an occurrence that belong to a scope."""
        return self.read(self.table(number), scope, self.columns(number))

    def around(self, leftmost: CheckedFrame, numbers: Collection[int] | None = None) -> dict[int, CheckedFrame]:
        """The left-most rows, and those of the other tables (or of some) that may be joined with them."""
        frames = {self.part.unit.leftmost: leftmost}
        if self.part.unit.kind is MvUnitKind.ALL:
            others = [source.number for source in self.part.part.tables if source.number not in frames]
            return frames | {number: self.rows(number, AllKeys()) for number in others}
        for level in self.plan.levels:
            read = {
                lookup.source: self.rows(lookup.source, self._scope(lookup, frames))
                for lookup in level
                if numbers is None or lookup.source in numbers
            }
            frames |= read
        return frames

    def _scope(self, lookup: Lookup, frames: Mapping[int, CheckedFrame]) -> Scope:
        """The rows that have values of rows in memory; all rows where those are many, which Spark joins better."""
        table = self.table(lookup.source)
        found: dict[int, dict[str, str]] = {}
        for known, theirs, mine in lookup.by:
            if known in frames and frames[known].in_memory is not None:
                found.setdefault(known, {}).setdefault(mine, theirs)
        if not found:
            return AllKeys()
        # Real pairs of values: columns of several tables would have to be crossed, so the one with most of them counts.
        known = max(found, key=lambda number: (len(found[number]), -number))
        pairs = found[known]
        values = named(frames[known], list(pairs.values()), list(pairs))
        return self.tables.scope_of(table, values)


def leftmost_rows(units: ViewUnits, reader: PartReader, scope: Scope) -> CheckedFrame | None:
    """The left-most rows of the units of a scope, perhaps with others; None if no unit is of the reader's part."""
    return _Leftmost(units, reader).rows(scope)


@dataclass(frozen=True)
class _Leftmost:
    """Reads the left-most rows of the units of a scope; with them may come rows of other units."""

    units: ViewUnits
    reader: PartReader

    def rows(self, scope: Scope) -> CheckedFrame | None:
        """The rows, or None if no unit of the scope is of this part."""
        part, number = self.reader.part, self.reader.part.unit.leftmost
        if isinstance(scope, AllKeys) or not scope.columns:
            return self.reader.rows(number, AllKeys())
        if isinstance(scope, KeyRange):
            return self._of_range(scope)
        if isinstance(scope, KeyFrame):
            return self._of_frame(scope)
        units = self.units.of_part(part, scope.values)
        if PART in scope.columns and units.num_rows == 0:
            return None
        return self._of_values(units)

    def _of_values(self, units: pa.Table) -> CheckedFrame:
        part, plan = self.reader.part, self.reader.plan.leftmost
        if plan.source is None or self._needs_all(plan, units):
            return self.reader.rows(part.unit.leftmost, AllKeys())
        own: dict[str, int] = {}
        for place, column in plan.columns:
            own.setdefault(column, place)
        values = pa.Table.from_arrays([units.column(place) for place in own.values()], names=list(own))
        rows = LocalFrame(distinct(values))
        scope = KeyValues(rows.rows)
        if not plan.hops:
            return self.reader.rows(plan.source, scope)
        found = self.reader.rows(plan.source, scope)
        for hop in plan.hops:
            pairs = dict(reversed([(other, one) for one, other in hop.pairs]))
            led = self.reader.tables.scope_of(
                self.reader.table(hop.upto), named(found, list(pairs.values()), list(pairs))
            )
            found = self.reader.rows(hop.upto, led)
        return found

    @staticmethod
    def _needs_all(plan: LeftmostRead, units: pa.Table) -> bool:
        return any(units.column(place).null_count for place in plan.whole_for_null)

    def _of_range(self, scope: KeyRange) -> CheckedFrame:
        """The rows whose unit is in a range: Spark sees through the names, and skips the files of others."""
        part = self.reader.part
        rows = self.reader.rows(part.unit.leftmost, AllKeys())
        if not part.are_of_leftmost:
            return rows
        keys = self._keys(rows)
        local = rows.in_memory
        if local is not None:
            inside = scope.holds(keys.to_arrow(self.units.schema))
            return LocalFrame(local.filter(pa.array(inside, pa.bool_())))
        frame = rows.to_spark(self.reader.tables.session)
        keyed = frame.select("*", *self.units.key_columns(part, part.leftmost_columns, ITS_UNIT))
        prefixed = KeyRange(tuple(ITS_UNIT + name for name in scope.columns), scope.after, scope.upto)
        schema = TableSchema(tuple(Column(ITS_UNIT + name, kind, True) for name, kind in self.units.types.items()))
        held = keyed.where(prefixed.predicate(TableSource(self.reader.tables.context, "units", schema)))
        return SparkFrame(held).select(frame.columns)

    def _keys(self, rows: CheckedFrame) -> CheckedFrame:
        part = self.reader.part
        return self.units.as_keys(part, named(rows, part.leftmost_columns, part.names), self.reader.tables.session)

    def _of_frame(self, scope: KeyFrame) -> CheckedFrame:
        """The rows whose unit is in a frame of many; all of them where a left-most row does not hold its unit."""
        part = self.reader.part
        rows = self.reader.rows(part.unit.leftmost, AllKeys())
        if not part.are_of_leftmost:
            return rows
        session = self.reader.tables.session
        frame = rows.to_spark(session)
        keyed = SparkFrame(frame.select("*", *self.units.key_columns(part, part.leftmost_columns, ITS_UNIT)))
        pairs = [(ITS_UNIT + name, name) for name in self.units.keys]
        return keyed.semi_join(SparkFrame(scope.frame), pairs, session).select(frame.columns)
