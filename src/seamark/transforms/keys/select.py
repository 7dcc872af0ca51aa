"""From changed records to the keys that must be computed: one input at a time, never two filtered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.steps.rows.fetch import read_for
from seamark.steps.rows.scope import KeyValues
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, its, quoted, union_of
from seamark.tables.ordering import comparable
from seamark.tables.read.choice import all_of
from seamark.tables.read.records import read_slices
from seamark.tables.read.rows import read_images
from seamark.transforms.declare.shape import Input, Shape, is_exact_number
from seamark.transforms.keying import FIRST, LAST, Changes, Found


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
        change.table, columns, _grouped(change.images(source.source, columns), columns, source.source.context.session)
    )


def _grouped(records: CheckedFrame, columns: Sequence[str], session: Session) -> CheckedFrame:
    """Each key once, with the first and the last record that lead to it."""
    rows = records.in_memory
    return (
        LocalFrame(_grouped_rows(rows, columns))
        if rows is not None
        else SparkFrame(_grouped_frame(records, columns, session))
    )


def _grouped_frame(records: CheckedFrame, columns: Sequence[str], session: Session) -> DataFrame:
    frame, first = records.to_spark(session), FIRST if FIRST in records.names else LAST
    return frame.groupBy(*map(quoted, columns)).agg(F.min(first).alias(FIRST), F.max(LAST).alias(LAST))


def _grouped_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    names = list(columns)
    if FIRST not in rows.column_names:
        rows = rows.append_column(FIRST, rows.column(LAST))
    if not names:
        return rows.select([FIRST, LAST]).sort_by([(LAST, "descending")]).slice(0, 1)
    # Columns are renamed to numbers: Arrow calls its results `<column>_max`, which may be the name of another column.
    numbered = rows.select([*names, FIRST, LAST]).rename_columns([str(place) for place in range(len(names) + 2)])
    *keys, first, last = numbered.column_names
    grouped = numbered.group_by(keys).aggregate([(first, "min"), (last, "max")])
    return grouped.select([*keys, f"{first}_min", f"{last}_max"]).rename_columns([*names, FIRST, LAST])


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
        rows_frame = read_images(primary.source, upto=upto)
        return Found(change.table, columns, SparkFrame(_joined(columns, rows_frame, values.to_spark(session))))
    rows = read_for(primary.source, KeyValues(few.drop_columns([FIRST, LAST])), upto, columns)
    if rows.in_memory is not None:
        return Found(change.table, columns, LocalFrame(_joined_in_memory(columns, rows.in_memory, few)))
    spoken = F.broadcast(values.to_spark(session))
    return Found(change.table, columns, SparkFrame(_joined(columns, rows.to_spark(session), spoken)))


def _reference_values(shape: Shape, reference: Input, change: Changes) -> CheckedFrame:
    """The changed values of the reference's columns under the names and types of the primary's, without NULLs."""
    theirs = [name for _, name in reference.join_keys]
    mine = [name for name, _ in reference.join_keys]
    types = [shape.primary.source.schema.column(name).type for name in mine]
    session = reference.source.context.session
    grouped = _grouped(change.images(reference.source, _once(theirs)), _once(theirs), session)
    if grouped.in_memory is None:
        picked = [F.col(quoted(t)).alias(m) for m, t in zip(mine, theirs, strict=True)]
        whole = all_of([F.col(quoted(name)).isNotNull() for name in mine])  # NaN is a value
        return SparkFrame(grouped.to_spark(session).select(*picked, FIRST, LAST).where(whole))
    columns = [grouped.in_memory.column(name) for name in [*theirs, FIRST, LAST]]
    table = pa.Table.from_arrays(columns, names=[*mine, FIRST, LAST])
    return LocalFrame(fitting(table.drop_null(), dict(zip(mine, types, strict=True))))


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def fitting(values: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The values cast to these types, without those that a type cannot hold: they equal nothing there."""
    for name, wanted in types.items():
        place, column = values.column_names.index(name), values.column(name)
        if column.type == wanted:
            continue
        try:
            converted = column.cast(wanted)
        except pa.ArrowInvalid:  # some do not fit; or Arrow refuses all, as it does whole numbers for short decimals
            each = [_fitted(value, wanted) for value in column]
            values = values.filter(pa.array([one is not None for one in each], pa.bool_()))
            converted = pa.chunked_array([pa.array([one.as_py() for one in each if one is not None], wanted)])
        values = values.set_column(place, pa.field(name, wanted), converted)
    return values


def _fitted(value: pa.Scalar, wanted: pa.DataType) -> pa.Scalar | None:
    """The same value in another type; None if that cannot hold it."""
    try:
        if is_exact_number(value.type) and is_exact_number(wanted):
            number = Decimal(value.as_py())
            if pa.types.is_decimal(wanted):
                return pa.scalar(number, wanted)
            return pa.scalar(int(number), wanted) if number == number.to_integral_value() else None
        return value.cast(wanted)
    except (pa.ArrowInvalid, OverflowError):
        return None


def _joined_in_memory(columns: Sequence[str], rows: pa.Table, values: pa.Table) -> pa.Table:
    names = [name for name in values.column_names if name not in (FIRST, LAST)]
    places = {key: place for place, key in enumerate(comparable(values.select(names)))}
    mine = pa.array([places[key] for key in comparable(rows.select(names))], pa.int64())
    keys = rows.select(list(columns))
    for name in (FIRST, LAST):
        keys = keys.append_column(name, values.column(name).take(mine))
    return _grouped_rows(keys, columns)


def _joined(columns: Sequence[str], rows: DataFrame, values: DataFrame) -> DataFrame:
    names = [name for name in values.columns if name not in (FIRST, LAST)]
    renamed = values.select(*[F.col(quoted(n)).alias(its(n)) for n in names], F.col(FIRST), F.col(LAST))
    same = [rows[quoted(name)] == renamed[quoted(its(name))] for name in names]
    joined = rows.join(renamed, all_of(same))
    by = [quoted(name) for name in columns]
    return joined.groupBy(*by).agg(F.min(FIRST).alias(FIRST), F.max(LAST).alias(LAST))


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
    yield Found(change.table, shape.keys, _grouped(SparkFrame(keys), shape.keys, source.source.context.session))


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
