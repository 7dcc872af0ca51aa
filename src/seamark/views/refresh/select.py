"""Running a view's SELECT over gathered rows: its own words, and rows with all columns of its table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.errors import SeamarkError
from seamark.spark.causes import SPARK_ERRORS
from seamark.steps.rows.scope import AllKeys, rows_within
from seamark.steps.running.blame import blamed
from seamark.tables.computed import computed
from seamark.tables.frame import CheckedFrame, LocalFrame, quoted
from seamark.tables.frames import check_returned_frame
from seamark.tables.read.source import TableSource
from seamark.tables.schema.types import spark_type
from seamark.views.model import MvUnitKind
from seamark.views.paths.units import selectable
from seamark.views.refresh.gather import GatheredUnits, PartRows
from seamark.views.refresh.query import over_frames
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.units import PART, PartUnits, ViewUnits
from seamark.views.sql.texts import Changes, part_text, with_tables


@dataclass(frozen=True)
class Selection:
    """Gives the rows of a view's table for gathered rows. `KeyTrouble` if an expression fails on one of them."""

    units: ViewUnits
    output: TableSource

    def computed(self, gathered: GatheredUnits, stack: ExitStack) -> CheckedFrame:
        """The rows, computed once: in memory if they are few, else in files until the stack unwinds."""
        rows = self.uncomputed(gathered)
        arrow = pa.schema([pa.field(column.name, column.type) for column in self.output.schema.columns])
        try:
            found = stack.enter_context(computed(self.output.context, rows, arrow))
        except SPARK_ERRORS as error:
            raise blamed(error) from error
        return found if self._are_all_wanted(gathered) else rows_within(gathered.scope, self.output, found)

    def uncomputed(self, gathered: GatheredUnits) -> CheckedFrame:
        """The rows, yet to be computed; with them may come rows of units that are only partly there."""
        frames = [self._of_part(rows, gathered.tables) for rows in gathered.parts if not rows.has_no_unit]
        if not frames:
            return LocalFrame(self.output.schema.arrow.empty_table())
        try:
            return check_returned_frame(
                self.output.name, self.output.schema, reduce(DataFrame.unionByName, frames), with_nulls=True
            )
        except AnalysisException:
            raise
        except SPARK_ERRORS as error:
            raise blamed(error) from error

    def _are_all_wanted(self, gathered: GatheredUnits) -> bool:
        """Whether the rows read were those of the scope only."""
        return isinstance(gathered.scope, AllKeys) or all(part.unit.is_owner for part in self.units.parts)

    def _of_part(self, rows: PartRows, tables: ViewTables) -> DataFrame:
        part, session = rows.part.part, self.output.context.session
        try:
            found = over_frames(
                session, lambda names: self._text(rows.part, names), rows.frames, part.text.text, tables.schemas(part)
            )
        except (AnalysisException, SeamarkError):
            raise
        except SPARK_ERRORS as error:
            raise blamed(error) from error
        return found.select(*self._columns(rows.part, found))

    def _text(self, part: PartUnits, names: Mapping[int, str]) -> str:
        if part.unit.kind is MvUnitKind.ALL:
            return with_tables(part.part, names)
        columns = ""
        if self.units.are_hidden:
            shown = zip(selectable(part.part, part.unit), part.columns, strict=True)
            columns = ", ".join(f"{expression} AS {quoted(name)}" for expression, name in shown)
        return part_text(part.part, Changes(names, columns=columns))

    def _columns(self, part: PartUnits, found: DataFrame) -> Iterator[Column]:
        """The table's columns: what the SELECT gives, NULL where it gives nothing, and the hidden ones."""
        given = {name.casefold(): name for name in found.columns}
        for column in self.output.schema.columns:
            kind = spark_type(column.type)
            if column.name == PART and self.units.are_hidden:
                yield F.lit(part.part.alias).alias(PART)
            elif column.name in self.units.keys and self.units.are_hidden:
                there = column.name in part.columns
                yield (F.col(quoted(column.name)) if there else F.lit(None)).cast(kind).alias(column.name)
            elif (name := given.get(column.name.casefold())) is not None:
                yield F.col(quoted(name)).alias(column.name)
            else:
                yield F.lit(None).cast(kind).alias(column.name)
