"""A table's schema: columns, key and event time, checked when declared and written down in the chain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark import ledger
from seamark.errors import (
    InvalidSchema,
    InvalidTableName,
    MalformedBlock,
    UnhashableType,
    UnknownColumn,
    did_you_mean,
)
from seamark.ledger import TimeUnit
from seamark.ledger.data_types import KEY_ATTRIBUTE
from seamark.tables.schema.ddl import UTC_MICROS, ColumnDefinition, parse_columns
from seamark.tables.schema.types import (
    arrow_type,
    column_type,
    is_column_type,
    is_hidden,
    ledger_field,
    spark_name,
    spark_type,
    stored_type,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SYSTEM_COLUMNS = ("offset", "op", "system_time", "event_time")
OWN_COLUMNS = ("_offset", "_deleted", "_part", "_owner")
MILLIS_UTC = pa.timestamp("ms", tz="UTC")
_OWNERS = re.compile(r"_owner_\d+")
_TABLE_NAME = re.compile(r"[^\W_][\w.$-]*")

_SYSTEM_FIELDS = (
    ledger.DataField("offset", ledger.DataTypeInt64()),
    ledger.DataField("op", ledger.DataTypeInt32()),
    ledger.DataField("system_time", ledger.DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
    ledger.DataField("event_time", ledger.DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
)
_SYSTEM_ARROW = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("op", pa.int32(), nullable=False),
    pa.field("system_time", MILLIS_UTC, nullable=False),
    pa.field("event_time", MILLIS_UTC, nullable=False),
)
_EVENT_TIME = "seamark/event-time"
_UNFIT_SIGNS = " ,;{}()\n\t=.`"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: pa.DataType
    nullable: bool
    hidden: bool = False  # Seamark's own, which people, functions and sinks do not see

    @property
    def shown(self) -> str:
        """The column's type as a person wrote it."""
        return spark_name(self.type) + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in order, the key (empty for an append-only table), and the column that holds the event time, if any.

    Hidden columns are columns like others to everything that stores, compares and verifies: they are in the log and in
    the base. What is shown, sent, or given to a function has the `visible` ones.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    event_time: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def hidden(self) -> tuple[Column, ...]:
        """The columns that only Seamark itself reads."""
        return tuple(column for column in self.columns if column.hidden)

    @property
    def visible(self) -> TableSchema:
        """The schema as people and functions see it, without hidden columns."""
        if not self.hidden:
            return self
        return replace(self, columns=tuple(column for column in self.columns if not column.hidden))

    def with_hidden_of(self, standing: TableSchema) -> TableSchema:
        """This schema with those hidden columns of a stored one that it lacks, after its own."""
        lacking = tuple(column for column in standing.hidden if column.name not in self.names)
        return replace(self, columns=(*self.columns, *lacking)) if lacking else self

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the columns that are not part of the key."""
        return tuple(name for name in self.names if name not in self.key)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the columns that may not be NULL."""
        return tuple(column.name for column in self.columns if not column.nullable)

    def column(self, name: str) -> Column:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def arrow(self) -> pa.Schema:
        """The rows as Arrow holds them."""
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    @property
    def slice(self) -> pa.Schema:
        """The records as slices hold them: the four system columns, then the table's."""
        own = [pa.field(column.name, stored_type(column.type), column.nullable) for column in self.columns]
        return pa.schema([*_SYSTEM_ARROW, *own])

    def spark(self) -> StructType:
        """The rows as Spark reads them."""
        from pyspark.sql import types as spark

        return spark.StructType([spark.StructField(c.name, spark_type(c.type), c.nullable) for c in self.columns])

    def spark_read(self) -> StructType:
        """The rows as frames that read files have them: to Spark every column of a file may be NULL."""
        from pyspark.sql import types as spark

        return spark.StructType([spark.StructField(c.name, spark_type(c.type, nullable=True)) for c in self.columns])

    def spark_base(self) -> StructType:
        """The rows as Spark reads them from the base, with `_offset` and `event_time`."""
        from pyspark.sql import types as spark

        added = [
            spark.StructField("_offset", spark.LongType()),
            spark.StructField("event_time", spark.TimestampType()),
        ]
        return spark.StructType([*self.spark().fields, *added])

    def spark_slice(self) -> StructType:
        """The records as Spark reads them from slices, with the types that they are stored with."""
        from pyspark.sql import types as spark

        moment = spark.TimestampType()
        own = [spark.StructField(c.name, spark_type(stored_type(c.type)), c.nullable) for c in self.columns]
        return spark.StructType(
            [
                spark.StructField("offset", spark.LongType(), False),
                spark.StructField("op", spark.IntegerType(), False),
                spark.StructField("system_time", moment, False),
                spark.StructField("event_time", moment, False),
                *own,
            ]
        )

    def to_ledger(self) -> ledger.DataSchema:
        """The schema as the chain holds it, so that a chain explains itself."""
        own = [ledger_field(c.name, c.type, nullable=c.nullable, hidden=c.hidden) for c in self.columns]
        extra: ledger.Extra = {KEY_ATTRIBUTE: list(self.key)}
        if self.event_time is not None:
            extra[_EVENT_TIME] = self.event_time
        return ledger.DataSchema((*_SYSTEM_FIELDS, *own), extra)

    @staticmethod
    def from_ledger(declared: ledger.DataSchema) -> TableSchema:
        """The schema that a chain holds."""
        own = [field for field in declared.fields if field.name not in SYSTEM_COLUMNS]
        unknown = [field for field in own if not is_column_type(field)]
        if unknown:
            listed = ", ".join(f"'{field.name}' {ledger.type_text(field.type)}" for field in unknown)
            raise MalformedBlock(f"the chain declares columns of types that tables do not have: {listed}.")
        extra = declared.extra or {}
        return TableSchema(
            tuple(Column(field.name, *column_type(field), is_hidden(field)) for field in own),
            tuple(extra.get(KEY_ATTRIBUTE, ())),
            extra.get(_EVENT_TIME),
        )


def check_table_name(name: str) -> str:
    """The name, if a table can have it: it becomes a folder of the warehouse and must not lead out of it."""
    if not isinstance(name, str) or _TABLE_NAME.fullmatch(name) is None or len(name.encode()) > 200:
        raise InvalidTableName(
            f"{name!r} cannot be a table's name. Nothing was declared.",
            hint="use letters, digits, '_', '-', '$' and '.', beginning with a letter or digit.",
        )
    return name


def declare(
    table: str, definition: str | pa.Schema | StructType, key: str | Sequence[str] | None, event_time: str | None
) -> TableSchema:
    """The schema that a declaration describes, or `InvalidSchema` naming what is wrong with it."""
    parsed = _definitions(definition)
    if not parsed:
        raise InvalidSchema(f"table '{table}' has no columns. Nothing was declared.", hint="give it at least one.")
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    _check_names(table, [column.name for column in parsed])
    _check_types(table, parsed)
    names = [column.name for column in parsed]
    for name in keys:
        _check_column(table, "key", name, names)
    if len(set(keys)) != len(keys):
        raise InvalidSchema(f"table '{table}': its key names a column twice: {', '.join(keys)}. Nothing was declared.")
    columns = tuple(Column(c.name, c.type, c.nullable and c.name not in keys) for c in parsed if c.type is not None)
    schema = TableSchema(columns, keys, event_time)
    _check_key_types(table, schema)
    if event_time is not None:
        _check_event_time(table, schema, event_time)
    return schema


def _definitions(definition: str | pa.Schema | StructType) -> list[ColumnDefinition]:
    if isinstance(definition, str):
        return parse_columns(definition)
    if isinstance(definition, pa.Schema):
        return [ColumnDefinition(f.name, _normal(f.type), f.nullable, str(f.type)) for f in definition]
    return [
        ColumnDefinition(f.name, arrow_type(f.dataType), f.nullable, f.dataType.simpleString())
        for f in definition.fields
    ]


def _normal(arrow: pa.DataType) -> pa.DataType | None:
    """The type that a table has for an Arrow type: one width, one unit, one time zone."""
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow) or pa.types.is_fixed_size_binary(arrow):
        return pa.binary()
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us") if arrow.tz is None else UTC_MICROS
    if pa.types.is_date(arrow):
        return pa.date32()
    if pa.types.is_decimal(arrow) and not pa.types.is_decimal128(arrow):
        return None
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        item = _normal(arrow.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(arrow):
        fields = [(f, _normal(f.type)) for f in arrow.fields]
        return (
            None
            if any(t is None for _, t in fields)
            else pa.struct([pa.field(f.name, t, f.nullable) for f, t in fields])
        )
    try:
        spark_name(arrow)
    except KeyError:
        return None
    return arrow


def is_reserved(name: str) -> bool:
    """Whether a column's name, in any case, is one of Seamark's own."""
    folded = name.casefold()
    return folded in SYSTEM_COLUMNS or folded in OWN_COLUMNS or _OWNERS.fullmatch(folded) is not None


def _check_names(table: str, names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        folded = name.lower()
        _check_signs(table, name)
        if is_reserved(name):
            raise InvalidSchema(
                f"table '{table}': the column name '{name}' is reserved for Seamark's own. Nothing was declared.",
                hint=f"rename it. Reserved: {', '.join((*SYSTEM_COLUMNS, *OWN_COLUMNS))}.",
            )
        if folded in seen:
            raise InvalidSchema(
                f"table '{table}': columns '{seen[folded]}' and '{name}' are equal but for case, "
                "which Spark cannot tell apart. Nothing was declared.",
                hint="rename one of them.",
            )
        seen[folded] = name


def _check_signs(table: str, name: str) -> None:
    """Refuse names that Delta, or Spark's way to Arrow, cannot take: the table could be written and never folded."""
    wrong = [sign for sign in _UNFIT_SIGNS if sign in name]
    if wrong or not name:
        raise InvalidSchema(
            f"table '{table}': the column name {name!r} "
            + (f"holds {', '.join(map(repr, wrong))}. " if wrong else "is empty. ")
            + "Nothing was declared.",
            hint="rename it; Spark and Delta take neither of " + " ".join(map(repr, _UNFIT_SIGNS)) + " in a name.",
        )


def _field_names(found: pa.DataType | None) -> Iterator[str]:
    """The names of all fields inside a type."""
    if found is not None and pa.types.is_list(found):
        yield from _field_names(found.value_type)
    elif found is not None and pa.types.is_struct(found):
        for field in found.fields:
            yield field.name
            yield from _field_names(field.type)


def _check_types(table: str, columns: list[ColumnDefinition]) -> None:
    for column in columns:
        for name in _field_names(column.type):
            _check_signs(table, name)
        try:
            if column.type is None:
                raise UnhashableType(f"no logical hash is defined for {column.written}")
            ledger.check_hashable(column.type)
        except UnhashableType:
            raise InvalidSchema(
                f"table '{table}': column '{column.name}' has type {column.written}, which a table cannot hold. "
                "Nothing was declared.",
                hint="use boolean, tinyint, smallint, int, bigint (or long), float, double, decimal(p,s), string, "
                "binary, date, timestamp, timestamp_ntz, structs, or arrays of these but structs.",
            ) from None


def _check_key_types(table: str, schema: TableSchema) -> None:
    for name in schema.key:
        column = schema.column(name)
        if pa.types.is_nested(column.type):
            raise InvalidSchema(
                f"table '{table}': key column '{name}' is {column.shown}, which has no order. Nothing was declared.",
                hint="a key needs plain columns.",
            )


def _check_event_time(table: str, schema: TableSchema, name: str) -> None:
    _check_column(table, "event time", name, schema.names)
    found = schema.column(name).type
    if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
        raise InvalidSchema(
            f"table '{table}': its event time '{name}' has type {spark_name(found)}. Nothing was declared.",
            hint="an event time is a timestamp or a date.",
        )


def _check_column(table: str, what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise InvalidSchema(
            f"table '{table}': its {what} names column '{name}', which it does not have. Nothing was declared.",
            hint=did_you_mean(name, list(names), f"Columns of '{table}'"),
        )


def check_columns(table: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse column names that a table does not have."""
    for name in wanted:
        if name not in names:
            raise UnknownColumn(
                f"table '{table}' has no column '{name}'.",
                hint=did_you_mean(name, list(names), f"Columns of '{table}'"),
            )
