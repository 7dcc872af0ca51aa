"""The one door through which Arrow tables become Spark frames; nothing else calls Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def spark_frame(session: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A Spark frame of all rows of an Arrow table, with the given types or those that the table has."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # A time without a zone stays one: left to itself PySpark would read it in the session's time zone.
    types = schema or from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    return session.createDataFrame(_in_full_chunks(rows), types)


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """A Spark frame without rows."""
    return session.createDataFrame([], schema)


def _in_full_chunks(rows: pa.Table) -> pa.Table:
    """The rows without empty chunks: PySpark 4.2 drops every row that follows one, and takes no column without any."""
    if not rows.num_columns:  # pyarrow would lose the number of rows
        return rows
    return rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
