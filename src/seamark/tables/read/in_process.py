"""Reading few rows of a base inside this process, with DuckDB: no Spark, no Java.

Where the rows stand is found first, by the columns that say which rows are wanted, and only then are these rows read, a
few at a time. In one query DuckDB would gather thousands of rows before it gives the first, documents of a megabyte
too.

Every answer is exactly Spark's, or there is none. Then the caller asks Spark, which also has the words for what is
wrong with a file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamark.control import BaseVersion
from seamark.tables import small
from seamark.tables.read import duck
from seamark.tables.read.base_files import READ, BaseFile, NotExact, Places, base_files, has_column
from seamark.tables.read.source import TableSource
from seamark.tables.row_bytes import fixed_width
from seamark.tables.small import fits_on_driver

log = logging.getLogger("seamark.in_process")

OFFSET = "_offset"
BATCH_BYTES = 4 << 20  # about what is read at once: DuckDB holds this, and its own work on it, besides the rows so far
PAGE_BYTES = 8 << 20  # DuckDB unpacks whole pages, several at once, whatever it was asked for
_WANTED = "wanted"


def read_base_keys(
    source: TableSource, version: BaseVersion, values: pa.Table, columns: Sequence[str]
) -> pa.Table | None:
    """The rows of a base whose columns, those of `values`, hold one of the given tuples: `_offset` and some columns.

    NULL is a value like any other. None if they are too large for the driver, or if only Spark can tell them.
    """
    if not values.num_columns:
        return None

    def read() -> pa.Table:
        _check_comparable(source, values.column_names)
        wanted = _as_the_table_has_them(source, values)
        if not wanted.num_rows:
            return row_schema(source, columns).empty_table()
        files = base_files(source, version)
        return _rows_at(source, files, _find(source, files, wanted), columns)

    return _if_exact(source, read)


def first_base_rows(
    source: TableSource, version: BaseVersion, columns: Sequence[str], order: Sequence[str], limit: int
) -> pa.Table | None:
    """The first rows of a base in Spark's ascending order of some columns: `_offset` and the asked columns.

    None if they are too large for the driver, or if only Spark can tell them.
    """

    def read() -> pa.Table:
        _check_comparable(source, order)
        if not fits_on_driver(limit):
            raise NotExact("more rows are asked for than the driver takes")
        files = base_files(source, version)
        return _rows_at(source, files, _find_first(source, files, order, limit), columns)

    return _if_exact(source, read)


def _if_exact(source: TableSource, read: Callable[[], pa.Table]) -> pa.Table | None:
    import duckdb

    try:
        return read()
    except NotExact as reason:
        log.debug("table '%s': the base is left to Spark: %s", source.name, reason)
    except (duckdb.Error, OSError, RuntimeError, ValueError) as error:
        # Damaged files have DuckDB raise all of these: texts of its errors need not be text.
        log.debug("table '%s': DuckDB cannot read the base: %r", source.name, error)
        duck.forget(source.context.warehouse)
    return None


# --- what can be compared ---------------------------------------------------------------------------------------------


def _check_comparable(source: TableSource, names: Sequence[str]) -> None:
    for name in names:
        if pa.types.is_nested(source.schema.column(name).type):
            raise NotExact(f"column '{name}' is nested")


def _as_the_table_has_them(source: TableSource, values: pa.Table) -> pa.Table:
    """The values in the columns' types, so that neither side of a comparison is converted."""
    return values.cast(pa.schema([(name, source.schema.column(name).type) for name in values.column_names]))


# --- where rows stand -------------------------------------------------------------------------------------------------


def _find(source: TableSource, files: Sequence[BaseFile], wanted: pa.Table) -> pa.Table:
    """Where the rows stand that have one of these tuples."""
    if not files:
        return _no_places()
    # By numbers: the names of columns are those of the base.
    numbered = wanted.rename_columns([str(place) for place in range(wanted.num_columns)])
    same = [
        f"{_column(files, name)} {_is(wanted.column(name))} {_WANTED}.{duck.quoted(str(place))}"
        for place, name in enumerate(wanted.column_names)
    ]
    using = duck.cursor(source.context.warehouse)
    using.register(_WANTED, numbered)
    return _at_most(
        duck.query(
            using,
            f"SELECT base.file_index, base.file_row_number FROM {READ} AS base SEMI JOIN {_WANTED} "
            f"ON {' AND '.join(same)} LIMIT {small.SMALL_RECORDS + 1}",
            [file.path for file in files],
        )
    )


def _column(files: Sequence[BaseFile], name: str) -> str:
    # Never a name that no file has: DuckDB has columns of its own, such as `filename`, and would take one of these.
    return f"base.{duck.quoted(name)}" if has_column(files, name) else "NULL"


def _is(values: pa.ChunkedArray) -> str:
    # Only `=` lets DuckDB skip the groups of rows that have none of the values.
    return "IS NOT DISTINCT FROM" if values.null_count else "="


def _find_first(source: TableSource, files: Sequence[BaseFile], order: Sequence[str], limit: int) -> pa.Table:
    if not files or limit <= 0:
        return _no_places()
    there = [name for name in order if has_column(files, name)]
    by = ", ".join(f"{_column(files, name)} ASC NULLS FIRST" for name in there)
    return _at_most(
        duck.query(
            duck.cursor(source.context.warehouse),
            f"SELECT base.file_index, base.file_row_number FROM {READ} AS base "
            f"{f'ORDER BY {by}' if by else ''} LIMIT {int(limit)}",
            [file.path for file in files],
        )
    )


def _no_places() -> pa.Table:
    return pa.table({"file_index": pa.array([], pa.int64()), "file_row_number": pa.array([], pa.int64())})


def _at_most(found: pa.RecordBatchReader) -> pa.Table:
    places = found.read_all()
    if not fits_on_driver(places.num_rows):
        raise NotExact("there are more rows than the driver takes")
    return places


# --- the rows there ---------------------------------------------------------------------------------------------------


def _rows_at(source: TableSource, files: Sequence[BaseFile], found: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows at these places, in their order."""
    schema = row_schema(source, columns)
    known = sum(fixed_width(field.type) or 0 for field in schema)
    _check_size(found.num_rows, known * found.num_rows)
    _check_pages(schema, [files[number] for number in pc.unique(found.column("file_index")).to_pylist()])
    pieces, turns, size = [], [], 0
    for file, places, numbers in _batches(schema, files, found):
        pieces.append(_read_places(schema, source, file, places))
        turns.append(numbers)
        size += pieces[-1].nbytes
        _check_size(found.num_rows, size)
    return pa.concat_tables(pieces).take(np.argsort(np.concatenate(turns))) if pieces else schema.empty_table()


def _check_size(rows: int, values: int) -> None:
    if not fits_on_driver(rows, values):
        raise NotExact("the rows are too large for the driver")


def _check_pages(schema: pa.Schema, files: Sequence[BaseFile]) -> None:
    if any(fixed_width(field.type) is None for field in schema):
        for file in files:
            if file.page_bytes > PAGE_BYTES:
                raise NotExact(f"{file.path}: its pages are too large for the driver")


def _batches(
    schema: pa.Schema, files: Sequence[BaseFile], found: pa.Table
) -> Iterator[tuple[BaseFile, Places, Places]]:
    """The places, file by file, in pieces of about `BATCH_BYTES`, ascending, and where each of them is in `found`."""
    widths = [fixed_width(field.type) for field in schema]
    in_file, at = (column.to_numpy().astype(np.int64) for column in found.columns)
    for number in np.unique(in_file):
        mine = np.flatnonzero(in_file == number)
        mine = mine[np.argsort(at[mine])]
        file = files[number]
        # The bytes of a group are those of all columns: where texts are asked for, the others count too.
        same = None if None in widths else np.full(len(mine), sum(width or 0 for width in widths))
        for begin, end in _cuts(file.bytes_at(at[mine]) if same is None else same):
            yield file, at[mine[begin:end]], mine[begin:end]


def _cuts(sizes: Places) -> Iterator[tuple[int, int]]:
    begin, held = 0, 0
    for end, size in enumerate(sizes.tolist()):
        if end > begin and held + size > BATCH_BYTES:
            yield begin, end
            begin, held = end, 0
        held += size
    if begin < len(sizes):
        yield begin, len(sizes)


def _read_places(schema: pa.Schema, source: TableSource, file: BaseFile, places: Places) -> pa.Table:
    """The rows of a file at these places, which ascend."""
    using = duck.cursor(source.context.warehouse)
    using.register(_WANTED, pa.table({"place": places}))
    there = [name for name in schema.names if name in file.columns.names]
    listed = ", ".join(f"base.{duck.quoted(name)}" for name in there)
    rows = duck.query(
        using,
        f"SELECT base.file_row_number, {listed} FROM {READ} AS base SEMI JOIN {_WANTED} "
        f"ON base.file_row_number = {_WANTED}.place",
        [file.path],
    ).read_all()
    if rows.num_rows != len(places):
        raise NotExact(f"{file.path} does not have the rows that were found in it")
    rows = rows.take(pc.array_sort_indices(rows.column(0)))
    arrays = [
        rows.column(there.index(field.name) + 1).cast(field.type)
        if field.name in there
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def row_schema(source: TableSource, columns: Sequence[str]) -> pa.Schema:
    """How rows in memory are kept: the hidden column `_offset`, the record that made the row, and some columns."""
    own = [source.schema.arrow.field(name) for name in columns]
    return pa.schema([pa.field(OFFSET, pa.int64()), *own])
