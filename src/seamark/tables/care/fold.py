"""Folding: bringing the base, a Delta table sorted by key, up to the head."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seamark import faults
from seamark.config import RowSettings
from seamark.control import BaseVersion, BlockEntry, TableHead
from seamark.errors import LeaseHeld, SeamarkError, TableError
from seamark.ledger import Op, SetDataSchema
from seamark.tables.care.group_rows import rows_that_fit
from seamark.tables.context import TableContext
from seamark.tables.frame import quoted
from seamark.tables.read.cache import BaseCache
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.rows import images_of, last_images
from seamark.tables.read.snapshot import Snapshot, base_exists, snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.row_bytes import fixed_width
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.slices import READ_AT_ONCE

log = logging.getLogger("seamark.fold")

# A tail of up to this share of the base is merged into the files that it touches; for a larger one the whole base is
# rewritten, in order.
MERGE_SHARE = 0.1
ROWS_PER_FILE = 1_000_000
FILE_BYTES = 1 << 30
# Small pages let a read by key skip most of a file: the page index has the least and greatest key of each page.
PAGE_ROWS = 4_000
# DuckDB skips whole groups only: small ones halve the time of a read of few keys, and cost Spark nothing.
GROUP_ROWS = 50_000
GROUP_BYTES = READ_AT_ONCE.values


@dataclass(frozen=True, slots=True)
class FoldReport:
    """What a fold did; if `folded` is False, `reason` says why not."""

    table: str
    folded: bool
    reason: str
    records: int = 0
    delta_version: int | None = None


def fold_table(source: TableSource, wait: float = 60.0) -> FoldReport:
    """Bring the base up to the head, and report what was done; a repeated fold makes no second Delta version."""
    with source.context.control.leases.held(f"fold:{source.name}", wait):
        head = source.context.control.index.head(source.name)
        if head is None or head.last_offset is None:
            return FoldReport(source.name, False, "it has no records")
        snapshot = snapshot_at(source, head.last_offset)
        if snapshot.base is not None and not snapshot.tail:
            version = snapshot.base.delta_version
            return FoldReport(source.name, False, "it is folded up to its head", delta_version=version)
        return _fold(replace(snapshot, source=_with_chain_schema(source, head)), head, head.last_offset)


def _with_chain_schema(source: TableSource, head: TableHead) -> TableSource:
    """The table with the chain's schema: others may have added columns since this process declared it."""
    event = source.context.files(source.name).block(head.schema_block).event if head.schema_block else None
    if not isinstance(event, SetDataSchema) or event.schema is None:
        return source
    return replace(source, schema=TableSchema.from_ledger(event.schema))


def fold_where_needed(context: TableContext, find: Callable[[str], TableSource]) -> list[FoldReport]:
    """Fold the tables whose tail has grown long, and report on each of them.

    Does not wait for another process that folds, and reports errors instead of raising them: rows are right without a
    fold, and the next call tries again.
    """
    sizes, bases = context.control.index.tail_sizes(), context.control.index.all_bases()
    reports = []
    for name, (records, slices) in sorted(sizes.items()):
        rows = bases[name][0].row_count if name in bases else 0
        if needs_fold(context.rows, records, slices, rows):
            reports.append(_fold_if_possible(name, find))
    return reports


def needs_fold(settings: RowSettings, tail_records: int, tail_slices: int, base_rows: int) -> bool:
    """Whether the tail has grown past the configured share of the base or number of slices."""
    return tail_slices > settings.fold_slices or (base_rows > 0 and tail_records > settings.fold_share * base_rows)


def _fold_if_possible(table: str, find: Callable[[str], TableSource]) -> FoldReport:
    try:
        return fold_table(find(table), wait=0.0)
    except LeaseHeld:
        return FoldReport(table, False, "another process folds it now, or removes its old versions")
    except Exception as error:
        text = error.message if isinstance(error, SeamarkError) else f"{type(error).__name__}: {error}"
        log.warning("table '%s' was not folded: %s", table, text)
        return FoldReport(table, False, text.strip().splitlines()[0])


def _fold(snapshot: Snapshot, head: TableHead, upto: int) -> FoldReport:
    faults.reached("fold-begins")
    source, sequence = snapshot.source, snapshot.tail[-1].sequence
    log_of_base = DeltaLog(Path(source.base_folder))
    if log_of_base.newest() is None:
        # Somebody removed the folder: Delta counts from 0 again, so the versions that we recorded mean other bases.
        source.context.control.index.drop_bases(source.name)
    distrusted = source.context.control.index.distrusted_bases(source.name)
    failure: Exception | None = None
    if (done := log_of_base.version_of(head.dataset_id, sequence)) is None or done in distrusted:
        try:
            _write(snapshot, head, distrusts_newest=bool({done, log_of_base.newest()} & distrusted))
        except (PySparkException, Py4JError) as error:
            failure = error
    faults.reached("fold-written")
    version = log_of_base.version_of(head.dataset_id, sequence)
    if version is None or version in distrusted:
        return _nothing_written(source, snapshot.base, failure)
    rows = log_of_base.row_count(version)
    source.context.control.index.add_base(BaseVersion(source.name, version, sequence, upto, rows))
    source.context.cache.drop(source.name)
    return FoldReport(source.name, True, "", snapshot.tail_records, version)


def _nothing_written(source: TableSource, base: BaseVersion | None, failure: Exception | None) -> FoldReport:
    """The report on a fold that wrote nothing because another process did the work meanwhile; else an error."""
    bases = source.context.control.index.bases(source.name)
    newest = next((version for version in bases if base_exists(source, version.delta_version)), None)
    if newest is not None and (base is None or newest.sequence > base.sequence):
        reason = "another process folded it meanwhile"
        return FoldReport(source.name, False, reason, delta_version=newest.delta_version)
    why = f": {str(failure).strip().splitlines()[0]}" if failure and str(failure).strip() else "."
    raise TableError(
        f"the fold of table '{source.name}' left no Delta version in {source.base_folder}{why} "
        "The table's rows are unharmed.",
        hint="fold it again; if that fails too, remove that folder, which can always be built again, and fold.",
    ) from failure


def _write(snapshot: Snapshot, head: TableHead, *, distrusts_newest: bool) -> None:
    """Write the base's next version in the cheapest way; `distrusts_newest` forbids building on Delta's newest one."""
    source, blocks, base = snapshot.source, snapshot.tail, snapshot.base
    log_of_base = DeltaLog(Path(source.base_folder))
    # Not from the cache: a cached frame belongs to the session that read it, so the write would ignore our settings.
    app = log_of_base.rewrite_app(head.dataset_id) if distrusts_newest else head.dataset_id
    # The records of one commit are sorted by key: those of the first commit are the rows themselves, in order.
    in_order = base is None and snapshot.tail_commits == 1
    settings = _slice_by_slice(blocks) if in_order else {}
    session = _session_for(source, app, blocks[-1].sequence, _rows_per_group(snapshot), settings)
    apart = replace(source, context=replace(source.context, session=session, cache=BaseCache(0)))
    snapshot = replace(snapshot, source=apart)
    continues = not distrusts_newest and base is not None and log_of_base.newest() == base.delta_version
    _enable_type_features(apart)
    if in_order:
        _write_in_order(snapshot)
    elif base is None or not continues:
        _rewrite(snapshot)
    elif not source.schema.key:
        _append(apart, blocks)
    elif snapshot.tail_records <= MERGE_SHARE * base.row_count:
        _merge(apart, blocks)
    else:
        _rewrite(snapshot)


def _enable_type_features(source: TableSource) -> None:
    """Enable the Delta features that new columns need: Delta does that only for new tables.

    This makes a Delta version of its own, with the rows of the one before.
    """
    log_of_base = DeltaLog(Path(source.base_folder))
    needed = {feature for column in source.schema.columns for feature in _features(column.type)}
    if not needed or log_of_base.newest() is None:
        return
    for feature in sorted(needed - log_of_base.features()):
        table = f"delta.{quoted(source.base_folder)}"
        source.context.session().sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.{feature}' = 'supported')")


def _features(kind: pa.DataType) -> Iterator[str]:
    """The Delta features that a type, or a type inside it, needs."""
    if pa.types.is_nested(kind):
        for place in range(kind.num_fields):
            yield from _features(kind.field(place).type)
    elif pa.types.is_timestamp(kind) and kind.tz is None:
        yield "timestampNtz"


def _rows_per_group(snapshot: Snapshot) -> int:
    """How many rows a row group of the base may have: fewer if they are large.

    Spark's reader takes thousands of rows at a time, but never from two groups.
    """
    source = snapshot.source
    if all(fixed_width(column.type) is not None for column in source.schema.columns):
        return GROUP_ROWS
    objects = source.context.files(source.name).data
    paths = [objects.path(block.slice_hash) for block in snapshot.tail if block.slice_hash]
    paths += snapshot.base_files()
    fit = rows_that_fit(paths, GROUP_BYTES)
    return fit if fit is not None and fit < READ_AT_ONCE.rows else GROUP_ROWS


def _slice_by_slice(blocks: Sequence[BlockEntry]) -> dict[str, str]:
    """Settings by which every task reads exactly one slice: neither a part of one, nor several."""
    largest = max(block.slice_size or 0 for block in blocks) + 1
    return {"spark.sql.files.maxPartitionBytes": str(largest), "spark.sql.files.openCostInBytes": str(largest)}


def _session_for(
    source: TableSource, app: str, sequence: int, rows_per_group: int, others: Mapping[str, str]
) -> Callable[[], SparkSession]:
    """A session for one write, so that its settings touch no other work.

    The block's number is Delta's transaction version, so a second try of the same fold writes nothing.
    """
    current: Any = source.context.session()
    # Spark Connect has cloneSession instead of newSession.
    session: SparkSession = (current.newSession if hasattr(current, "newSession") else current.cloneSession)()
    settings = {
        "spark.sql.session.timeZone": current.conf.get("spark.sql.session.timeZone") or "UTC",
        "spark.databricks.delta.write.txnAppId": app,
        "spark.databricks.delta.write.txnVersion": str(sequence),
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
        # Bases are read as plain Parquet files, so these features must be off, whatever the session's defaults are.
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.databricks.delta.properties.defaults.columnMapping.mode": "none",
        "parquet.page.row.count.limit": str(PAGE_ROWS),
        "parquet.block.row.count.limit": str(rows_per_group),
        # Parquet checks only every so many rows whether a page or group is full; large rows fill one long before 100.
        "parquet.page.size.row.check.min": "10",
        "parquet.block.size.row.check.min": "10",
        # Spark's default, INT96, has no least and greatest value, so that a read by time could skip nothing.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A missing or damaged file of the base ends the fold, though a session may be set up to go on without it.
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        **others,
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return lambda: session


def _rewrite(snapshot: Snapshot) -> None:
    """Write all rows, sorted by key."""
    images = _images(snapshot)
    key = [quoted(name) for name in snapshot.source.schema.key]
    if key:
        files = max(1, -(-snapshot.rows_at_most() // ROWS_PER_FILE), -(-snapshot.stored_bytes() // FILE_BYTES))
        # Sampling for the ranges reads the slices twice; it is what makes the files disjoint by key.
        ordered = images.repartitionByRange(files, *key) if files > 1 else images.coalesce(1)
        images = ordered.sortWithinPartitions(*key)
    _overwrite(snapshot.source, images)


def _write_in_order(snapshot: Snapshot) -> None:
    """Write the rows of sorted slices without sorting them again: one file per slice."""
    _overwrite(snapshot.source, _images(snapshot))


def _images(snapshot: Snapshot) -> DataFrame:
    return images_of(snapshot).select(*_base_columns(snapshot.source))


def _overwrite(source: TableSource, images: DataFrame) -> None:
    writer = images.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(source.base_folder)


def _base_columns(source: TableSource) -> list[str]:
    """The columns of the base: the table's own, then `_offset` and `event_time`."""
    return [*(quoted(name) for name in source.schema.names), "_offset", "event_time"]


def _append(source: TableSource, blocks: Sequence[BlockEntry]) -> None:
    added = last_images(source, blocks).withColumnRenamed("offset", "_offset").select(*_base_columns(source))
    added.write.format("delta").mode("append").option("mergeSchema", "true").save(source.base_folder)


def _merge(source: TableSource, blocks: Sequence[BlockEntry]) -> None:
    """Merge the tail's last images into the files that they touch. In SQL, which also works through Spark Connect."""
    session = source.context.session()
    tail = last_images(source, blocks)
    names = [quoted(name) for name in source.schema.names]
    view = "seamark_tail"  # the session is this fold's own
    tail.select("op", F.col("offset").alias("_offset"), "event_time", *names).createOrReplaceTempView(view)
    same_key = " AND ".join(f"base.{quoted(name)} = tail.{quoted(name)}" for name in source.schema.key)
    columns = ["_offset", "event_time", *names]
    # Not `base.`: a column that was added after the last fold is found only by its bare name.
    sets = ", ".join(f"{name} = tail.{name}" for name in columns)
    values = ", ".join(f"tail.{name}" for name in columns)
    session.sql(
        f"MERGE INTO delta.{quoted(source.base_folder)} AS base USING {view} AS tail ON {same_key} "
        f"WHEN MATCHED AND tail.op = {int(Op.RETRACT)} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND tail.op <> {int(Op.RETRACT)} THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )
