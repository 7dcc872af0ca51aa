"""Rows of a snapshot as Spark frames, from its base and its tail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BaseVersion, BlockEntry
from seamark.ledger import Op
from seamark.spark.frames import empty_frame, parquet_reader
from seamark.tables.frame import quoted
from seamark.tables.frames import as_it_stands
from seamark.tables.read.choice import BROADCAST_KEYS, EVERYTHING, KeyChoice
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.records import count_records, read_slices
from seamark.tables.read.snapshot import Snapshot, snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.row_bytes import fixed_width
from seamark.tables.schema.types import spark_type
from seamark.tables.small import fits_on_driver


def read_images(source: TableSource, *, upto: int | None, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """The rows after the record `upto` (None: before the first), of the chosen keys.

    With `_offset`, the record that made the row, and `event_time`.
    """
    return images_of(snapshot_at(source, upto), choice)


def rows_of(snapshot: Snapshot, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """The chosen rows of a snapshot, with the columns of its schema and no others."""
    return images_of(snapshot, choice).select(*[quoted(name) for name in snapshot.source.schema.names])


def images_of(snapshot: Snapshot, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """The chosen rows of a snapshot with `_offset` and `event_time`."""
    source = snapshot.source
    early, late = (choice, EVERYTHING) if choice.is_by_key(source.schema) else (EVERYTHING, choice)
    tail = last_images(source, snapshot.tail, early)
    if snapshot.base is None:
        return late.of(_live(source, tail))
    standing = choice.of(read_base(source, snapshot.base))
    if not snapshot.tail:
        return standing
    if source.schema.key:
        standing = _without(source, standing, tail, snapshot.tail)
    return standing.unionByName(late.of(_live(source, tail)))


def versions_of(snapshot: Snapshot, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """All versions of the chosen keys, as `offset`, `op` and columns; the one with the greatest offset is current.

    Finding the current one is left to the caller, so that this is one Spark job without a shuffle. The choice must be
    by key columns.
    """
    source = snapshot.source
    names = [quoted(name) for name in source.schema.names]
    records = choice.narrowed(read_slices(source, snapshot.tail)).where(F.col("op") != int(Op.CORRECT_FROM))
    versions = records.select("offset", "op", *names)
    if snapshot.base is not None:
        standing = choice.narrowed(read_base(source, snapshot.base))
        folded = standing.select(F.col("_offset").alias("offset"), F.lit(int(Op.APPEND)).alias("op"), *names)
        versions = folded.unionByName(versions) if snapshot.tail else folded
    return choice.matched(versions)  # after the union, so that the keys are sent to the tasks once


def _without(source: TableSource, standing: DataFrame, tail: DataFrame, blocks: Sequence[BlockEntry]) -> DataFrame:
    touched = tail.select(*[quoted(name) for name in source.schema.key])
    return standing.join(
        F.broadcast(touched) if _few_keys(source, blocks) else touched, list(source.schema.key), "left_anti"
    )


def _few_keys(source: TableSource, blocks: Sequence[BlockEntry]) -> bool:
    """Whether the keys that some blocks touch may be sent to every task. For texts the size of the slices decides."""
    if count_records(blocks) > BROADCAST_KEYS:
        return False
    if all(fixed_width(source.schema.column(name).type) is not None for name in source.schema.key):
        return True
    return fits_on_driver(0, sum(block.slice_size or 0 for block in blocks))


def last_images(source: TableSource, blocks: Sequence[BlockEntry], choice: KeyChoice = EVERYTHING) -> DataFrame:
    """Of each key that these blocks touch, its last record; of an append-only table, all records."""
    key = source.schema.key
    records = choice.of(read_slices(source, blocks))
    if not key:
        return records
    # An old image is always followed by the new one, so it is never a key's last record.
    records = records.where(F.col("op") != int(Op.CORRECT_FROM))
    if len({block.system_time for block in blocks}) <= 1:
        return records  # within one commit a key has one last record only
    others = [name for name in records.columns if name not in key]
    newest = F.max_by(F.struct(*[quoted(name) for name in others]), "offset").alias("its last")
    grouped = records.groupBy(*[quoted(name) for name in key]).agg(newest)
    return grouped.select(*[quoted(n) for n in key], *[F.col(f"`its last`.{quoted(n)}").alias(n) for n in others])


def live_images(source: TableSource, blocks: Sequence[BlockEntry]) -> DataFrame:
    """The rows that these blocks alone give, from the first record on, as `images_of` has them; no base is read."""
    return _live(source, last_images(source, blocks))


def _live(source: TableSource, images: DataFrame) -> DataFrame:
    there = images.where(F.col("op") != int(Op.RETRACT))
    return there.select(F.col("offset").alias("_offset"), "event_time", *[quoted(n) for n in source.schema.names])


def read_base(source: TableSource, version: BaseVersion) -> DataFrame:
    """The rows of a base, from its files. They are listed from Delta's log: asking Delta itself costs a Spark job."""

    def read() -> DataFrame:
        session, schema = source.context.session(), source.schema.spark_base()
        files = DeltaLog(Path(source.base_folder)).files(version.delta_version)
        if not files:
            return empty_frame(session, schema)
        return parquet_reader(session, schema).parquet(*[as_it_stands(str(path)) for path in files])

    base = source.context.cache.get(version, source.schema.names, read)
    return with_new_columns(source, base)


def with_new_columns(source: TableSource, base: DataFrame) -> DataFrame:
    """The base with columns that were added to the table after it was folded."""
    there = set(base.columns)
    own = [
        F.col(quoted(c.name)) if c.name in there else F.lit(None).cast(spark_type(c.type)).alias(c.name)
        for c in source.schema.columns
    ]
    return base.select("_offset", "event_time", *own)
