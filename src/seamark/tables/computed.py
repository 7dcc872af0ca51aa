"""Frames of Spark's, computed once: what is small comes to the driver, what is large lies in files."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, as_it_stands
from seamark.tables.publish import writing
from seamark.tables.stage import SMALL_BYTES, SMALL_RECORDS

# The words by which an error of our own code on an executor is told from one of the frame's.
OUR_OWN = "seamark: trouble of its own"


@contextmanager
def computed(context: TableContext, rows: CheckedFrame, schema: pa.Schema) -> Iterator[CheckedFrame]:
    """The rows for as long as the block runs, to be read as often as is needed while Spark computes them only once.

    How many rows a frame has is known only when it is computed, and it decides how the rows that stand are best read.
    """
    if isinstance(rows, LocalFrame):
        yield rows
        return
    with writing(context) as run:
        files = _write(rows, str(run.folder / "frame"))
        if sum(count for _, count, _ in files) <= SMALL_RECORDS and sum(size for _, _, size in files) <= SMALL_BYTES:
            tables = [pq.read_table(path) for path, _, _ in files]
            yield LocalFrame(pa.concat_tables(tables).cast(schema) if tables else schema.empty_table())
        else:
            reader = context.session().read.schema(rows.frame.schema).option("datetimeRebaseMode", "CORRECTED")
            yield SparkFrame(reader.parquet(*[as_it_stands(path) for path, _, _ in files]))


def _write(rows: SparkFrame, folder: str) -> list[tuple[str, int, int]]:
    """Let every task write what it computed: path, rows and bytes of each file."""
    # Made here and not by the tasks: one that goes on after its job has failed must not bring the folder back.
    Path(folder).mkdir(parents=True, exist_ok=True)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer: pq.ParquetWriter | None = None
        path, count = Path(folder) / f"{uuid.uuid4().hex}.parquet", 0
        for batch in batches:
            try:
                if writer is None:
                    writer = pq.ParquetWriter(path, batch.schema, compression="none", use_dictionary=False)
                writer.write_batch(batch)
            except OSError as error:
                raise RuntimeError(f"{OUR_OWN}: {error}") from error
            count += batch.num_rows
        if writer is not None:
            try:
                writer.close()
                size = path.stat().st_size
            except OSError as error:
                raise RuntimeError(f"{OUR_OWN}: {error}") from error
            values = [pa.array([str(path)]), pa.array([count]), pa.array([size])]
            yield pa.RecordBatch.from_arrays(values, names=["path", "rows", "size"])

    found = rows.frame.mapInArrow(write, "path string, rows long, size long").collect()
    return sorted((row.path, row.rows, row.size) for row in found)
