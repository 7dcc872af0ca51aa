"""Few rows of a snapshot, read inside this process: its base with DuckDB, its tail with Arrow. No Spark, no Java.

This is the only way to get rows to the driver without a Spark job. The result is exactly what Spark would give, or
None: then the caller asks Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamark.ledger import Op
from seamark.tables.ordering import comparable
from seamark.tables.read.in_process import OFFSET, first_base_rows, read_base_keys, row_schema
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.snapshot import Snapshot
from seamark.tables.read.source import TableSource
from seamark.tables.small import fits_on_driver

# Up to this many keys are looked up in a base, or the whole of a base with this many rows is read. Spark, which uses
# every core, is faster for more.
FEW_ROWS = 10_000


def read_few(snapshot: Snapshot, values: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    """The rows whose columns, those of `values`, hold one of the given tuples; without values, all rows.

    They come with their `_offset` and some columns. None if they are many or large, or need Spark to be exact.
    """
    if not fits_on_driver(snapshot.tail_records):
        return None
    source = snapshot.source
    sought = [] if values is None else values.column_names
    names = _in_order(source, [*columns, *sought, *source.schema.key])
    standing = _base_rows(snapshot, values, names)
    if standing is None:
        return None
    records = read_small(source, snapshot.tail, ["offset", "op", *names])
    if records is None:
        return None
    if values is not None and set(sought) <= set(source.schema.key):  # so all versions of a row match, or none
        records = _prefiltered(records, values)
    rows = with_tail(source, standing, records, lambda live: live if values is None else rows_with(live, values))
    return rows.select([OFFSET, *columns])


def read_first(snapshot: Snapshot, limit: int) -> pa.Table | None:
    """The first rows by key, of an append-only table some rows in their order: `_offset` and all columns.

    None if they are many or large, or need Spark to be exact.
    """
    source = snapshot.source
    names, key = source.schema.names, list(source.schema.key)
    records = read_small(source, snapshot.tail, ["offset", "op", *names])
    if records is None:
        return None
    standing = row_schema(source, names).empty_table()
    if snapshot.base is not None:
        # The tail may retract or replace as many of these as it has keys.
        asked = limit + (len(set(comparable(records.select(key)))) if key else 0)
        found = first_base_rows(source, snapshot.base, names, key, asked)
        if found is None:
            return None
        standing = found
    rows = with_tail(source, standing, records, lambda live: live)
    places = comparable(rows.select(key or [OFFSET]))
    order = sorted(range(rows.num_rows), key=places.__getitem__)
    return rows.take(pa.array(order[:limit], pa.int64()))


def with_tail(
    source: TableSource, standing: pa.Table, records: pa.Table, keep: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    """Rows of a base without those that records of the tail touch, and the rows of the tail that are to be kept.

    `keep` takes the tail's live rows and gives those that are wanted.
    """
    key, live = list(source.schema.key), keep(live_rows(source, records))
    if key and records.num_rows and standing.num_rows:
        touched = set(comparable(_prefiltered(records.select(key), standing.select(key))))
        is_untouched = [found not in touched for found in comparable(standing.select(key))]
        standing = standing.filter(pa.array(is_untouched, pa.bool_()))
    return pa.concat_tables([standing, live])


def live_rows(source: TableSource, versions: pa.Table) -> pa.Table:
    """The current rows, from all versions of them (`offset`, `op`, columns) in any order."""
    key, rows = source.schema.key, versions
    if key:
        rows = newest_of_each(rows.filter(pc.not_equal(rows.column("op"), int(Op.CORRECT_FROM))), key)
        rows = rows.filter(pc.not_equal(rows.column("op"), int(Op.RETRACT)))
    rows = rows.drop_columns(["op"])
    names = rows.column_names[1:]
    return rows.rename_columns([OFFSET, *names]).cast(row_schema(source, names))


def newest_of_each(records: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of each key, its record with the greatest offset."""
    if records.num_rows < 2:
        return records
    # Columns are renamed to numbers: Arrow calls its result `<column>_max`, which may be the name of another column.
    numbered = records.select(["offset", *key]).rename_columns([str(place) for place in range(len(key) + 1)])
    newest = numbered.group_by(numbered.column_names[1:]).aggregate([("0", "max")]).column("0_max")
    return records.filter(pc.is_in(records.column("offset"), value_set=newest.combine_chunks()))


def rows_with(rows: pa.Table, values: pa.Table) -> pa.Table:
    """The rows whose columns, those of the values, hold one of the given tuples."""
    rows = _prefiltered(rows, values)
    wanted = set(comparable(values))
    found = comparable(rows.select(values.column_names))
    return rows.filter(pa.array([value in wanted for value in found], pa.bool_()))


def _base_rows(snapshot: Snapshot, values: pa.Table | None, names: Sequence[str]) -> pa.Table | None:
    source, base = snapshot.source, snapshot.base
    if base is None:
        return row_schema(source, names).empty_table()
    if source.context.cache.holds(base, source.schema.names):
        return None  # Spark has these rows in memory
    if values is None:
        return first_base_rows(source, base, names, (), base.row_count) if base.row_count <= FEW_ROWS else None
    return read_base_keys(source, base, values, names) if values.num_rows <= FEW_ROWS else None


def _in_order(source: TableSource, names: Sequence[str]) -> list[str]:
    needed = set(names)
    return [name for name in source.schema.names if name in needed]


def _prefiltered(rows: pa.Table, values: pa.Table) -> pa.Table:
    """The rows that may have these values: Arrow drops most others here, much faster than the exact test in Python."""
    for name in values.column_names:
        kind, sought = rows.schema.field(name).type, values.column(name)
        # Not for floats: Arrow's NaN and -0.0 do not equal what Spark's do.
        if kind == sought.type and not pa.types.is_floating(kind) and not pa.types.is_nested(kind):
            rows = rows.filter(pc.is_in(rows.column(name), value_set=sought.combine_chunks()))
    return rows
