"""The table that a view proposes for itself, in the dialects of Spark, PostgreSQL and ClickHouse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from seamark.systems import clickhouse, postgres
from seamark.tables.schema.types import spark_name
from seamark.views.model import MvTarget
from seamark.views.paths.facts import quoted
from seamark.views.paths.lineage import Lineage
from seamark.views.paths.types import is_nullable, type_of


class Dialect(StrEnum):
    """In which dialect a table is proposed."""

    SPARK = "spark"
    POSTGRES = "postgres"
    CLICKHOUSE = "clickhouse"


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column of the proposed table. `type` is None where only Spark can tell it."""

    name: str
    type: pa.DataType | None
    nullable: bool


def proposed_columns(
    target: MvTarget, key: tuple[str, ...], types: Mapping[str, pa.DataType] | None = None
) -> tuple[ProposedColumn, ...]:
    """The columns of a linked view. `types` are those that Spark found, by name; without them some are not known."""
    part = target.parts[0]
    known = types or {}
    if part.query is None:
        return tuple(ProposedColumn(name, found, name not in key) for name, found in known.items())
    lineage, keys = Lineage(part), {name.casefold() for name in key}
    found = []
    for column in part.columns:
        is_key = column.name.casefold() in keys
        nullable = lineage.column(column.value) is None or is_nullable(lineage, column)
        kind = known.get(column.name)
        found.append(
            ProposedColumn(
                column.name, type_of(lineage, column.value) if kind is None else kind, nullable and not is_key
            )
        )
    return tuple(found)


def create_table(name: str, columns: tuple[ProposedColumn, ...], key: tuple[str, ...], dialect: Dialect) -> str:
    """A CREATE TABLE that the dialect takes. A type that is not known is a text, and a comment says so."""
    by_name = {column.name.casefold(): column.name for column in columns}
    keys = [by_name.get(found.casefold(), found) for found in key]
    lines = [_column(column, dialect) for column in columns]
    if dialect is Dialect.POSTGRES and keys:
        lines.append((f"PRIMARY KEY ({', '.join(_name(found, dialect) for found in keys)})", ""))
    last = len(lines) - 1
    body = "\n".join(f"  {line}{',' if i < last else ''}{comment}" for i, (line, comment) in enumerate(lines))
    listed = ", ".join(_name(found, dialect) for found in keys)
    head = f"CREATE TABLE {_name(name, dialect)} (\n{body}\n)"
    if dialect is Dialect.CLICKHOUSE:
        return f"{head}\nENGINE = ReplacingMergeTree\nORDER BY ({listed})"
    if dialect is Dialect.SPARK and keys:
        return f"{head}\nUSING delta /* key: {listed} */"
    return head


def _column(column: ProposedColumn, dialect: Dialect) -> tuple[str, str]:
    comment = "" if column.type is not None else " -- computed: Spark tells its type"
    kind = pa.string() if column.type is None else column.type
    if dialect is Dialect.CLICKHOUSE:
        return f"{_name(column.name, dialect)} {clickhouse.clickhouse_type(kind, nullable=column.nullable)}", comment
    shown = spark_name(kind).upper() if dialect is Dialect.SPARK and not pa.types.is_nested(kind) else spark_name(kind)
    if dialect is Dialect.POSTGRES:
        shown = postgres.postgres_type(kind)
    return f"{_name(column.name, dialect)} {shown}{'' if column.nullable else ' NOT NULL'}", comment


def _name(name: str, dialect: Dialect) -> str:
    if dialect is Dialect.POSTGRES:
        return postgres.quoted(name)
    return clickhouse.quoted(name) if dialect is Dialect.CLICKHOUSE else quoted(name)
