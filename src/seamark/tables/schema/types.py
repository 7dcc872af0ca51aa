"""The types that columns can have, as Arrow, Spark and Open Data Fabric write them: one table for all three."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark import ledger
from seamark.ledger import TimeUnit
from seamark.ledger.data_types import HIDDEN_ATTRIBUTE, TYPE_ATTRIBUTE
from seamark.tables.schema.ddl import UTC_MICROS, parse_type

if TYPE_CHECKING:
    from pyspark.sql import types as spark

_NTZ_MICROS = pa.timestamp("us")
_TIMESTAMP = ledger.DataTypeTimestamp(TimeUnit.MICROSECOND, "UTC")

# Arrow type, how Spark writes it, the ledger's type.
_SIMPLE: tuple[tuple[pa.DataType, str, ledger.DataType], ...] = (
    (pa.bool_(), "boolean", ledger.DataTypeBool()),
    (pa.int8(), "tinyint", ledger.DataTypeInt8()),
    (pa.int16(), "smallint", ledger.DataTypeInt16()),
    (pa.int32(), "int", ledger.DataTypeInt32()),
    (pa.int64(), "bigint", ledger.DataTypeInt64()),
    (pa.float32(), "float", ledger.DataTypeFloat32()),
    (pa.float64(), "double", ledger.DataTypeFloat64()),
    (pa.string(), "string", ledger.DataTypeString()),
    (pa.binary(), "binary", ledger.DataTypeBinary()),
    (pa.date32(), "date", ledger.DataTypeDate()),
    (UTC_MICROS, "timestamp", _TIMESTAMP),
    (_NTZ_MICROS, "timestamp_ntz", _TIMESTAMP),  # the ledger has no such type: the column says so beside it
)
_SPARK_NAMES = {arrow: name for arrow, name, _ in _SIMPLE}
_LEDGER_TYPES = {arrow: kind for arrow, _, kind in _SIMPLE}
_ARROW_TYPES = {kind: arrow for arrow, _, kind in reversed(_SIMPLE)}  # the first row of a type wins
_NEEDS_NO_QUOTES = re.compile("[A-Za-z_][A-Za-z_0-9]*")


def spark_name(arrow: pa.DataType, *, with_nulls: bool = False) -> str:
    """A type as Spark writes it in a column definition; `with_nulls` says of fields too whether they may be NULL."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{spark_name(arrow.value_type, with_nulls=with_nulls)}>"
    if pa.types.is_struct(arrow):
        return "struct<" + ",".join(_field_definition(field, with_nulls) for field in arrow.fields) + ">"
    return _SPARK_NAMES[arrow]


def _field_definition(field: pa.Field, with_nulls: bool) -> str:
    never_null = " NOT NULL" if with_nulls and not field.nullable else ""
    return f"{field_name(field.name)}:{spark_name(field.type, with_nulls=with_nulls)}{never_null}"


def field_name(name: str) -> str:
    """A field's name as a column definition has it, in quotes where it would be read as something else."""
    return name if _NEEDS_NO_QUOTES.fullmatch(name) else f"`{name.replace('`', '``')}`"


def spark_type(arrow: pa.DataType, *, nullable: bool = False) -> spark.DataType:
    """A type as an object of Spark's; `nullable` lets every field be NULL, as a cast needs it."""
    from pyspark.sql import types as spark

    if pa.types.is_decimal(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return spark.ArrayType(spark_type(arrow.value_type, nullable=nullable))
    if pa.types.is_struct(arrow):
        return spark.StructType(
            [
                spark.StructField(f.name, spark_type(f.type, nullable=nullable), nullable or f.nullable)
                for f in arrow.fields
            ]
        )
    simple: dict[str, spark.DataType] = {
        "boolean": spark.BooleanType(),
        "tinyint": spark.ByteType(),
        "smallint": spark.ShortType(),
        "int": spark.IntegerType(),
        "bigint": spark.LongType(),
        "float": spark.FloatType(),
        "double": spark.DoubleType(),
        "string": spark.StringType(),
        "binary": spark.BinaryType(),
        "date": spark.DateType(),
        "timestamp": spark.TimestampType(),
        "timestamp_ntz": spark.TimestampNTZType(),
    }
    return simple[_SPARK_NAMES[arrow]]


def arrow_type(kind: spark.DataType) -> pa.DataType | None:
    """The type that a table has for one of Spark's, every field nullable; None if it cannot hold it.

    Never by way of a text: Spark's own has no quotes, so a field named `a:b` could not be read from it.
    """
    from pyspark.sql import types as spark

    if isinstance(kind, spark.ArrayType):
        item = arrow_type(kind.elementType)
        return None if item is None else pa.list_(item)
    if isinstance(kind, spark.StructType):
        fields = [(f.name, arrow_type(f.dataType)) for f in kind.fields]
        return None if any(found is None for _, found in fields) else pa.struct(fields)
    return parse_type(kind.simpleString())


def ledger_field(name: str, arrow: pa.DataType, *, nullable: bool, hidden: bool = False) -> ledger.DataField:
    """A column as a chain declares it: the type it is stored with, and Spark's own where that does not say it all."""
    declared = _ledger_type(stored_type(arrow), nullable=nullable)
    extra: ledger.Extra = {}
    if column_type(ledger.DataField(name, declared))[0] != arrow:
        extra[TYPE_ATTRIBUTE] = spark_name(arrow, with_nulls=True)
    if hidden:
        extra[HIDDEN_ATTRIBUTE] = True
    return ledger.DataField(name, declared, extra or None)


def is_hidden(field: ledger.DataField) -> bool:
    """Whether a column that a chain declares is one that only Seamark itself reads."""
    return (field.extra or {}).get(HIDDEN_ATTRIBUTE) is True


def column_type(field: ledger.DataField) -> tuple[pa.DataType, bool]:
    """The type of a column that a chain declares, and whether it is nullable."""
    arrow, nullable = _arrow_type(field.type)
    written = (field.extra or {}).get(TYPE_ATTRIBUTE)
    return (parse_type(written) or arrow, nullable) if isinstance(written, str) else (arrow, nullable)


def is_column_type(field: ledger.DataField) -> bool:
    """Whether a chain declares a column that a table can have; a chain of another's may hold more."""
    try:
        column_type(field)
    except KeyError:
        return False
    return True


def _ledger_type(arrow: pa.DataType, *, nullable: bool) -> ledger.DataType:
    plain = _plain_ledger_type(arrow)
    return ledger.DataTypeOption(plain) if nullable else plain


def _plain_ledger_type(arrow: pa.DataType) -> ledger.DataType:
    if pa.types.is_decimal(arrow):
        return ledger.DataTypeDecimal(arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return ledger.DataTypeList(_ledger_type(arrow.value_type, nullable=True))
    if pa.types.is_struct(arrow):
        fields = [ledger.DataField(f.name, _ledger_type(f.type, nullable=f.nullable)) for f in arrow.fields]
        return ledger.DataTypeStruct(tuple(fields))
    return _LEDGER_TYPES[arrow]


def _arrow_type(declared: ledger.DataType) -> tuple[pa.DataType, bool]:
    if isinstance(declared, ledger.DataTypeOption):
        return _arrow_type(declared.inner)[0], True
    if isinstance(declared, ledger.DataTypeDecimal):
        return pa.decimal128(declared.precision, declared.scale), False
    if isinstance(declared, ledger.DataTypeList):
        return pa.list_(_arrow_type(declared.item_type)[0]), False
    if isinstance(declared, ledger.DataTypeStruct):
        return pa.struct([pa.field(f.name, *_arrow_type(f.type)) for f in declared.fields]), False
    return _ARROW_TYPES[declared], False


def stored_type(arrow: pa.DataType) -> pa.DataType:
    """The type that a column has in slices.

    A one-byte integer is stored in two: the logical hash writes NULL as one zero byte, so that it could not tell a NULL
    from a 0 of that width.
    """
    if pa.types.is_int8(arrow):
        return pa.int16()
    if pa.types.is_list(arrow):
        return pa.list_(stored_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, stored_type(f.type), f.nullable) for f in arrow.fields])
    return arrow
