"""What the logical hash sees of one column: the bytes of its type and of its values, without a loop over rows."""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]
from numpy.typing import NDArray

from seamark.errors import UnhashableType

Bytes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]
Lengths: TypeAlias = NDArray[np.int64]

_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}
_PREFIX = 8  # a length is a u64


# --- types ------------------------------------------------------------------------------------------------------------


def type_bytes(data_type: pa.DataType) -> bytes:
    """The bytes that a column's digest begins with; `UnhashableType` if the type has none."""
    is_ = pa.types
    if is_.is_null(data_type):
        return _u16(0)
    if is_.is_boolean(data_type):
        return _u16(5)
    if is_.is_integer(data_type):
        return _u16(1) + bytes([is_.is_signed_integer(data_type)]) + _u64(data_type.bit_width)
    if is_.is_floating(data_type):
        return _u16(2) + _u64(data_type.bit_width)
    if _is_text(data_type):
        return _u16(4)
    if _is_binary(data_type) or is_.is_fixed_size_binary(data_type):
        return _u16(3)
    if is_.is_decimal(data_type):
        return _u16(6) + _u64(data_type.bit_width) + _u64(data_type.precision) + _u64(data_type.scale)
    if is_.is_date(data_type):
        return _u16(7) + _u64(data_type.bit_width) + _u16(0 if is_.is_date32(data_type) else 1)
    if is_.is_time(data_type):
        return _u16(8) + _u64(data_type.bit_width) + _u16(_UNITS[data_type.unit])
    if is_.is_timestamp(data_type):
        return _u16(9) + _u16(_UNITS[data_type.unit]) + _time_zone(data_type.tz)
    if _is_list(data_type):
        return _u16(11) + type_bytes(data_type.value_type)
    raise UnhashableType(
        f"the logical hash is not defined for type {data_type}.",
        hint="cast the column to a number, text, binary, time or a list of these.",
    )


def _time_zone(name: str | None) -> bytes:
    return b"\0" if name is None else _u64(len(name.encode())) + name.encode()


def _u16(value: int) -> bytes:
    return struct.pack("<H", value)


def _u64(value: int) -> bytes:
    return struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)  # a negative scale is sign-extended


def _is_text(data_type: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_string(data_type) or is_.is_large_string(data_type) or is_.is_string_view(data_type))


def _is_binary(data_type: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_binary(data_type) or is_.is_large_binary(data_type) or is_.is_binary_view(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_list(data_type) or is_.is_large_list(data_type) or is_.is_fixed_size_list(data_type))


# --- values -----------------------------------------------------------------------------------------------------------


def leaf_bytes(array: pa.Array) -> Bytes:
    """The bytes of all values of a column that is no struct, one after the other."""
    if array.null_count == 0 and _is_plain(array.type):
        return _fixed_width_values(array).reshape(-1)  # the column's own memory, not a copy
    return _encoded(array)[0]


def _encoded(array: pa.Array) -> tuple[Bytes, Lengths]:
    """The bytes of all values, and how many of them belong to each value."""
    data_type = array.type
    valid = _validity(array)
    if pa.types.is_null(data_type):
        return np.zeros(len(array), np.uint8), np.ones(len(array), np.int64)
    if pa.types.is_boolean(data_type):
        flags = np.asarray(array.fill_null(False).cast(pa.uint8())) + np.uint8(1)
        return np.where(valid, flags, np.uint8(0)), np.ones(len(array), np.int64)
    if pa.types.is_fixed_size_binary(data_type):
        return _kept(np.hstack([_prefixes(data_type.byte_width, len(array)), _fixed_width_values(array)]), valid)
    if _is_text(data_type) or _is_binary(data_type):
        return _text_values(array, valid)
    if _is_list(data_type):
        return _list_values(array, valid)
    return _kept(_fixed_width_values(array), valid)


def _validity(array: pa.Array) -> Mask:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid())


def _is_plain(data_type: pa.DataType) -> bool:
    """Whether a value is nothing but its bytes in memory."""
    is_ = pa.types
    return bool(
        is_.is_integer(data_type)
        or is_.is_floating(data_type)
        or is_.is_decimal(data_type)
        or is_.is_temporal(data_type)
    )


def _fixed_width_values(array: pa.Array) -> Bytes:
    """The memory of a column of fixed width as a matrix, a row for each value."""
    width = array.type.bit_width // 8
    memory = array.buffers()[1]
    if width == 0 or memory is None:
        return np.zeros((len(array), width), np.uint8)
    values = np.frombuffer(memory, np.uint8, count=len(array) * width, offset=array.offset * width)
    return values.reshape(len(array), width)


def _kept(values: Bytes, valid: Mask) -> tuple[Bytes, Lengths]:
    """The rows of a matrix one after the other, with one zero byte for each that is not valid."""
    width = values.shape[1]
    lengths = np.where(valid, width, 1).astype(np.int64)
    if valid.all():
        return values.reshape(-1), lengths
    if width == 0:
        return np.zeros(int((~valid).sum()), np.uint8), np.where(valid, 0, 1).astype(np.int64)
    values = np.where(valid[:, None], values, np.uint8(0))
    keep = np.repeat(valid[:, None], width, axis=1)
    keep[:, 0] = True
    return values[keep], lengths


def _text_values(array: pa.Array, valid: Mask) -> tuple[Bytes, Lengths]:
    values = array.cast(pa.large_binary())
    sizes = np.asarray(pc.binary_length(values).fill_null(0)).astype(np.int64)
    return _prefixed(sizes, valid, values.fill_null(b"") if values.null_count else values, sizes)


def _list_values(array: pa.Array, valid: Mask) -> tuple[Bytes, Lengths]:
    counts = np.asarray(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    # flatten leaves out what is under null lists, so that the items of the valid ones follow on one another
    items, item_lengths = _encoded(array.flatten())
    item_ends = np.concatenate([[0], np.cumsum(item_lengths)])
    ends = item_ends[np.cumsum(counts)]
    sizes = np.diff(ends, prepend=0)
    values = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, _offsets(ends), pa.py_buffer(np.ascontiguousarray(items))]
    )
    return _prefixed(counts, valid, values, sizes)


def _prefixed(counts: Lengths, valid: Mask, values: pa.Array, sizes: Lengths) -> tuple[Bytes, Lengths]:
    """Each value after its count; a zero byte for each that is not valid (whose value must be empty)."""
    heads, head_lengths = _kept(counts.astype("<u8").view(np.uint8).reshape(-1, _PREFIX), valid)
    prefixes = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, _offsets(np.cumsum(head_lengths)), pa.py_buffer(heads)]
    )
    joined = pc.binary_join_element_wise(prefixes, values, pa.scalar(b"", pa.large_binary()))
    lengths = head_lengths + sizes
    memory = joined.buffers()[2]
    size = int(lengths.sum())
    return np.frombuffer(memory, np.uint8, count=size) if size else np.zeros(0, np.uint8), lengths


def _offsets(ends: Lengths) -> pa.Buffer:
    return pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64))


def _prefixes(count: int, rows: int) -> Bytes:
    return np.full(rows, count, "<u8").view(np.uint8).reshape(rows, _PREFIX)
