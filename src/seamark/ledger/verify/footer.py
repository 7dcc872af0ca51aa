"""The footer of a Parquet file: where the columns of each row group are, and how many bytes their values have.

pyarrow can say where they are too, but it ends the whole process, without an exception, at some footers with a damaged
byte; and it does not say how large the values are when unpacked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from seamark.ledger.verify.pages import BrokenPages
from seamark.ledger.verify.thrift import PLAIN, BrokenThrift, Bytes, Wanted, read_struct

_ENCRYPTED = 8
_COLUMN = {4: PLAIN, 7: PLAIN, 9: PLAIN, 11: PLAIN}
_ROW_GROUP = {1: {3: _COLUMN, _ENCRYPTED: PLAIN}, 3: PLAIN}
_FOOTER = {4: _ROW_GROUP}
_SIZED_FOOTER = {4: {1: {3: {1: PLAIN, 5: PLAIN, 6: PLAIN, 16: {1: PLAIN}}}, 3: PLAIN}}
# The bytes of a value, by the number of its physical type. One of type 6 has a length of its own; type 7, whose length
# a column sets, is that of decimals, which have 16 at the most.
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 7: 16}
_CODECS = dict(enumerate(("", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")))  # as Parquet numbers them


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where the pages of one leaf column of a row group begin, how many bytes they have, and how they are packed."""

    start: int
    size: int
    codec: str


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: how many rows it has, and its leaf columns."""

    rows: int
    columns: tuple[ColumnPlace, ...]


def footer_size(data: Bytes) -> int:
    """How many bytes a file says that its footer has; 0 if it is too short to have one."""
    size = len(data)
    return int(struct.unpack("<I", bytes(data[size - 8 : size - 4]))[0]) if size >= 12 else 0


def row_groups(data: Bytes) -> list[RowGroup]:
    """The row groups of a file; `BrokenPages` if its footer is not one."""
    return [_row_group(group) for group in _groups(data, _FOOTER)]


def group_sizes(data: Bytes) -> list[tuple[int, int]]:
    """Of each row group of a file its rows, and about how many bytes their values have, each written out.

    A text that repeats counts as often as it is there, however it is stored. `BrokenPages` if the footer is not one.
    """
    return [
        (_number(group, 3), sum(_written_out(_metadata(chunk)) for chunk in _list(group, 1)))
        for group in _groups(data, _SIZED_FOOTER)
    ]


def _groups(data: Bytes, wanted: Wanted) -> list[dict[int, Any]]:
    end = len(data) - 8
    footer = bytes(data[max(0, end - footer_size(data)) : end])
    try:
        found, _ = read_struct(footer, 0, wanted)
    except (IndexError, BrokenThrift) as error:
        raise BrokenPages(f"its footer cannot be read: {error}") from None
    return _list(found, 4)


def _written_out(column: dict[int, Any]) -> int:
    """The bytes of a column's values; of texts as its writer has counted them, or else as many as are stored."""
    width = _WIDTHS.get(_number(column, 1))
    if width is not None:
        return _number(column, 5) * width
    sizes = column.get(16)
    counted = sizes.get(1) if isinstance(sizes, dict) else None
    return counted if isinstance(counted, int) else _number(column, 6)


def _row_group(group: dict[int, Any]) -> RowGroup:
    return RowGroup(_number(group, 3), tuple(_column(column) for column in _list(group, 1)))


def _column(chunk: dict[int, Any]) -> ColumnPlace:
    found = _metadata(chunk)
    start, dictionary = _number(found, 9), found.get(11)
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    packed = _number(found, 4)
    if packed not in _CODECS:
        raise BrokenPages(f"a column is packed in a way that is not known: {packed}")
    return ColumnPlace(start, _number(found, 7), _CODECS[packed])


def _metadata(chunk: dict[int, Any]) -> dict[int, Any]:
    found = chunk.get(3)
    if not isinstance(found, dict) or _ENCRYPTED in chunk:
        raise BrokenPages("its footer does not say where a column is")
    return found


def _list(fields: dict[int, Any], place: int) -> list[dict[int, Any]]:
    found = fields.get(place)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BrokenPages(f"its footer lacks the list {place}")
    return found


def _number(fields: dict[int, Any], place: int) -> int:
    found = fields.get(place)
    if not isinstance(found, int):
        raise BrokenPages(f"its footer lacks the number {place}")
    return found
