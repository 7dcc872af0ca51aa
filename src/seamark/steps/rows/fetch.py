"""Reading for steps: what is small comes to the driver, often without a Spark job; what is large stays with Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BaseVersion, BlockEntry
from seamark.ledger import Op
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, filter_rows
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.ordering import comparable
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.rows import TableSource, count_records, newest_base, read_base, read_images, read_slices
from seamark.tables.read.to_driver import collect_small
from seamark.tables.small import fits_on_driver
from seamark.tables.write.change import spark_errors_explained

OFFSET = "_offset"  # a row's hidden column: the record that made it


def read_interval(source: TableSource, blocks: Sequence[BlockEntry], columns: Sequence[str]) -> CheckedFrame:
    """The `offset` and some columns of all records of these blocks: both images of every change.

    Small ones are read on the driver, from the files themselves: no Spark job.
    """
    records = read_small(source, blocks, ["offset", *columns])
    if records is not None:
        return LocalFrame(records)
    names = [F.col(quoted(name)) for name in columns]
    return SparkFrame(read_slices(source, blocks).select(F.col("offset"), *names))


def read_records(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table | None:
    """All columns of some records, on the driver: `offset`, `op` and the table's; None if they are too large for it."""
    return read_small(source, blocks, ["offset", "op", *source.schema.names])


def read_for(source: TableSource, scope: Scope, upto: int | None, columns: Sequence[str] | None = None) -> CheckedFrame:
    """The rows of a scope as they stood after the record `upto`, with their `_offset`: on the driver if small.

    Where not all of their columns are needed, those that are, the key and the scope's own.
    """
    needed = source.schema.names if columns is None else {*columns, *scope.columns, *source.schema.key}
    names = [name for name in source.schema.names if name in needed]
    if upto is None:
        return LocalFrame(_hidden_schema(source, names).empty_table())
    base = newest_base(source, upto)
    tail = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    rows_at_most = (base.row_count if base else 0) + count_records(tail)
    may_be_few = isinstance(scope, KeyValues) or fits_on_driver(rows_at_most)
    if not may_be_few or isinstance(scope, KeyFrame):
        return _in_spark(source, scope, upto, names)
    if isinstance(scope, KeyValues) and _is_by_whole_key(source, scope):
        rows_at_most = min(rows_at_most, scope.values.num_rows)
    hint = f"`seamark verify {source.name}` tells whether a file is missing or damaged."
    with spark_errors_explained(source, "read rows", hint):
        records = read_small(source, tail, ["offset", "op", *names])
        if records is not None:
            found = _with_tail(source, scope, base, records, rows_at_most)
        else:
            in_spark = _in_spark(source, scope, upto, names).frame
            found = _collected(in_spark, _hidden_schema(source, names), rows_at_most)
    return found if found is not None else _in_spark(source, scope, upto, names)


def _is_by_whole_key(source: TableSource, scope: KeyValues) -> bool:
    """Whether a table has at most one row for each key of a scope."""
    return bool(source.schema.key) and set(scope.columns) == set(source.schema.key)


def _in_spark(source: TableSource, scope: Scope, upto: int, names: Sequence[str]) -> SparkFrame:
    images = read_images(source, upto=upto, choice=scope.choice(source))
    return SparkFrame(images.select(OFFSET, *[quoted(name) for name in names]))


def _with_tail(
    source: TableSource,
    scope: KeyValues | KeyRange | AllKeys,
    base: BaseVersion | None,
    records: pa.Table,
    rows_at_most: int,
) -> LocalFrame | None:
    """The rows of a scope, the records of the tail being here already, so that Spark is asked for the base only.

    None if they are too large.
    """
    rows = filter_rows(scope, _last_words(source, records))
    if base is None:
        return LocalFrame(rows)
    chosen = scope.choice(source).of(read_base(source, base))
    folded = _collected(chosen, rows.schema, min(rows_at_most, base.row_count))
    if folded is None:
        return None
    key, standing = list(source.schema.key), folded.rows
    if key and records.num_rows:
        touched = set(comparable(records.select(key)))
        stands = [found not in touched for found in comparable(standing.select(key))]
        standing = standing.filter(pa.array(stands, pa.bool_()))
    return LocalFrame(pa.concat_tables([standing, rows]))


def _collected(frame: DataFrame, schema: pa.Schema, rows_at_most: int) -> LocalFrame | None:
    """The rows of a frame, brought to the driver if they are small."""
    found = collect_small(frame, {field.name: field.type for field in schema}, rows_at_most)
    return None if found is None else LocalFrame(found.cast(schema))


def _hidden_schema(source: TableSource, names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(OFFSET, pa.int64()), *[source.schema.arrow.field(name) for name in names]])


def _last_words(source: TableSource, versions: pa.Table) -> pa.Table:
    """The rows that stand, from versions (`offset`, `op`, columns) in any order."""
    key, rows = source.schema.key, versions
    if key:
        rows = _newest_a_key(rows.filter(pc.not_equal(rows.column("op"), int(Op.CORRECT_FROM))), key)
        rows = rows.filter(pc.not_equal(rows.column("op"), int(Op.RETRACT)))
    rows = rows.drop_columns(["op"])
    names = rows.column_names[1:]
    return rows.rename_columns([OFFSET, *names]).cast(_hidden_schema(source, names))


def _newest_a_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    if rows.num_rows < 2:
        return rows
    # Arrow names what it makes after what it is made of, and that may be the name of a column, too: so by numbers.
    numbered = rows.select(["offset", *key]).rename_columns([str(place) for place in range(len(key) + 1)])
    newest = numbered.group_by(numbered.column_names[1:]).aggregate([("0", "max")]).column("0_max")
    return rows.filter(pc.is_in(rows.column("offset"), value_set=newest.combine_chunks()))


def small_last_images(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table | None:
    """Of each key that blocks touch, its last record, retracted or not: `offset`, `op` and the columns.

    None if the records are too large for the driver.
    """
    records = read_records(source, blocks)
    if records is None:
        return None
    records = records.filter(pc.not_equal(records.column("op"), int(Op.CORRECT_FROM)))
    return _newest_a_key(records, source.schema.key)
