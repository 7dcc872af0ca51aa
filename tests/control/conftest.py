"""Control databases, stores without Spark, and made-up commits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seamark import DataStore
from seamark.control import BlockEntry, CommitRequest, Control, RunRecord, TableAppend, TableHead

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def control(control_url: str) -> Iterator[Control]:
    """An empty control database, on SQLite and on PostgreSQL."""
    opened = Control(control_url)
    yield opened
    opened.close()


@dataclass
class Commits:
    """Made-up blocks and requests: the control database never looks into a block."""

    _runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def head(self, table: str, sequence: int, by: str = "a") -> TableHead:
        """The head after `sequence` + 1 blocks of one record each, the last one written by `by`."""
        return TableHead(
            table=table,
            dataset_id=f"did:odf:{table}",
            kind="root",
            head_hash=f"{table}-{sequence}-{by}",
            sequence=sequence,
            last_offset=sequence,
            system_time=NOON + timedelta(seconds=sequence),
            data_block=f"{table}-{sequence}-{by}",
            schema_block=None,
            transform_block=None,
        )

    def append(self, table: str, after: TableHead | None = None, by: str = "a", blocks: int = 1) -> TableAppend:
        """Blocks of one record each that follow a head."""
        first = after.sequence + 1 if after else 0
        entries = [
            BlockEntry(
                sequence=sequence,
                hash=f"{table}-{sequence}-{by}",
                kind="AddData",
                system_time=NOON + timedelta(seconds=sequence),
                first_offset=sequence,
                last_offset=sequence,
            )
            for sequence in range(first, first + blocks)
        ]
        new_head = self.head(table, first + blocks - 1, by)
        return TableAppend(after.head_hash if after else None, new_head, tuple(entries))

    def request(self, *appends: TableAppend, run_id: str | None = None, **rest: Any) -> CommitRequest:
        """A request of a run of its own."""
        run = RunRecord(run_id or f"run-{next(self._runs)}", "posts", "append", started=1.0, ended=2.0, rows_out=1)
        return CommitRequest(run=run, appends=appends, **rest)


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def open_store(control_url: str, warehouse: Path) -> Iterator[Callable[..., DataStore]]:
    """Opens the test's store, as often as it is asked to; `control=` opens it with another database."""
    opened: list[DataStore] = []

    def open_it(**options: Any) -> DataStore:
        opened.append(DataStore(options.pop("control", control_url), warehouse, **options))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def clicks_of() -> Callable[..., pa.Table]:
    """A frame of clicks with these numbers."""

    def frame(*numbers: int) -> pa.Table:
        return pa.table({"number": pa.array(numbers, pa.int64())})

    return frame
