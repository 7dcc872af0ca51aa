"""The units of a view as columns of its rows: which columns hold them, and in which types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, quoted, union_of
from seamark.tables.schema.types import spark_type
from seamark.transforms.keying import FIRST, LAST
from seamark.views.model import MvPart, MvUnitKind
from seamark.views.paths.actions import Paths, paths_of
from seamark.views.paths.units import MvUnit, UnitColumn
from seamark.views.sql.queries import unit_names

PART = "_part"  # hidden: which part of a view gave a row


@dataclass(frozen=True)
class PartUnits:
    """The units of one part: what their values are called in queries, and which key columns of the view hold them."""

    paths: Paths
    unit: MvUnit
    columns: tuple[str, ...]

    @staticmethod
    def of(paths: Paths, columns: tuple[str, ...]) -> PartUnits:
        """The units that a part has by itself."""
        return PartUnits(paths, paths.unit, columns)

    @staticmethod
    def whole(part: MvPart) -> PartUnits:
        """All rows of a part as one unit."""
        return PartUnits(paths_of(part), MvUnit(MvUnitKind.ALL, (), None, part.tables[0].number), ())

    @property
    def part(self) -> MvPart:
        """The part."""
        return self.paths.part

    @property
    def names(self) -> tuple[str, ...]:
        """What the values of a unit are called in queries."""
        return unit_names(self.unit) if self.columns else ()

    @property
    def are_of_leftmost(self) -> bool:
        """Whether a row of the left-most table holds its unit."""
        return bool(self.columns) and all(_is_of(column, self.unit.leftmost) for column in self.unit.columns)

    @property
    def leftmost_columns(self) -> tuple[str, ...]:
        """The columns of the left-most table that hold the unit, if a row of it does."""
        return tuple(column.leaf.column for column in self.unit.columns if column.leaf is not None)

    def own_type(self, place: int) -> pa.DataType | None:
        """The type of a value of the unit where it is a column of a table; None where it is computed."""
        leaf = self.unit.columns[place].leaf
        source = self.part.source(leaf.source) if leaf is not None else None
        found = source.info.column(leaf.column) if source is not None and source.info and leaf is not None else None
        return None if found is None else found.type


def _is_of(column: UnitColumn, number: int) -> bool:
    return column.leaf is not None and column.leaf.source == number


@dataclass(frozen=True)
class ViewUnits:
    """The units of a view. `keys` are the columns of its rows that hold them, none if all rows are one unit.

    Where these are no columns of its key, they are hidden: `_part` and `_owner`, `_owner_2`, …
    """

    keys: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    parts: tuple[PartUnits, ...]
    are_hidden: bool = False

    @property
    def owners(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """What the hidden columns of a row stand for, part by part: its alias, left-most table, and the values."""
        return tuple(
            (
                part.part.alias,
                str(part.part.source(part.unit.leftmost).table),
                tuple(column.shown if column.leaf is None else column.leaf.column for column in part.unit.columns),
            )
            for part in self.parts
        )

    def as_keys(self, part: PartUnits, units: CheckedFrame, session: Session) -> CheckedFrame:
        """Units as queries name them, under the view's key columns and in their types; offsets stay beside them."""
        offsets = [name for name in (FIRST, LAST) if name in units.names]
        local = units.in_memory
        if local is not None:
            return LocalFrame(self._local_keys(part, local, offsets))
        frame = units.to_spark(session)
        return SparkFrame(frame.select(*self.key_columns(part, part.names), *map(quoted, offsets)))

    def key_columns(self, part: PartUnits, names: Sequence[str], prefix: str = "") -> list[SparkColumn]:
        """The key columns as Spark computes them from columns of these names, which hold the values of a unit."""
        by_key = dict(zip(part.columns, names, strict=True))
        return [
            (F.col(quoted(by_key[key])) if key in by_key else F.lit(part.part.alias if key == PART else None))
            .cast(spark_type(self.types[key]))
            .alias(prefix + key)
            for key in self.keys
        ]

    def _local_keys(self, part: PartUnits, units: pa.Table, offsets: Sequence[str]) -> pa.Table:
        by_key, arrays = dict(zip(part.columns, part.names, strict=True)), []
        for key in self.keys:
            kind = self.types[key]
            if key in by_key:
                arrays.append(units.column(by_key[key]).cast(kind))
            else:
                alias = pa.scalar(part.part.alias if key == PART else None, kind)
                arrays.append(pa.chunked_array([pa.repeat(alias, units.num_rows)], kind))
        names = [*self.keys, *offsets]
        return pa.Table.from_arrays([*arrays, *(units.column(name) for name in offsets)], names=names)

    def of_part(self, part: PartUnits, keys: pa.Table) -> pa.Table:
        """The units of a part among keys of the view, as queries name them and in types of their own."""
        if PART in keys.column_names:
            keys = keys.filter(pc.equal(keys.column(PART), part.part.alias))
        arrays = []
        for place, name in enumerate(part.columns):
            own = part.own_type(place)
            column = keys.column(name)
            arrays.append(column if own is None else column.cast(own))
        if not part.names:
            return keys.select([])
        return pa.Table.from_arrays(arrays, names=list(part.names))

    def union(self, frames: Sequence[CheckedFrame], session: Session) -> CheckedFrame:
        """Keys of several parts together; an empty frame if there are none."""
        if not frames:
            return LocalFrame(self.schema.empty_table())
        return union_of([frame.select(self.keys) for frame in frames], session)

    def shown(self, unit: Mapping[str, object]) -> str:
        """A unit as people read it: `o.id=3`, with its part where a view has several."""
        part = self.part(str(unit[PART])) if PART in unit else self.parts[0]
        values = [f"{column.shown}={unit[name]}" for name, column in zip(part.columns, part.unit.columns, strict=True)]
        named = f"part '{part.part.alias}', " if len(self.parts) > 1 else ""
        return named + ", ".join(values)

    @property
    def schema(self) -> pa.Schema:
        """The key columns with their types."""
        return pa.schema([pa.field(name, self.types[name]) for name in self.keys])

    def part(self, alias: str) -> PartUnits:
        """The part of this alias."""
        return next(part for part in self.parts if part.part.alias == alias)
