"""Thrift's compact protocol, of which this reads as much as Parquet's footers and page headers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Bytes: TypeAlias = Any
"""Bytes, or a file mapped into memory: what can be indexed and sliced."""

Wanted: TypeAlias = Mapping[int, Any]
"""The fields of a struct that are wanted, each with those of the structs inside it. All others are skipped."""

PLAIN: Wanted = {}  # a number, a truth or a text: nothing is in it

_DEEPEST = 16  # structs within structs: a footer has seven

# Thrift's types, as the compact protocol numbers them: whole numbers, and how many bytes follow for the others.
_NUMBERS = (5, 6, 4)
_BINARY, _LISTS, _STRUCT = 8, (9, 10), 12
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8}


class BrokenThrift(ValueError):
    """The bytes where a struct should be are something else."""


def read_struct(data: Bytes, place: int, wanted: Wanted, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The wanted fields of the struct at a place, and where it ends; `BrokenThrift` if there is something else.

    Numbers, structs and lists of structs are given; of other fields, None. `IndexError` behind the end of the bytes.
    """
    if depth > _DEEPEST:
        raise BrokenThrift("it holds structs within structs without end")
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
            number = data[place]
            if number < 0x80:  # most are: this is where the time goes
                place += 1
            else:
                number, place = _varint(data, place)
            found: Any = (number >> 1) ^ -(number & 1)
        elif kind == _BINARY and data[place] < 0x80:
            found, place = None, place + 1 + data[place]
        else:
            found, place = _read(data, place, kind, wanted.get(last, PLAIN), depth)
        if last in wanted:
            fields[last] = found
    return fields, place + 1


def _read(data: Bytes, place: int, kind: int, wanted: Wanted, depth: int) -> tuple[Any, int]:
    if kind == _BINARY:
        length, place = _varint(data, place)
        return None, place + length
    if kind == _STRUCT:
        return read_struct(data, place, wanted, depth + 1)
    if kind in _LISTS:
        return _read_list(data, place, wanted, depth + 1)
    if kind in _SIZES:
        return None, place + _SIZES[kind]
    raise BrokenThrift(f"it holds a field of type {kind}, which none has")


def _read_list(data: Bytes, place: int, wanted: Wanted, depth: int) -> tuple[list[Any] | None, int]:
    """The structs of a list, if they are wanted, and where it ends."""
    head = data[place]
    place += 1
    count, kind = head >> 4, head & 0x0F
    if count == 15:
        count, place = _varint(data, place)
    found: list[Any] = []
    for _ in range(count):
        if kind in _NUMBERS:
            _, place = _varint(data, place)
        elif kind in (1, 2):
            place += 1
        else:
            entry, place = _read(data, place, kind, wanted, depth)
            if wanted:
                found.append(entry)
        if place > len(data):
            raise IndexError(place)
    return (found if wanted else None), place


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
            raise BrokenThrift("it holds a number without end")
    return value, place + 1
