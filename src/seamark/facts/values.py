"""Values of columns as a command line gives them: `post_id=1`, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from seamark.errors import UsedWrongly, did_you_mean
from seamark.tables import Table
from seamark.tables.schema.types import spark_name

_BOOLEANS = {"true": True, "false": False}


def named_values(pairs: Sequence[str], types: Mapping[str, pa.DataType], whose: str) -> dict[str, Any]:
    """Pairs such as `post_id=1` as values in the types of their columns; `whose` names what has these columns."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise UsedWrongly(
                f"'{pair}' is not a column and its value. Nothing was done.",
                hint=f"write it like {next(iter(types), 'column')}=1.",
            )
        if name not in types:
            known = did_you_mean(name, list(types), f"Key columns of {whose}")
            raise UsedWrongly(f"{whose} has no key column '{name}'. Nothing was done.", hint=known)
        if name in values:
            raise UsedWrongly(f"'{name}' is given twice. Nothing was done.", hint="give each column one value.")
        values[name] = _value(name, text, types[name])
    return values


def part_of_key(given: Sequence[str], types: Mapping[str, pa.DataType], whose: str) -> dict[str, Any]:
    """Values of key columns: `post_id=1` for each, or `1` where the key has only one."""
    names = list(types)
    pairs = [text if "=" in text or len(names) != 1 else f"{names[0]}={text}" for text in given]
    return named_values(pairs, types, whose)


def key_values(given: Sequence[str], types: Mapping[str, pa.DataType], whose: str) -> dict[str, Any]:
    """The same of a whole key."""
    values = part_of_key(given, types, whose)
    refuse_part_of_key(values, types, whose, hint="write " + " ".join(f"--key {name}=…" for name in types) + ".")
    return values


def refuse_part_of_key(values: Mapping[str, Any], types: Mapping[str, pa.DataType], whose: str, hint: str) -> None:
    """Refuse values that are not those of a whole key."""
    missing = [name for name in types if name not in values]
    if missing:
        what = f"the key of {whose} is {', '.join(types)}: {', '.join(missing)} is not given. Nothing was done."
        raise UsedWrongly(what, hint=hint)


def key_types(table: Table, hint: str) -> dict[str, pa.DataType]:
    """The key columns of a table with their types; a table without a key is refused."""
    if not table.key:
        raise UsedWrongly(f"table '{table.name}' is append-only: its records have no key to ask by.", hint=hint)
    return {name: table.schema.column(name).type for name in table.key}


def _value(name: str, text: str, kind: pa.DataType) -> Any:
    try:
        return _parsed(text, kind)
    except (ValueError, ArithmeticError):
        raise UsedWrongly(
            f"'{text}' is no value of the column '{name}', which is {spark_name(kind)}. Nothing was done.",
            hint=f"write {_example(name, kind)}.",
        ) from None


def _parsed(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        if text.lower() not in _BOOLEANS:
            raise ValueError
        return _BOOLEANS[text.lower()]
    if pa.types.is_integer(kind):
        number = int(text)
        pa.scalar(number, kind)  # refuses what is too large for the column
        return number
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if pa.types.is_binary(kind):
        return bytes.fromhex(text)
    return text


def _example(name: str, kind: pa.DataType) -> str:
    for fits, example in (
        (pa.types.is_boolean, "true"),
        (pa.types.is_integer, "1"),
        (pa.types.is_date, "2026-01-31"),
        (pa.types.is_timestamp, "2026-01-31T09:30:00Z"),
        (pa.types.is_binary, "01ff"),
    ):
        if fits(kind):
            return f"{name}={example}"
    return f"{name}=1.5"
