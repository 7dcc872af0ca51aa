"""The keys that wait to be computed: for partial runs, for `get_changed_idx`, and for algorithm v1."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from seamark.control import CoveredKey
from seamark.errors import BadValue, UnknownColumn, did_you_mean
from seamark.spark.frames import spark_frame
from seamark.steps.rows.keys import key_texts, keys_of
from seamark.steps.standing.own_rows import rows_under
from seamark.tables.context import TableContext
from seamark.tables.frame import (
    CheckedFrame,
    LocalFrame,
    Session,
    SparkFrame,
    as_its,
    by_name,
    its,
    quoted,
    same_as_its,
)
from seamark.tables.read.choice import all_of, typed_compared
from seamark.tables.read.source import TableSource
from seamark.tables.schema.convert import ValueDoesNotFit, convert_array
from seamark.tables.schema.types import spark_name
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import FIRST, LAST, ChangedBlocks, Found, Keying
from seamark.transforms.keys.processed import processed_keys
from seamark.transforms.keys.tracking import unprocessed


def candidates(context: TableContext, backlog: Backlog, *, from_the_start: bool = False) -> list[Found]:
    """The keys that pending records lead to, each with the last record that leads to it, input after input.

    `from_the_start` takes all records of the chains: the caller must then leave out what was processed.
    """
    keying = backlog.spec.keying
    found: list[Found] = []
    for entry in backlog.waiting:
        after = None if from_the_start or not entry.was_read else entry.after
        blocks = context.control.index.slices(entry.table, after=after, upto=entry.pin.offset)
        if not blocks or entry.pin.offset is None:
            continue
        if keying.concerns_every_key(entry):
            last = F.lit(entry.pin.offset).cast("long")
            every = keying.all_keys(backlog.read).withColumn(FIRST, last).withColumn(LAST, last)
            found.append(Found(entry.table, keying.group, SparkFrame(every)))
            continue
        before = dict.fromkeys(backlog.before) if from_the_start else backlog.before
        found += keying.changed_keys([ChangedBlocks(entry.table, tuple(blocks))], backlog.read, before)
    return found


# --- what is already done ---------------------------------------------------------------------------------------------


def computed_ahead(context: TableContext, backlog: Backlog, *, only_failed: bool = False) -> list[CoveredKey]:
    """The keys of a step that were computed ahead of its positions, or failed: those are retried when they are due."""
    index, step, outputs = context.control.index, backlog.spec.name, backlog.stored_under
    failed = [entry for entry in rows_under(index.failed_keys(step), outputs) if entry.read_at is not None]
    tried = [CoveredKey(step, entry.key, entry.process_ts, entry.read_at or "") for entry in failed]
    return tried if only_failed else [*index.covered_keys(step, outputs), *tried]


def without_covered(found: Sequence[Found], covered: Sequence[CoveredKey], keying: Keying) -> list[Found]:
    """The keys except those computed ahead: those with no record after what was read when they were computed."""
    left = []
    for entry in found:
        same = [known for known in covered if set(json.loads(known.key)) == set(entry.columns)]
        read_at = {known.key: json.loads(known.read_at) for known in same}
        left.append(_without_covered(entry, read_at, keying) if read_at and entry.columns else entry)
    return left


def _without_covered(entry: Found, read_at: Mapping[str, Mapping[str, int]], keying: Keying) -> Found:
    rows = entry.keys.in_memory
    if rows is not None:
        texts, last = key_texts(rows.select(list(entry.columns))), rows.column(LAST).to_pylist()
        kept = [read_at.get(t, {}).get(entry.table, -1) < offset for t, offset in zip(texts, last, strict=True)]
        return Found(entry.table, entry.columns, LocalFrame(rows.filter(pa.array(kept, pa.bool_()))))
    texts = list(read_at)
    known = keys_of(texts, entry.columns, keying.key_types).rename_columns([its(name) for name in entry.columns])
    offsets = pa.array([read_at[text].get(entry.table, -1) for text in texts], pa.int64())
    session = keying.context.session
    done = spark_frame(session(), known.append_column("its record", offsets))
    frame = entry.keys.to_spark(session)
    is_done = same_as_its(frame, done, entry.columns) & (done["`its record`"] >= frame[LAST])
    return Found(
        entry.table,
        entry.columns,
        SparkFrame(frame.join(done, is_done, "left_anti")),
    )


def without_processed(
    found: Sequence[Found], backlog: Backlog, keys_table: TableSource, last: int | None
) -> list[Found]:
    """The keys except those that were read far enough, by a full comparison with the table of processed keys.

    A key that no longer exists has no row there, so it counts only while a pending record leads to it.
    """
    keying, standing = backlog.spec.keying, processed_keys(keys_table, backlog.spec.definition, last)
    names = [quoted(name) for name in keying.keys]
    there = keying.all_keys(backlog.read).select(*names).unionByName(standing.select(*names))
    there = as_its(there, keying.keys)
    left = []
    for entry in found:
        keys = unprocessed(keying, entry.keys.to_spark(keys_table.context.session), entry.table, standing)
        after = backlog.before[entry.table]
        waits = keys[LAST] > (-1 if after is None else after)
        kept = keys.join(there, same_as_its(keys, there, keying.keys), "left_semi").unionByName(keys.where(waits))
        left.append(Found(entry.table, entry.columns, SparkFrame(kept.distinct())))
    return left


# --- filters ----------------------------------------------------------------------------------------------------------


def filter_values(keying: Keying, filters: Mapping[str, Any]) -> pa.Table:
    """A filter's values as one row in the keys' types, or an error that names the column or the value."""
    arrays = []
    for name, value in filters.items():
        if name not in keying.group:
            finer = f" '{name}' is finer than the groups in which it is computed." if name in keying.keys else ""
            raise UnknownColumn(
                f"step '{keying.step}' cannot be filtered by '{name}'.{finer} Nothing was run.",
                hint=did_you_mean(name, list(keying.group), f"Transform keys of '{keying.step}'"),
            )
        kind = keying.key_types[name]
        try:
            arrays.append(convert_array(pa.chunked_array([pa.array([value])]), kind))
        except (ValueDoesNotFit, pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
            raise BadValue(
                f"step '{keying.step}': the filter value {value!r} does not fit '{name}', which is {spark_name(kind)}. "
                "Nothing was run."
            ) from None
    return pa.Table.from_arrays(arrays, names=list(filters))


def narrowed(keys: CheckedFrame, wanted: pa.Table, session: Session) -> CheckedFrame:
    """The keys that have a filter's values."""
    if not wanted.column_names:
        return keys
    if keys.in_memory is not None:
        return keys.semi_join(LocalFrame(wanted), by_name(wanted.column_names), session)
    return SparkFrame(keys.to_spark(session).where(_has_values(wanted)))


def leaves_out_keys(keys: CheckedFrame, wanted: pa.Table, session: Session) -> bool:
    """Whether some of the keys do not have a filter's values."""
    if not wanted.column_names:
        return False
    if keys.in_memory is not None:
        return narrowed(keys, wanted, session).count() < keys.count()
    return not keys.to_spark(session).where(~_has_values(wanted)).isEmpty()


def _has_values(wanted: pa.Table) -> Column:
    parts = []
    for field in wanted.schema:
        value, column = wanted.column(field.name)[0].as_py(), F.col(quoted(field.name))
        if value is None:
            parts.append(column.isNull())
        else:
            mine, [other] = typed_compared(column, field.type, [value])
            parts.append(mine.eqNullSafe(other))
    return all_of(parts)
