"""What the files of a base hold, as DuckDB sees it, and whether it reads them exactly as Spark does."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from seamark.control import BaseVersion
from seamark.ledger.verify.footer import group_sizes
from seamark.tables.read import duck
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.source import TableSource

READ_FILES = "read_parquet($1, hive_partitioning = false, union_by_name = true)"  # folders named a=b are no columns
# The columns in which DuckDB reports where a row is. A column of the table with such a name would hide them.
PLACE_COLUMNS = ("file_index", "file_row_number")
PAGE_ROWS = 100
_PATTERN_SIGNS = frozenset("*?[\\")  # a path with these is a pattern to DuckDB: it would read every file that matches
_OTHER_CALENDAR = b"org.apache.spark.legacyDateTime"


Places: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"  # numbers of rows in a file


class NotExact(Exception):
    """DuckDB would not give what Spark gives, or cannot: the text says why, for whoever debugs it."""


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One file: its columns as DuckDB types them; for each row group, where it ends and the bytes per row."""

    path: str
    columns: pa.Schema
    group_ends: tuple[int, ...]
    group_row_bytes: tuple[float, ...]

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return self.group_ends[-1] if self.group_ends else 0

    @property
    def page_bytes(self) -> int:
        """About the most bytes that a page has: Spark ends none before it has `PAGE_ROWS` rows, however large."""
        ends = (0, *self.group_ends)
        rows = (min(end - begin, PAGE_ROWS) for begin, end in pairwise(ends))
        return int(max((n * size for n, size in zip(rows, self.group_row_bytes, strict=True)), default=0))

    def bytes_at(self, places: Places) -> Places:
        """About how many bytes each row at these places has, over all columns: the average of its row group."""
        groups = np.searchsorted(np.array(self.group_ends), places, side="right")
        return np.array(self.group_row_bytes)[groups].astype(np.int64)


def base_files(source: TableSource, version: BaseVersion) -> list[BaseFile]:
    """The files of a base, or `NotExact` if not every one of them can be read as Spark reads it."""
    listed = DeltaLog(Path(source.base_folder)).files(version.delta_version)
    files = [_described(source, os.path.realpath(path)) for path in listed]
    for file in files:
        _check_columns(source, file)
    if sum(file.rows for file in files) != version.row_count:
        raise NotExact("the files do not have as many rows as the fold wrote")
    return files


def _check_columns(source: TableSource, file: BaseFile) -> None:
    names = {field.name.lower() for field in file.columns}
    if "_offset" not in file.columns.names or names & set(PLACE_COLUMNS):
        raise NotExact(f"{file.path}: it lacks `_offset`, or a column has a name that DuckDB reserves")
    for column in source.schema.columns:
        if column.name not in file.columns.names:
            if column.name.lower() in names:  # DuckDB ignores case in names, and would read the other column
                raise NotExact(f"{file.path}: column '{column.name}' differs only in upper and lower case")
        elif not is_same(file.columns.field(column.name).type, column.type):
            raise NotExact(f"{file.path}: column '{column.name}' is {file.columns.field(column.name).type}")


def is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types hold the same values: the label of a time zone and nullability inside do not matter."""
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return bool(found.unit == wanted.unit) and (found.tz is None) == (wanted.tz is None)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return is_same(found.value_type, wanted.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return [f.name for f in found.fields] == [f.name for f in wanted.fields] and all(
            is_same(one.type, other.type) for one, other in zip(found.fields, wanted.fields, strict=True)
        )
    return bool(found == wanted)


def _described(source: TableSource, path: str) -> BaseFile:
    if _PATTERN_SIGNS & set(path):
        raise NotExact(f"{path} would be read as a pattern")
    return _describe(source.context.warehouse, path)


@lru_cache(maxsize=1_024)
def _describe(warehouse: Path, path: str) -> BaseFile:
    """What a file holds, cached: every file of a base has a unique name and never changes."""
    using = duck.cursor(warehouse)
    columns = duck.query(using, f"SELECT * FROM {READ_FILES} LIMIT 0", [path]).schema
    noted = duck.query(using, "SELECT key FROM parquet_kv_metadata($1)", [path]).read_all()
    if _OTHER_CALENDAR in noted.column("key").to_pylist():
        raise NotExact(f"{path}: its days are counted in the calendar that was used before 1582")
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        groups = [(rows, size) for rows, size in group_sizes(data) if rows]
    ends = np.cumsum([rows for rows, _ in groups], dtype=np.int64).tolist()
    return BaseFile(path, columns, tuple(ends), tuple(size / rows for rows, size in groups))


def has_column(files: Sequence[BaseFile], name: str) -> bool:
    """Whether some of the files have a column; those that are too old for it have NULL there."""
    return any(name in file.columns.names for file in files)
