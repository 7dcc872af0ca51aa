"""Which keys a step has processed, and how far its inputs were read for each: the table `<step>__keys`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.steps.rows.keys import key_texts
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, its, quoted, same_as_its
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.transforms.keying import Keying, Read

KEY, READ_AT = "_key", "_read_at"


def keys_table_name(step: str) -> str:
    """The name of the table with a step's processed keys."""
    return f"{step}__keys"


def keys_schema(keys: Sequence[Column]) -> TableSchema:
    """A processed key: its text, its columns, and the last record read of each input, in order (-1: none)."""
    read_at = Column(READ_AT, pa.list_(pa.int64()), False)
    return TableSchema((Column(KEY, pa.string(), False), *keys, read_at), (KEY,))


def read_at_array(keying: Keying, read: Read) -> list[int]:
    """The last record read of each input, in order."""
    return [-1 if (offset := read[table]) is None else offset for table in keying.sources]


def processed_rows(
    keying: Keying, keys: CheckedFrame, failed: pa.Table | None, read: Read, keys_table: TableSource
) -> CheckedFrame:
    """The keys that a batch has computed, except those that failed, as rows of the table of processed keys."""
    at = read_at_array(keying, read)
    without = set(key_texts(failed)) if failed is not None and failed.num_rows else set()
    if keys.in_memory is not None:
        types = pa.schema([pa.field(name, keying.key_types[name]) for name in keying.keys])
        return LocalFrame(_rows(keys.to_arrow(types), without, at, keys_table.schema))
    return SparkFrame(_rows_in_spark(keys.to_spark(keying.context.session), without, at, keys_table.schema))


def _rows(keys: pa.Table, without: set[str], at: list[int], schema: TableSchema) -> pa.Table:
    texts = key_texts(keys)
    kept = pa.array([text not in without for text in texts], pa.bool_())
    arrays = [pa.array(texts, pa.string()), *keys.columns, pa.array([at] * keys.num_rows, pa.list_(pa.int64()))]
    return pa.Table.from_arrays(arrays, names=list(schema.names)).filter(kept).cast(schema.arrow)


def _rows_in_spark(keys: DataFrame, without: set[str], at: list[int], schema: TableSchema) -> DataFrame:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _rows(pa.Table.from_batches([batch]), without, at, schema).to_batches()

    return keys.mapInArrow(rows, schema.spark())


def unprocessed(keying: Keying, found: DataFrame, table: str, standing: DataFrame) -> DataFrame:
    """Of keys with the last record of an input that leads to each, those that were not read that far."""
    place = list(keying.sources).index(table)
    known = standing.select(
        *[F.col(quoted(name)).alias(its(name)) for name in keying.keys],
        F.element_at(READ_AT, place + 1).alias("its record"),
    )
    joined = found.join(known, same_as_its(found, known, keying.keys), "left")
    left = joined.where(F.col("`its record`").isNull() | (F.col("`its record`") < F.col("offset")))
    return left.select(*found.columns)
