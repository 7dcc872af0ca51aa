"""How far a slice may unfold while it is read, and in how many rows at a time it is read so that memory stays small.

A few bytes can stand for gigabytes: a codec repeats, a dictionary names one long value for every row, a list of a
million items is one run. So what will be unfolded is counted from the page headers before anything is, and a slice
that would need more memory than its size explains is not read. Seamark packs with Snappy, which makes at most 22 bytes
of one, so that none of its own slices is ever refused for its pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger.verify.footer import RowGroup, footer_size, row_groups
from seamark.ledger.verify.lists import longest_entry, row_starts, widest_batch
from seamark.ledger.verify.pages import BrokenPages, Page, pages_of, unpacked_bytes
from seamark.ledger.verify.thrift import Bytes

MOST_ROWS = 128 * 1024
_BATCH_BYTES = 16 << 20
_PAGE_ROOM, _PAGE_ROOM_A_BYTE = 16 << 20, 32
# What an item of a list costs while it is hashed, beside its own bytes; the rooms are for the lists of one row.
_ITEM_BYTES = 40
_LIST_ROOM, _LIST_ROOM_A_BYTE = 96 << 20, 128
_ROWS, _ROWS_A_BYTE = 1 << 20, 4096
_FOOTER_ROOM = 1 << 20
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# Of files by these writers a reader takes up to 100 bytes more than a column says that it has.
_SLOPPY_WRITER = re.compile(r"parquet-mr(?! version (1\.([3-9]|[1-9]\d)|[2-9]))")


class TooLarge(ValueError):
    """A slice would need more memory to be read than its size explains."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One leaf column of a row group. `width` is None where values have lengths of their own.

    `deepest` is how many lists its values are in, one within the other.
    """

    name: str
    width: int | None
    pages: tuple[Page, ...]
    codec: str = ""
    deepest: int = 0

    @property
    def data_pages(self) -> tuple[Page, ...]:
        """The pages with values of rows."""
        return tuple(page for page in self.pages if not page.is_dictionary)

    @property
    def dictionary_bytes(self) -> int:
        """What the dictionary unpacks to; 0 if there is none."""
        return sum(page.unpacked for page in self.pages if page.is_dictionary)

    @property
    def largest_page(self) -> int:
        """What its largest page with values of rows unpacks to."""
        return max((page.unpacked for page in self.data_pages), default=0)


Longest: TypeAlias = Callable[[Chunk], int]
"""Gives the length of the longest value in a chunk's dictionary."""


def check_footer(data: Bytes) -> None:
    """`TooLarge` if a file is mostly footer: a byte of it becomes hundreds in memory."""
    size = len(data)
    footer = footer_size(data)
    if footer > max(_FOOTER_ROOM, size // 4):
        raise TooLarge(f"{footer} of its {size} bytes are its footer")


def rows_at_a_time(data: Bytes, opened: pq.ParquetFile) -> int:
    """How many rows to read at a time; `TooLarge` or `BrokenPages` if the file should not be read at all."""
    found: pq.FileMetaData = opened.metadata
    size = len(data)
    if _SLOPPY_WRITER.match(found.created_by or ""):
        raise BrokenPages(f"it was written by {found.created_by}, whose pages cannot be told apart")
    if found.num_rows > _ROWS + _ROWS_A_BYTE * size:
        raise TooLarge(f"{size} bytes are said to hold {found.num_rows} rows")
    rows = MOST_ROWS
    for group in row_groups(data):
        chunks = list(_chunks(data, found, group))
        check_room(chunks, size)
        rows = min(rows, batch_rows(chunks, group.rows, partial(_longest_entry, data)))
        lists = [chunk for chunk in chunks if chunk.deepest]
        for chunk in lists:
            rows = list_rows(data, chunk, group.rows, rows, _BATCH_BYTES // len(lists))
    return rows


def _chunks(data: Bytes, found: pq.FileMetaData, group: RowGroup) -> Iterator[Chunk]:
    if len(group.columns) != found.num_columns:
        raise BrokenPages(f"a row group has {len(group.columns)} of {found.num_columns} columns")
    for column, place in enumerate(group.columns):
        declared = found.schema.column(column)
        kind = declared.physical_type
        width = declared.length if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind)
        pages = tuple(pages_of(data, place.start, place.size))
        yield Chunk(declared.path, width, pages, place.codec, declared.max_repetition_level)


def _longest_entry(data: Bytes, chunk: Chunk) -> int:
    """The length of the longest value in a dictionary whose pages were found to be small enough to be unpacked."""
    pages = [page for page in chunk.pages if page.is_dictionary]
    return max((longest_entry(unpacked_bytes(data, page, chunk.codec)) for page in pages), default=0)


def check_room(chunks: Sequence[Chunk], size: int) -> None:
    """`TooLarge` if the pages of a row group would unfold to more than a file of this size explains."""
    pages = sum(chunk.largest_page + chunk.dictionary_bytes for chunk in chunks)
    if pages > max(_PAGE_ROOM, _PAGE_ROOM_A_BYTE * size):
        raise TooLarge(f"its pages would unpack from {size} to {pages} bytes")


def batch_rows(chunks: Sequence[Chunk], rows: int, longest: Longest) -> int:
    """How many rows of a row group make a batch of a few megabytes, wherever in it the long values are."""
    widest = sum(_bytes_a_row(chunk, rows, longest) for chunk in chunks if not chunk.deepest)
    return max(1, min(MOST_ROWS, int(_BATCH_BYTES / max(widest, 1))))


def list_rows(data: Bytes, chunk: Chunk, rows: int, most: int, room: int) -> int:
    """How many rows of a column of lists make a batch of so many bytes: at most `most`, and at least one.

    `TooLarge` if a single row would unfold to more than a file of this size explains.
    """
    item = _ITEM_BYTES + (chunk.width if chunk.width is not None else _longest_entry(data, chunk))
    if any(page.is_prefixed for page in chunk.data_pages):
        item += chunk.largest_page
    pages, size = chunk.data_pages, len(data)
    unpacked = sum(page.unpacked for page in pages)
    if sum(page.values for page in pages) * item + unpacked <= room:
        return most
    if unpacked > max(_PAGE_ROOM, _PAGE_ROOM_A_BYTE * size) or rows > _ROWS + _PAGE_ROOM_A_BYTE * size:
        raise TooLarge(f"the lists in '{chunk.name}' would unpack from {size} to {unpacked} bytes, in {rows} rows")
    starts = row_starts(data, pages, chunk.codec, chunk.deepest, rows)
    while True:
        widest = widest_batch(starts, pages, item, most)
        if widest <= room or most == 1:
            break
        most = (most + 1) // 2
    if widest > max(_LIST_ROOM, _LIST_ROOM_A_BYTE * size):
        raise TooLarge(f"the lists in '{chunk.name}' would unpack from {size} to {widest} bytes in one row")
    return most


def _bytes_a_row(chunk: Chunk, rows: int, longest: Longest) -> float:
    if chunk.width is not None:
        return chunk.width
    data = chunk.data_pages
    if any(page.is_prefixed for page in data):
        return chunk.largest_page
    # As many rows as the smallest page has touch two pages at the most, and a page holds the bytes of its own values.
    full = data[:-1] or data
    plain = max((p.unpacked for p in data), default=0) / max(1, min((page.values for page in full), default=1))
    dictionary: float = chunk.dictionary_bytes
    if dictionary * rows > _BATCH_BYTES:  # it may name one long value for every row, or hold many short ones
        dictionary = longest(chunk)
    return plain + dictionary
