"""From changed records to the keys that must be computed: one input at a time, never two filtered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.steps.rows.fetch import read_for
from seamark.steps.rows.scope import KeyValues
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, its, quoted, union_of
from seamark.tables.read.choice import all_of
from seamark.tables.read.records import read_slices
from seamark.tables.read.rows import read_images
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keying import FIRST, LAST, Changes, Found
from seamark.transforms.keys.hops import fitting, grouped, led_to


def changed_keys(
    shape: Shape, changes: Sequence[Changes], read: Mapping[str, int | None], before: Mapping[str, int | None]
) -> Iterator[Found]:
    """The keys that changed records of the inputs lead to, input after input.

    `read` says up to which record each input is read, `before` up to which it was read when its rows were last made:
    where a key is found through a reference, it is looked up at both.
    """
    for change in changes:
        for source in shape.inputs:
            if source.table != change.table:
                continue
            if shape.looked_up:
                yield from _through_references(shape, source, change, read, before)
            elif source.is_reference:
                yield _by_reverse_join(shape, source, change, read)
            else:
                yield _by_own_columns(shape, source, change)


# --- an input that has the keys ---------------------------------------------------------------------------------------


def _by_own_columns(shape: Shape, source: Input, change: Changes) -> Found:
    """The keys in both images of each change: the old one names a key that the row may have left."""
    columns = shape.group_of(source)
    return Found(
        change.table, columns, grouped(change.images(source.source, columns), columns, source.source.context.session)
    )


# --- a reference ------------------------------------------------------------------------------------------------------


def _by_reverse_join(shape: Shape, reference: Input, change: Changes, read: Mapping[str, int | None]) -> Found:
    """The keys of all rows of the primary, old ones too, that name one of the changed reference values."""
    columns, primary = shape.group_of(shape.primary), shape.primary
    values = _reference_values(shape, reference, change)
    upto, session = read[primary.table], primary.source.context.session
    if values.is_known_empty:
        return Found(change.table, columns, LocalFrame(_no_keys(shape, columns)))
    few = values.in_memory
    if few is None:
        rows: CheckedFrame = SparkFrame(read_images(primary.source, upto=upto))
    else:
        rows = read_for(primary.source, KeyValues(few.drop_columns([FIRST, LAST])), upto, columns)
    return Found(change.table, columns, led_to(columns, rows, values, session))


def _reference_values(shape: Shape, reference: Input, change: Changes) -> CheckedFrame:
    """The changed values of the reference's columns under the names and types of the primary's, without NULLs."""
    theirs = [name for _, name in reference.join_keys]
    mine = [name for name, _ in reference.join_keys]
    types = [shape.primary.source.schema.column(name).type for name in mine]
    session = reference.source.context.session
    found = grouped(change.images(reference.source, _once(theirs)), _once(theirs), session)
    if found.in_memory is None:
        picked = [F.col(quoted(t)).alias(m) for m, t in zip(mine, theirs, strict=True)]
        whole = all_of([F.col(quoted(name)).isNotNull() for name in mine])  # NaN is a value
        return SparkFrame(found.to_spark(session).select(*picked, FIRST, LAST).where(whole))
    columns = [found.in_memory.column(name) for name in [*theirs, FIRST, LAST]]
    table = pa.Table.from_arrays(columns, names=[*mine, FIRST, LAST])
    return LocalFrame(fitting(table.drop_null(), dict(zip(mine, types, strict=True))))


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _no_keys(shape: Shape, columns: Sequence[str]) -> pa.Table:
    offsets = [pa.field(FIRST, pa.int64()), pa.field(LAST, pa.int64())]
    return pa.schema([*[pa.field(name, shape.key_types[name]) for name in columns], *offsets]).empty_table()


# --- keys that only references have -----------------------------------------------------------------------------------


def _through_references(
    shape: Shape, source: Input, change: Changes, read: Mapping[str, int | None], before: Mapping[str, int | None]
) -> Iterator[Found]:
    """Keys looked up in all versions that the inputs had from the last commit's positions to the pins.

    All versions, not only both ends: a partial run may have made rows from a version in between.
    """

    def versions(looked_at: Input) -> DataFrame:
        return _versions(looked_at, before[looked_at.table], read[looked_at.table])

    if source is shape.primary:
        images = _images(source, change, source.columns)
        frames = [_with_keys(shape, images, versions).select(*_key_columns(shape), LAST)]
    elif source.is_reference:
        frames = [_keys_of_reference(shape, source, change, versions)]
        if set(shape.keys) <= set(source.columns):
            frames.append(_images(source, change, shape.keys).select(*_key_columns(shape), LAST))
    else:  # it concerns every key
        yield _by_own_columns(shape, source, change)
        return
    keys = reduce(DataFrame.unionByName, frames)
    yield Found(change.table, shape.keys, grouped(SparkFrame(keys), shape.keys, source.source.context.session))


def _images(source: Input, change: Changes, columns: Sequence[str]) -> DataFrame:
    return change.images(source.source, columns).to_spark(source.source.context.session)


def _key_columns(shape: Shape) -> list[str]:
    return [quoted(name) for name in shape.keys]


def _versions(source: Input, before: int | None, read: int | None) -> DataFrame:
    """The rows of an input after the record `before`, and all images of the records from there to `read`."""
    table, names = source.source, [quoted(name) for name in source.columns]
    rows = read_images(table, upto=before).select(*names)
    if read is None:
        return rows
    blocks = table.context.control.index.slices(table.name, after=before, upto=read)
    return rows.unionByName(read_slices(table, blocks).select(*names)) if blocks else rows


def _keys_of_reference(
    shape: Shape, reference: Input, change: Changes, versions: Callable[[Input], DataFrame]
) -> DataFrame:
    theirs = [name for _, name in reference.join_keys]
    changed = _images(reference, change, _once(theirs))
    values = changed.groupBy(*[quoted(name) for name in _once(theirs)]).agg(F.max(LAST).alias(LAST))
    renamed = values.select(*[F.col(quoted(name)).alias(its(name)) for name in _once(theirs)], F.col(LAST))
    rows = versions(shape.primary)
    same = [rows[quoted(mine)] == renamed[quoted(its(name))] for mine, name in reference.join_keys]
    joined = rows.join(renamed, all_of(same))
    return _with_keys(shape, joined, versions).select(*_key_columns(shape), LAST)


def with_keys(shape: Shape, primary_rows: DataFrame, at: Mapping[str, int | None]) -> DataFrame:
    """Rows of the primary with the keys that their references have, at given positions; NULL where there is none."""
    return _with_keys(shape, primary_rows, lambda reference: read_images(reference.source, upto=at[reference.table]))


def _with_keys(shape: Shape, primary_rows: DataFrame, rows_of: Callable[[Input], DataFrame]) -> DataFrame:
    rows = primary_rows
    for reference in shape.references:
        wanted = [name for name in shape.looked_up if shape.home_reference(name) is reference]
        if not wanted:
            continue
        theirs = rows_of(reference).select(
            *[F.col(quoted(name)).alias(its(name)) for _, name in reference.join_keys],
            *[F.col(quoted(name)) for name in wanted],
        )
        same = [rows[quoted(mine)] == theirs[quoted(its(name))] for mine, name in reference.join_keys]
        rows = rows.join(theirs, all_of(same), "left")
        rows = rows.drop(*[its(name) for _, name in reference.join_keys])
    return rows


# --- several of them --------------------------------------------------------------------------------------------------


def joined_keys(found: Sequence[Found], session: Session) -> CheckedFrame:
    """The keys of several findings with the same columns, each once, without offsets."""
    return union_of([entry.keys.select(entry.columns) for entry in found], session).distinct()
