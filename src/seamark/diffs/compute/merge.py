"""How two pieces of knowledge about a visit become one, column by column: nothing but Spark expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.tables.schema.types import spark_name

Rule: TypeAlias = str | Callable[[Column, Column], Column]
"""The name of a rule, or a function of the older and the newer value, neither of which is NULL."""

RULES = ("keep", "overwrite", "sum", "min", "max", "append")
DEFAULT_RULE = "overwrite"

# What these rules have taken in cannot be taken out again, as the correction of a row in a keyed log would need it.
NEVER_UNDONE = ("min", "max", "append")


@dataclass(frozen=True)
class MergeColumn:
    """A column of a diff's state, and the rule by which an older and a newer value become one.

    A NULL is no news: where one side is NULL the other one is taken, whatever the rule.
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

    @property
    def has_sides(self) -> bool:
        """Whether it matters which of two values is the older one."""
        return self.rule not in ("sum", "min", "max")

    def undone(self, stands: Column, value: Column) -> Column:
        """What is known when a value that was counted before is taken back. Only out of a sum can it be taken."""
        if self.rule != "sum":
            return stands
        left = F.try_subtract(F.coalesce(stands, F.lit(0).cast(self.spark_type)), value).try_cast(self.spark_type)
        return F.when(value.isNull(), stands).otherwise(left)

    def _function(self) -> Callable[[Column, Column], Column]:
        assert callable(self.rule), f"'{self.rule}' is not one of the rules"
        return self.rule
