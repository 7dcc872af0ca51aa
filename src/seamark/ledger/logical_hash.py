"""The hash of rows, whatever file, compression or batches they are in: arrow-digest version 0 over sha3-256.

Column names with their nesting go into one digest, the values of each leaf column into a digest of its own, which
begins with the column's type; the digests of the columns go into the first one. What counts is the order of rows and
columns, their names and their exact types (time unit and time zone too), not nullability or metadata.

    fixed width       the value's bytes, little-endian
    bool              1 for false, 2 for true
    text and binary   the length in bytes (u64), then the bytes
    list              the number of items (u64), then the items
    null              one zero byte

So a null and a zero of one byte (int8, uint8) cannot be told apart: a property of the format, not of this code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from seamark.errors import UnhashableType
from seamark.ledger.leaf_bytes import leaf_bytes, type_bytes
from seamark.ledger.multiformats import logical_multihash

_CHUNK_BYTES = 1 << 21  # a chunk and its encoding stay within a processor's cache, and memory stays bounded
_LONGEST_CHUNK = 1 << 17


class _Digest(Protocol):
    def update(self, data: Any, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> _Digest: ...


def logical_hash(table: pa.Table | pa.RecordBatch) -> str:
    """The logical hash of these rows, as text; `UnhashableType` if a column's type has none."""
    hasher = LogicalHasher(table.schema)
    hasher.update(table)
    return hasher.text()


def check_hashable(data_type: pa.DataType) -> None:
    """`UnhashableType` if the logical hash is not defined for columns of this type."""
    _structure(pa.schema([pa.field("column", data_type)]))


class LogicalHasher:
    """The logical hash of rows that come in parts; where one part ends and the next begins does not matter."""

    def __init__(self, schema: pa.Schema, _new_digest: Callable[[], _Digest] = hashlib.sha3_256) -> None:
        self._structure = _structure(schema)
        names, types = self._structure
        self._names = _new_digest()
        self._names.update(names)
        self._columns = [_new_digest() for _ in types]
        for column, seed in zip(self._columns, types, strict=True):
            column.update(seed)

    def update(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows, which must have the columns that the hasher was made for."""
        if _structure(rows.schema) != self._structure:
            raise UnhashableType(f"rows of another shape cannot be added to a logical hash: {_described(rows.schema)}.")
        leaves = iter(self._columns)
        for column in rows.columns:
            self._add(column, leaves)

    def text(self) -> str:
        """The hash of all rows so far; more can still be added."""
        return logical_multihash(self._digest())

    def _digest(self) -> bytes:
        whole = self._names.copy()
        for column in self._columns:
            whole.update(column.digest())
        return whole.digest()

    def _add(self, column: pa.Array | pa.ChunkedArray, leaves: Iterator[_Digest]) -> None:
        width = _leaf_count(column.type)
        digests = [next(leaves) for _ in range(width)]
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for part in _parts(chunk):
                for digest, leaf in zip(digests, _leaves(part), strict=True):
                    digest.update(leaf_bytes(leaf))


def _parts(array: pa.Array) -> Iterator[pa.Array]:
    """The array in pieces of bounded size, none of which is a copy."""
    if len(array) == 0:
        return
    rows = min(max(_CHUNK_BYTES * len(array) // max(array.nbytes, 1), 1), _LONGEST_CHUNK)
    for start in range(0, len(array), rows):
        yield array.slice(start, rows)


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The columns that a struct consists of, down to those with values; any other column is its own only leaf.

    A value within a null struct is null: the validity of parent and child is joined with AND, as the format describes
    it. The reference crate joins them with OR, and so hashes whatever memory is under a null; hence hashes of nested
    nullable structs are not comparable with its, those of flat columns are.
    """
    if not pa.types.is_struct(array.type):
        yield array
        return
    for child in array.flatten():
        yield from _leaves(child)


def _leaf_count(data_type: pa.DataType) -> int:
    if not pa.types.is_struct(data_type):
        return 1
    return sum(_leaf_count(data_type.field(index).type) for index in range(data_type.num_fields))


def _structure(schema: pa.Schema) -> tuple[bytes, tuple[bytes, ...]]:
    """What a schema adds to the hash: the names with their levels, and the type of each leaf."""
    names: list[bytes] = []
    types: list[bytes] = []

    def walk(field: pa.Field, level: int) -> None:
        name = field.name.encode()
        names.append(np.array([len(name)], "<u8").tobytes() + name + np.array([level], "<u8").tobytes())
        if pa.types.is_struct(field.type):
            for index in range(field.type.num_fields):
                walk(field.type.field(index), level + 1)
        else:
            types.append(type_bytes(field.type))

    for field in schema:
        walk(field, 0)
    return b"".join(names), tuple(types)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
