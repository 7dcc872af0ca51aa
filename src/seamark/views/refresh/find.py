"""From changes of a view's tables to the units whose rows may differ: one source at a time, both images of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, union_of
from seamark.transforms.keying import FIRST, LAST, Changes, Found
from seamark.transforms.keys.hops import grouped, led_to
from seamark.views.paths.actions import Action, ActionEveryKey, ActionKeysGrab, ActionKeysTransform, Hop
from seamark.views.refresh.frames import named
from seamark.views.refresh.gather import PartReader, every_unit
from seamark.views.refresh.images import counted_images, holding
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.unit_query import tables_of_units, units_by_query
from seamark.views.refresh.units import PartUnits, ViewUnits


@dataclass(frozen=True)
class Finder:
    """Finds units, at the positions that a run reads at. `standing` gives those of a part that have rows now."""

    units: ViewUnits
    tables: ViewTables
    standing: Callable[[PartUnits], CheckedFrame] | None = None

    def changed_units(self, changes: Sequence[Changes]) -> Iterator[Found]:
        """The units that changed records of the tables lead to, table after table and source after source."""
        for change in changes:
            if not self.units.keys:  # any record concerns the one result
                images = change.images(self.tables.sources[change.table], ())
                yield Found(change.table, (), grouped(images, (), self.session))
                continue
            for part in self.units.parts:
                for action in part.paths.actions:
                    if action.table == change.table:
                        keys = self._keys(part, action, change)
                        yield Found(change.table, self.units.keys, keys)

    def concerns_every_unit(self, change: Changes) -> bool:
        """Whether an image of a change is left in a source from which no equality leads on."""
        for part in self.units.parts:
            for action in part.paths.actions:
                if action.table != change.table or not isinstance(action, ActionEveryKey):
                    continue
                images = counted_images(action, change, self.tables.sources[action.table])
                if images.in_memory is None or images.in_memory.num_rows:
                    return True
        return False

    def _keys(self, part: PartUnits, action: Action, change: Changes) -> CheckedFrame:
        """The units that one source's images lead to, as keys of the view with their first and last record."""
        images = counted_images(action, change, self.tables.sources[action.table])
        if isinstance(action, ActionEveryKey):
            return grouped(self._every_unit(part, images), self.units.keys, self.session)
        if isinstance(action, ActionKeysTransform):
            found = named(images, action.columns, part.names)
        else:
            rows = self._leftmost_rows(part, action, images)
            if part.unit.is_owner:
                found = named(rows, part.leftmost_columns, part.names)
            else:
                found = self._units_of_rows(part, rows)
        keys = self.units.as_keys(part, found, self.session)
        return grouped(keys, self.units.keys, self.session)

    @property
    def session(self) -> Session:
        """Gives the session, starting Spark if nobody has."""
        return self.tables.session

    def _every_unit(self, part: PartUnits, images: CheckedFrame) -> CheckedFrame:
        """All units at the pins, as soon as one image is left; of groups also those that are gone and still have rows.

        An owner that is gone is found by its own record.
        """
        if images.is_empty():
            return self.units.as_keys(part, LocalFrame(_no_units(part, self.units)), self.session)
        found = [self.units.as_keys(part, every_unit(part, self.tables), self.session)]
        if self.standing is not None and not part.unit.is_owner:
            found.append(self.standing(part))
        spanned = grouped(images.select([LAST]), (), self.session)
        return _with_offsets(union_of(found, self.session), spanned, self.session)

    # --- to the left-most rows ----------------------------------------------------------------------------------------

    def _leftmost_rows(self, part: PartUnits, action: Action, images: CheckedFrame) -> CheckedFrame:
        """What identifies the left-most rows that images lead to: images of the left-most source are such rows."""
        wanted = self.identity(part)
        if not isinstance(action, ActionKeysGrab):
            return images.select([*wanted, LAST])
        rows = images
        for place, hop in enumerate(action.hops):
            further = action.hops[place + 1].pairs if place + 1 < len(action.hops) else ()
            columns = list(dict.fromkeys([one for one, _ in further])) if further else wanted
            rows = self._hop(part, hop, rows, columns)
        return rows

    def identity(self, part: PartUnits) -> list[str]:
        """The columns that distinguish left-most rows: their key; without one, all that are used."""
        number = part.unit.leftmost
        source = self.tables.sources[str(part.part.source(number).table)]
        if source.schema.key:
            return list(source.schema.key)
        used = part.paths.facts.used[number]
        return [name for name in source.schema.names if name in used]

    def _hop(self, part: PartUnits, hop: Hop, rows: CheckedFrame, columns: Sequence[str]) -> CheckedFrame:
        """Rows of the next source, as they are at the pins; for groups as they ever were since the last commit.

        Of the rows before only those go on that agree with themselves where two of their columns meet one.
        """
        table = str(part.part.source(hop.upto).table)
        source = self.tables.sources[table]
        values = self._values(hop, rows)
        scope = self.tables.scope_of(table, values.select([name for name in values.names if name not in (FIRST, LAST)]))
        literals = [name for literal in hop.literals for name in literal.used]
        needed = list(dict.fromkeys([*columns, *(there for _, there in hop.pairs), *literals]))
        read = self.tables.rows if part.unit.is_owner else self.tables.versions
        found = holding(read(table, scope, needed), hop.literals, source)
        return led_to(list(columns), found, values, self.session)

    def _values(self, hop: Hop, rows: CheckedFrame) -> CheckedFrame:
        """The values that lead on, under the names of the next source's columns and in its types, with offsets."""
        pairs: dict[str, str] = {}
        for one, other in hop.pairs:
            pairs.setdefault(other, one)
        offsets = [name for name in (FIRST, LAST) if name in rows.names]
        values = named(rows.select([*dict.fromkeys(pairs.values()), *offsets]), list(pairs.values()), list(pairs))
        for name in pairs:
            values = values.where_null(name, is_null=False)
        return grouped(values, list(pairs), self.session)

    # --- to groups and partitions -------------------------------------------------------------------------------------

    def _units_of_rows(self, part: PartUnits, rows: CheckedFrame) -> CheckedFrame:
        """The units that left-most rows belonged to at any moment since the last commit."""
        source = self.tables.sources[str(part.part.source(part.unit.leftmost).table)]
        identity = self.identity(part)
        rows = grouped(rows, identity, self.session)
        if part.are_of_leftmost:
            if not source.schema.key:
                return named(rows, part.leftmost_columns, part.names)
            wanted = list(dict.fromkeys([*identity, *part.leftmost_columns]))
            scope = self.tables.scope_of(source.name, rows.select(identity))
            versions = self.tables.versions(source.name, scope, wanted)
            led = led_to([*dict.fromkeys(part.leftmost_columns)], versions, rows, self.session)
            return named(led, part.leftmost_columns, part.names)
        return self._units_by_query(part, rows)

    def _units_by_query(self, part: PartUnits, rows: CheckedFrame) -> CheckedFrame:
        """The units that the part's joins give over versions of all tables, narrowed to what joins these rows."""
        if rows.is_known_empty:
            return LocalFrame(_no_units(part, self.units))
        number, identity = part.unit.leftmost, self.identity(part)
        reader = PartReader(part, self.tables, self.tables.versions)
        table = reader.table(number)
        by_key = bool(self.tables.sources[table].schema.key)
        leftmost = reader.rows(number, self.tables.scope_of(table, rows.select(identity))) if by_key else rows
        frames = reader.around(leftmost.select(reader.columns(number)), tables_of_units(part))
        waiting = {n for n in frames if self.tables.has_waiting(reader.table(n))}
        return _with_offsets(units_by_query(part, frames, waiting, self.tables), rows, self.session)


def _no_units(part: PartUnits, units: ViewUnits) -> pa.Table:
    fields = [pa.field(name, units.types[key]) for name, key in zip(part.names, part.columns, strict=True)]
    return pa.schema([*fields, pa.field(FIRST, pa.int64()), pa.field(LAST, pa.int64())]).empty_table()


def _with_offsets(units: CheckedFrame, rows: CheckedFrame, session: Session) -> CheckedFrame:
    """Units with the first and last record that led to any of the rows: which row led to which unit is not known."""
    found, local = units.in_memory, rows.in_memory
    if found is not None and local is not None:
        for name, offset in ((FIRST, pc.min(local.column(FIRST))), (LAST, pc.max(local.column(LAST)))):
            found = found.append_column(name, pa.repeat(offset.cast(pa.int64()), found.num_rows))
        return LocalFrame(found)
    span = rows.to_spark(session).agg(F.min(FIRST).alias(FIRST), F.max(LAST).alias(LAST))
    return SparkFrame(units.to_spark(session).crossJoin(span))
