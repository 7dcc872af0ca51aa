"""Reads FlatBuffers as `wire` lays them out, and trusts nothing: every offset is checked before it is followed.

The FlatBuffers library for Python has no such checks, and blocks come from elsewhere.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from seamark.errors import MalformedBlock, UnsupportedBlockVersion
from seamark.ledger.multiformats import dataset_id_to_text, hash_to_text
from seamark.ledger.wire import TABLES, Field, Kind
from seamark.ledger.writer import MANIFEST_KIND, MAX_DEPTH

READ_VERSIONS = (2, 3)
"""The manifest versions that can be read."""

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_TIMESTAMP = struct.Struct("<iHxxII")
# Writers never point to one object twice. Some sharing is let pass, but not so much that a small block could unfold
# into a huge one.
_MOST_SHARING = 8


def manifest_content(data: bytes) -> bytes:
    """The block's bytes within its manifest, whose kind and version are checked."""
    buffer = _Buffer(data)
    fields = _TableView(buffer, buffer.root())
    kind = fields.scalar(0, _I64, 0)
    if kind != MANIFEST_KIND:
        _malformed(f"its manifest is of kind {kind:#x}, expected {MANIFEST_KIND:#x}")
    version = fields.scalar(1, _I32, 0)
    if version not in READ_VERSIONS:
        raise UnsupportedBlockVersion(version, READ_VERSIONS)
    position = fields.pointed_to(2)
    if position is None:
        _malformed("its manifest has no content")
    return buffer.bytes_at(position)


def table(data: bytes, cls: type[Any]) -> Any:
    """The value of class `cls` at the root of a FlatBuffers buffer."""
    buffer = _Buffer(data)
    return _table(buffer, buffer.root(), cls, depth=1)


def _malformed(what: str) -> NoReturn:
    raise MalformedBlock(f"the bytes are not a block: {what}.")


class _Buffer:
    """Bytes that can only be read where they are."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._budget = len(data) * _MOST_SHARING

    def unpack(self, layout: struct.Struct, position: int) -> tuple[Any, ...]:
        if position < 0 or position + layout.size > len(self._data):
            _malformed(f"they end at {len(self._data)}, something is said to be at {position}")
        return layout.unpack_from(self._data, position)

    def root(self) -> int:
        return int(self.unpack(_U32, 0)[0])

    def follow(self, position: int) -> int:
        return position + int(self.unpack(_U32, position)[0])

    def bytes_at(self, position: int) -> bytes:
        length = int(self.unpack(_U32, position)[0])
        start = position + 4
        if start + length > len(self._data):
            _malformed(f"they end at {len(self._data)}, {length} bytes are said to be at {start}")
        self.spend(4 + length)
        return self._data[start : start + length]

    def offsets_at(self, position: int) -> list[int]:
        count = int(self.unpack(_U32, position)[0])
        start = position + 4
        if start + 4 * count > len(self._data):
            _malformed(f"they end at {len(self._data)}, {count} items are said to be at {start}")
        self.spend(4 + 4 * count)
        return [self.follow(start + 4 * index) for index in range(count)]

    def spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            _malformed("parts of them are used again and again")


class _TableView:
    """Where the slots of one table are."""

    __slots__ = ("_buffer", "_position", "_size", "_slots")

    def __init__(self, buffer: _Buffer, position: int) -> None:
        self._buffer = buffer
        self._position = position
        vtable = position - int(buffer.unpack(_I32, position)[0])
        vtable_size, self._size = (int(buffer.unpack(_U16, vtable + at)[0]) for at in (0, 2))
        if vtable_size < 4 or vtable_size % 2:
            _malformed(f"the table at {position} has a list of {vtable_size} bytes for its fields")
        buffer.spend(4 + vtable_size)
        self._slots = buffer.unpack(struct.Struct(f"<{vtable_size // 2 - 2}H"), vtable + 4)

    def position(self, slot: int) -> int | None:
        """Where the slot's value is, or None if the table does not have it."""
        offset = int(self._slots[slot]) if slot < len(self._slots) else 0
        if offset and offset >= self._size:
            _malformed(f"a field is outside its table at {self._position}")
        return self._position + offset if offset else None

    def pointed_to(self, slot: int) -> int | None:
        """Where the slot points to, or None if the table does not have it."""
        position = self.position(slot)
        return None if position is None else self._buffer.follow(position)

    def scalar(self, slot: int, layout: struct.Struct, default: Any) -> Any:
        position = self.position(slot)
        return default if position is None else self._buffer.unpack(layout, position)[0]


def _table(buffer: _Buffer, position: int, cls: type[Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        _malformed(f"tables are nested deeper than {MAX_DEPTH} levels")
    view = _TableView(buffer, position)
    values: dict[str, Any] = {}
    for field in TABLES[cls]:
        if field.kind is Kind.UNION:
            value = _union(buffer, view, field, field.slot, depth)
        elif field.kind in _SCALARS:
            value = view.scalar(field.slot, _SCALARS[field.kind], 0 if field.required else None)
            if value is not None and field.kind in _ENUMS:
                value = _enum_member(field, value)
        elif field.kind is Kind.TIMESTAMP:
            at = view.position(field.slot)
            value = None if at is None else _timestamp(*buffer.unpack(_TIMESTAMP, at))
        else:
            pointed_to = view.pointed_to(field.slot)
            value = None if pointed_to is None else _CHILD[field.kind](buffer, pointed_to, field, depth)
        if value is None and field.required:
            _malformed(f"{cls.__name__}.{field.name} is missing")
        values[field.name] = value
    return cls(**values)


def _union(buffer: _Buffer, view: _TableView, field: Field, slot: int, depth: int) -> Any:
    member = view.scalar(slot, _U8, 0)
    if member == 0:
        return None
    if member > len(field.of):
        _malformed(f"{field.name} is of kind {member}, the known kinds are 1 to {len(field.of)}")
    pointed_to = view.pointed_to(slot + 1)
    if pointed_to is None:
        _malformed(f"{field.name} is said to be a {field.of[member - 1].__name__}, and is missing")
    return _table(buffer, pointed_to, field.of[member - 1], depth + 1)


def _enum_member(field: Field, value: int) -> Any:
    try:
        return field.of[0](value)
    except ValueError:
        _malformed(f"{field.name} is {value}, which is no {field.of[0].__name__}")


def _timestamp(year: int, day_of_year: int, seconds: int, nanoseconds: int) -> datetime:
    try:
        moment = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day_of_year - 1)
    except (ValueError, OverflowError):
        _malformed(f"a time is in the year {year}, day {day_of_year}")
    if moment.year != year or seconds >= 86_400 or nanoseconds >= 1_000_000_000:
        _malformed(f"a time is {year}, day {day_of_year}, second {seconds}, nanosecond {nanoseconds}")
    return moment + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        _malformed("a text is not UTF-8")


# --- what a table points to -------------------------------------------------------------------------------------------


def _hash(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    return hash_to_text(buffer.bytes_at(position))


def _dataset_id(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    return dataset_id_to_text(buffer.bytes_at(position))


def _bytes(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    return buffer.bytes_at(position)


def _string(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    return _text(buffer.bytes_at(position))


def _strings(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    return tuple(_text(buffer.bytes_at(item)) for item in buffer.offsets_at(position))


def _child_table(buffer: _Buffer, position: int, field: Field, depth: int) -> Any:
    return _table(buffer, position, field.of[0], depth + 1)


def _tables(buffer: _Buffer, position: int, field: Field, depth: int) -> Any:
    return tuple(_table(buffer, item, field.of[0], depth + 1) for item in buffer.offsets_at(position))


def _unions(buffer: _Buffer, position: int, field: Field, depth: int) -> Any:
    return tuple(_wrapped(buffer, item, field, depth) for item in buffer.offsets_at(position))


def _wrapped(buffer: _Buffer, position: int, field: Field, depth: int) -> Any:
    member = _union(buffer, _TableView(buffer, position), field, 0, depth + 1)
    if member is None:
        _malformed(f"an item of {field.name} is missing")
    return member


def _extra(buffer: _Buffer, position: int, _field: Field, _depth: int) -> Any:
    pointed_to = _TableView(buffer, position).pointed_to(0)
    if pointed_to is None:
        _malformed("extra has no entries")
    try:
        entries = json.loads(_text(buffer.bytes_at(pointed_to)), parse_constant=_no_json)
    except (ValueError, RecursionError):
        _malformed("extra is not JSON")
    if not isinstance(entries, dict):
        _malformed("extra is not a JSON object")
    return entries


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_U8 = struct.Struct("<B")
_SCALARS = {
    Kind.UINT64: struct.Struct("<Q"),
    Kind.UINT32: _U32,
    Kind.INT32: _I32,
    Kind.BOOL: struct.Struct("<?"),
    Kind.ENUM16: struct.Struct("<h"),
    Kind.ENUM32: _I32,
}
_ENUMS = (Kind.ENUM16, Kind.ENUM32)
_CHILD: dict[Kind, Callable[[_Buffer, int, Field, int], Any]] = {
    Kind.HASH: _hash,
    Kind.DATASET_ID: _dataset_id,
    Kind.BYTES: _bytes,
    Kind.STRING: _string,
    Kind.STRINGS: _strings,
    Kind.TABLE: _child_table,
    Kind.TABLES: _tables,
    Kind.UNIONS: _unions,
    Kind.EXTRA: _extra,
}
