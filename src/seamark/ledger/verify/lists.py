"""How long the lists of a Parquet column are, row by row, read from the levels in its pages. No list is unpacked.

Every item of a list column has a repetition level, of which 0 begins a row. Levels are written as runs, so that a few
bytes may stand for a million items; a run is counted here and never written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from seamark.ledger.verify.pages import BrokenPages, Page, level_bytes
from seamark.ledger.verify.thrift import Bytes

Places: TypeAlias = npt.NDArray[np.int64]


def row_starts(data: Bytes, pages: Sequence[Page], codec: str, deepest: int, rows: int) -> Places:
    """Where each row begins among the items of a column, and at the end how many items there are.

    `deepest` is the greatest repetition level of the column. `BrokenPages` if the levels are not those of `rows` rows.
    """
    found: list[Places] = []
    items = count = 0
    for page in pages:
        levels = level_bytes(data, page, codec)
        for places in _rows_in(levels, deepest.bit_length(), page.values, rows - count):
            found.append(places + items)
            count += len(places)
        items += page.values
    if count != rows:
        raise BrokenPages(f"the levels of a column are those of {count} rows, and not of {rows}")
    return np.concatenate([*found, np.array([items], np.int64)])


def _rows_in(levels: bytes, width: int, values: int, most: int) -> Iterator[Places]:
    """Where rows begin in a page, run after run."""
    place = done = 0
    while done < values:
        header, place = _varint(levels, place)
        if header & 1:  # groups of eight levels, bit by bit
            size = (header >> 1) * width
            told = np.frombuffer(levels[place : place + size], np.uint8)
            if len(told) < size:
                raise BrokenPages("the levels of a page end too early")
            bits = np.unpackbits(told, bitorder="little").reshape(-1, width)
            length = min(len(bits), values - done)
            places = np.flatnonzero(bits[:length].max(axis=1) == 0).astype(np.int64)
        else:  # one level, so many times
            size, length = (width + 7) // 8, min(header >> 1, values - done)
            is_zero = not any(levels[place : place + size])
            if is_zero and length > most:
                raise BrokenPages(f"the levels of a column are those of more than {most} rows")
            places = np.arange(length if is_zero else 0, dtype=np.int64)
        if length == 0:
            raise BrokenPages("the levels of a page go on without an end")
        most -= len(places)
        yield places + done
        place, done = place + size, done + length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise BrokenPages("the levels of a page end too early")
        number |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 0x80:
            return number, place


def widest_batch(starts: Places, pages: Sequence[Page], item_bytes: int, rows: int) -> int:
    """How many bytes the widest batch has, if the rows of a column are read so many at a time.

    An item costs `item_bytes`, and beside that a batch holds what the pages unpack to that it has a part of.
    """
    begins = starts[:-1:rows]
    ends = np.append(begins[1:], starts[-1])
    last_items = np.cumsum([page.values for page in pages])
    unpacked = np.concatenate([[0], np.cumsum([page.unpacked for page in pages])])
    first = np.searchsorted(last_items, begins, side="right")
    beyond = np.searchsorted(last_items, ends, side="left") + 1
    held = unpacked[np.minimum(beyond, len(pages))] - unpacked[np.minimum(first, len(pages))]
    return int(((ends - begins) * item_bytes + held).max(initial=0))


def longest_entry(page: bytes) -> int:
    """The length of the longest value in a dictionary page of texts."""
    place = longest = 0
    while place + 4 <= len(page):
        length = int.from_bytes(page[place : place + 4], "little")
        longest, place = max(longest, length), place + 4 + length
    return longest
