"""Looking whether a block's rows are in the target: asked only of a block that an earlier run may have sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seamark.control import BlockEntry
from seamark.sinks.clickhouse.connection import Connection, Row
from seamark.sinks.clickhouse.insert import OFFSET
from seamark.sinks.layout import RowKind
from seamark.sinks.target import Carried
from seamark.systems.clickhouse import quoted, text


@dataclass(frozen=True, slots=True)
class BlockSearch:
    """Looks for blocks among what was inserted after the insert number `after`."""

    connection: Connection
    database: str
    table: str
    carried: Carried
    after: int

    def finds(self, block: BlockEntry, slice_path: Path) -> bool:
        """Whether the block is there. Where nothing can show that any more it is yes: then its token is trusted."""
        if self.carried.layout.kind is RowKind.KEYED:
            found = self._ask(f"{OFFSET} BETWEEN {block.first_offset} AND {block.last_offset} LIMIT 1", "1 AS one")
            return bool(found)
        parts = self._newer_parts()
        if not _are_as_inserted(parts):
            return True  # its rows may have been merged with others, cancelled by them, or deleted since
        wanted = self._sums_in_slice(slice_path)
        if any(self._sums_in_part(part) == wanted for part in parts):
            return True
        # A part that was merged after it was listed seems to hold nothing. Its rows may be there, or be cancelled.
        now = self._newer_parts()
        are_left = {part["name"] for part in parts} <= {part["name"] for part in now}
        return not are_left or not _are_as_inserted(now)

    def _newer_parts(self) -> list[Row]:
        return self.connection.query(
            "SELECT name, level = 0 AND data_version = min_block_number AND partition_id = 'all' AS is_as_inserted "
            "FROM system.parts "
            f"WHERE database = {text(self.database)} AND table = {text(self.table)} AND active "
            f"AND max_block_number > {self.after}"
        )

    def _sums_in_part(self, part: Row) -> list[int]:
        sums = [f"reinterpretAsInt64(sum(toInt64({quoted(name)})))" for name in self._numbers()]
        columns = ", ".join(f"{each} AS s{place}" for place, each in enumerate(["toInt64(count())", *sums]))
        (row,) = self._ask(f"_part = {text(part['name'])}", columns)
        return list(row.values())

    def _sums_in_slice(self, path: Path) -> list[int]:
        """The number of rows, and the sum of each column of whole numbers, cut to 64 bits as ClickHouse does."""
        names = self._numbers()
        rows = pq.ParquetFile(path).read(columns=["offset", *names])
        sums = [int(rows.column(name).cast(pa.int64()).to_numpy().sum(dtype=np.int64)) for name in names]
        return [rows.num_rows, *sums]

    def _numbers(self) -> list[str]:
        """The columns of whole numbers that are never NULL in the target."""
        required, schema = self.carried.layout.required, self.carried.schema
        never_null = [c for c in schema.columns if not c.nullable or c.name in required]
        return [column.name for column in never_null if pa.types.is_integer(column.type)]

    def _ask(self, where: str, columns: str) -> list[Row]:
        source = f"{quoted(self.database)}.{quoted(self.table)}"
        return self.connection.query(f"SELECT {columns} FROM {source} WHERE {where}")


def _are_as_inserted(parts: list[Row]) -> bool:
    return all(part["is_as_inserted"] for part in parts)
