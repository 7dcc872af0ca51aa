"""Reading a table: its change records, and its rows as base and tail give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.control import BaseVersion, BlockEntry
from seamark.errors import NotACommit
from seamark.ledger import Op
from seamark.spark.frames import empty_frame, parquet_reader, spark_frame
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, quoted
from seamark.tables.frames import as_it_stands, refuse_nulls
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.to_driver import collect_small
from seamark.tables.row_bytes import fixed_width
from seamark.tables.schema.ddl import UTC_MICROS
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.schema.types import spark_type, stored_type
from seamark.tables.small import fits_on_driver

# Up to this many keys are written into the query, where file statistics and page indexes skip the rest; up to the
# other they are sent to every task; more are left to Spark to join as it sees fit.
LITERAL_KEYS = 100
LITERAL_BYTES = 1 << 20
LITERAL_NUMBERS = 1_000  # whole numbers go as one text, which costs a fraction of as many values handed over one by one
BROADCAST_KEYS = 200_000


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table to read from."""

    context: TableContext
    name: str
    schema: TableSchema

    @property
    def base_folder(self) -> str:
        """Where the base lies."""
        return str(self.context.warehouse / self.name / "rows")


# --- change records ---------------------------------------------------------------------------------------------------


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
    """The records of these blocks, in no order; columns that a slice is too old to have are NULL."""
    session = source.context.session()
    stored = source.schema.spark_slice()
    if not blocks:
        records = empty_frame(session, stored)
    else:
        data = source.context.files(source.name).data
        folder = as_it_stands(str(data.folder))
        paths = [f"{folder}/{block.slice_hash}" for block in blocks if block.slice_hash is not None]
        records = parquet_reader(session, stored).parquet(*paths)
    other = [c for c in source.schema.columns if stored_type(c.type) != c.type]
    narrowed = {c.name: spark_type(c.type, nullable=True) for c in other}
    if not narrowed:
        return records
    return records.select(
        *[F.col(quoted(n)).cast(narrowed[n]).alias(n) if n in narrowed else F.col(quoted(n)) for n in records.columns]
    )


# --- which rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyChoice:
    """The rows to read: those for which a predicate holds and, if there is a frame of values, whose columns are in it.

    `columns` are the table's columns that both look at. Values are compared NULL-safely where `null_safe` says so.
    """

    columns: tuple[str, ...] = ()
    predicate: Column | None = None
    keys: DataFrame | None = None
    null_safe: bool = False

    def of(self, frame: DataFrame) -> DataFrame:
        """The chosen rows of a frame."""
        return self.matched(self.narrowed(frame))

    def narrowed(self, frame: DataFrame) -> DataFrame:
        """The rows that can be told without looking at the keys one by one: this reaches down to the files."""
        return frame if self.predicate is None else frame.where(self.predicate)

    def matched(self, frame: DataFrame) -> DataFrame:
        """Of narrowed rows, those that were chosen."""
        if self.keys is None:
            return frame
        if not self.null_safe:
            return frame.join(self.keys, list(self.columns), "left_semi")
        wanted = self.keys.select(*[F.col(quoted(name)).alias(f"its {name}") for name in self.columns])
        same = [frame[quoted(name)].eqNullSafe(wanted[quoted(f"its {name}")]) for name in self.columns]
        return frame.join(wanted, all_of(same), "left_semi")

    def is_by_key(self, schema: TableSchema) -> bool:
        """Whether all versions of a row are chosen or none, so that choosing may come before the last word is found.

        A row chosen by another column may have had another value there: its last word must be known first.
        """
        return not schema.key or set(self.columns) <= set(schema.key)


EVERYTHING = KeyChoice()


def choose_keys(source: TableSource, keys: CheckedFrame) -> KeyChoice:
    """The cheapest way to read the rows with these keys."""
    names, local = source.schema.key, keys.in_memory
    if local is not None:
        return choose_values(source, local.select(list(names)))
    columns, more = {name: source.schema.column(name).type for name in names}, LITERAL_KEYS + 1
    frame = keys.to_spark(source.context.session)
    few = collect_small(frame.limit(more), columns, more, most_rows=more)
    if few is not None:
        refuse_nulls(source.name, {name: few.column(name).null_count for name in names})
    if few is None or few.num_rows == more:
        return KeyChoice(names, keys=frame.distinct())
    return choose_values(source, few)


def choose_values(source: TableSource, values: pa.Table) -> KeyChoice:
    """The cheapest way to read the rows whose columns, those of the values, hold one of the given tuples."""
    source.context.session()  # expressions can only be built while Spark runs
    names = values.column_names
    distinct = values.group_by(names).aggregate([]).select(names)
    if 0 < distinct.num_rows <= LITERAL_NUMBERS and _is_one_number(distinct):
        numbers = ",".join(str(value) for value in distinct.column(0).to_pylist())
        return KeyChoice(tuple(names), F.expr(f"{quoted(names[0])} IN ({numbers})"))
    if distinct.num_rows <= LITERAL_KEYS and distinct.nbytes <= LITERAL_BYTES:
        return KeyChoice(tuple(names), _any_of(source, distinct))
    has_nulls = any(column.null_count for column in distinct.columns)
    types = {name: source.schema.column(name).type for name in names}
    frame = spark_frame(source.context.session(), distinct.cast(pa.schema(list(types.items()))))
    if distinct.num_rows <= BROADCAST_KEYS and fits_on_driver(0, distinct.nbytes):
        frame = F.broadcast(frame)
    return KeyChoice(tuple(names), None if has_nulls else _within(source, distinct), frame, has_nulls)


def _is_one_number(values: pa.Table) -> bool:
    return values.num_columns == 1 and pa.types.is_integer(values.column(0).type) and not values.column(0).null_count


def _any_of(source: TableSource, values: pa.Table) -> Column:
    names = values.column_names
    if values.num_rows == 0:
        return F.lit(False)
    if len(names) == 1 and values.column(0).null_count == 0:
        return F.col(quoted(names[0])).isin([literal(source, names[0], v) for v in values.column(0).to_pylist()])
    each = [all_of([_is(source, name, row[name]) for name in names]) for row in values.to_pylist()]
    return reduce(lambda one, other: one | other, each)


def _is(source: TableSource, name: str, value: Any) -> Column:
    return F.col(quoted(name)).isNull() if value is None else F.col(quoted(name)) == literal(source, name, value)


def all_of(conditions: Sequence[Column]) -> Column:
    """Whether all of some conditions hold; true if there is none."""
    return reduce(lambda one, other: one & other, conditions) if conditions else F.lit(True)


def _within(source: TableSource, keys: pa.Table) -> Column:
    """What files and pages can be skipped by: the least and the greatest value of each key column."""
    bounds = []
    for name in keys.column_names:
        values = keys.column(name)
        if pa.types.is_boolean(values.type) or pa.types.is_binary(values.type):
            continue
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            continue  # to Arrow NaN is neither the least nor the greatest, so the bounds would leave it out
        span = pc.min_max(values).as_py()
        low, high = literal(source, name, span["min"]), literal(source, name, span["max"])
        bounds.append(F.col(quoted(name)).between(low, high))
    return all_of(bounds)


def literal(source: TableSource, name: str, value: Any) -> Column:
    """A value of a column, as a query holds it."""
    return typed_literal(value, source.schema.column(name).type)


def typed_literal(value: Any, kind: pa.DataType) -> Column:
    """A value of a type, as a query holds it."""
    return F.lit(_text_of(value, kind) if isinstance(value, date) else value).cast(spark_type(kind))


def _text_of(value: date, kind: pa.DataType) -> str:
    """A day or moment as text: as an object it would pass through Java's calendar, another one before 1582.

    A moment says its zone, or Spark would take the text for one in the session's.
    """
    if kind != UTC_MICROS:
        return value.isoformat()
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


# --- rows -------------------------------------------------------------------------------------------------------------


def read_rows(source: TableSource, *, upto: int | None, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """The rows as they stood after the record `upto` (None: before the first), of the chosen keys."""
    images = read_images(source, upto=upto, choice=choice)
    return images.select(*[quoted(name) for name in source.schema.names])


def read_images(source: TableSource, *, upto: int | None, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """The same with the hidden columns `_offset`, the record that made the row, and `event_time`."""
    if upto is None:
        return _live(source, read_slices(source, []))
    early, late = (choice, EVERYTHING) if choice.is_by_key(source.schema) else (EVERYTHING, choice)
    base = newest_base(source, upto)
    after = base.last_offset if base else None
    blocks = source.context.control.index.slices(source.name, after=after, upto=upto)
    tail = last_images(source, blocks, early)
    if base is None:
        return late.of(_live(source, tail))
    standing = choice.of(read_base(source, base))
    if not blocks:
        return standing
    if source.schema.key:
        standing = _without(source, standing, tail, blocks)
    return standing.unionByName(late.of(_live(source, tail)))


def read_versions(source: TableSource, *, upto: int, choice: KeyChoice = EVERYTHING) -> DataFrame:
    """All that is known of the chosen keys, as `offset`, `op` and columns: the greatest offset has the last word.

    Nothing is resolved, so reading it is one Spark job; callers find the last word themselves. The choice must be by
    key columns.
    """
    names = [quoted(name) for name in source.schema.names]
    base = newest_base(source, upto)
    blocks = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    records = choice.narrowed(read_slices(source, blocks)).where(F.col("op") != int(Op.CORRECT_FROM))
    versions = records.select("offset", "op", *names)
    if base is not None:
        standing = choice.narrowed(read_base(source, base))
        folded = standing.select(F.col("_offset").alias("offset"), F.lit(int(Op.APPEND)).alias("op"), *names)
        versions = folded.unionByName(versions) if blocks else folded
    return choice.matched(versions)  # once, after the union: the keys are sent to the tasks once


def count_versions(source: TableSource, *, upto: int, keys: int | None = None) -> int:
    """How many rows `read_versions` of the whole table, or of so many keys, has at the most."""
    base = newest_base(source, upto)
    blocks = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    folded, records = base.row_count if base else 0, count_records(blocks)
    if keys is None:
        return folded + records
    commits = len({block.system_time for block in blocks})  # each has one version of a key, beside what it was before
    return min(folded, keys) + min(records, keys * commits)


def stored_bytes(source: TableSource, *, upto: int) -> int:
    """About how many bytes the rows at a record take in files, as far as what they are read from tells."""
    base = newest_base(source, upto)
    files = DeltaLog(Path(source.base_folder)).files(base.delta_version) if base else ()
    blocks = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    return sum(path.stat().st_size for path in files) + sum(block.slice_size or 0 for block in blocks)


def _without(source: TableSource, standing: DataFrame, tail: DataFrame, blocks: Sequence[BlockEntry]) -> DataFrame:
    touched = tail.select(*[quoted(name) for name in source.schema.key])
    return standing.join(
        F.broadcast(touched) if _few_keys(source, blocks) else touched, list(source.schema.key), "left_anti"
    )


def _few_keys(source: TableSource, blocks: Sequence[BlockEntry]) -> bool:
    """Whether the keys that some blocks touch may be sent to every task. Texts are judged by the files they lie in."""
    if count_records(blocks) > BROADCAST_KEYS:
        return False
    if all(fixed_width(source.schema.column(name).type) is not None for name in source.schema.key):
        return True
    return fits_on_driver(0, sum(block.slice_size or 0 for block in blocks))


def count_records(blocks: Sequence[BlockEntry]) -> int:
    """How many records these blocks hold."""
    return sum((block.last_offset or 0) - (block.first_offset or 0) + 1 for block in blocks)


def last_images(source: TableSource, blocks: Sequence[BlockEntry], choice: KeyChoice = EVERYTHING) -> DataFrame:
    """Of each key that these blocks touch, its last record; of an append-only table, all records."""
    key = source.schema.key
    records = choice.of(read_slices(source, blocks))
    if not key:
        return records
    # What a row was before is followed by what it is, so it is never the last word.
    records = records.where(F.col("op") != int(Op.CORRECT_FROM))
    if len({block.system_time for block in blocks}) <= 1:
        return records  # within one commit a key has one last record only
    others = [name for name in records.columns if name not in key]
    newest = F.max_by(F.struct(*[quoted(name) for name in others]), "offset").alias("its last")
    grouped = records.groupBy(*[quoted(name) for name in key]).agg(newest)
    return grouped.select(*[quoted(n) for n in key], *[F.col(f"`its last`.{quoted(n)}").alias(n) for n in others])


def live_images(source: TableSource, blocks: Sequence[BlockEntry]) -> DataFrame:
    """The rows that these blocks alone give, from the first record on, with their hidden columns; no base is read."""
    return _live(source, last_images(source, blocks))


def _live(source: TableSource, images: DataFrame) -> DataFrame:
    there = images.where(F.col("op") != int(Op.RETRACT))
    return there.select(F.col("offset").alias("_offset"), "event_time", *[quoted(n) for n in source.schema.names])


# --- the base ---------------------------------------------------------------------------------------------------------


def newest_base(source: TableSource, upto: int) -> BaseVersion | None:
    """The newest base that is true at or before a record, and that is really there."""
    for version in source.context.control.index.bases(source.name):
        if version.last_offset <= upto and base_exists(source, version.delta_version):
            return version
    return None


def base_exists(source: TableSource, delta_version: int) -> bool:
    """Whether a Delta version can still be read: somebody may have removed the folder."""
    return DeltaLog(Path(source.base_folder)).has(delta_version)


def read_base(source: TableSource, version: BaseVersion) -> DataFrame:
    """The rows of a base, from its files. Which these are Delta's log says: asking Delta itself costs a Spark job."""

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


# --- points in time ---------------------------------------------------------------------------------------------------


def check_as_of(source: TableSource, as_of: int, last_offset: int | None) -> int:
    """The offset, if it is the end of a commit; `NotACommit` naming what there is otherwise."""
    if last_offset is None or not 0 <= as_of <= last_offset:
        raise NotACommit(
            f"table '{source.name}' has no record {as_of}: its last offset is "
            f"{'none, it is empty' if last_offset is None else last_offset}.",
            hint=f"`seamark log {source.name}` lists the offsets of each commit.",
        )
    blocks = source.context.control.index.commit_holding(source.name, as_of)
    first, last = blocks[0].first_offset, blocks[-1].last_offset
    if as_of != last:
        raise NotACommit(
            f"table '{source.name}': record {as_of} is inside a commit that goes from {first} to {last}.",
            hint=f"a table stands only at the end of a commit: use {last}{f' or {first - 1}' if first else ''}.",
        )
    return as_of
