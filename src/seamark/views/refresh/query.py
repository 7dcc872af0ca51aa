"""Running a query over frames: Spark gets the words as they are, and a frame where the name of a table stood."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from seamark.tables.frame import CheckedFrame, Session
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.schema.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Text = Callable[[Mapping[int, str]], str]
"""Writes a query, given the names of relations by the numbers of the sources that they stand for."""


def over_frames(
    session: Session,
    text: Text,
    frames: Mapping[int, CheckedFrame],
    words: str,
    schemas: Mapping[int, TableSchema] | None = None,
) -> DataFrame:
    """A query over frames, by the numbers of the sources that they stand for.

    `words` is what a person wrote of the query: the names that frames get are not among them. Rows in memory become
    frames of one partition, which are joined where they are: so a small query is one job, without exchanges. A query
    may name columns whose values nothing needs, such as one of a subquery that nobody selects: with `schemas` these
    are NULL where they were not read.
    """
    names = dict(zip(frames, _unused(words, frames), strict=True))
    written = text(names).replace("{", "{{").replace("}", "}}")  # what is in braces would be taken for a frame's name
    for name in names.values():
        written = written.replace(name, "{" + name + "}")
    given: dict[str, Any] = {
        names[number]: _relation(frame, session, (schemas or {}).get(number)) for number, frame in frames.items()
    }
    return session().sql(written, **given)


def _unused(words: str, numbers: Collection[int]) -> list[str]:
    prefix = "seamark_rows"
    while prefix in words.lower():
        prefix += "_"
    return [f"{prefix}_{number}_" for number in numbers]  # no name begins another


def _relation(rows: CheckedFrame, session: Session, schema: TableSchema | None) -> DataFrame:
    frame, there = rows.to_spark(session), set(rows.names)
    missing = [column for column in schema.columns if column.name not in there] if schema is not None else []
    if missing:
        nulls = [F.lit(None).cast(spark_type(column.type)).alias(column.name) for column in missing]
        frame = frame.select("*", *nulls)
    # Without the hint a small frame is broadcast, by a job of its own.
    return frame if rows.in_memory is None else frame.coalesce(1).hint("shuffle_hash")
