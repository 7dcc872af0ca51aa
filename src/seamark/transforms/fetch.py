"""Reading for steps: what is small comes to the driver, often without a Spark job; what is large stays with Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from seamark.control import BlockEntry
from seamark.errors import ComputeFailed, ObjectMissing
from seamark.ledger import Op
from seamark.tables.change import spark_errors_explained
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read import (
    EVERYTHING,
    KeyChoice,
    TableSource,
    count_records,
    count_versions,
    newest_base,
    read_images,
    read_slices,
    read_versions,
)
from seamark.tables.stage import SMALL_RECORDS

OFFSET = "_offset"  # a row's hidden column: the record that made it


def read_interval(source: TableSource, blocks: Sequence[BlockEntry], columns: Sequence[str]) -> CheckedFrame:
    """The `offset` and some columns of all records of these blocks: both images of every change.

    Up to a number of records they are read on the driver, from the files themselves: no Spark job.
    """
    if count_records(blocks) > SMALL_RECORDS:
        names = [F.col(quoted(name)) for name in columns]
        return SparkFrame(read_slices(source, blocks).select(F.col("offset"), *names))
    return LocalFrame(_local_records(source, blocks, ["offset", *columns]))


def read_records(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table:
    """All columns of a few records, on the driver: `offset`, `op` and the table's."""
    return _local_records(source, blocks, ["offset", "op", *source.schema.names])


def _local_records(source: TableSource, blocks: Sequence[BlockEntry], columns: Sequence[str]) -> pa.Table:
    wanted = pa.schema([_field(source, name) for name in columns])
    pieces = [_read_slice(source, block, wanted) for block in blocks]
    return pa.concat_tables(pieces) if pieces else wanted.empty_table()


def _field(source: TableSource, name: str) -> pa.Field:
    if name == "offset":
        return pa.field(name, pa.int64())
    if name == "op":
        return pa.field(name, pa.int32())
    return pa.field(name, source.schema.column(name).type)


def _read_slice(source: TableSource, block: BlockEntry, wanted: pa.Schema) -> pa.Table:
    data = source.context.files(source.name).data
    path = data.path(block.slice_hash or "")
    try:
        with pq.ParquetFile(path) as file:
            there = set(file.schema_arrow.names)
            found = file.read(columns=[name for name in wanted.names if name in there])
    except FileNotFoundError:
        raise ObjectMissing("data", block.slice_hash or "", str(data.folder)) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise ComputeFailed(
            f"table '{source.name}': the slice {block.slice_hash} cannot be read: {error}. Nothing was written.",
            hint=f"`seamark verify {source.name}` tells whether it is damaged.",
        ) from error
    # A column that the slice is too old to have is NULL in it.
    arrays = [
        found.column(field.name).cast(field.type) if field.name in there else pa.nulls(found.num_rows, field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


def read_for(
    source: TableSource, choice: KeyChoice, upto: int | None, *, few: bool, known: pa.Table | None = None
) -> CheckedFrame:
    """The chosen rows as they stood after the record `upto`, with their `_offset`: at hand if there are not too many.

    `few` says that the choice names few keys, so that it is worth trying. `known` are the rows for the same choice if
    somebody has read them already.
    """
    if known is not None:
        return LocalFrame(known)
    if upto is None:
        return LocalFrame(_hidden_schema(source).empty_table())
    whole = count_versions(source, upto=upto)
    if choice is EVERYTHING and whole > SMALL_RECORDS:
        return SparkFrame(read_images(source, upto=upto).drop("event_time"))
    if not few and whole > SMALL_RECORDS:
        return SparkFrame(read_images(source, upto=upto, choice=choice).drop("event_time"))
    hint = f"`seamark verify {source.name}` tells whether a file is missing or damaged."
    with spark_errors_explained(source, "read rows", hint):
        return _try_local(source, choice, upto, whole)


def _try_local(source: TableSource, choice: KeyChoice, upto: int, whole: int) -> CheckedFrame:
    schema = source.schema
    if choice is EVERYTHING and newest_base(source, upto) is None:
        blocks = source.context.control.index.slices(source.name, after=None, upto=upto)
        return LocalFrame(_last_words(source, _local_records(source, blocks, ["offset", "op", *schema.names])))
    if choice.is_by_key(schema):
        one_a_key = set(choice.columns) == set(schema.key) and bool(schema.key)
        versions = read_versions(source, upto=upto, choice=choice)
        if not one_a_key and whole > SMALL_RECORDS:
            versions = versions.limit(SMALL_RECORDS + 1)
        found = versions.toArrow()
        if found.num_rows <= SMALL_RECORDS or one_a_key:
            return LocalFrame(_last_words(source, found))
    else:
        images = read_images(source, upto=upto, choice=choice).drop("event_time")
        found = (images if whole <= SMALL_RECORDS else images.limit(SMALL_RECORDS + 1)).toArrow()
        if found.num_rows <= SMALL_RECORDS:
            return LocalFrame(found.select([OFFSET, *schema.names]).cast(_hidden_schema(source)))
    return SparkFrame(read_images(source, upto=upto, choice=choice).drop("event_time"))


def _hidden_schema(source: TableSource) -> pa.Schema:
    return pa.schema([pa.field(OFFSET, pa.int64()), *source.schema.arrow])


def _last_words(source: TableSource, versions: pa.Table) -> pa.Table:
    """The rows that stand, from versions (`offset`, `op`, columns) in any order."""
    schema = source.schema
    rows = versions.select(["offset", "op", *schema.names])
    if schema.key:
        rows = _newest_a_key(rows.filter(pc.not_equal(rows.column("op"), int(Op.CORRECT_FROM))), schema.key)
        rows = rows.filter(pc.not_equal(rows.column("op"), int(Op.RETRACT)))
    return rows.drop_columns(["op"]).rename_columns([OFFSET, *schema.names]).cast(_hidden_schema(source))


def _newest_a_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    if rows.num_rows < 2:
        return rows
    newest = rows.select(["offset", *key]).group_by(list(key)).aggregate([("offset", "max")])
    return rows.filter(pc.is_in(rows.column("offset"), value_set=newest.column("offset_max").combine_chunks()))


def last_images_at_hand(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table:
    """Of each key that a few blocks touch, its last record, retracted or not: `offset`, `op` and the columns."""
    records = read_records(source, blocks)
    records = records.filter(pc.not_equal(records.column("op"), int(Op.CORRECT_FROM)))
    return _newest_a_key(records, source.schema.key)
