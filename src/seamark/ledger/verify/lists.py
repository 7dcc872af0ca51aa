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
Run: TypeAlias = tuple[int, int]  # its first item, and how many it has

_AT_ONCE = 1 << 16  # items whose levels are looked at together, so that a few bytes never become many


def row_starts(data: Bytes, pages: Sequence[Page], codec: str, deepest: int, rows: int) -> Places:
    """Where each row begins among the items of a column, and at the end how many items there are.

    `deepest` is the greatest repetition level of the column. `BrokenPages` if the levels are not those of `rows` rows.
    """
    found: list[Places] = []
    items = count = 0
    for page in pages:
        levels = level_bytes(data, page, codec)
        for places in _rows_in(levels, deepest.bit_length(), page.values, rows):
            found.append(places + items)
            count += len(places)
            if count > rows:
                raise BrokenPages(f"the levels of a column are those of more than {rows} rows")
        items += page.values
    if count != rows:
        raise BrokenPages(f"the levels of a column are those of {count} rows, and not of {rows}")
    return np.concatenate([*found, np.array([items], np.int64)])


def _rows_in(levels: bytes, width: int, values: int, most: int) -> Iterator[Places]:
    """Where rows begin in a page, a great many runs at a time: each row may have two of its own."""
    packed: list[Run] = []
    zeros: list[Run] = []
    masks: list[bytes] = []
    held = 0
    for run, bits in _runs(levels, width, values, most):
        if bits:
            packed.append(run)
            masks.append(bits)
        else:
            zeros.append(run)
        held += run[1]
        if held >= _AT_ONCE:
            yield _places(packed, masks, zeros, width)
            packed, zeros, masks, held = [], [], [], 0
    yield _places(packed, masks, zeros, width)


def _runs(levels: bytes, width: int, values: int, most: int) -> Iterator[tuple[Run, bytes]]:
    """The runs of a page in which rows may begin, each with its levels bit by bit; without them if all are 0."""
    zero = bytes((width + 7) // 8)
    place = done = 0
    while done < values:
        header, place = _varint(levels, place)
        length, left = header >> 1, values - done
        if length == 0:
            raise BrokenPages("the levels of a page continue without an end")
        if header & 1:  # groups of eight levels
            end = place + length * width
            if end > len(levels):
                raise BrokenPages("the levels of a page end too early")
            length = min(length * 8, left)  # the last groups may have more than there are items
            for first in range(0, length, _AT_ONCE):
                bits = levels[place + first // 8 * width : min(place + (first + _AT_ONCE) // 8 * width, end)]
                yield (done + first, min(_AT_ONCE, length - first)), bits
            place = end
        else:  # one level, so many times
            length = min(length, left)
            if levels.startswith(zero, place):
                if length > most:
                    raise BrokenPages(f"the levels of a column are those of more than {most} rows")
                yield (done, length), b""
            place += len(zero)
        done += length


def _places(packed: Sequence[Run], masks: Sequence[bytes], zeros: Sequence[Run], width: int) -> Places:
    """Where rows begin in some runs: with every item of level 0."""
    bits = np.unpackbits(np.frombuffer(b"".join(masks), np.uint8), bitorder="little")
    items = _items(packed)
    levels = bits.reshape(-1, width)[: len(items)]
    return np.sort(np.concatenate([items[levels.max(axis=1) == 0], _items(zeros)]))


def _items(runs: Sequence[Run]) -> Places:
    """All items of some runs."""
    begins, lengths = np.array(runs, np.int64).reshape(-1, 2).T
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum(), dtype=np.int64) + np.repeat(begins - before, lengths)


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
