"""The logical types of columns, and schemas made of them. A nullable column is an `Option` of its type."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

Extra: TypeAlias = dict[str, Any]
"""Extension attributes: any JSON object, whose keys look like `domain/name`."""

KEY_ATTRIBUTE = "seamark/key"
"""The attribute of a schema that lists the key columns of a table of Seamark's; none for an append-only one."""
TYPE_ATTRIBUTE = "seamark/type"
# What the extra of a column says that only Seamark itself reads.
HIDDEN_ATTRIBUTE = "seamark/hidden"
"""The attribute of a column that holds its type as Spark writes it, where the column's own type does not say it all."""


class TimeUnit(IntEnum):
    """The precision of a time, timestamp or duration."""

    SECOND = 0
    MILLISECOND = 1
    MICROSECOND = 2
    NANOSECOND = 3


@dataclass(frozen=True, slots=True)
class DataTypeBinary:
    """Bytes; of one length if `fixed_length` is given."""

    fixed_length: int | None = None


@dataclass(frozen=True, slots=True)
class DataTypeBool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class DataTypeDate:
    """A calendar date."""


@dataclass(frozen=True, slots=True)
class DataTypeDecimal:
    """A number with `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class DataTypeDuration:
    """An elapsed time; milliseconds if no unit is given."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True)
class DataTypeFloat16:
    """A floating-point number of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat32:
    """A floating-point number of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat64:
    """A floating-point number of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt8:
    """A signed integer of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt16:
    """A signed integer of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt32:
    """A signed integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt64:
    """A signed integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt8:
    """An unsigned integer of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt16:
    """An unsigned integer of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt32:
    """An unsigned integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt64:
    """An unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeList:
    """A list of items of one type; of one length if `fixed_length` is given."""

    item_type: DataType
    fixed_length: int | None = None


@dataclass(frozen=True, slots=True)
class DataTypeMap:
    """A map from keys to values."""

    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None = None


@dataclass(frozen=True, slots=True)
class DataTypeNull:
    """A column that has no values."""


@dataclass(frozen=True, slots=True)
class DataTypeOption:
    """A value of type `inner`, or null."""

    inner: DataType


@dataclass(frozen=True, slots=True)
class DataTypeStruct:
    """Named fields within one column."""

    fields: tuple[DataField, ...]


@dataclass(frozen=True, slots=True)
class DataTypeTime:
    """A time of day; milliseconds if no unit is given."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True)
class DataTypeTimestamp:
    """A point in time; milliseconds and UTC if not said otherwise."""

    unit: TimeUnit | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class DataTypeString:
    """Unicode text."""


DataType: TypeAlias = (
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString
)
"""The type of a column or of what is inside one."""


@dataclass(frozen=True, slots=True)
class DataField:
    """A named column, or a field of a struct."""

    name: str
    type: DataType
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class DataSchema:
    """The columns of a dataset, in order."""

    fields: tuple[DataField, ...]
    extra: Extra | None = None

    def field(self, name: str) -> DataField | None:
        """The column of this name, or None."""
        return next((field for field in self.fields if field.name == name), None)


def type_text(data_type: DataType) -> str:
    """The type as a person reads it: `Option<Int64>`, `List<String>`, `Timestamp(MILLISECOND, UTC)`."""
    match data_type:
        case DataTypeOption(inner):
            return f"Option<{type_text(inner)}>"
        case DataTypeList(item, length):
            return f"List<{type_text(item)}>" if length is None else f"List<{type_text(item)}, {length}>"
        case DataTypeMap(key, value):
            return f"Map<{type_text(key)}, {type_text(value)}>"
        case DataTypeStruct(fields):
            return "Struct<" + ", ".join(f"{field.name}: {type_text(field.type)}" for field in fields) + ">"
        case DataTypeDecimal(precision, scale):
            return f"Decimal({precision}, {scale})"
        case DataTypeBinary(length) if length is not None:
            return f"Binary({length})"
        case DataTypeTimestamp(unit, timezone):
            return f"Timestamp({_unit(unit).name}, {timezone or 'UTC'})"
        case DataTypeTime(unit) | DataTypeDuration(unit):
            return f"{_short_name(data_type)}({_unit(unit).name})"
        case _:
            return _short_name(data_type)


def same_type(one: DataType, other: DataType) -> bool:
    """Whether both describe the same values: attributes do not matter, and a default may be left out or written."""
    return _plain(one) == _plain(other)


def _plain(data_type: DataType) -> DataType:
    match data_type:
        case DataTypeOption(inner):
            return DataTypeOption(_plain(inner))
        case DataTypeList(item, length):
            return DataTypeList(_plain(item), length)
        case DataTypeMap(key, value, keys_sorted):
            return DataTypeMap(_plain(key), _plain(value), bool(keys_sorted))
        case DataTypeStruct(fields):
            return DataTypeStruct(tuple(DataField(field.name, _plain(field.type)) for field in fields))
        case DataTypeTimestamp(unit, timezone):
            return DataTypeTimestamp(_unit(unit), timezone or "UTC")
        case DataTypeTime(unit):
            return DataTypeTime(_unit(unit))
        case DataTypeDuration(unit):
            return DataTypeDuration(_unit(unit))
        case _:
            return data_type


def _unit(unit: TimeUnit | None) -> TimeUnit:
    return TimeUnit.MILLISECOND if unit is None else unit


def _short_name(data_type: DataType) -> str:
    return type(data_type).__name__.removeprefix("DataType")
