"""The page headers of a Parquet file: what each page really unpacks to, whatever the footer says.

The footer is a summary that can lie; a reader goes by the headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger.verify.thrift import PLAIN, BrokenThrift, Bytes, read_struct

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}  # the field that holds what is special to a kind of page
_HEADER = {
    **{1: PLAIN, 2: PLAIN, 3: PLAIN},
    **{5: {1: PLAIN, 2: PLAIN, 4: PLAIN}, 7: {1: PLAIN, 2: PLAIN}, 8: {1: PLAIN, 4: PLAIN, 6: PLAIN}},
}
_RUNS = 3  # the only way in which levels are written since long


class BrokenPages(ValueError):
    """The bytes where a page header should be are something else."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: how many bytes it unpacks to and how many values it holds.

    `start` and `packed` say where its packed bytes are. `is_prefixed` is True where each value repeats the beginning of
    the one before it, so that values are larger than what the page holds. `levels` is how many bytes of repetition
    levels are before what is packed; None where they are packed with the rest.
    """

    is_dictionary: bool
    unpacked: int
    values: int
    is_prefixed: bool
    start: int
    packed: int
    levels: int | None = None
    has_runs: bool = True


def pages_of(data: Bytes, start: int, size: int) -> Iterator[Page]:
    """The pages of a column chunk of `size` bytes; `BrokenPages` if there is something else."""
    end = start + size
    if start < 4 or size < 0 or end > len(data):
        raise BrokenPages(f"a column is said to be at {start} to {end} of {len(data)} bytes")
    while start < end:
        try:
            fields, start = read_struct(data, start, _HEADER)
        except IndexError:
            raise BrokenPages("a page header continues past the end of the file") from None
        except BrokenThrift as error:
            raise BrokenPages(f"a page header cannot be read: {error}") from None
        page = _page(fields, start)
        if page.packed < 0 or page.unpacked < 0 or page.values < 0 or start + page.packed > end:
            raise BrokenPages(f"a page at {start} is said to have {page.packed} bytes with {page.values} values")
        yield page
        start += page.packed


def unpacked_bytes(data: Bytes, page: Page, codec: str) -> bytes:
    """What a page holds, whose size was found to be small enough; `BrokenPages` if it cannot be unpacked."""
    packed = bytes(data[page.start : page.start + page.packed])
    if not codec:
        return packed
    try:
        found = pa.decompress(packed, decompressed_size=page.unpacked, codec=codec, asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenPages(f"the page at {page.start} cannot be unpacked: {error}") from None
    return bytes(found)


def level_bytes(data: Bytes, page: Page, codec: str) -> bytes:
    """The repetition levels of a page with values of rows, as they are written."""
    if not page.has_runs:
        raise BrokenPages(f"the levels of the page at {page.start} are written in a way of long ago")
    if page.levels is not None:
        return bytes(data[page.start : page.start + page.levels])
    unpacked = unpacked_bytes(data, page, codec)
    return unpacked[4 : 4 + int.from_bytes(unpacked[:4], "little")]


def _page(fields: dict[int, Any], start: int) -> Page:
    kind = fields.get(1)
    details = fields.get(_DETAILS.get(kind, -1), {}) if kind is not None else {}
    if not isinstance(details, dict):
        raise BrokenPages(f"the page at {start} has no header of its kind")
    return Page(
        is_dictionary=kind == _DICTIONARY,
        unpacked=_number(fields, 2),
        values=_number(details, 1) if details else 0,
        is_prefixed=details.get(4 if kind == _DATA_V2 else 2) == _DELTA_BYTE_ARRAY,
        start=start,
        packed=_number(fields, 3),
        levels=_number(details, 6) if kind == _DATA_V2 else None,
        has_runs=kind != _DATA or details.get(4) == _RUNS,
    )


def _number(fields: dict[int, Any], place: int) -> int:
    found = fields.get(place)
    if not isinstance(found, int):
        raise BrokenPages(f"a page header lacks its field {place}")
    return found
