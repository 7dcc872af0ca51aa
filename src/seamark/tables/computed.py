"""Frames, computed once: what is small comes to the driver, what is large is in files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from seamark.spark.causes import OWN_TROUBLE
from seamark.spark.frames import arrow_file_reader
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame
from seamark.tables.frames import as_it_stands
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.small import fits_on_driver, small_rows
from seamark.tables.write.slices import row_groups
from seamark.tables.write.writing import writing

_FILE_COLUMNS = "path string, rows long, values long"


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    rows: int
    values: int  # bytes, as they are in memory


@contextmanager
def computed(context: TableContext, rows: CheckedFrame, schema: pa.Schema) -> Iterator[CheckedFrame]:
    """The rows for as long as the block runs, to be read as often as is needed while Spark computes them only once.

    How many rows a frame has, and how large they are, is known only when it is computed, and it decides how the rows
    that stand are best read.
    """
    if rows.in_memory is not None:
        yield rows
        return
    frame = rows.to_spark(context.session)
    with writing(context) as run:
        files = _write_in_tasks(frame, str(run.folder / "frame"))
        if fits_on_driver(sum(file.rows for file in files), sum(file.values for file in files)):
            tables = [pq.read_table(file.path) for file in files]
            yield LocalFrame(pa.concat_tables(tables).cast(schema) if tables else schema.empty_table())
        else:
            yield _from_files(context, files, frame.schema)


@contextmanager
def in_files(context: TableContext, rows: CheckedFrame, schema: TableSchema) -> Iterator[CheckedFrame]:
    """Rows of a table for as long as the block runs: in files if they are in memory and too large to be compared there.

    Handing them to Spark piece by piece through a file keeps its JVM from holding them all.
    """
    local = rows.in_memory
    if local is None or small_rows(rows) is not None:
        yield rows
        return
    with moved_to_files(context, local, schema) as moved:
        yield moved


@contextmanager
def moved_to_files(context: TableContext, rows: pa.Table, schema: TableSchema) -> Iterator[CheckedFrame]:
    """Rows of a table for as long as the block runs, in files if there are any: memory is wanted for something else."""
    if rows.num_rows == 0:
        yield LocalFrame(rows)
        return
    with writing(context) as run:
        folder = run.folder / "frame"
        folder.mkdir(parents=True, exist_ok=True)
        written = _write(str(folder), rows.to_batches())
        assert written is not None, "there are rows"
        types = schema.spark()
        yield _from_files(context, [written], StructType([types[name] for name in rows.column_names]))


def _from_files(context: TableContext, files: Iterable[_File], schema: StructType) -> SparkFrame:
    reader = arrow_file_reader(context.session(), schema)
    return SparkFrame(reader.parquet(*[as_it_stands(file.path) for file in files]))


def _write_in_tasks(rows: DataFrame, folder: str) -> list[_File]:
    """Let every task write what it computed."""
    # Made here and not by the tasks: one that continues after its job has failed must not bring the folder back.
    Path(folder).mkdir(parents=True, exist_ok=True)

    own_trouble = OWN_TROUBLE

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with own_trouble.marking():
            file = _write(folder, batches)
        if file is not None:
            values = [pa.array([file.path]), pa.array([file.rows]), pa.array([file.values])]
            yield pa.RecordBatch.from_arrays(values, names=["path", "rows", "values"])

    found = rows.mapInArrow(write, _FILE_COLUMNS).collect()
    return sorted((_File(row["path"], row["rows"], row["values"]) for row in found), key=lambda file: file.path)


def _write(folder: str, batches: Iterable[pa.RecordBatch]) -> _File | None:
    """Write batches as one Parquet file, of which a reader holds one group of rows at a time; None if there are none.

    Uncompressed and without dictionaries: it is read once or twice, and then goes.
    """
    path, rows, values = Path(folder) / f"{uuid.uuid4().hex}.parquet", 0, 0
    writer: pq.ParquetWriter | None = None
    for batch in batches:
        if writer is None:
            writer = pq.ParquetWriter(path, batch.schema, compression="none", use_dictionary=False)
        for group in row_groups(batch):
            writer.write_table(group, group.num_rows)
        rows, values = rows + batch.num_rows, values + batch.nbytes
    if writer is None:
        return None
    writer.close()
    return _File(str(path), rows, values)
