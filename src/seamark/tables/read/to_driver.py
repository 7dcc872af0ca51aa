"""Bringing rows from Spark to the driver, if they are small: how large they are is known before they are sent.

The executors count the bytes of a row. Of a row that is too large, the driver gets only that number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from seamark.spark.frames import arrow_rows
from seamark.tables import small
from seamark.tables.frame import quoted
from seamark.tables.row_bytes import bytes_in_spark

_BYTES = "its bytes"  # of a row that was not sent; no column of a table has a space in its name


def collect_small(
    frame: DataFrame, columns: Mapping[str, pa.DataType], rows_at_most: int, most_rows: int | None = None
) -> pa.Table | None:
    """The rows of a frame with these columns, in one Spark job, or None if they are too large for the driver.

    `rows_at_most` is an upper bound that is known without a job. Where it is more than fits (or than `most_rows`), only
    one row more than fits is asked for. A row much larger than an equal share of the space is not sent at first: if
    all rows turn out to fit, a second job brings them.
    """
    bound = small.SMALL_RECORDS if most_rows is None else most_rows
    if rows_at_most > bound:
        frame, rows_at_most = frame.limit(bound + 1), bound + 1
    most_bytes = _most_bytes(frame.sparkSession)
    share = (
        2 * most_bytes // max(rows_at_most, 1)
    )  # twice: rows differ in size, and there are rarely as many as the bound says
    row_bytes = bytes_in_spark(columns)
    names = list(columns)
    if isinstance(row_bytes, int):
        if row_bytes > share:
            return None
        found = arrow_rows(frame.select(*map(quoted, names)))
        return found if found.num_rows <= bound else None
    found = arrow_rows(frame.select(*_gated(names, row_bytes, share)))
    left = found.column(_BYTES).drop_null()
    if found.num_rows > bound or found.nbytes + (pc.sum(left).as_py() or 0) > most_bytes:
        return None
    return found.drop_columns([_BYTES]) if len(left) == 0 else arrow_rows(frame.select(*map(quoted, names)))


def first_small(frame: DataFrame, columns: Mapping[str, pa.DataType], most: int) -> pa.Table:
    """The first rows of a frame with these columns: `most`, or fewer if those are too large for the driver."""
    while most > 1:
        found = collect_small(frame.limit(most), columns, most, most)
        if found is not None:
            return found
        most //= 4
    return arrow_rows(frame.select(*map(quoted, columns)).limit(1))


def _gated(names: Sequence[str], row_bytes: Column, share: int) -> list[Column]:
    """The columns of rows that are no larger than a share, and the bytes of the others."""
    fits = row_bytes <= F.lit(share)
    own = [F.when(fits, F.col(quoted(name))).alias(name) for name in names]
    return [*own, F.when(~fits, row_bytes).alias(_BYTES)]


def _most_bytes(session: SparkSession) -> int:
    """How many bytes may be sent to the driver at once: what fits there, and what Spark lets through."""
    limit = _as_bytes(session.conf.get("spark.driver.maxResultSize", "1g") or "1g")
    return min(small.SMALL_BYTES, limit // 4) if limit > 0 else small.SMALL_BYTES


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def _as_bytes(text: str) -> int:
    """A size as Spark writes it: `40m`, `1g`, `1024`; 0 for one that cannot be read, or for none."""
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgtp]?)b?\s*", text.lower())
    return int(found[1]) * _UNITS[found[2]] if found else 0
