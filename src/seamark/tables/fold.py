"""Folding: bringing the base, a Delta table sorted by key, up to the head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seamark import faults
from seamark.control import BaseVersion, BlockEntry, TableHead
from seamark.errors import TableError
from seamark.ledger import Op, SetDataSchema
from seamark.tables.cache import BaseCache
from seamark.tables.delta_log import DeltaLog
from seamark.tables.frames import quoted
from seamark.tables.read import (
    TableSource,
    base_exists,
    count_records,
    count_versions,
    last_images,
    newest_base,
    read_images,
)
from seamark.tables.schema import TableSchema

# Up to this share of the base a tail is merged into the files that it touches; a larger one makes it worth writing all
# of the base anew, in order.
MERGE_SHARE = 0.1
ROWS_A_FILE = 1_000_000
# Small pages let a read by key skip most of a file: the page index holds the least and greatest key of each.
PAGE_ROWS = 4_000


@dataclass(frozen=True, slots=True)
class FoldReport:
    """What folding a table did: `folded` is False if the base was at the head already, or there is nothing to fold."""

    table: str
    folded: bool
    reason: str
    records: int = 0
    delta_version: int | None = None


def fold_table(source: TableSource) -> FoldReport:
    """Bring the base up to the head; the same fold twice makes no second Delta version."""
    with source.context.control.leases.held(f"fold:{source.name}"):
        head = source.context.control.index.head(source.name)
        if head is None or head.last_offset is None:
            return FoldReport(source.name, False, "it has no records")
        base = newest_base(source, head.last_offset)
        if base is not None and base.last_offset == head.last_offset:
            return FoldReport(source.name, False, "it is folded up to its head", delta_version=base.delta_version)
        return _fold(_as_the_chain_has_it(source, head), head, head.last_offset, base)


def _as_the_chain_has_it(source: TableSource, head: TableHead) -> TableSource:
    """The table with the chain's schema: this process may have declared it before others added columns."""
    event = source.context.files(source.name).block(head.schema_block).event if head.schema_block else None
    if not isinstance(event, SetDataSchema) or event.schema is None:
        return source
    return replace(source, schema=TableSchema.from_ledger(event.schema))


def needs_fold(source: TableSource, tail_records: int, tail_slices: int, base_rows: int) -> bool:
    """Whether the tail has grown past the configured share of the base or number of slices."""
    settings = source.context.rows
    return tail_slices > settings.fold_slices or (base_rows > 0 and tail_records > settings.fold_share * base_rows)


def _fold(source: TableSource, head: TableHead, upto: int, base: BaseVersion | None) -> FoldReport:
    faults.reached("fold-begins")
    blocks = source.context.control.index.slices(source.name, after=base.last_offset if base else None, upto=upto)
    records = count_records(blocks)
    sequence = blocks[-1].sequence
    log = DeltaLog(Path(source.base_folder))
    if log.newest() is None:
        # Somebody removed the folder: Delta counts from 0 again, and what we know of a version 0 is about another one.
        source.context.control.index.drop_bases(source.name)
    failure: Exception | None = None
    if log.version_of(head.dataset_id, sequence) is None:
        try:
            _write(source, head, blocks, upto, base)
        except (PySparkException, Py4JError) as error:
            failure = error
    faults.reached("fold-written")
    version = log.version_of(head.dataset_id, sequence)
    if version is None:
        return _outrun(source, base, failure)
    rows = log.row_count(version)
    source.context.control.index.add_base(BaseVersion(source.name, version, sequence, upto, rows))
    source.context.cache.drop(source.name)
    return FoldReport(source.name, True, "", records, version)


def _outrun(source: TableSource, base: BaseVersion | None, failure: Exception | None) -> FoldReport:
    """What to say of a fold that wrote nothing: if it lost its lease, another one may have done the work."""
    bases = source.context.control.index.bases(source.name)
    newest = next((version for version in bases if base_exists(source, version.delta_version)), None)
    if newest is not None and (base is None or newest.sequence > base.sequence):
        reason = "another process folded it meanwhile"
        return FoldReport(source.name, False, reason, delta_version=newest.delta_version)
    why = f": {str(failure).strip().splitlines()[0]}" if failure and str(failure).strip() else "."
    raise TableError(
        f"the fold of table '{source.name}' left no Delta version in {source.base_folder}{why} "
        "The table's rows are unharmed.",
        hint="fold it again; if that fails too, remove that folder, which can always be made anew, and fold.",
    ) from failure


def _write(
    source: TableSource, head: TableHead, blocks: Sequence[BlockEntry], upto: int, base: BaseVersion | None
) -> None:
    """Write the base's next version, in the way that is the cheapest."""
    # Not from the cache: a cached frame belongs to the session that read it, and so would the write.
    session = _session_for(source, head, blocks[-1].sequence)
    apart = replace(source, context=replace(source.context, session=session, cache=BaseCache(0)))
    if base is None or DeltaLog(Path(source.base_folder)).newest() != base.delta_version:
        _write_anew(apart, upto)
    elif not source.schema.key:
        _append(apart, blocks)
    elif count_records(blocks) <= MERGE_SHARE * base.row_count:
        _merge(apart, blocks)
    else:
        _write_anew(apart, upto)


def _session_for(source: TableSource, head: TableHead, sequence: int) -> Callable[[], SparkSession]:
    """A session for one write, so that its settings touch no other work.

    The block is Delta's transaction version: a second try of the same fold writes nothing.
    """
    given: Any = source.context.session()
    # Spark Connect has no new sessions, but clones.
    session: SparkSession = (given.newSession if hasattr(given, "newSession") else given.cloneSession)()
    settings = {
        "spark.sql.session.timeZone": given.conf.get("spark.sql.session.timeZone") or "UTC",
        "spark.databricks.delta.write.txnAppId": head.dataset_id,
        "spark.databricks.delta.write.txnVersion": str(sequence),
        "spark.databricks.delta.schema.autoMerge.enabled": "true",
        # Bases are read as plain files, so they must be just that, whatever is the default elsewhere.
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.databricks.delta.properties.defaults.columnMapping.mode": "none",
        "parquet.page.row.count.limit": str(PAGE_ROWS),
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return lambda: session


def _write_anew(source: TableSource, upto: int) -> None:
    images = read_images(source, upto=upto).select(*_base_columns(source))
    key = [quoted(name) for name in source.schema.key]
    if key:
        files = max(1, -(-count_versions(source, upto=upto) // ROWS_A_FILE))
        # Sampling for the ranges reads the slices twice; it is what makes the files disjoint by key.
        ordered = images.repartitionByRange(files, *key) if files > 1 else images.coalesce(1)
        images = ordered.sortWithinPartitions(*key)
    writer = images.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(source.base_folder)


def _base_columns(source: TableSource) -> list[str]:
    """The columns of the base: the table's own, then the hidden ones."""
    return [*(quoted(name) for name in source.schema.names), "_offset", "event_time"]


def _append(source: TableSource, blocks: Sequence[BlockEntry]) -> None:
    added = last_images(source, blocks).withColumnRenamed("offset", "_offset").select(*_base_columns(source))
    added.write.format("delta").mode("append").option("mergeSchema", "true").save(source.base_folder)


def _merge(source: TableSource, blocks: Sequence[BlockEntry]) -> None:
    """Merge the tail's last images into the files that they touch. SQL, because it works through Spark Connect too."""
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
