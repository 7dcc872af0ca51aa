"""Writes what `wire` lays out as FlatBuffers, in the one order that Open Data Fabric calls canonical.

Children come first, depth first and in the order of fields; then the table with all that it has, again in that order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import flatbuffers  # type: ignore[import-untyped,unused-ignore]

from seamark.errors import MalformedBlock
from seamark.ledger.multiformats import dataset_id_to_bytes, hash_to_bytes
from seamark.ledger.wire import SLOTS, TABLES, Field, Kind

MANIFEST_KIND = 0x400000
"""What a manifest's content is: a block."""

WRITTEN_VERSION = 3
"""The manifest version of every block that is written."""

MAX_DEPTH = 64
"""How deep tables may be nested: what readers of FlatBuffers accept by default."""


def manifest(content: bytes, version: int = WRITTEN_VERSION) -> bytes:
    """The manifest around a block's content."""
    builder = flatbuffers.Builder(len(content) + 64)
    vector = builder.CreateByteVector(content)
    builder.StartObject(3)
    builder.PrependInt64Slot(0, MANIFEST_KIND, 0)
    builder.PrependInt32Slot(1, version, 0)
    builder.PrependUOffsetTRelativeSlot(2, vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def table(value: object) -> bytes:
    """A FlatBuffers buffer whose root is this value."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_table(builder, value, depth=1))
    return bytes(builder.Output())


def _table(builder: Any, value: object, depth: int) -> int:
    cls = type(value)
    if depth > MAX_DEPTH:
        raise MalformedBlock(f"the block cannot be written: {cls.__name__} is nested deeper than {MAX_DEPTH} levels.")
    if cls not in TABLES:
        raise MalformedBlock(f"the block cannot be written: {cls.__name__} is no part of a block.")
    present = [(field, item) for field in TABLES[cls] if (item := _value(value, field)) is not None]
    children = [
        _CHILD[field.kind](builder, field, item, depth) if field.kind in _CHILD else None for field, item in present
    ]
    builder.StartObject(SLOTS[cls])
    for (field, item), child in zip(present, children, strict=True):
        if child is None:
            _INLINE[field.kind](builder, field, item)
        else:
            if field.kind is Kind.UNION:
                builder.PrependUint8Slot(field.slot, _union_id(field, item), 0)
                builder.PrependUOffsetTRelativeSlot(field.slot + 1, child, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(field.slot, child, 0)
    offset: int = builder.EndObject()
    return offset


def _value(owner: object, field: Field) -> Any:
    value = getattr(owner, field.name)
    if value is None and field.required:
        raise MalformedBlock(f"the block cannot be written: {type(owner).__name__}.{field.name} is missing.")
    return value


# --- what is written before the table, which then points to it --------------------------------------------------------


def _hash(builder: Any, _field: Field, value: str, _depth: int) -> Any:
    return builder.CreateByteVector(hash_to_bytes(value))


def _dataset_id(builder: Any, _field: Field, value: str, _depth: int) -> Any:
    return builder.CreateByteVector(dataset_id_to_bytes(value))


def _bytes(builder: Any, _field: Field, value: bytes, _depth: int) -> Any:
    return builder.CreateByteVector(bytes(value))


def _string(builder: Any, field: Field, value: str, _depth: int) -> Any:
    if not isinstance(value, str):
        raise MalformedBlock(f"the block cannot be written: {field.name} is not text but {type(value).__name__}.")
    return builder.CreateString(value)


def _strings(builder: Any, field: Field, values: Sequence[str], depth: int) -> Any:
    if isinstance(values, str):  # else each letter would be taken for an item
        raise MalformedBlock(f"the block cannot be written: {field.name} is one text, not several.")
    return _vector(builder, [_string(builder, field, value, depth) for value in values])


def _child_table(builder: Any, field: Field, value: object, depth: int) -> Any:
    _union_id(field, value)
    return _table(builder, value, depth + 1)


def _tables(builder: Any, field: Field, values: Sequence[object], depth: int) -> Any:
    return _vector(builder, [_child_table(builder, field, value, depth) for value in values])


def _unions(builder: Any, field: Field, values: Sequence[object], depth: int) -> Any:
    return _vector(builder, [_wrapped(builder, field, value, depth) for value in values])


def _wrapped(builder: Any, field: Field, value: object, depth: int) -> Any:
    member = _table(builder, value, depth + 2)
    builder.StartObject(2)
    builder.PrependUint8Slot(0, _union_id(field, value), 0)
    builder.PrependUOffsetTRelativeSlot(1, member, 0)
    return builder.EndObject()


def _extra(builder: Any, _field: Field, value: Mapping[str, Any], _depth: int) -> Any:
    if not isinstance(value, Mapping):
        raise MalformedBlock(f"the block cannot be written: extra is not a mapping but {type(value).__name__}.")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    entries = builder.CreateString(text)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, entries, 0)
    return builder.EndObject()


def _vector(builder: Any, offsets: list[Any]) -> Any:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _union_id(field: Field, value: object) -> int:
    if type(value) not in field.of:
        names = ", ".join(cls.__name__ for cls in field.of)
        raise MalformedBlock(
            f"the block cannot be written: {field.name} is a {type(value).__name__}, expected one of {names}."
        )
    return field.of.index(type(value)) + 1


# --- what is in the table itself --------------------------------------------------------------------------------------


def _scalar(prepend: str) -> Callable[[Any, Field, Any], None]:
    def write(builder: Any, field: Field, value: Any) -> None:
        # None as the default makes the builder write a 0 too: an optional 0 is not the same as nothing
        getattr(builder, prepend)(field.slot, value, 0 if field.required else None)

    return write


def _enum(prepend: str) -> Callable[[Any, Field, Any], None]:
    write_number = _scalar(prepend)

    def write(builder: Any, field: Field, value: Any) -> None:
        write_number(builder, field, int(field.of[0](value)))

    return write


def _timestamp(builder: Any, field: Field, value: datetime) -> None:
    if value.tzinfo is None:
        raise MalformedBlock(f"the block cannot be written: {field.name} {value} has no time zone.")
    moment = value.astimezone(UTC)
    builder.Prep(4, 16)
    builder.PrependUint32(moment.microsecond * 1000)
    builder.PrependUint32(moment.hour * 3600 + moment.minute * 60 + moment.second)
    builder.Pad(2)
    builder.PrependUint16(moment.timetuple().tm_yday)
    builder.PrependInt32(moment.year)
    builder.PrependStructSlot(field.slot, builder.Offset(), 0)


_CHILD: dict[Kind, Callable[[Any, Field, Any, int], Any]] = {
    Kind.HASH: _hash,
    Kind.DATASET_ID: _dataset_id,
    Kind.BYTES: _bytes,
    Kind.STRING: _string,
    Kind.STRINGS: _strings,
    Kind.TABLE: _child_table,
    Kind.TABLES: _tables,
    Kind.UNION: _child_table,
    Kind.UNIONS: _unions,
    Kind.EXTRA: _extra,
}
_INLINE: dict[Kind, Callable[[Any, Field, Any], None]] = {
    Kind.UINT64: _scalar("PrependUint64Slot"),
    Kind.UINT32: _scalar("PrependUint32Slot"),
    Kind.INT32: _scalar("PrependInt32Slot"),
    Kind.BOOL: _scalar("PrependBoolSlot"),
    Kind.ENUM16: _enum("PrependInt16Slot"),
    Kind.ENUM32: _enum("PrependInt32Slot"),
    Kind.TIMESTAMP: _timestamp,
}
