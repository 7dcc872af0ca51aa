"""One insert a block: the statement, its settings, and the rows where the engine cannot read the slice itself."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamark.ledger import Op
from seamark.sinks.layout import RowKind
from seamark.sinks.target import Carried
from seamark.systems.clickhouse import clickhouse_type, quoted, text

OFFSET, DELETED = "_offset", "_deleted"

_ALL_ROWS = 1 << 40  # more than any block has

# What makes an insert one block, and what lets ClickHouse notice that it had it before.
_REQUIRED: Mapping[str, int | str] = {
    "insert_deduplicate": 1,
    "async_insert": 0,  # else the server would join it with others'
    "max_insert_threads": 1,
    "min_insert_block_size_rows": _ALL_ROWS,
    "min_insert_block_size_bytes": 0,
    "max_insert_block_size": _ALL_ROWS,
    "optimize_on_insert": 0,  # merging rows is the table's work in its own time; here it would only hold the insert up
}
# Newer versions have more to say about both; older ones do not know these settings.
_OPTIONAL: Mapping[str, int | str] = {
    "deduplicate_insert": "enable",
    "deduplicate_insert_select": "force_enable",
    "use_strict_insert_block_limits": 0,
    "max_insert_block_size_bytes": 0,
    "session_timezone": "UTC",
}
OPTIONAL_SETTINGS = tuple(_OPTIONAL)


def insert_settings(token: str, known: Sequence[str]) -> str:
    """The settings of an insert that is one block and counts once by its token."""
    wanted = {**_REQUIRED, **{name: value for name, value in _OPTIONAL.items() if name in known}}
    wanted["insert_deduplication_token"] = token
    return ", ".join(f"{name}={text(v) if isinstance(v, str) else v}" for name, v in wanted.items())


def insert_statement(table: str, columns: Sequence[str], settings: str) -> str:
    """The beginning of an insert, up to where its rows come from."""
    return f"INSERT INTO {table} ({', '.join(map(quoted, columns))}) SETTINGS {settings}"


@dataclass(frozen=True, slots=True)
class Insert:
    """How a slice of a table becomes rows of the target: for the engine as SQL, for a server as Parquet."""

    table: str  # as SQL writes it
    carried: Carried
    settings: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns, in the order in which they are sent."""
        own = self.carried.schema.names
        return (*own, OFFSET, DELETED) if self._is_keyed else own

    @property
    def _is_keyed(self) -> bool:
        return self.carried.layout.kind is RowKind.KEYED

    def from_file(self, path: Path) -> str:
        """The whole statement, for an engine that reads the slice itself."""
        selected = [quoted(name) for name in self.carried.schema.names]
        where = ""
        if self._is_keyed:
            # What a row was before is of no use here: the newest record of a key wins, and the others go.
            selected += ["toUInt64(offset)", f"toUInt8(op = {int(Op.RETRACT)})"]
            where = f" WHERE op != {int(Op.CORRECT_FROM)}"
        source = f"file({text(str(path))}, Parquet, {text(self._structure())})"
        return f"{self.statement()} SELECT {', '.join(selected)} FROM {source}{where}"

    def statement(self) -> str:
        """The statement up to where its rows come from."""
        return insert_statement(self.table, self.columns, self.settings)

    def _structure(self) -> str:
        required = self.carried.layout.required
        own = [
            f"{quoted(c.name)} {clickhouse_type(c.type, nullable=c.nullable and c.name not in required)}"
            for c in self.carried.schema.columns
        ]
        return ", ".join(["offset Int64", "op Int32", *own])

    def parquet(self, path: Path) -> bytes:
        """The rows to insert as the bytes of a Parquet file, columns that the slice does not have yet as NULL."""
        file = pq.ParquetFile(path)
        there = set(file.schema_arrow.names)
        names = [name for name in self.carried.schema.names if name in there]
        records = file.read(columns=["offset", "op", *names])
        if self._is_keyed:
            records = records.filter(pc.not_equal(records.column("op"), int(Op.CORRECT_FROM)))
        columns = {name: records.column(name) for name in names}
        for column in self.carried.schema.columns:
            if column.name not in there:
                columns[column.name] = pa.nulls(records.num_rows, column.type)
        if self._is_keyed:
            columns[OFFSET] = records.column("offset").cast(pa.uint64())
            columns[DELETED] = pc.equal(records.column("op"), int(Op.RETRACT)).cast(pa.uint8())
        return parquet_bytes(pa.table({name: columns[name] for name in self.columns}))


def parquet_bytes(rows: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="snappy", store_schema=False)
    return sink.getvalue()
