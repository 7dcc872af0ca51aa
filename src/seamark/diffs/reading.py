"""What a run reads: the unread records of the logs, the old state of their visits, and the columns set aside before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import FailedKey
from seamark.diffs.declare import DiffLog, DiffSpec
from seamark.diffs.level import WIDE_BY_VERSION, old
from seamark.diffs.news import ENDED, FAST, fact, gather_news, records_of
from seamark.diffs.situation import DiffSituation
from seamark.spark.frames import spark_frame
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, SparkFrame, quoted
from seamark.tables.read import TableSource, all_of, read_changes, read_images
from seamark.tables.stage import SMALL_RECORDS
from seamark.transforms.fetch import read_for, read_records
from seamark.transforms.keys import distinct, keys_of
from seamark.transforms.scope import KeyValues

Interval = tuple[int | None, int | None]
"""Records with after < offset <= upto."""


@dataclass(frozen=True)
class Reading:
    """The records that a run takes: an interval of each log, and what waits of visits that failed before.

    `state` is the last record of the state before the run, `wide` that of the wide table.
    """

    intervals: Mapping[str, Interval]
    retried: Mapping[str, Mapping[str, int]]  # by key text, the last record of each log that was read before it failed
    positions: Mapping[str, int | None]  # up to where each log had been read
    state: int | None
    wide: int | None = None

    @staticmethod
    def of(situation: DiffSituation, retried: Sequence[FailedKey], *, takes_news: bool) -> Reading:
        """What a run reads that takes what waits up to the pins, or only visits that failed before."""
        waiting = {entry.table: (entry.after, entry.pin.offset) for entry in situation.logs if entry.records > 0}
        wide = situation.pin_of(situation.spec.wide.name) if situation.spec.wide else None
        return Reading(
            intervals=waiting if takes_news else {},
            retried={entry.key: json.loads(entry.read_at or "{}") for entry in retried},
            positions={entry.table: entry.after for entry in situation.logs},
            state=situation.state_offset,
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


def visits_of(
    context: TableContext,
    spec: DiffSpec,
    reading: Reading,
    horizon: datetime | None,
    skip_bad: bool,
    stack: ExitStack,
) -> DataFrame:
    """A row a visit: the news of all logs, what stood in the state, and the wide columns of the versions told of.

    Of the state only the visits that the logs touch are read.
    """
    waiting = _waiting_records(context, spec, reading)
    if reading.records <= SMALL_RECORDS:
        tables = {log.name: _joined(_fresh_at_hand(log, reading), waiting.get(log.name)) for log in spec.logs}
        frames = {name: _to_spark(spec, name, table) for name, table in tables.items()}
        touched = _touched(spec, tables)
        standing = _as_frame(spec.state, read_for(spec.state, KeyValues(touched), reading.state))
        logs = [records_of(spec, log, frames[log.name], horizon) for log in spec.logs]
        visits = gather_news(spec, logs, skip_bad=skip_bad)
        visits = _with_old_state(spec, visits, standing, few=True)
        if spec.wide is None:
            return visits
        versions = _versions(spec, tables)
        return _with_wide(spec, visits, _as_frame(spec.wide, read_for(spec.wide, KeyValues(versions), reading.wide)))
    logs = [records_of(spec, log, _fresh(spec, log, reading, waiting), horizon) for log in spec.logs]
    visits = gather_news(spec, logs, skip_bad=skip_bad)
    if spec.wide is not None:  # it is read twice then, and computed once
        visits = _computed_once(context, visits, stack)
        rows = read_images(spec.wide, upto=reading.wide)
        visits = _with_wide(spec, visits, _of_versions(spec, rows, visits))
    return _with_old_state(spec, visits, read_images(spec.state, upto=reading.state), few=False)


# --- records ----------------------------------------------------------------------------------------------------------


def _fresh_at_hand(log: DiffLog, reading: Reading) -> pa.Table:
    after, upto = reading.intervals.get(log.name, (None, None))
    blocks = []
    if log.name in reading.intervals:
        blocks = log.source.context.control.index.slices(log.name, after=after, upto=upto)
    records = read_records(log.source, blocks)
    if after is not None:
        records = records.filter(pc.greater(records.column("offset"), after))
    return records if upto is None else records.filter(pc.less_equal(records.column("offset"), upto))


def _fresh(spec: DiffSpec, log: DiffLog, reading: Reading, waiting: Mapping[str, pa.Table]) -> DataFrame:
    names = ["offset", "op", *[quoted(name) for name in log.source.schema.names]]
    if log.name in reading.intervals:
        after, upto = reading.intervals[log.name]
        records = read_changes(log.source, after=after, upto=upto).select(*names)
    else:
        records = _to_spark(spec, log.name, _fresh_at_hand(log, reading))
    return records.unionByName(_to_spark(spec, log.name, waiting[log.name])) if log.name in waiting else records


def _waiting_records(context: TableContext, spec: DiffSpec, reading: Reading) -> dict[str, pa.Table]:
    """The records of visits that failed before, read again from the first one that was not taken; there are few."""
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
) -> pa.Table:
    renamed = keys.rename_columns([f"its {name}" if name != "read upto" else name for name in keys.column_names])
    wanted = F.broadcast(spark_frame(context.session(), renamed))
    records = read_changes(log.source, after=interval[0], upto=interval[1])
    same = [records[quoted(name)].eqNullSafe(wanted[quoted(f"its {name}")]) for name in spec.key_names]
    chosen = records.join(wanted, all_of([*same, records["offset"] > wanted["read upto"]]), "left_semi")
    names = ["offset", "op", *[quoted(name) for name in log.source.schema.names]]
    return chosen.select(*names).toArrow().cast(_record_schema(log.source))


def _record_schema(source: TableSource) -> pa.Schema:
    own = [pa.field(column.name, column.type) for column in source.schema.columns]
    return pa.schema([pa.field("offset", pa.int64()), pa.field("op", pa.int32()), *own])


def _joined(fresh: pa.Table, waiting: pa.Table | None) -> pa.Table:
    return fresh if waiting is None else pa.concat_tables([waiting, fresh.cast(waiting.schema)])


def _to_spark(spec: DiffSpec, table: str, records: pa.Table) -> DataFrame:
    source = spec.sources[table]
    from pyspark.sql import types as spark

    own = [spark.StructField(f.name, f.dataType, True) for f in source.schema.spark().fields]
    fields = [spark.StructField("offset", spark.LongType()), spark.StructField("op", spark.IntegerType()), *own]
    return spark_frame(source.context.session(), records, spark.StructType(fields))


# --- what stands ------------------------------------------------------------------------------------------------------


def _touched(spec: DiffSpec, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The visits that records are about."""
    schema = pa.schema([pa.field(column.name, column.type) for column in spec.key])
    return distinct(pa.concat_tables([table.select(schema.names).cast(schema) for table in tables.values()]))


def _versions(spec: DiffSpec, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The visits that records are about, with the fast versions that they tell of."""
    assert spec.wide is not None
    schema = pa.schema([pa.field(name, spec.wide.schema.column(name).type) for name in spec.wide.schema.key])
    pairs = pa.concat_tables([table.select(schema.names).cast(schema) for table in tables.values()])
    return distinct(pairs.filter(pairs.column(spec.fast_version.name).is_valid()))


def _as_frame(source: TableSource, rows: CheckedFrame) -> DataFrame:
    if isinstance(rows, SparkFrame):
        return rows.frame
    table = rows.rows.select(list(source.schema.names))
    return spark_frame(source.context.session(), table, source.schema.spark())


def _with_old_state(spec: DiffSpec, visits: DataFrame, standing: DataFrame, *, few: bool) -> DataFrame:
    """The visits with what stood in the state, under `old …`."""
    stood = standing.select(*[F.col(quoted(name)).alias(old(name)) for name in spec.state_schema.names])
    same = [visits[quoted(name)] == stood[quoted(old(name))] for name in spec.key_names]
    return visits.join(F.broadcast(stood) if few else stood, all_of(same), "left")


# --- the columns set aside --------------------------------------------------------------------------------------------


def _with_wide(spec: DiffSpec, visits: DataFrame, rows: DataFrame) -> DataFrame:
    """The visits with the wide columns of each version that they tell of, as a map by version."""
    columns = F.struct(*[F.col(quoted(column.name)) for column in spec.wide_columns])
    entry = F.struct(F.col(quoted(spec.fast_version.name)).cast("bigint").alias("key"), columns.alias("value"))
    names = [F.col(quoted(name)).alias(f"wide {name}") for name in spec.key_names]
    maps = rows.groupBy(*names).agg(F.map_from_entries(F.collect_list(entry)).alias(WIDE_BY_VERSION))
    same = [visits[quoted(name)] == maps[quoted(f"wide {name}")] for name in spec.key_names]
    return visits.join(maps, all_of(same), "left")


def _of_versions(spec: DiffSpec, rows: DataFrame, visits: DataFrame) -> DataFrame:
    """The wide rows of the versions that the visits tell of."""
    newest = F.array(*[F.col(quoted(fact(log, FAST))) for log in spec.logs])
    told = F.concat(newest, *[F.col(quoted(fact(log, ENDED))) for log in spec.logs])
    pairs = visits.select(
        *[F.col(quoted(name)).alias(f"its {name}") for name in spec.key_names],
        F.explode(F.array_distinct(F.array_compact(told))).alias("its version"),
    )
    same = [rows[quoted(name)] == pairs[quoted(f"its {name}")] for name in spec.key_names]
    same.append(rows[quoted(spec.fast_version.name)] == pairs["its version"])
    return rows.join(pairs, all_of(same), "left_semi")


def _computed_once(context: TableContext, frame: DataFrame, stack: ExitStack) -> DataFrame:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    rows = stack.enter_context(computed(context, SparkFrame(frame), schema))
    if isinstance(rows, SparkFrame):
        return rows.frame
    return spark_frame(context.session(), rows.rows, frame.schema)
