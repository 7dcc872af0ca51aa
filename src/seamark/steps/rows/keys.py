"""Transform keys as JSON text, as the control database, checkpoints and reports hold them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from seamark.spark.frames import in_utc

KeyTypes = Mapping[str, pa.DataType]


def key_text(columns: Sequence[str], values: Sequence[Any]) -> str:
    """A key as JSON text, the same for equal keys: moments are written in UTC."""
    named = {name: plain(value) for name, value in zip(columns, values, strict=True)}
    return json.dumps(named, ensure_ascii=False, separators=(",", ":"))


def key_texts(keys: pa.Table) -> list[str]:
    """The keys of a table as JSON texts."""
    columns = [column.to_pylist() for column in in_utc(keys).columns]
    if not columns:
        return ["{}"] * keys.num_rows
    return [key_text(keys.column_names, values) for values in zip(*columns, strict=True)]


def keys_of(texts: Sequence[str], columns: Sequence[str], types: KeyTypes) -> pa.Table:
    """JSON texts as a table of keys, in the columns' types."""
    rows = [json.loads(text) for text in texts]
    arrays = [pa.array([_value(row[name], types[name]) for row in rows], types[name]) for name in columns]
    return pa.Table.from_arrays(arrays, names=list(columns))


def columns_of(text: str) -> tuple[str, ...]:
    """The columns that a key's JSON text names."""
    return tuple(json.loads(text))


def plain(value: Any) -> Any:
    """A value in a form that JSON can hold."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value + 0.0 if value == value and abs(value) != float("inf") else str(value)
    return value


def _value(value: Any, kind: pa.DataType) -> Any:
    """The value of a type that `plain` turned into this one."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_binary(kind):
        return base64.b64decode(value)
    if pa.types.is_floating(kind):
        return float(value)
    return value


def value_from_json(value: Any, kind: pa.DataType) -> Any:
    """A value of a column, from JSON or a command line."""
    return _value(value, kind)


def key_from_json(columns: Sequence[str], values: Sequence[Any], types: KeyTypes) -> tuple[Any, ...]:
    """The values of a key that `plain` put into a form that JSON can hold."""
    return tuple(_value(value, types[name]) for name, value in zip(columns, values, strict=True))
