"""Change records of a table as Spark frames, read from its slices."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BlockEntry
from seamark.spark.frames import arrow_file_reader, empty_frame
from seamark.tables.frame import quoted
from seamark.tables.frames import as_it_stands
from seamark.tables.read.source import TableSource
from seamark.tables.schema.types import spark_type, stored_type


def read_changes(source: TableSource, *, after: int | None, upto: int | None) -> DataFrame:
    """The records with after < offset <= upto, in no order."""
    blocks = source.context.control.index.slices(source.name, after=after, upto=upto)
    records = read_slices(source, blocks)
    if after is not None and blocks and blocks[0].first_offset is not None and blocks[0].first_offset <= after:
        records = records.where(F.col("offset") > after)
    if upto is not None and blocks and blocks[-1].last_offset is not None and blocks[-1].last_offset > upto:
        records = records.where(F.col("offset") <= upto)
    return records


def read_slices(source: TableSource, blocks: Sequence[BlockEntry]) -> DataFrame:
    """The records of these blocks, in no order; columns added after a slice was written are NULL in it."""
    session = source.context.session()
    stored = source.schema.spark_slice()
    if not blocks:
        records = empty_frame(session, stored)
    else:
        data = source.context.files(source.name).data
        folder = as_it_stands(str(data.folder))
        paths = [f"{folder}/{block.slice_hash}" for block in blocks if block.slice_hash is not None]
        records = arrow_file_reader(session, stored).parquet(*paths)
    other = [c for c in source.schema.columns if stored_type(c.type) != c.type]
    narrowed = {c.name: spark_type(c.type, nullable=True) for c in other}
    if not narrowed:
        return records
    return records.select(
        *[F.col(quoted(n)).cast(narrowed[n]).alias(n) if n in narrowed else F.col(quoted(n)) for n in records.columns]
    )


def count_records(blocks: Sequence[BlockEntry]) -> int:
    """How many records these blocks hold."""
    return sum((block.last_offset or 0) - (block.first_offset or 0) + 1 for block in blocks)
