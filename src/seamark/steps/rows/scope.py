"""Scopes: which keys a batch computes, and the rows of any table that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.spark.frames import arrow_rows, spark_frame
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, as_its, quoted, same_as_its
from seamark.tables.ordering import comparable, sortable
from seamark.tables.read.choice import EVERYTHING, KeyChoice, all_of, choose_values, compared, literal
from seamark.tables.read.source import TableSource


@dataclass(frozen=True)
class AllKeys:
    """Every key there is."""

    columns: tuple[str, ...] = ()

    def choice(self, source: TableSource) -> KeyChoice:
        """How to read the rows of a table that belong to these keys."""
        return EVERYTHING

    def holds(self, keys: pa.Table) -> list[bool]:
        """For each of some keys, whether it belongs here."""
        return [True] * keys.num_rows


@dataclass(frozen=True)
class KeyRange:
    """The keys with after < key <= upto, in Spark's order; None is no bound."""

    columns: tuple[str, ...]
    after: tuple[Any, ...] | None
    upto: tuple[Any, ...] | None

    def choice(self, source: TableSource) -> KeyChoice:
        """How to read the rows of a table that belong to these keys."""
        source.context.session()  # expressions can only be built while Spark runs
        return KeyChoice(self.columns, self.predicate(source))

    def predicate(self, source: TableSource) -> Column:
        """Whether a row belongs to these keys. The bounds of the first column let whole files be skipped."""
        whole = F.struct(*[F.col(quoted(name)) for name in self.columns])
        parts = []
        if self.after is not None:
            parts.append(whole > self._struct(source, self.after))
            if self.after[0] is not None:
                column, [least] = compared(source, self.columns[0], [self.after[0]])
                parts.append(column >= least)
        if self.upto is not None:
            parts.append(whole <= self._struct(source, self.upto))
            if self.upto[0] is not None and self.after is not None and self.after[0] is not None:
                column, [most] = compared(source, self.columns[0], [self.upto[0]])
                parts.append(column <= most)
        return all_of(parts)

    def _struct(self, source: TableSource, values: tuple[Any, ...]) -> Column:
        fields = [literal(source, n, v).alias(n) for n, v in zip(self.columns, values, strict=True)]
        return F.struct(*fields)

    def holds(self, keys: pa.Table) -> list[bool]:
        """For each of some keys, whether it belongs here."""
        after = None if self.after is None else tuple(sortable(value) for value in self.after)
        upto = None if self.upto is None else tuple(sortable(value) for value in self.upto)
        found = comparable(keys.select(list(self.columns)))
        return [(after is None or key > after) and (upto is None or key <= upto) for key in found]


@dataclass(frozen=True)
class KeyValues:
    """Listed keys, few enough for memory; each once."""

    values: pa.Table

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the keys have."""
        return tuple(self.values.column_names)

    def choice(self, source: TableSource) -> KeyChoice:
        """How to read the rows of a table that belong to these keys."""
        source.context.session()
        return choose_values(source, self.values) if self.columns else EVERYTHING

    def holds(self, keys: pa.Table) -> list[bool]:
        """For each of some keys, whether it belongs here."""
        ours = set(comparable(self.values))
        return [key in ours for key in comparable(keys.select(list(self.columns)))]


@dataclass(frozen=True)
class KeyFrame:
    """Keys in a Spark frame, each once."""

    columns: tuple[str, ...]
    frame: DataFrame

    def choice(self, source: TableSource) -> KeyChoice:
        """How to read the rows of a table that belong to these keys."""
        return KeyChoice(self.columns, keys=self.frame, null_safe=True)


Scope: TypeAlias = AllKeys | KeyRange | KeyValues | KeyFrame


def rows_outside(scope: Scope, rows: DataFrame, source: TableSource) -> DataFrame:
    """The rows of a frame that do not belong to a scope."""
    if isinstance(scope, AllKeys):
        return rows.where(F.lit(False))
    choice = scope.choice(source)
    if choice.keys is None and choice.predicate is not None:
        return rows.where(~choice.predicate)
    if choice.keys is None:
        return rows.where(F.lit(False))
    wanted = as_its(choice.keys, choice.columns)
    return rows.join(wanted, same_as_its(rows, wanted, choice.columns), "left_anti")


def filter_rows(scope: Scope, rows: pa.Table) -> pa.Table:
    """Rows in memory that belong to a scope."""
    if isinstance(scope, AllKeys) or not scope.columns:
        return rows
    return rows.filter(pa.array(held_rows(scope, rows), pa.bool_()))


def rows_within(scope: Scope, source: TableSource, rows: CheckedFrame) -> CheckedFrame:
    """The rows of a table that belong to a scope."""
    if rows.in_memory is not None:
        return LocalFrame(filter_rows(scope, rows.in_memory))
    return SparkFrame(scope.choice(source).of(rows.to_spark(source.context.session)))


def held_rows(scope: Scope, rows: pa.Table) -> list[bool]:
    """For each row in memory, whether it belongs to a scope."""
    if isinstance(scope, KeyFrame):
        return key_frame_holds(scope, rows.select(list(scope.columns))) if rows.num_rows else []
    return scope.holds(rows)


def cut_into_ranges(columns: Sequence[str], bounds: Sequence[tuple[Any, ...]]) -> list[KeyRange | AllKeys]:
    """Ranges that cover all keys, cut after each of the bounds; without bounds it is one scope, all keys."""
    if not bounds:
        return [AllKeys(tuple(columns))]
    edges: list[tuple[Any, ...] | None] = [None, *bounds, None]
    return [KeyRange(tuple(columns), after, upto) for after, upto in pairwise(edges)]


def rest_of_ranges(ranges: Sequence[KeyRange | AllKeys], after: tuple[Any, ...]) -> list[KeyRange | AllKeys]:
    """The ranges that remain when all keys up to a bound are done."""
    done = tuple(sortable(value) for value in after)
    left: list[KeyRange | AllKeys] = []
    for scope in ranges:
        if isinstance(scope, AllKeys):
            left.append(KeyRange(scope.columns, after, None))
        elif scope.upto is None or tuple(sortable(v) for v in scope.upto) > done:
            begins = scope.after is not None and tuple(sortable(v) for v in scope.after) >= done
            left.append(scope if begins else KeyRange(scope.columns, after, scope.upto))
    return left


def key_frame_holds(scope: KeyFrame, keys: pa.Table) -> list[bool]:
    """For each of some keys, whether a frame of keys has it: a Spark job."""
    mine = spark_frame(scope.frame.sparkSession, keys)
    wanted = as_its(scope.frame, scope.columns)
    found = arrow_rows(mine.join(wanted, same_as_its(mine, wanted, scope.columns), "left_semi"))
    there = set(comparable(found.select(list(scope.columns)).cast(keys.schema)))
    return [key in there for key in comparable(keys)]
