"""Reading rows for steps: small ones into memory, often without a Spark job; large ones as Spark frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BlockEntry
from seamark.ledger import Op
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, filter_rows
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.tables.read.few_rows import newest_of_each, read_few, with_tail
from seamark.tables.read.in_process import OFFSET as OFFSET
from seamark.tables.read.in_process import row_schema
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.records import read_slices
from seamark.tables.read.rows import images_of, read_base
from seamark.tables.read.snapshot import Snapshot, snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import collect_small
from seamark.tables.small import fits_on_driver
from seamark.tables.write.change import spark_errors_explained

LocalScope: TypeAlias = KeyValues | KeyRange | AllKeys
"""The scopes that say by themselves which rows belong to them."""


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
    """The rows of a scope after the record `upto`, with their `_offset`: in memory if small.

    With `columns`, only these, the key and the columns of the scope.
    """
    needed = source.schema.names if columns is None else {*columns, *scope.columns, *source.schema.key}
    names = [name for name in source.schema.names if name in needed]
    snapshot = snapshot_at(source, upto)
    if isinstance(scope, KeyFrame):
        return _spark_rows(snapshot, scope, names)
    values = scope.values if isinstance(scope, KeyValues) and scope.columns else None
    few = read_few(snapshot, values, names)
    if few is not None:
        return LocalFrame(few if values is not None else filter_rows(scope, few))
    may_be_few = values is not None or fits_on_driver(snapshot.rows_at_most())
    found = _collected_rows(snapshot, scope, names) if may_be_few else None
    return found if found is not None else _spark_rows(snapshot, scope, names)


def _spark_rows(snapshot: Snapshot, scope: Scope, names: Sequence[str]) -> SparkFrame:
    images = images_of(snapshot, scope.choice(snapshot.source))
    return SparkFrame(images.select(OFFSET, *[quoted(name) for name in names]))


def _collected_rows(snapshot: Snapshot, scope: LocalScope, names: Sequence[str]) -> LocalFrame | None:
    """The rows of a scope, collected from Spark; only those of the base if the tail can be read without it.

    None if they are too large.
    """
    source, base, schema = snapshot.source, snapshot.base, row_schema(snapshot.source, names)
    rows_at_most = snapshot.rows_at_most(_key_count(source, scope))
    hint = f"`seamark verify {source.name}` says whether a file is missing or damaged."
    with spark_errors_explained(source, "read rows", hint):
        records = None if base is None else read_small(source, snapshot.tail, ["offset", "op", *names])
        if base is None or records is None:
            return _collected(_spark_rows(snapshot, scope, names).frame, schema, rows_at_most)
        chosen = scope.choice(source).of(read_base(source, base))
        folded = _collected(chosen, schema, min(rows_at_most, base.row_count))
    if folded is None:
        return None
    return LocalFrame(with_tail(source, folded.rows, records, lambda live: filter_rows(scope, live)))


def _key_count(source: TableSource, scope: LocalScope) -> int | None:
    """How many keys of the table a scope lists, each with one row at most; None if it does not list whole keys."""
    if not isinstance(scope, KeyValues) or not source.schema.key or set(scope.columns) != set(source.schema.key):
        return None
    return int(scope.values.num_rows)


def _collected(frame: DataFrame, schema: pa.Schema, rows_at_most: int) -> LocalFrame | None:
    """The rows of a frame, brought to the driver if they are small."""
    found = collect_small(frame, {field.name: field.type for field in schema}, rows_at_most)
    return None if found is None else LocalFrame(found.cast(schema))


def small_last_images(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table | None:
    """Of each key that blocks touch, its last record, retracted or not: `offset`, `op` and the columns.

    None if the records are too large for the driver.
    """
    records = read_records(source, blocks)
    if records is None:
        return None
    records = records.filter(pc.not_equal(records.column("op"), int(Op.CORRECT_FROM)))
    return newest_of_each(records, source.schema.key)
