"""The page headers of a Parquet file: what each page really unpacks to, whatever the footer says.

The footer is a summary that can lie; a reader goes by the headers. They are written in Thrift's compact protocol, of
which this reads as much as they use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Bytes: TypeAlias = Any
"""Bytes, or a file mapped into memory: what can be indexed and sliced."""

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_DEEPEST = 16  # structs within structs: statistics within a header are two

# Thrift's types, as the compact protocol numbers them: whole numbers, and how many bytes follow for the others.
_NUMBERS = (5, 6, 4)
_BINARY, _STRUCT = 8, 12
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8}
_DETAILS = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}  # the field that holds what is special to a kind of page


class BrokenPages(ValueError):
    """The bytes where a page header should be are none."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: how many bytes it unpacks to and how many values it holds.

    `start` and `packed` say where its packed bytes lie. `is_prefixed` is True where each value repeats the beginning of
    the one before it, so that values are larger than what the page holds.
    """

    is_dictionary: bool
    unpacked: int
    values: int
    is_prefixed: bool
    start: int
    packed: int


def pages_of(data: Bytes, start: int, size: int) -> Iterator[Page]:
    """The pages of a column chunk of `size` bytes; `BrokenPages` if there is something else."""
    end = start + size
    if start < 4 or size < 0 or end > len(data):
        raise BrokenPages(f"a column is said to lie at {start} to {end} of {len(data)} bytes")
    while start < end:
        try:
            fields, start = _struct(data, start, 0)
        except IndexError:
            raise BrokenPages("a page header goes on behind the end of the file") from None
        page = _page(fields, start)
        if page.packed < 0 or page.unpacked < 0 or page.values < 0 or start + page.packed > end:
            raise BrokenPages(f"a page at {start} is said to have {page.packed} bytes with {page.values} values")
        yield page
        start += page.packed


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
    )


def _number(fields: dict[int, Any], place: int) -> int:
    found = fields.get(place)
    if not isinstance(found, int):
        raise BrokenPages(f"a page header lacks its field {place}")
    return found


def _struct(data: Bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields of the struct at a place, and where it ends; of those that are neither numbers nor structs, None."""
    if depth > _DEEPEST:
        raise BrokenPages("a page header holds structs within structs without end")
    fields: dict[int, Any] = {}
    last = 0
    while head := data[place]:
        place += 1
        kind = head & 0x0F
        if head >> 4:
            last += head >> 4
        else:
            number, place = _varint(data, place)
            last = (number >> 1) ^ -(number & 1)
        if kind in _NUMBERS:
            number, place = _varint(data, place)
            fields[last] = (number >> 1) ^ -(number & 1)
        elif kind == _STRUCT:
            fields[last], place = _struct(data, place, depth + 1)
        elif kind == _BINARY:
            length, place = _varint(data, place)
            place += length
        elif kind in _SIZES:
            place += _SIZES[kind]
        else:
            raise BrokenPages(f"a page header holds a field of type {kind}, which none has")
    return fields, place + 1


def _varint(data: Bytes, place: int) -> tuple[int, int]:
    """The number at a place, seven bits a byte, and where it ends."""
    byte = data[place]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        place += 1
        byte = data[place]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise BrokenPages("a page header holds a number without end")
    return value, place + 1
