"""Reading for steps: what is small comes to the driver, often without a Spark job; what is large stays with Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from seamark.control import BaseVersion, BlockEntry
from seamark.errors import ComputeFailed, ObjectMissing
from seamark.ledger import Op
from seamark.tables.change import spark_errors_explained
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read import TableSource, count_records, newest_base, read_base, read_images, read_slices
from seamark.tables.stage import SMALL_RECORDS
from seamark.transforms.keys import comparable
from seamark.transforms.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, filter_rows

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


def read_for(source: TableSource, scope: Scope, upto: int | None) -> CheckedFrame:
    """The rows of a scope as they stood after the record `upto`, with their `_offset`: at hand if they are few."""
    if upto is None:
        return LocalFrame(_hidden_schema(source).empty_table())
    base = newest_base(source, upto)
    tail = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    records, folded = count_records(tail), base.row_count if base else 0
    may_be_few = isinstance(scope, KeyValues) or folded + records <= SMALL_RECORDS
    if not may_be_few or isinstance(scope, KeyFrame):
        return _in_spark(source, scope, upto)
    hint = f"`seamark verify {source.name}` tells whether a file is missing or damaged."
    with spark_errors_explained(source, "read rows", hint):
        found = _at_hand(source, scope, base, tail) if records <= SMALL_RECORDS else _collected(source, scope, upto)
    return found if found is not None else _in_spark(source, scope, upto)


def _in_spark(source: TableSource, scope: Scope, upto: int) -> SparkFrame:
    return SparkFrame(read_images(source, upto=upto, choice=scope.choice(source)).drop("event_time"))


def _at_hand(
    source: TableSource, scope: KeyValues | KeyRange | AllKeys, base: BaseVersion | None, tail: Sequence[BlockEntry]
) -> LocalFrame | None:
    """The rows of a scope, the tail read from its files on the driver, so that Spark is asked for the base only.

    None if there are too many of them.
    """
    schema = source.schema
    records = _local_records(source, tail, ["offset", "op", *schema.names])
    rows = filter_rows(scope, _last_words(source, records))
    if base is None:
        return LocalFrame(rows)
    chosen = scope.choice(source).of(read_base(source, base)).drop("event_time")
    one_a_key = bool(schema.key) and set(scope.columns) == set(schema.key)
    if not one_a_key and base.row_count > SMALL_RECORDS:
        chosen = chosen.limit(SMALL_RECORDS + 1)
    folded = chosen.toArrow().select([OFFSET, *schema.names])
    if folded.num_rows > SMALL_RECORDS and not one_a_key:
        return None
    folded = folded.cast(_hidden_schema(source))
    if schema.key and records.num_rows:
        touched = set(comparable(records.select(list(schema.key))))
        stands = [key not in touched for key in comparable(folded.select(list(schema.key)))]
        folded = folded.filter(pa.array(stands, pa.bool_()))
    return LocalFrame(pa.concat_tables([folded, rows]))


def _collected(source: TableSource, scope: Scope, upto: int) -> LocalFrame | None:
    """The rows of a scope where the tail is long: found by Spark, then brought to the driver if they are few."""
    images = _in_spark(source, scope, upto).frame
    found = images.limit(SMALL_RECORDS + 1).toArrow()
    if found.num_rows > SMALL_RECORDS:
        return None
    return LocalFrame(found.select([OFFSET, *source.schema.names]).cast(_hidden_schema(source)))


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
