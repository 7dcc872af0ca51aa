"""Reading few rows of a base inside this process, with DuckDB: no Spark, no Java.

A first query finds where the rows are, reading only the columns of the condition; then these rows are read, a few at a
time. A single query would gather thousands of rows before it returns the first, even documents of a megabyte each.

The result is exactly what Spark would give, or None: then the caller asks Spark, which also raises the error about a
damaged file.
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
from seamark.tables.read.base_files import READ_FILES, BaseFile, NotExact, Places, base_files, has_column
from seamark.tables.read.source import TableSource
from seamark.tables.row_bytes import fixed_width
from seamark.tables.small import fits_on_driver

log = logging.getLogger("seamark.in_process")

OFFSET = "_offset"
BATCH_BYTES = 4 << 20  # about what one query reads: DuckDB holds this and its own copies, besides the rows so far
PAGE_BYTES = 8 << 20  # DuckDB unpacks whole pages, several at once, however few rows are asked for
_WANTED = "wanted"


def read_base_keys(
    source: TableSource, version: BaseVersion, values: pa.Table, columns: Sequence[str]
) -> pa.Table | None:
    """The rows of a base whose columns, those of `values`, hold one of the given tuples: `_offset` and some columns.

    NULL equals NULL. None if the rows are too large for the driver, or if only Spark can read them exactly.
    """
    if not values.num_columns:
        return None

    def read() -> pa.Table:
        _check_comparable(source, values.column_names)
        wanted = _in_column_types(source, values)
        if not wanted.num_rows:
            return row_schema(source, columns).empty_table()
        files = base_files(source, version)
        return _rows_at(source, files, _find_rows(source, files, wanted), columns)

    return _if_exact(source, read)


def first_base_rows(
    source: TableSource, version: BaseVersion, columns: Sequence[str], order: Sequence[str], limit: int
) -> pa.Table | None:
    """The first rows of a base in Spark's ascending order of some columns: `_offset` and `columns`.

    None if they are too large for the driver, or if only Spark can read them exactly.
    """

    def read() -> pa.Table:
        _check_comparable(source, order)
        if not fits_on_driver(limit):
            raise NotExact("more rows are asked for than fit on the driver")
        files = base_files(source, version)
        return _rows_at(source, files, _find_first_rows(source, files, order, limit), columns)

    return _if_exact(source, read)


def _if_exact(source: TableSource, read: Callable[[], pa.Table]) -> pa.Table | None:
    import duckdb

    try:
        return read()
    except NotExact as reason:
        log.debug("table '%s': the base is left to Spark: %s", source.name, reason)
    except (duckdb.Error, OSError, RuntimeError, ValueError) as error:
        # A damaged file can raise any of these: even ValueError, where the message itself is not valid text.
        log.debug("table '%s': DuckDB cannot read the base: %r", source.name, error)
        duck.forget(source.context.warehouse)
    return None


# --- comparing --------------------------------------------------------------------------------------------------------


def _check_comparable(source: TableSource, names: Sequence[str]) -> None:
    for name in names:
        if pa.types.is_nested(source.schema.column(name).type):
            raise NotExact(f"column '{name}' is nested")


def _in_column_types(source: TableSource, values: pa.Table) -> pa.Table:
    """The values in the columns' types: DuckDB would convert one side of a comparison by its own rules."""
    return values.cast(pa.schema([(name, source.schema.column(name).type) for name in values.column_names]))


# --- finding rows -----------------------------------------------------------------------------------------------------


def _find_rows(source: TableSource, files: Sequence[BaseFile], wanted: pa.Table) -> pa.Table:
    """The places, file and row number, of the rows that have one of these tuples."""
    if not files:
        return _no_places()
    # Columns are renamed to numbers, so that none has the name of a column of the base.
    numbered = wanted.rename_columns([str(place) for place in range(wanted.num_columns)])
    same = [
        f"{_column(files, name)} {_equality(wanted.column(name))} {_WANTED}.{duck.quoted(str(place))}"
        for place, name in enumerate(wanted.column_names)
    ]
    using = duck.cursor(source.context.warehouse)
    using.register(_WANTED, numbered)
    return _read_places_found(
        duck.query(
            using,
            f"SELECT base.file_index, base.file_row_number FROM {READ_FILES} AS base SEMI JOIN {_WANTED} "
            f"ON {' AND '.join(same)} LIMIT {small.SMALL_RECORDS + 1}",
            [file.path for file in files],
        )
    )


def _column(files: Sequence[BaseFile], name: str) -> str:
    # Never a name that no file has: it could be one of DuckDB's own columns, such as `filename`.
    return f"base.{duck.quoted(name)}" if has_column(files, name) else "NULL"


def _equality(values: pa.ChunkedArray) -> str:
    # DuckDB skips row groups by their statistics only for `=`.
    return "IS NOT DISTINCT FROM" if values.null_count else "="


def _find_first_rows(source: TableSource, files: Sequence[BaseFile], order: Sequence[str], limit: int) -> pa.Table:
    if not files or limit <= 0:
        return _no_places()
    there = [name for name in order if has_column(files, name)]
    by = ", ".join(f"{_column(files, name)} ASC NULLS FIRST" for name in there)
    return _read_places_found(
        duck.query(
            duck.cursor(source.context.warehouse),
            f"SELECT base.file_index, base.file_row_number FROM {READ_FILES} AS base "
            f"{f'ORDER BY {by}' if by else ''} LIMIT {int(limit)}",
            [file.path for file in files],
        )
    )


def _no_places() -> pa.Table:
    return pa.table({"file_index": pa.array([], pa.int64()), "file_row_number": pa.array([], pa.int64())})


def _read_places_found(found: pa.RecordBatchReader) -> pa.Table:
    places = found.read_all()
    if not fits_on_driver(places.num_rows):
        raise NotExact("there are more rows than fit on the driver")
    return places


# --- reading them -----------------------------------------------------------------------------------------------------


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
    """File by file, ascending places whose rows have about `BATCH_BYTES`, and the index in `found` of each place."""
    widths = [fixed_width(field.type) for field in schema]
    in_file, at = (column.to_numpy().astype(np.int64) for column in found.columns)
    for number in np.unique(in_file):
        mine = np.flatnonzero(in_file == number)
        mine = mine[np.argsort(at[mine])]
        file = files[number]
        # A row group has one size for all its columns, so with texts all columns count, not only those asked for.
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
    """The rows of a file at these ascending places."""
    using = duck.cursor(source.context.warehouse)
    using.register(_WANTED, pa.table({"place": places}))
    there = [name for name in schema.names if name in file.columns.names]
    listed = ", ".join(f"base.{duck.quoted(name)}" for name in there)
    rows = duck.query(
        using,
        f"SELECT base.file_row_number, {listed} FROM {READ_FILES} AS base SEMI JOIN {_WANTED} "
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
    """The schema of rows in memory: `_offset`, the record that made the row, and some columns."""
    own = [source.schema.arrow.field(name) for name in columns]
    return pa.schema([pa.field(OFFSET, pa.int64()), *own])
