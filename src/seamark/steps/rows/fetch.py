"""Reading rows for steps: small ones into memory, often without a Spark job; large ones as Spark frames."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BlockEntry
from seamark.ledger import Op
from seamark.spark.causes import SPARK_ERRORS
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

Reading: TypeAlias = tuple[TableSource, Scope, int | None, Sequence[str] | None]
"""A table, a scope, the record up to which its rows are read, and the columns wanted; None is all of them."""

_WHOSE = "its reading"  # no column of a table has a space in its name


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
    return read_for_all([(source, scope, upto, columns)])[0]


def read_for_all(readings: Sequence[Reading]) -> list[CheckedFrame]:
    """The rows of several scopes, each as `read_for` gives them, with one Spark job for all that it must bring here."""
    frames: dict[int, CheckedFrame] = {}
    asked: dict[int, _Asked] = {}
    for place, (source, scope, upto, columns) in enumerate(readings):
        needed = source.schema.names if columns is None else {*columns, *scope.columns, *source.schema.key}
        names = [name for name in source.schema.names if name in needed]
        found = _without_a_job(snapshot_at(source, upto), scope, names)
        if isinstance(found, _Asked):
            asked[place] = found
        else:
            frames[place] = found
    together = _collected_together(list(asked.values())) if len(asked) > 1 else None
    for number, (place, one) in enumerate(asked.items()):
        rows = together[number] if together is not None else one.collected()
        frames[place] = one.finished(rows) if rows is not None else one.in_spark()
    return [frames[place] for place in range(len(readings))]


def _without_a_job(snapshot: Snapshot, scope: Scope, names: Sequence[str]) -> CheckedFrame | _Asked:
    """The rows, in memory or as a frame, or what Spark must be asked for because they may be few."""
    if isinstance(scope, KeyFrame):
        return _spark_rows(snapshot, scope, names)
    values = scope.values if isinstance(scope, KeyValues) and scope.columns else None
    few = read_few(snapshot, values, names)
    if few is not None:
        return LocalFrame(few if values is not None else filter_rows(scope, few))
    may_be_few = values is not None or fits_on_driver(snapshot.rows_at_most())
    return _asked(snapshot, scope, names) if may_be_few else _spark_rows(snapshot, scope, names)


def _spark_rows(snapshot: Snapshot, scope: Scope, names: Sequence[str]) -> SparkFrame:
    images = images_of(snapshot, scope.choice(snapshot.source))
    return SparkFrame(images.select(OFFSET, *[quoted(name) for name in names]))


# --- from Spark to the driver -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """Rows of a scope that Spark brings to the driver if they are small.

    Where the tail can be read without Spark, these are the rows of the base, to which its `tail` is added.
    """

    snapshot: Snapshot
    scope: LocalScope
    schema: pa.Schema
    frame: DataFrame
    rows_at_most: int
    tail: pa.Table | None

    def collected(self) -> pa.Table | None:
        """The rows of the frame; None if they are too large."""
        with _named(self.snapshot.source):
            return collect_small(self.frame, self.columns, self.rows_at_most)

    def finished(self, rows: pa.Table) -> LocalFrame:
        """The rows of the scope, from those of the frame."""
        rows = rows.cast(self.schema)
        if self.tail is not None:
            rows = with_tail(self.snapshot.source, rows, self.tail, lambda live: filter_rows(self.scope, live))
        return LocalFrame(rows)

    def in_spark(self) -> SparkFrame:
        """The rows of the scope, left to Spark."""
        return _spark_rows(self.snapshot, self.scope, self.schema.names[1:])

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of the frame with their types."""
        return {field.name: field.type for field in self.schema}


def _asked(snapshot: Snapshot, scope: LocalScope, names: Sequence[str]) -> _Asked:
    source, base, schema = snapshot.source, snapshot.base, row_schema(snapshot.source, names)
    rows_at_most = snapshot.rows_at_most(_key_count(source, scope))
    with _named(source):
        records = None if base is None else read_small(source, snapshot.tail, ["offset", "op", *names])
        if base is None or records is None:
            return _Asked(snapshot, scope, schema, _spark_rows(snapshot, scope, names).frame, rows_at_most, None)
        chosen = scope.choice(source).of(read_base(source, base)).select(*map(quoted, schema.names))
        return _Asked(snapshot, scope, schema, chosen, min(rows_at_most, base.row_count), records)


def _named(source: TableSource) -> AbstractContextManager[None]:
    """Errors of Spark as ones that name the table."""
    hint = f"`seamark verify {source.name}` says whether a file is missing or damaged."
    return spark_errors_explained(source, "read rows", hint)


def _collected_together(asked: Sequence[_Asked]) -> list[pa.Table] | None:
    """The rows of each frame, from one job over all of them.

    None if they are too large together, or if it fails: then each is asked for by itself, and an error names its table.
    """
    frames, columns = [], {_WHOSE: pa.int32()}
    for number, one in enumerate(asked):
        mine = [F.col(quoted(name)).alias(f"{number} {name}") for name in one.columns]
        frames.append(one.frame.select(F.lit(number).alias(_WHOSE), *mine))
        columns |= {f"{number} {name}": kind for name, kind in one.columns.items()}
    union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    try:
        found = collect_small(union, columns, sum(one.rows_at_most for one in asked))
    except SPARK_ERRORS:
        return None
    if found is None:
        return None
    whose = found.column(_WHOSE)
    return [
        found.filter(pc.equal(whose, number))
        .select([f"{number} {name}" for name in one.columns])
        .rename_columns(list(one.columns))
        for number, one in enumerate(asked)
    ]


def _key_count(source: TableSource, scope: LocalScope) -> int | None:
    """How many keys of the table a scope lists, each with one row at most; None if it does not list whole keys."""
    if not isinstance(scope, KeyValues) or not source.schema.key or set(scope.columns) != set(source.schema.key):
        return None
    return int(scope.values.num_rows)


def small_last_images(source: TableSource, blocks: Sequence[BlockEntry]) -> pa.Table | None:
    """Of each key that blocks touch, its last record, retracted or not: `offset`, `op` and the columns.

    None if the records are too large for the driver.
    """
    records = read_records(source, blocks)
    if records is None:
        return None
    records = records.filter(pc.not_equal(records.column("op"), int(Op.CORRECT_FROM)))
    return newest_of_each(records, source.schema.key)
