"""Standing rows, beside the visits that they are about."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.diffs.declare.spec import DiffSpec
from seamark.tables.frame import CheckedFrame, quoted
from seamark.tables.read.choice import all_of
from seamark.tables.read.source import TableSource


def as_frame(source: TableSource, rows: CheckedFrame) -> DataFrame:
    """Rows of a table as a frame of its columns."""
    return rows.select(source.schema.names).to_spark(source.context.session, source.schema.spark())


def beside(
    spec: DiffSpec, visits: DataFrame, source: TableSource, rows: DataFrame, name: Callable[[str], str], *, few: bool
) -> DataFrame:
    """The visits with a table's rows about them, whose columns are renamed; NULL where there is none."""
    theirs = rows.select(*[F.col(quoted(column)).alias(name(column)) for column in source.schema.names])
    same = [visits[quoted(column)] == theirs[quoted(name(column))] for column in spec.key_names]
    # Spark judges a file by its size on disk, and would send large rows that repeat to every task.
    return visits.join(F.broadcast(theirs) if few else theirs.hint("merge"), all_of(same), "left")
