"""Reading small slices on the driver, without Spark; never more than fits there, however much a file unpacks to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.control import BlockEntry
from seamark.errors import NOTHING_WRITTEN, ComputeFailed, ObjectMissing
from seamark.tables import small
from seamark.tables.read.records import count_records
from seamark.tables.read.source import TableSource
from seamark.tables.row_bytes import fixed_width
from seamark.tables.small import fits_on_driver


def read_small(source: TableSource, blocks: Sequence[BlockEntry], columns: Sequence[str]) -> pa.Table | None:
    """Some columns of all records of these blocks, read on the driver without Spark; None if they are too large."""
    if not fits_on_driver(count_records(blocks)):
        return None
    wanted = pa.schema([_field(source, name) for name in columns])
    pieces, values = [], 0
    for block in blocks:
        piece = _read_slice(source, block, wanted, small.SMALL_BYTES - values)
        if piece is None:
            return None
        pieces.append(piece)
        values += piece.nbytes
    return pa.concat_tables(pieces) if pieces else wanted.empty_table()


def _field(source: TableSource, name: str) -> pa.Field:
    if name == "offset":
        return pa.field(name, pa.int64())
    if name == "op":
        return pa.field(name, pa.int32())
    return pa.field(name, source.schema.column(name).type)


def _read_slice(source: TableSource, block: BlockEntry, wanted: pa.Schema, most: int) -> pa.Table | None:
    data = source.context.files(source.name).data
    path = data.path(block.slice_hash or "")
    if _size(path) > small.SMALL_BYTES:
        return None
    try:
        data.intact(block.slice_hash or "")
        found = _read_at_most(str(path), wanted.names, most)
    except FileNotFoundError:
        raise ObjectMissing("data", block.slice_hash or "", str(data.folder)) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise ComputeFailed(
            f"table '{source.name}': the slice {block.slice_hash} cannot be read: {error}.",
            outcome=NOTHING_WRITTEN,
            hint=f"`seamark verify {source.name}` says whether it is damaged.",
        ) from error
    if found is None:
        return None
    # A column that was added after the slice was written is NULL in it.
    there = set(found.column_names)
    arrays = [
        found.column(field.name).cast(field.type) if field.name in there else pa.nulls(found.num_rows, field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_at_most(path: str, columns: Sequence[str], most: int) -> pa.Table | None:
    """Some columns of a Parquet file, or None if their values are more than `most` bytes."""
    with pq.ParquetFile(path) as file:
        fields = [field for field in file.schema_arrow if field.name in columns]
        stored, repeating = _stored_bytes(file, fields)
        if sum(stored.values()) > most:
            return None
        # A value that repeats is stored once, so that a file of a megabyte may hold texts of many gigabytes.
        worst = sum(size * (file.metadata.num_rows if name in repeating else 1) for name, size in stored.items())
        if worst <= most:
            return file.read(columns=list(stored))
    if any(pa.types.is_nested(field.type) for field in fields if field.name in repeating):
        return None  # no slice of ours has these, and their size is unknown until every value is unpacked
    with pq.ParquetFile(path, read_dictionary=list(repeating)) as file:
        found = file.read(columns=list(stored))
    if sum(_decoded_bytes(column) for column in found.columns) > most:
        return None
    return found.cast(pa.schema(fields))


def _stored_bytes(file: pq.ParquetFile, fields: Sequence[pa.Field]) -> tuple[dict[str, int], set[str]]:
    """The uncompressed bytes of columns, and the columns whose dictionaries store a value once for many rows."""
    rows = file.metadata.num_rows
    stored, repeating = dict.fromkeys((field.name for field in fields), 0), set()
    leaves = [field.name for field in file.schema_arrow for _ in range(_count_leaves(field.type))]
    for group in range(file.metadata.num_row_groups):
        for place, name in enumerate(leaves):
            if name in stored:
                chunk = file.metadata.row_group(group).column(place)
                stored[name] += chunk.total_uncompressed_size
                if chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY":
                    repeating.add(name)
    for field in fields:  # in memory a NULL has the width of a value
        stored[field.name] = max(stored[field.name], rows * (fixed_width(field.type) or 4))
    return stored, repeating


def _count_leaves(kind: pa.DataType) -> int:
    return sum(_count_leaves(kind.field(n).type) for n in range(kind.num_fields)) if pa.types.is_nested(kind) else 1


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """The bytes that a column has once every value is unpacked from its dictionary."""
    if not pa.types.is_dictionary(column.type):
        return column.nbytes
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
        total += (pc.sum(lengths).as_py() or 0) + 4 * len(chunk)
    return total
