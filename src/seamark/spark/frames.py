"""The doors between Arrow, Parquet files and Spark, in and out; nothing else calls Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import DataType, StructType


def spark_frame(session: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A Spark frame of all rows of an Arrow table, with the given types or those that the table has."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    # A time without a zone stays one, and where the schema says that it is a moment, it is one in UTC: left to itself
    # PySpark would read it in the session's time zone.
    types = schema or from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    if schema is not None and rows.num_columns:
        rows = rows.cast(to_arrow_schema(schema, timezone="UTC"))
    return session.createDataFrame(_in_full_chunks(rows), types)


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """A Spark frame without rows."""
    return session.createDataFrame([], schema)


def arrow_rows(frame: DataFrame) -> pa.Table:
    """The rows of a Spark frame on the driver, with their moments in UTC whatever the session's time zone."""
    return in_utc(frame.toArrow())


def in_utc(rows: pa.Table) -> pa.Table:
    """The rows with the same moments in UTC.

    Spark labels moments with the session's time zone. As Python objects of one zone they would be compared by what its
    clocks show, and there is an hour that those show twice; as text they would be others in every zone.
    """
    wanted = pa.schema([field.with_type(_utc_type(field.type)) for field in rows.schema])
    return rows if wanted == rows.schema or not rows.num_columns else rows.cast(wanted)


def _utc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, tz="UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_utc_type(field.type)) for field in kind.fields])
    return kind


def parquet_reader(session: SparkSession, schema: StructType) -> DataFrameReader:
    """A reader of Parquet files that takes every one of them as it is, whatever the session would leave out."""
    reader = session.read.schema(schema).option("datetimeRebaseMode", "CORRECTED")
    # A file that is missing or damaged is an error. Without these a session may be set up to read on without its rows.
    return reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")


def arrow_file_reader(session: SparkSession, schema: StructType) -> DataFrameReader:
    """A reader of Parquet files that Arrow wrote; it misses no row whose value is NaN.

    Arrow leaves NaN out of the statistics of a row group, while to Spark it equals itself and is greater than all other
    numbers. With `x >= 1` pushed down, Spark would skip a row group that holds 0.5 and NaN. So these files are read
    without a look at statistics where there are numbers that can be NaN, at the top or inside other values.
    """
    reader = parquet_reader(session, schema)
    return reader.option("parquet.filter.stats.enabled", "false") if _can_hold_nan(schema) else reader


def _can_hold_nan(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_can_hold_nan(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _can_hold_nan(kind.elementType)
    if isinstance(kind, MapType):
        return _can_hold_nan(kind.keyType) or _can_hold_nan(kind.valueType)
    return isinstance(kind, (FloatType, DoubleType))


def _in_full_chunks(rows: pa.Table) -> pa.Table:
    """The rows without empty chunks: PySpark 4.2 drops every row that follows one, and takes no column without any."""
    if not rows.num_columns:  # pyarrow would lose the number of rows
        return rows
    return rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
