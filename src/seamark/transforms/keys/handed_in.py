"""Keys that the caller hands in: a frame of transform keys, or changes of inputs that lead to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from seamark.errors import FrameMismatch
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.changelist import ChangeList
from seamark.steps.rows.fetch import OFFSET
from seamark.steps.rows.keys import columns_of, key_texts
from seamark.steps.rows.scope import KeyFrame, KeyValues, Scope
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, quoted
from seamark.tables.frames import check_frame, is_spark
from seamark.tables.ordering import distinct
from seamark.tables.read.choice import KeyChoice, choose_values
from seamark.tables.read.rows import read_images
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, TableSchema
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import LAST, Found, HandedInRows, Keying
from seamark.transforms.keys.scopes import joined_scope
from seamark.transforms.keys.strategies import scope_of
from seamark.transforms.run import StepRun


def key_rows(keying: Keying, keys: Any) -> pa.Table:
    """A frame of transform keys, or of the columns by which the step is computed, on the driver."""
    columns = _key_columns(keying, keys)
    schema = TableSchema(tuple(Column(name, keying.key_types[name], True) for name in columns), columns)
    checked = check_frame(f"keys of {keying.step}", schema, keys, only_key=True)
    return checked.to_arrow(pa.schema([pa.field(name, keying.key_types[name]) for name in columns]))


def _key_columns(keying: Keying, keys: Any) -> tuple[str, ...]:
    names = keys.column_names if hasattr(keys, "column_names") else getattr(keys, "columns", None)
    if names is None and isinstance(keys, list) and keys:
        names = list(keys[0])
    found = tuple(str(name) for name in (names if names is not None else ()))
    for columns in keying.kinds_of_keys:
        if set(columns) <= set(found):
            return columns
    raise FrameMismatch(
        f"the frame of keys for step '{keying.step}' lacks "
        f"{', '.join(repr(name) for name in keying.keys if name not in found) or 'its columns'}. Nothing was run.",
        hint=f"give a frame with the transform keys: {', '.join(keying.keys) or 'none'}.",
    )


def failed_among(failed: Set[str], rows: pa.Table) -> set[str]:
    """The failed keys that these rows name.

    A key may have failed as part of a group, by some of the columns: then rows with its values in these name it.
    """
    found: set[str] = set()
    for columns in {columns_of(text) for text in failed}:
        if set(columns) <= set(rows.column_names):
            found.update(key_texts(distinct(rows.select(list(columns)))))
    return found & failed


def handed_in_scope(run: StepRun, keys: Any) -> tuple[Scope, tuple[str, ...]]:
    """The keys of a frame, or the groups that they are computed in, as a scope and as texts for the checkpoint."""
    keying = run.keying
    rows = key_rows(keying, keys)
    columns = keying.group if set(keying.group) <= set(rows.column_names) else tuple(rows.column_names)
    with ExitStack() as stack:
        groups = distinct(rows.select(list(columns)))
        scope = joined_scope(keying, tuple(groups.column_names), [LocalFrame(groups)], stack)
    return scope, tuple(key_texts(groups))


# --- changes of inputs ------------------------------------------------------------------------------------------------


def changed_rows(run: StepRun, backlog: Backlog, changes: ChangeList) -> Iterator[tuple[Scope, tuple[str, ...]]]:
    """The scopes that changes lead to, and the keys in them as texts."""
    keying, found = run.keying, list[Found]()
    for table, source in keying.sources.items():
        if table in changes.changes:
            rows = _rows_from_frame(keying, source, changes.changes[table], backlog)
            found += keying.changed_keys([HandedInRows(table, rows)], backlog.read, backlog.before)
    with ExitStack() as stack:
        for columns in dict.fromkeys(entry.columns for entry in found):
            same = [entry for entry in found if entry.columns == columns]
            scope = scope_of(run, columns, same, (), stack)
            yield scope, _texts(scope)


def _texts(scope: Scope) -> tuple[str, ...]:
    if isinstance(scope, KeyValues):
        return tuple(key_texts(scope.values))
    if isinstance(scope, KeyFrame):
        return tuple(key_texts(arrow_rows(scope.frame).select(list(scope.columns))))
    return ("{}",)


def _rows_from_frame(keying: Keying, source: TableSource, frame: Any, backlog: Backlog) -> CheckedFrame:
    """A frame of an input's keys as rows with the columns that lead to transform keys.

    Columns that the frame lacks are looked up in the input as it is now and as it was at the step's position.
    """
    needed = keying.columns_needed(source.name)
    if not needed:  # any change concerns every key: only whether there is one matters
        return LocalFrame(pa.table({LAST: pa.array([0] if _has_rows(frame) else [], pa.int64())}))
    names = _names(frame)
    if set(needed) <= set(names):
        schema = TableSchema(tuple(Column(n, source.schema.column(n).type, True) for n in needed), tuple(needed))
        return _numbered(check_frame(source.name, schema, frame, only_key=True), source.context.session)
    keys = check_frame(source.name, source.schema, frame, only_key=True)
    choice = _choice(source, keys)
    both = read_images(source, upto=backlog.read[source.name], choice=choice)
    before = backlog.before[source.name]
    if before is not None:
        both = both.unionByName(read_images(source, upto=before, choice=choice))
    return SparkFrame(both.select(F.col(OFFSET).alias(LAST), *[F.col(quoted(name)) for name in needed]))


def _names(frame: Any) -> Sequence[str]:
    if hasattr(frame, "column_names"):
        return list(frame.column_names)
    if hasattr(frame, "columns"):
        return [str(name) for name in frame.columns]
    return list(frame[0]) if frame else []


def _has_rows(frame: Any) -> bool:
    if is_spark(frame):
        return frame.limit(1).count() > 0
    return len(frame) > 0


def _numbered(rows: CheckedFrame, session: Session) -> CheckedFrame:
    local = rows.in_memory
    if local is not None:
        return LocalFrame(local.append_column(LAST, pa.repeat(pa.scalar(0, pa.int64()), local.num_rows)))
    return SparkFrame(rows.to_spark(session).withColumn(LAST, F.lit(0).cast("long")))


def _choice(source: TableSource, keys: CheckedFrame) -> KeyChoice:
    if keys.in_memory is not None:
        return choose_values(source, keys.in_memory)
    return KeyChoice(source.schema.key, keys=keys.to_spark(source.context.session).distinct())
