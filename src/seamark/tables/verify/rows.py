"""The base of a table against its log: row by row, in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import BaseVersion, BlockEntry
from seamark.ledger import SetDataSchema
from seamark.ledger.verify import Finding, StoredChain
from seamark.spark.frames import arrow_rows, parquet_reader
from seamark.tables.context import TableContext
from seamark.tables.far_times import python_rows
from seamark.tables.frame import quoted
from seamark.tables.frames import as_it_stands
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.rows import live_images, with_new_columns
from seamark.tables.read.snapshot import base_exists
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.publish import index_entry

# How many keys of a base that differ are listed one by one.
SHOWN = 5
_COUNT = "its count"
_NOT_READ = "It is no longer read; the next fold writes it again from the log."
_STILL_READ = "It is still read: the control database may not be written here. Do the same where it may."


def check_rows(context: TableContext, chain: StoredChain) -> Iterator[Finding]:
    """The rows of a table's bases that are not those of its log.

    A base that has any is no longer read, where the control database may be written.
    """
    schema = _schema_of(chain)
    if schema is None:
        return
    source = TableSource(context, chain.table, schema)
    bases = [
        version for version in context.control.index.bases(chain.table) if base_exists(source, version.delta_version)
    ]
    blocks = [index_entry(stored.name, stored.block) for stored in chain.blocks]
    newest = blocks[-1].sequence if blocks else -1
    for version in bases:
        if version.sequence > newest:
            continue  # folded after the chain was read, or a row that is wrong, which `check_bases` finds
        may_write = not context.control.database.is_read_only
        cure = _NOT_READ if may_write else _STILL_READ
        differing = _differences(source, version, blocks)
        found = [replace(finding, message=f"{finding.message} {cure}") for finding in differing]
        if found and may_write:
            now = context.clock.now().timestamp()
            context.control.index.distrust_bases(chain.table, [version.delta_version], now)
            context.cache.drop(chain.table)
        yield from found


def _schema_of(chain: StoredChain) -> TableSchema | None:
    events = (stored.block.event for stored in reversed(chain.blocks))
    declared = next((event.schema for event in events if isinstance(event, SetDataSchema)), None)
    return None if declared is None else TableSchema.from_ledger(declared)


def _differences(source: TableSource, version: BaseVersion, blocks: Sequence[BlockEntry]) -> Iterator[Finding]:
    folded = [entry for entry in blocks if entry.slice_hash is not None and entry.sequence <= version.sequence]
    key = source.schema.key or ("_offset",)
    try:
        differing = _only_in_one(source, live_images(source, folded), _base_as_it_is(source, version))
        rows = python_rows(arrow_rows(differing.orderBy(*[quoted(name) for name in key]).limit(4 * SHOWN)))
    except Exception as error:  # whatever Spark meets in files that anybody may have changed
        lines = str(error).strip().splitlines() or [""]
        reason = next((line.strip() for line in reversed(lines) if line.startswith("Caused by:")), lines[0])
        text = f"table '{source.name}': its base, Delta version {version.delta_version}, cannot be read: {reason}"
        yield Finding(source.name, None, "unreadable base", "a base", type(error).__name__, text)
        return
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(str({name: row[name] for name in key}), []).append(row)
    for shown, same in list(by_key.items())[:SHOWN]:
        yield _finding(source.name, version, shown, same)
    if len(by_key) > SHOWN:
        text = f"table '{source.name}': more rows of its base, Delta version {version.delta_version}, differ."
        yield Finding(source.name, None, "rows", "the rows of the log", "more that differ", text)


def _base_as_it_is(source: TableSource, version: BaseVersion) -> DataFrame:
    """The rows of a base from its files as they are now."""
    session = source.context.session()
    files = DeltaLog(Path(source.base_folder)).files(version.delta_version)
    schema = source.schema.spark_base()
    if not files:
        return live_images(source, [])
    # The option means nothing to anybody. With it the frame equals no other one, so that Spark does not answer from
    # what somebody has cached of these files before they were changed.
    reader = parquet_reader(session, schema).option("seamark", str(uuid4()))
    return with_new_columns(source, reader.parquet(*[as_it_stands(str(path)) for path in files]))


def _only_in_one(source: TableSource, log: DataFrame, base: DataFrame) -> DataFrame:
    """Rows that the log has more often than the base, or the base more often: their count is positive or negative."""
    names = ["_offset", "event_time", *source.schema.names]
    columns = [F.col(quoted(name)) for name in names]
    # Grouping takes 0.0 and -0.0 for one; as text they are two.
    texts = [
        F.col(quoted(column.name)).cast("string").alias(f"its {column.name}")
        for column in source.schema.columns
        if _holds_floats(column.type)
    ]
    both = log.select(*columns, *texts, F.lit(1).alias(_COUNT)).unionByName(
        base.select(*columns, *texts, F.lit(-1).alias(_COUNT))
    )
    grouped = both.groupBy(*[quoted(name) for name in both.columns if name != _COUNT]).agg(F.sum(_COUNT).alias(_COUNT))
    return grouped.where(F.col(quoted(_COUNT)) != 0).select(*columns, quoted(_COUNT))


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _holds_floats(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_holds_floats(field.type) for field in kind.fields)
    return bool(pa.types.is_floating(kind))


def _finding(table: str, version: BaseVersion, key: str, rows: Sequence[dict[str, Any]]) -> Finding:
    sides = [[row for row in rows if (row[_COUNT] > 0) is in_log] for in_log in (True, False)]
    log, base = ("; ".join(_shown(row) for row in side) or "no such row" for side in sides)
    text = (
        f"table '{table}': the row {key} of its base, Delta version {version.delta_version}, is not the log's: "
        f"expected {log}, found {base}."
    )
    return Finding(table, None, "rows", log, base, text)


def _shown(row: dict[str, Any]) -> str:
    times = abs(row[_COUNT])
    shown = str({name: value for name, value in row.items() if name not in (_COUNT, "event_time")})
    return shown if times == 1 else f"{shown}, {times} times"
