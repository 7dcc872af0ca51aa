"""Rows with known columns, in memory or yet to be computed by Spark, behind one interface.

Code that passes rows on, selects, joins or counts them need not know which they are. Where there is a quicker way for
rows in memory, `in_memory` gives them, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamark.spark.frames import arrow_rows, spark_frame
from seamark.tables.ordering import comparable, distinct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Session: TypeAlias = Callable[[], "SparkSession"]
"""Gives the session, starting Spark if nobody has."""
Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Columns of two frames that are compared: mine, theirs."""


class CheckedFrame(ABC):
    """Rows whose columns have the types of a table, in memory or in Spark."""

    __slots__ = ()

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    @property
    @abstractmethod
    def in_memory(self) -> pa.Table | None:
        """The rows, if they are in memory; None if Spark has yet to compute them."""

    @property
    def is_known_empty(self) -> bool:
        """Whether it is known without a Spark job that there is no row."""
        return self.in_memory is not None and self.in_memory.num_rows == 0

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no row; Spark may have to look for one."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are; Spark may have to count."""

    @abstractmethod
    def select(self, names: Sequence[str]) -> CheckedFrame:
        """Some of the columns, in this order."""

    @abstractmethod
    def distinct(self) -> CheckedFrame:
        """Each row once."""

    @abstractmethod
    def first(self, most: int) -> CheckedFrame:
        """Some of the rows, at most so many; all where there are no more."""

    @abstractmethod
    def where_null(self, name: str, *, is_null: bool = True) -> CheckedFrame:
        """The rows that have no value in a column; or have one, unless `is_null`."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> CheckedFrame:
        """The same with other names for some columns, from the old name to the new one."""

    @abstractmethod
    def to_spark(self, session: Session, schema: StructType | None = None) -> DataFrame:
        """The rows as a Spark frame; those that are in memory with the given types, or those that they have."""

    @abstractmethod
    def to_arrow(self, schema: pa.Schema | None = None) -> pa.Table:
        """The rows in memory, in the given types or those that they have: for rows that are known to be few."""

    def drop(self, name: str) -> CheckedFrame:
        """The same without a column, whether it is there or not."""
        return self.select([own for own in self.names if own != name]) if name in self.names else self

    def semi_join(self, others: CheckedFrame, on: Pairs, session: Session, *, null_safe: bool = True) -> CheckedFrame:
        """The rows that one of the others equals in all pairs of columns. NULL equals NULL only if `null_safe`."""
        return _joined(self, others, on, session, null_safe=null_safe, keep=True)

    def anti_join(self, others: CheckedFrame, on: Pairs, session: Session, *, null_safe: bool = True) -> CheckedFrame:
        """The rows that none of the others equals in all pairs of columns."""
        return self if others.is_known_empty else _joined(self, others, on, session, null_safe=null_safe, keep=False)


@dataclass(frozen=True, slots=True)
class LocalFrame(CheckedFrame):
    """Rows in memory."""

    rows: pa.Table

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows.column_names)

    @property
    def in_memory(self) -> pa.Table:
        """The rows."""
        return self.rows

    def is_empty(self) -> bool:
        """Whether there is no row."""
        return self.rows.num_rows == 0

    def count(self) -> int:
        """How many rows there are."""
        return int(self.rows.num_rows)

    def select(self, names: Sequence[str]) -> LocalFrame:
        """Some of the columns, in this order."""
        return LocalFrame(self.rows.select(list(names)))

    def distinct(self) -> LocalFrame:
        """Each row once."""
        return LocalFrame(distinct(self.rows))

    def first(self, most: int) -> LocalFrame:
        """The first rows, at most so many."""
        return LocalFrame(self.rows.slice(0, most))

    def where_null(self, name: str, *, is_null: bool = True) -> LocalFrame:
        """The rows that have no value in a column; or have one, unless `is_null`."""
        column = self.rows.column(name)
        return LocalFrame(self.rows.filter(column.is_null() if is_null else column.is_valid()))

    def renamed(self, names: Mapping[str, str]) -> LocalFrame:
        """The same with other names for some columns."""
        return LocalFrame(self.rows.rename_columns([names.get(own, own) for own in self.names]))

    def to_spark(self, session: Session, schema: StructType | None = None) -> DataFrame:
        """The rows as a Spark frame, with the given types or those that they have."""
        return spark_frame(session(), self.rows, schema)

    def to_arrow(self, schema: pa.Schema | None = None) -> pa.Table:
        """The rows, in the given types or those that they have."""
        return self.rows if schema is None else self.rows.select(schema.names).cast(schema)


@dataclass(frozen=True, slots=True)
class SparkFrame(CheckedFrame):
    """Rows that Spark will compute, as often as somebody asks for them."""

    frame: DataFrame

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def in_memory(self) -> None:
        """None: the rows are not in memory."""
        return

    def is_empty(self) -> bool:
        """Whether there is no row: a Spark job."""
        return self.frame.isEmpty()

    def count(self) -> int:
        """How many rows there are: a Spark job."""
        return self.frame.count()

    def select(self, names: Sequence[str]) -> SparkFrame:
        """Some of the columns, in this order."""
        return SparkFrame(self.frame.select(*map(quoted, names)))

    def distinct(self) -> SparkFrame:
        """Each row once."""
        return SparkFrame(self.frame.distinct())

    def first(self, most: int) -> SparkFrame:
        """Some of the rows, at most so many."""
        return SparkFrame(self.frame.limit(most))

    def where_null(self, name: str, *, is_null: bool = True) -> SparkFrame:
        """The rows that have no value in a column; or have one, unless `is_null`. NaN is a value."""
        column = self.frame[quoted(name)]
        return SparkFrame(self.frame.where(column.isNull() if is_null else column.isNotNull()))

    def renamed(self, names: Mapping[str, str]) -> SparkFrame:
        """The same with other names for some columns."""
        return SparkFrame(self.frame.withColumnsRenamed(dict(names)))

    def to_spark(self, session: Session, schema: StructType | None = None) -> DataFrame:
        """The frame itself."""
        return self.frame

    def to_arrow(self, schema: pa.Schema | None = None) -> pa.Table:
        """The rows, computed and brought into memory: a Spark job."""
        found = arrow_rows(self.frame)
        return found if schema is None else found.select(schema.names).cast(schema)


def union_of(frames: Sequence[CheckedFrame], session: Session) -> CheckedFrame:
    """The rows of several frames with the same columns: in memory if all of them are."""
    local = [rows for frame in frames if (rows := frame.in_memory) is not None]
    if len(local) == len(frames):
        return LocalFrame(_concatenated(local))
    from pyspark.sql import DataFrame

    names = list(map(quoted, frames[0].names))
    return SparkFrame(reduce(DataFrame.unionByName, [frame.to_spark(session).select(*names) for frame in frames]))


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    if not tables[0].column_names:  # pyarrow loses the number of rows where it joins tables without columns
        return max(tables, key=lambda table: table.num_rows)
    # Whether a column may hold NULL is not the same in every table, and does not matter here.
    schema = pa.schema([field.with_nullable(True) for field in tables[0].schema])
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


def _joined(
    rows: CheckedFrame, others: CheckedFrame, on: Pairs, session: Session, *, null_safe: bool, keep: bool
) -> CheckedFrame:
    mine, theirs = rows.in_memory, others.in_memory
    if mine is not None and theirs is not None:
        return LocalFrame(mine.filter(_matches(mine, theirs, on, null_safe=null_safe, keep=keep)))
    one, other = rows.to_spark(session), others.to_spark(session)
    # Under names of their own: both sides may come from one table, and then Spark could not tell their columns apart.
    wanted = as_its(other, [t for _, t in on])
    same = same_values([(one[quoted(m)], wanted[quoted(its(t))]) for m, t in on], null_safe=null_safe)
    return SparkFrame(one.join(wanted, same, "left_semi" if keep else "left_anti"))


def same_values(pairs: Sequence[tuple[Column, Column]], *, null_safe: bool = True) -> Column:
    """Whether all pairs of columns hold equal values."""
    from pyspark.sql import functions as F

    each = [one.eqNullSafe(other) if null_safe else one == other for one, other in pairs]
    return reduce(lambda all_before, this: all_before & this, each) if each else F.lit(True)


def its(name: str) -> str:
    """The name of a column of the other side of a join; no column of a table has a space in its name."""
    return f"its {name}"


def as_its(other: DataFrame, names: Iterable[str]) -> DataFrame:
    """Some columns of the other side of a join, each once and under the name that `its` gives it."""
    return other.select(*[other[quoted(name)].alias(its(name)) for name in dict.fromkeys(names)])


def same_as_its(mine: DataFrame, theirs: DataFrame, names: Sequence[str]) -> Column:
    """Whether rows of both sides have the same values in some columns, NULL being one of them."""
    return same_values([(mine[quoted(name)], theirs[quoted(its(name))]) for name in names])


def _matches(mine: pa.Table, theirs: pa.Table, on: Pairs, *, null_safe: bool, keep: bool) -> pa.Array:
    """For each of my rows, whether it has the values of one of theirs; or has not, unless `keep`."""
    their_names = [name for _, name in on]
    if not null_safe and their_names:
        valid = reduce(pc.and_, [theirs.column(name).is_valid() for name in dict.fromkeys(their_names)])
        theirs = theirs.filter(valid)
    there = set(comparable(theirs.select(their_names)))
    found = comparable(mine.select([name for name, _ in on]))
    return pa.array([(key in there) is keep for key in found], pa.bool_())


def by_name(names: Sequence[str]) -> Pairs:
    """Pairs of columns that have the same name on both sides."""
    return [(name, name) for name in names]


def quoted(name: str) -> str:
    """A column's name as Spark reads it whatever signs it has."""
    return f"`{name.replace('`', '``')}`"
