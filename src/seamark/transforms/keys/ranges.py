"""Cutting all keys into ranges with about the same number of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.spark.frames import arrow_rows
from seamark.steps.rows.scope import AllKeys, KeyRange, cut_into_ranges
from seamark.tables.frame import quoted
from seamark.tables.ordering import comparable
from seamark.tables.read.rows import read_images
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.read.to_driver import collect_small
from seamark.tables.small import fits_on_driver

KEYS_PER_ROW = 4  # keys are narrow: so many times as many of them as of rows are looked at on the driver
# A range is committed as a whole, so after a crash it is what is computed again. It is as large as that allows: each
# range reads the references once more, and compares with what the ranges before it have written.
RANGE_BYTES = 512 << 20  # as they are in files
RANGE_KEYS = 20_000_000
PANDAS_RANGE_KEYS = 1_000_000  # Python takes about as long for these
SAMPLES_PER_RANGE = 100  # so that a range is about a tenth larger or smaller than another


def keys_per_range(
    holders: Sequence[TableSource], read: Mapping[str, int | None], given: int | None, *, by_python: bool = False
) -> int:
    """About how many keys a range has when all keys are computed: as many as are given, or as fit.

    `holders` are the tables whose rows have them; `by_python` says that Python computes them.
    """
    most = PANDAS_RANGE_KEYS if by_python else RANGE_KEYS
    rows = sum(rows_at_most(holder, read) for holder in holders)
    if given is not None or not rows:
        return given or most
    sizes = [snapshot_at(holder, read[holder.name]).stored_bytes() for holder in holders]
    ranges = max(1, -(-sum(sizes) // RANGE_BYTES), -(-rows // most))
    return -(-rows // ranges)


def ranges_of_all_keys(
    group: Mapping[str, pa.DataType], holders: Sequence[TableSource], read: Mapping[str, int | None], most: int
) -> list[KeyRange | AllKeys]:
    """Ranges of about so many keys that cover all there are, and all that there might be.

    `group` are the columns of a key with their types, which the rows of the `holders` have.
    """
    total = sum(rows_at_most(holder, read) for holder in holders)
    if not holders or total <= most:
        return [AllKeys(tuple(group))]
    bounds = _exact_bounds(group, every_key(holders, read, tuple(group)), most, total)
    if bounds is None:
        bounds = _near_bounds(group, holders, read, most, total)
    return cut_into_ranges(tuple(group), bounds)


def rows_at_most(source: TableSource, read: Mapping[str, int | None]) -> int:
    """An upper bound of the rows of an input at a record."""
    return snapshot_at(source, read[source.name]).rows_at_most()


def every_key(holders: Sequence[TableSource], read: Mapping[str, int | None], columns: Sequence[str]) -> DataFrame:
    """The distinct values of some key columns over tables that have them."""
    return rows_of_keys(holders, read, columns).distinct()


def rows_of_keys(
    holders: Sequence[TableSource], read: Mapping[str, int | None], columns: Sequence[str], which: Column | None = None
) -> DataFrame:
    """Some key columns of all rows of tables that have them, or of those rows for which a condition holds."""
    names = [quoted(name) for name in columns]
    frames = [read_images(holder, upto=read[holder.name]) for holder in holders]
    chosen = frames if which is None else [frame.where(which) for frame in frames]
    return reduce(DataFrame.unionByName, [frame.select(*names) for frame in chosen])


def _exact_bounds(
    group: Mapping[str, pa.DataType], keys: DataFrame, batch_keys: int, total: int
) -> list[tuple[Any, ...]] | None:
    """Bounds from all keys, looked at on the driver; None if they are too many or too large for it."""
    if not fits_on_driver(total // KEYS_PER_ROW):
        return None
    columns = {name: group[name] for name in keys.columns}
    ordered = collect_small(keys.orderBy(*[quoted(name) for name in keys.columns]), columns, total, total)
    if ordered is None:
        return None
    places = range(batch_keys - 1, ordered.num_rows - 1, batch_keys)
    return [tuple(column[place].as_py() for column in ordered.columns) for place in places]


def _near_bounds(
    group: Mapping[str, pa.DataType],
    holders: Sequence[TableSource],
    read: Mapping[str, int | None],
    most: int,
    total: int,
) -> list[tuple[Any, ...]]:
    """Bounds from a sample of the rows: ranges hold about equally many, a few percent more or less."""
    ranges = -(-total // most)
    # By the records that made them, the same rows are drawn each time, however Spark cuts the files into tasks.
    drawn = F.pmod(F.xxhash64("_offset"), F.lit(total)) < ranges * SAMPLES_PER_RANGE
    sample = arrow_rows(rows_of_keys(holders, read, tuple(group), drawn))
    keys = comparable(sample)
    places = sorted(range(sample.num_rows), key=keys.__getitem__)
    quantiles = [places[len(places) * number // ranges] for number in range(1, ranges)] if places else []
    cuts = {keys[place]: place for place in quantiles}.values()  # a key that many rows have ends one range only
    types = [group[name] for name in sample.column_names]
    columns = [column.cast(kind) for column, kind in zip(sample.columns, types, strict=True)]
    return [tuple(column[place].as_py() for column in columns) for place in cuts]
