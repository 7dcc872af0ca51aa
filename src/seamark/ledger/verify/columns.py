"""The columns of a slice against the schema that was in force when it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger import data_types as types
from seamark.ledger.data_types import KEY_ATTRIBUTE, TYPE_ATTRIBUTE, DataField, DataSchema, DataType, type_text
from seamark.ledger.events import SetVocab

_NUMBERS = {
    types.DataTypeBool: pa.bool_(),
    types.DataTypeInt8: pa.int8(),
    types.DataTypeInt16: pa.int16(),
    types.DataTypeInt32: pa.int32(),
    types.DataTypeInt64: pa.int64(),
    types.DataTypeUInt8: pa.uint8(),
    types.DataTypeUInt16: pa.uint16(),
    types.DataTypeUInt32: pa.uint32(),
    types.DataTypeUInt64: pa.uint64(),
    types.DataTypeFloat16: pa.float16(),
    types.DataTypeFloat32: pa.float32(),
    types.DataTypeFloat64: pa.float64(),
    types.DataTypeDate: pa.date32(),
    types.DataTypeNull: pa.null(),
}
_UNITS = {
    types.TimeUnit.SECOND: "s",
    types.TimeUnit.MILLISECOND: "ms",
    types.TimeUnit.MICROSECOND: "us",
    types.TimeUnit.NANOSECOND: "ns",
}


@dataclass(frozen=True, slots=True)
class SystemNames:
    """The names of a chain's system columns."""

    offset: str = "offset"
    op: str = "op"
    system_time: str = "system_time"
    event_time: str = "event_time"

    @staticmethod
    def of(vocabulary: SetVocab) -> SystemNames:
        """The names that a chain gives its system columns."""
        usual = SystemNames()
        return SystemNames(
            vocabulary.offset_column or usual.offset,
            vocabulary.operation_type_column or usual.op,
            vocabulary.system_time_column or usual.system_time,
            vocabulary.event_time_column or usual.event_time,
        )

    def all(self) -> tuple[str, str, str, str]:
        """All of them, in their order."""
        return (self.offset, self.op, self.system_time, self.event_time)


@dataclass(frozen=True)
class SliceColumns:
    """What a slice must hold by its chain: the system columns, and those of the schema, if the chain has one.

    `key` has the key columns of a table of Seamark's, none for an append-only one; it is None for another's chain.
    """

    names: SystemNames = field(default_factory=SystemNames)
    schema: DataSchema | None = None

    @property
    def key(self) -> tuple[str, ...] | None:
        """The key, as the schema has it."""
        found = (self.schema.extra or {}).get(KEY_ATTRIBUTE) if self.schema else None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            return None
        return tuple(found)

    def required(self) -> Iterator[str]:
        """The columns in which no NULL may be."""
        yield from self.names.all()
        for column in self.schema.fields if self.schema else ():
            if not isinstance(column.type, types.DataTypeOption) and column.name not in self.names.all():
                yield column.name

    def first_misfit(self, found: pa.Schema) -> tuple[str, str] | None:
        """The first column that is missing, too many or of another type: what was expected, and what there is."""
        names = found.names
        if len(set(names)) != len(names):
            doubled = next(name for name in names if names.count(name) > 1)
            return "each column once", f"'{doubled}' {names.count(doubled)} times"
        declared = {column.name: column for column in (self.schema.fields if self.schema else ())}
        for name in (*self.names.all(), *declared):
            if name not in names:
                return f"column '{name}'", "no such column"
            kind = found.field(name).type
            if not (_fits(declared[name], kind) if name in declared else self._is_system_type(name, kind)):
                wanted = type_text(declared[name].type) if name in declared else "a type for it"
                return f"'{name}' {wanted}", f"'{name}' {kind}"
        added = [name for name in names if name not in declared and name not in self.names.all()]
        if self.schema is not None and added:
            return "no other columns", f"'{added[0]}' {found.field(added[0]).type}"
        return None

    def _is_system_type(self, name: str, kind: pa.DataType) -> bool:
        if name in (self.names.offset, self.names.op):
            return bool(pa.types.is_integer(kind))
        is_moment = pa.types.is_timestamp(kind)
        return bool(is_moment or (name == self.names.event_time and pa.types.is_date(kind)))


def _fits(declared: DataField, found: pa.DataType) -> bool:
    # The ledger has no type for a moment without a time zone: such a column says so beside its type.
    written = (declared.extra or {}).get(TYPE_ATTRIBUTE)
    return _is_type(declared.type, found, may_lack_zone=isinstance(written, str) and "timestamp_ntz" in written)


def _is_type(declared: DataType, found: pa.DataType, *, may_lack_zone: bool) -> bool:
    """Whether values of an Arrow type are values of a declared one; True for types that no slice can be read with."""
    match declared:
        case types.DataTypeOption(inner):
            return _is_type(inner, found, may_lack_zone=may_lack_zone)
        case types.DataTypeString():
            return bool(found == pa.string())
        case types.DataTypeBinary(length):
            return bool(found == (pa.binary() if length is None else pa.binary(length)))
        case types.DataTypeDecimal(precision, scale):
            return bool(pa.types.is_decimal(found) and (found.precision, found.scale) == (precision, scale))
        case types.DataTypeTimestamp(unit, zone):
            is_unit = pa.types.is_timestamp(found) and found.unit == _unit(unit)
            return is_unit and (found.tz == (zone or "UTC") or (may_lack_zone and found.tz is None))
        case types.DataTypeTime(unit):
            return bool(pa.types.is_time(found) and found.unit == _unit(unit))
        case types.DataTypeList(item):
            is_list = pa.types.is_list(found) or pa.types.is_fixed_size_list(found)
            return is_list and _is_type(item, found.value_type, may_lack_zone=may_lack_zone)
        case types.DataTypeStruct(fields):
            if not pa.types.is_struct(found) or [f.name for f in fields] != [f.name for f in found.fields]:
                return False
            pairs = zip(fields, found.fields, strict=True)
            return all(_is_type(one.type, other.type, may_lack_zone=may_lack_zone) for one, other in pairs)
        case types.DataTypeMap() | types.DataTypeDuration():
            return True  # their records cannot be hashed, which is found there
        case _:
            return bool(found == _NUMBERS[type(declared)])


def _unit(unit: types.TimeUnit | None) -> str:
    return _UNITS[types.TimeUnit.MILLISECOND if unit is None else unit]
