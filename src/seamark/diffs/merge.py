"""How two pieces of knowledge about a visit become one, column by column: nothing but Spark expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.tables.types import spark_name

Rule: TypeAlias = str | Callable[[Column, Column], Column]
"""The name of a rule, or a function of the older and the newer value, neither of which is NULL."""

RULES = ("keep", "overwrite", "sum", "min", "max", "append")
DEFAULT_RULE = "overwrite"

# What these rules have taken in cannot be taken out again, as the correction of a row in a keyed log would need it.
NEVER_UNDONE = ("min", "max", "append")


@dataclass(frozen=True)
class Record:
    """A record of a log as an aggregate sees it: its place, and whether it brings something or takes it back."""

    offset: Column
    is_news: Column
    is_undone: Column


@dataclass(frozen=True)
class MergeColumn:
    """A column of a diff's state, and the rule by which an older and a newer value become one.

    A NULL is no news: where one side is NULL the other one stands, whatever the rule.
    """

    name: str
    type: pa.DataType
    rule: Rule = DEFAULT_RULE

    @property
    def spark_type(self) -> str:
        """The column's type as Spark writes it."""
        return spark_name(self.type)

    @property
    def rule_name(self) -> str:
        """The rule as people read it."""
        return self.rule if isinstance(self.rule, str) else getattr(self.rule, "__name__", "function")

    def merged(self, older: Column, newer: Column) -> Column:
        """What is known when a newer piece of knowledge comes to an older one."""
        match self.rule:
            case "keep":
                return F.coalesce(older, newer)
            case "overwrite":
                return F.coalesce(newer, older)
            case "sum":
                return self._where_both(older, newer, F.try_add(older, newer).try_cast(self.spark_type))
            case "min":
                return F.least(older, newer)
            case "max":
                return F.greatest(older, newer)
            case "append":
                return F.coalesce(F.concat(older, newer), older, newer)
        function = self._function()
        return self._where_both(older, newer, function(older, newer).cast(self.spark_type))

    def _where_both(self, older: Column, newer: Column, both: Column) -> Column:
        return F.when(older.isNull(), newer).when(newer.isNull(), older).otherwise(both)

    def overflows(self, older: Column, newer: Column, merged: Column) -> Column:
        """Whether a sum has become too large for its column; then there is no merged value."""
        if self.rule != "sum":
            return F.lit(False)
        return older.isNotNull() & newer.isNotNull() & merged.isNull()

    def overflowing_records(self, value: Column, record: Record) -> Column:
        """The aggregate that says whether a sum over a visit's records is too large for its column."""
        if self.rule != "sum":
            return F.lit(False)
        some = F.count_if((record.is_news | record.is_undone) & value.isNotNull()) > 0
        return some & self._sum(value, record).isNull()

    def from_records(self, value: Column, record: Record) -> Column:
        """The aggregate that makes one piece of knowledge of a visit's records, in the order that they were written."""
        there = record.is_news & value.isNotNull()
        match self.rule:
            case "keep":
                return F.min_by(value, F.when(there, record.offset))
            case "overwrite":
                return F.max_by(value, F.when(there, record.offset))
            case "sum":
                return self._sum(value, record)
            case "min":
                return F.min(F.when(there, value))
            case "max":
                return F.max(F.when(there, value))
        values = _in_order(value, there, record.offset)
        if self.rule == "append":
            return F.when(F.size(values) > 0, F.flatten(values))
        function = self._function()
        others = F.slice(values, 2, F.greatest(F.size(values), F.lit(1)))
        return F.reduce(others, F.get(values, F.lit(0)), lambda older, newer: self._step(function, older, newer))

    def _sum(self, value: Column, record: Record) -> Column:
        counted = F.when(record.is_news, value).when(record.is_undone, -value)
        if not pa.types.is_floating(self.type):
            return F.try_sum(counted).try_cast(self.spark_type)
        # The order in which Spark adds is not fixed, and with floating point it shows.
        values = _in_order(counted, counted.isNotNull(), record.offset)
        total = F.reduce(values, F.lit(0.0).cast(self.spark_type), lambda one, other: one + other)
        return F.when(F.size(values) > 0, total)

    def _step(self, function: Callable[[Column, Column], Column], older: Column, newer: Column) -> Column:
        return function(older, newer).cast(self.spark_type)

    def _function(self) -> Callable[[Column, Column], Column]:
        assert callable(self.rule), f"'{self.rule}' is none of the rules"
        return self.rule


def _in_order(value: Column, there: Column, offset: Column) -> Column:
    """The values of a visit's records, as an array in the order of the records."""
    placed = F.struct(offset.alias("offset"), value.alias("value"))
    return F.transform(F.array_sort(F.collect_list(F.when(there, placed))), lambda entry: entry["value"])
