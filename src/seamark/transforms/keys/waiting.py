"""Which of the waiting keys a partial run takes. The driver gets only those and one more, never all.

The key that waits longest comes first: otherwise a limit could skip a key again and again, and the positions could
never move past its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.control import CoveredKey
from seamark.spark.frames import arrow_rows, spark_frame
from seamark.steps.rows.keys import key_texts, keys_of
from seamark.tables.context import TableContext
from seamark.tables.frame import its, quoted, same_as_its
from seamark.tables.ordering import Key, comparable, distinct
from seamark.transforms.keying import FIRST, Found, Keying
from seamark.transforms.keys.candidates import leaves_out_keys, narrowed

SINCE, OLDEST = "waits since", "its oldest"  # no column of a table has a space in its name


@dataclass(frozen=True)
class Waiting:
    """Waiting keys in no order, and whether these are all."""

    keys: pa.Table
    are_all: bool


def longest_waiting(
    keying: Keying,
    found: Sequence[Found],
    ahead: Sequence[CoveredKey],
    wanted: pa.Table,
    limit: int | None,
) -> Waiting:
    """Of the keys that were found, all with the same columns, those that match a filter and have waited longest.

    Keys that have waited equally long are taken in key order.
    """
    columns = list(found[0].columns)
    schema = pa.schema([pa.field(name, keying.key_types[name]) for name in columns])
    if not set(wanted.column_names) <= set(columns):
        return Waiting(schema.empty_table(), all(entry.keys.is_empty() for entry in found))
    # The first of all are among the first of each input, so that one more than the limit of each will do.
    most = None if limit is None else limit + 1
    pieces = [_longest_of(keying, entry, ahead, wanted, most) for entry in found]
    keys = distinct(pa.concat_tables([piece.select(columns).cast(schema) for piece in pieces]))
    taken = first_keys(keys, limit, _since(columns, pieces) if limit is not None else {})
    are_all = taken.num_rows == keys.num_rows and not any(
        leaves_out_keys(entry.keys, wanted, keying.context.session) for entry in found
    )
    return Waiting(taken, are_all)


def first_keys(keys: pa.Table, limit: int | None, since: Mapping[Key, float] | None = None) -> pa.Table:
    """The keys that have waited longest, those that wait equally long in order of the keys."""
    if limit is None or keys.num_rows <= limit:
        return keys
    waited = since or {}
    rows = sorted(enumerate(comparable(keys)), key=lambda entry: (waited.get(entry[1], 0.0), entry[1]))
    return keys.take(pa.array([place for place, _ in rows[:limit]], pa.int64()))


def _since(columns: Sequence[str], pieces: Sequence[pa.Table]) -> dict[Key, float]:
    """For each key the time of its oldest record that was not computed, in whichever input that is."""
    since: dict[Key, float] = {}
    for piece in pieces:
        for key, moment in zip(comparable(piece.select(list(columns))), piece.column(SINCE).to_pylist(), strict=True):
            since[key] = min(moment, since.get(key, moment))
    return since


# --- one input --------------------------------------------------------------------------------------------------------


def _longest_of(
    keying: Keying,
    entry: Found,
    ahead: Sequence[CoveredKey],
    wanted: pa.Table,
    most: int | None,
) -> pa.Table:
    """The keys of one input that match a filter, with how long they wait; at most `most`, the longest waiting."""
    keys, names = narrowed(entry.keys, wanted, keying.context.session), list(entry.columns)
    if most is None:
        return keys.select(names).to_arrow()
    moments = _Moments.of(keying.context, entry.table)
    read = {known.key: json.loads(known.read_at).get(entry.table, -1) for known in ahead}
    local = keys.in_memory
    if local is None:
        oldest = _oldest_in_spark(keying, names, keys.to_spark(keying.context.session), read)
        ordered = moments.added_to(oldest).orderBy(SINCE, *map(quoted, names))
        return arrow_rows(ordered.select(*map(quoted, names), quoted(SINCE)).limit(most))
    rows = local.select(names)
    firsts = zip(key_texts(rows), local.column(FIRST).to_pylist(), strict=True)
    since = moments.at(np.array([max(first, read.get(text, -1) + 1) for text, first in firsts], np.int64))
    waited = dict(zip(comparable(rows), since.tolist(), strict=True))
    first = first_keys(rows, most, waited)
    return first.append_column(SINCE, pa.array([waited[key] for key in comparable(first)], pa.float64()))


@dataclass(frozen=True)
class _Moments:
    """When the records of a table were committed: the last record of each block, and its time."""

    ends: np.ndarray
    times: np.ndarray

    @staticmethod
    def of(context: TableContext, table: str) -> _Moments:
        blocks = context.control.index.slices(table, after=None, upto=None)
        times = [block.system_time.timestamp() for block in blocks]
        return _Moments(np.array([block.last_offset or 0 for block in blocks], np.int64), np.array(times, np.float64))

    def at(self, records: np.ndarray) -> np.ndarray:
        """The time of each of some records."""
        return self.times[np.minimum(np.searchsorted(self.ends, records), len(self.ends) - 1)]

    def added_to(self, keys: DataFrame) -> DataFrame:
        """Keys in Spark with the time of each one's oldest record."""

        def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.append_column(SINCE, pa.array(self.at(batch.column(OLDEST).to_numpy()), pa.float64()))

        return keys.mapInArrow(add, keys.withColumn(SINCE, F.lit(0.0)).schema)


def _oldest_in_spark(keying: Keying, names: Sequence[str], keys: DataFrame, read: Mapping[str, int]) -> DataFrame:
    """Keys with their oldest record that was not computed: after what was read when they were computed ahead."""
    own = [F.col(quoted(name)) for name in names]
    texts = [text for text in read if set(json.loads(text)) == set(names)]
    if not texts:
        return keys.select(*own, F.col(quoted(FIRST)).alias(OLDEST))
    known = keys_of(texts, names, keying.key_types).rename_columns([its(name) for name in names])
    upto = pa.array([read[text] for text in texts], pa.int64())
    done = F.broadcast(spark_frame(keys.sparkSession, known.append_column("its record", upto)))
    joined = keys.join(done, same_as_its(keys, done, names), "left")
    oldest = F.greatest(F.col(quoted(FIRST)), F.coalesce(F.col("`its record`"), F.lit(-1)) + 1)
    return joined.select(*own, oldest.alias(OLDEST))
