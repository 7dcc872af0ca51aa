"""ClickHouse's words: the types of columns, names and texts as its queries have them."""

from __future__ import annotations

import pyarrow as pa

from seamark.tables.schema.ddl import UTC_MICROS

_MOMENT = "DateTime64(6, 'UTC')"

# Arrow type of a table's column, ClickHouse's name of it.
SIMPLE: tuple[tuple[pa.DataType, str], ...] = (
    (pa.bool_(), "Bool"),
    (pa.int8(), "Int8"),
    (pa.int16(), "Int16"),
    (pa.int32(), "Int32"),
    (pa.int64(), "Int64"),
    (pa.float32(), "Float32"),
    (pa.float64(), "Float64"),
    (pa.string(), "String"),
    (pa.binary(), "String"),  # ClickHouse's String holds any bytes
    (pa.date32(), "Date32"),
    (UTC_MICROS, _MOMENT),
    (pa.timestamp("us"), _MOMENT),  # a wall clock has no zone; as UTC it reads as it was written, and only so
)
_NAMES = dict(SIMPLE)


def clickhouse_type(arrow: pa.DataType, *, nullable: bool) -> str:
    """A column's type as ClickHouse writes it. Arrays and structs are never Nullable there."""
    if pa.types.is_list(arrow):
        return f"Array({clickhouse_type(arrow.value_type, nullable=True)})"
    if pa.types.is_struct(arrow):
        fields = (f"{quoted(f.name)} {clickhouse_type(f.type, nullable=f.nullable)}" for f in arrow.fields)
        return f"Tuple({', '.join(fields)})"
    plain = f"Decimal({arrow.precision}, {arrow.scale})" if pa.types.is_decimal(arrow) else _NAMES[arrow]
    return f"Nullable({plain})" if nullable else plain


def quoted(name: str) -> str:
    """A name as an identifier in a query."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def text(value: str) -> str:
    """A text as a literal in a query."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
