"""What a run reads: the unread records of the logs, the state of their visits, and the columns set aside before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from seamark.control import FailedKey
from seamark.diffs.ageing.gone import Departed, departed_among, departed_of
from seamark.diffs.backlog import DiffBacklog
from seamark.diffs.compute.news import gather_news, records_of
from seamark.diffs.compute.visit_columns import old
from seamark.diffs.compute.widen import of_versions, with_wide
from seamark.diffs.declare.spec import DiffLog, DiffSpec
from seamark.diffs.standing import as_frame, beside
from seamark.spark.frames import spark_frame
from seamark.steps.rows.fetch import read_for, read_records
from seamark.steps.rows.keys import keys_of
from seamark.steps.rows.scope import KeyValues
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, its, quoted, same_as_its
from seamark.tables.ordering import distinct
from seamark.tables.read.records import count_records, read_changes
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import collect_small
from seamark.tables.small import fits_on_driver

Interval = tuple[int | None, int | None]
"""Records with after < offset <= upto."""


@dataclass(frozen=True)
class Reading:
    """The records that a run takes: an interval of each log, and what waits of visits that failed before.

    `state` is the last record of the state before the run, `gone` that of the marks, `wide` that of the wide table.
    """

    intervals: Mapping[str, Interval]
    retried: Mapping[str, Mapping[str, int]]  # by key text, the last record of each log that was read before it failed
    positions: Mapping[str, int | None]  # up to where each log had been read
    state: int | None
    gone: int | None = None
    wide: int | None = None

    @staticmethod
    def of(backlog: DiffBacklog, retried: Sequence[FailedKey], *, takes_news: bool) -> Reading:
        """What a run reads that takes what waits up to the pins, or only visits that failed before."""
        waiting = {entry.table: (entry.after, entry.pin.offset) for entry in backlog.logs if entry.records > 0}
        wide = backlog.pin_of(backlog.spec.wide.name) if backlog.spec.wide else None
        return Reading(
            intervals=waiting if takes_news else {},
            retried={entry.key: json.loads(entry.read_at or "{}") for entry in retried},
            positions={entry.table: entry.after for entry in backlog.logs},
            state=backlog.state_offset,
            gone=backlog.gone_offset,
            wide=wide.offset if wide else None,
        )

    @property
    def records(self) -> int:
        """How many unread records there are."""
        return sum((upto or 0) - (-1 if after is None else after) for after, upto in self.intervals.values())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self.intervals and not self.retried


@dataclass(frozen=True)
class Visits:
    """One row per visit: the records of all logs, its state before, and the wide columns of the versions they name."""

    frame: DataFrame
    departed: Departed


def visits_of(
    context: TableContext,
    spec: DiffSpec,
    reading: Reading,
    horizon: Column | None,
    skip_bad: bool,
    stack: ExitStack,
) -> Visits:
    """The visits that records are about. Of the state and of the marks only these are read."""
    waiting = _waiting_records(context, spec, reading)
    tables = _small_records(spec, reading, waiting)
    if tables is None:
        return _many_visits(context, spec, reading, waiting, horizon, skip_bad, stack)
    frames = {name: _to_spark(spec, name, table) for name, table in tables.items()}
    touched = _touched(spec, tables)
    standing = read_for(spec.state, KeyValues(touched), reading.state)
    visits = _gathered(spec, frames, horizon, skip_bad)
    few = standing.in_memory is not None
    visits = beside(spec, visits, spec.state, as_frame(spec.state, standing), old, few=few)
    departed = departed_among(spec, touched, tables, reading.gone, reading.state)
    visits = departed.beside(spec, visits, few=True)
    if spec.wide is not None:
        versions = _versions(spec, tables)
        visits = with_wide(spec, visits, as_frame(spec.wide, read_for(spec.wide, KeyValues(versions), reading.wide)))
    return Visits(visits, departed)


def _many_visits(
    context: TableContext,
    spec: DiffSpec,
    reading: Reading,
    waiting: Mapping[str, CheckedFrame],
    horizon: Column | None,
    skip_bad: bool,
    stack: ExitStack,
) -> Visits:
    frames = {log.name: _fresh(spec, log, reading, waiting) for log in spec.logs}
    visits = _gathered(spec, frames, horizon, skip_bad)
    if spec.wide is not None:  # it is read twice then, and computed once
        visits = _computed_once(context, visits, stack)
        rows = read_images(spec.wide, upto=reading.wide)
        visits = with_wide(spec, visits, of_versions(spec, rows, visits))
    visits = beside(spec, visits, spec.state, read_images(spec.state, upto=reading.state), old, few=False)
    departed = departed_of(spec, frames, reading.gone, reading.state)
    return Visits(departed.beside(spec, visits, few=False), departed)


def _gathered(spec: DiffSpec, frames: Mapping[str, DataFrame], horizon: Column | None, skip_bad: bool) -> DataFrame:
    logs = [records_of(spec, log, frames[log.name], horizon) for log in spec.logs]
    return gather_news(spec, logs, skip_bad=skip_bad)


# --- records ----------------------------------------------------------------------------------------------------------


def _small_records(spec: DiffSpec, reading: Reading, waiting: Mapping[str, CheckedFrame]) -> dict[str, pa.Table] | None:
    """All records that a run takes, by log, on the driver; None if they are too large for it."""
    if not fits_on_driver(reading.records):
        return None
    tables: dict[str, pa.Table] = {}
    for log in spec.logs:
        fresh, known = _fresh_on_driver(log, reading), waiting.get(log.name)
        if fresh is None or (known is not None and known.in_memory is None):
            return None
        if known is not None:
            fresh = pa.concat_tables([known.to_arrow(), fresh.cast(known.to_arrow().schema)])
        tables[log.name] = fresh
    rows, values = sum(t.num_rows for t in tables.values()), sum(t.nbytes for t in tables.values())
    return tables if fits_on_driver(rows, values) else None


def _fresh_on_driver(log: DiffLog, reading: Reading) -> pa.Table | None:
    after, upto = reading.intervals.get(log.name, (None, None))
    blocks = []
    if log.name in reading.intervals:
        blocks = log.source.context.control.index.slices(log.name, after=after, upto=upto)
    records = read_records(log.source, blocks)
    if records is None:
        return None
    if after is not None:
        records = records.filter(pc.greater(records.column("offset"), after))
    return records if upto is None else records.filter(pc.less_equal(records.column("offset"), upto))


def _fresh(spec: DiffSpec, log: DiffLog, reading: Reading, waiting: Mapping[str, CheckedFrame]) -> DataFrame:
    names = ["offset", "op", *[quoted(name) for name in log.source.schema.names]]
    if log.name in reading.intervals:
        after, upto = reading.intervals[log.name]
        records = read_changes(log.source, after=after, upto=upto).select(*names)
    else:
        records = _to_spark(spec, log.name, _record_schema(log.source).empty_table())
    known = waiting.get(log.name)
    if known is None:
        return records
    return records.unionByName(known.to_spark(log.source.context.session, _record_types(log.source)))


def _waiting_records(context: TableContext, spec: DiffSpec, reading: Reading) -> dict[str, CheckedFrame]:
    """The records of visits that failed before, read again from the first one that was not taken."""
    if not reading.retried:
        return {}
    keys = keys_of(list(reading.retried), spec.key_names, spec.key_types)
    found = {}
    for log in spec.logs:
        upto = reading.positions.get(log.name)
        since = [at.get(log.name, -1) for at in reading.retried.values()]
        if upto is None or min(since) >= upto:
            continue
        first = None if min(since) < 0 else min(since)
        of_each = keys.append_column("read upto", pa.array(since, pa.int64()))
        found[log.name] = _records_of_keys(context, spec, log, (first, upto), of_each)
    return found


def _records_of_keys(
    context: TableContext, spec: DiffSpec, log: DiffLog, interval: Interval, keys: pa.Table
) -> CheckedFrame:
    renamed = keys.rename_columns([its(name) if name != "read upto" else name for name in keys.column_names])
    wanted = F.broadcast(spark_frame(context.session(), renamed))
    records = read_changes(log.source, after=interval[0], upto=interval[1])
    is_new = same_as_its(records, wanted, spec.key_names) & (records["offset"] > wanted["read upto"])
    chosen = records.join(wanted, is_new, "left_semi")
    names = ["offset", "op", *[quoted(name) for name in log.source.schema.names]]
    chosen, schema = chosen.select(*names), _record_schema(log.source)
    at_most = count_records(log.source.context.control.index.slices(log.name, after=interval[0], upto=interval[1]))
    found = collect_small(chosen, {field.name: field.type for field in schema}, at_most)
    return SparkFrame(chosen) if found is None else LocalFrame(found.cast(schema))


def _record_schema(source: TableSource) -> pa.Schema:
    own = [pa.field(column.name, column.type) for column in source.schema.columns]
    return pa.schema([pa.field("offset", pa.int64()), pa.field("op", pa.int32()), *own])


def _to_spark(spec: DiffSpec, table: str, records: pa.Table) -> DataFrame:
    source = spec.sources[table]
    return spark_frame(source.context.session(), records, _record_types(source))


def _record_types(source: TableSource) -> StructType:
    own = [StructField(f.name, f.dataType, True) for f in source.schema.spark().fields]
    return StructType([StructField("offset", LongType()), StructField("op", IntegerType()), *own])


# --- the state --------------------------------------------------------------------------------------------------------


def _touched(spec: DiffSpec, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The visits that records are about."""
    schema = pa.schema([pa.field(column.name, column.type) for column in spec.key])
    return distinct(pa.concat_tables([table.select(schema.names).cast(schema) for table in tables.values()]))


def _versions(spec: DiffSpec, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The visits that records are about, with the fast versions that they name."""
    assert spec.wide is not None
    schema = pa.schema([pa.field(name, spec.wide.schema.column(name).type) for name in spec.wide.schema.key])
    pairs = pa.concat_tables([table.select(schema.names).cast(schema) for table in tables.values()])
    return distinct(pairs.filter(pairs.column(spec.fast_version.name).is_valid()))


def _computed_once(context: TableContext, frame: DataFrame, stack: ExitStack) -> DataFrame:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    rows = stack.enter_context(computed(context, SparkFrame(frame), schema))
    return rows.to_spark(context.session, frame.schema)
