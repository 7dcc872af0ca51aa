"""PostgreSQL's words: the types of columns and names as its queries have them."""

from __future__ import annotations

import pyarrow as pa

from seamark.tables.schema.ddl import UTC_MICROS

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    UTC_MICROS: "timestamptz",
    pa.timestamp("us"): "timestamp",
}


def postgres_type(kind: pa.DataType) -> str:
    """A type as PostgreSQL writes it; a struct is JSON there."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        inner = postgres_type(kind.value_type)
        return "jsonb" if inner == "jsonb" else f"{inner}[]"
    return "jsonb" if pa.types.is_struct(kind) else _NAMES[kind]


def quoted(name: str) -> str:
    """A name as an identifier in a query."""
    return '"' + name.replace('"', '""') + '"'
