"""A store with the tables of the design's section 8.1, short ways to write frames, and to tell what a table holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm

POSTS = "post_id long, user_id long, content string"


class TurnedClock:
    """A clock that shows what it is set to."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def turn(self, **by: float) -> None:
        self.moment += timedelta(**by)

    def sleep(self, seconds: float) -> None:
        self.turn(seconds=max(seconds, 0.0))


# --- stores -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(datetime(2020, 1, 1, 12, tzinfo=UTC))


@pytest.fixture
def posts(ds) -> sm.Table:
    return ds.table("posts", POSTS, key="post_id")


@pytest.fixture
def stock(ds) -> sm.Table:
    return ds.table("stock", "name string, amount long", key="name")


@pytest.fixture
def clicks(ds) -> sm.Table:
    return ds.table("clicks", "url string, at timestamp", event_time="at")


@pytest.fixture
def dry_posts(dry) -> sm.Table:
    return dry.table("posts", POSTS, key="post_id")


# --- frames in --------------------------------------------------------------------------------------------------------


def arrow_rows(table: sm.Table, *rows: tuple[Any, ...]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(table.schema.columns)
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, table.schema.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, names=table.schema.names)


@pytest.fixture(scope="session")
def arrow() -> Callable[..., pa.Table]:
    """Rows of a table as an Arrow frame: `arrow(posts, (1, 100, "hello"))`."""
    return arrow_rows


@pytest.fixture(params=["pandas", "arrow", "spark"])
def frame_of(request, spark) -> Callable[..., Any]:
    """Rows of a table as a pandas, an Arrow and a Spark frame: the test runs once with each."""

    def make(table: sm.Table, *rows: tuple[Any, ...]) -> Any:
        if request.param == "pandas":
            return pd.DataFrame(list(rows), columns=list(table.schema.names))
        if request.param == "arrow":
            return arrow_rows(table, *rows)
        return spark.createDataFrame(list(rows), table.schema.spark())

    make.kind = request.param
    return make


# --- what a table holds -----------------------------------------------------------------------------------------------


def slice_tables(table: sm.Table) -> list[pa.Table]:
    source = table.source
    data = source.context.files(table.name).data
    blocks = source.context.control.index.slices(table.name, after=None, upto=None)
    return [pq.read_table(data.path(block.slice_hash)) for block in blocks]


@pytest.fixture(scope="session")
def slices() -> Callable[[sm.Table], list[pa.Table]]:
    """The slices of a table as they lie on disk, read without Spark and without Seamark."""
    return slice_tables


def tell_record(row: dict[str, Any], names: tuple[str, ...]) -> str:
    shown = ["NULL" if row[name] is None else str(row[name]) for name in names]
    return " ".join([sm.Op(row["op"]).sign, *shown])


@pytest.fixture(scope="session")
def told() -> Callable[..., list[str]]:
    """The records of a table in order, as they lie on disk: `["+A 1 100 hello", …]`."""

    def tell(table: sm.Table, after: int = -1) -> list[str]:
        rows = [row for piece in slice_tables(table) for row in piece.to_pylist()]
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        return [tell_record(row, table.schema.names) for row in rows[after + 1 :]]

    return tell


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[tuple[Any, ...]]]:
    """The rows of a Spark frame or a table, sorted by their first columns."""

    def read(frame: Any) -> list[tuple[Any, ...]]:
        frame = frame.rows() if isinstance(frame, sm.Table) else frame
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    return read


@pytest.fixture(scope="session")
def files_under() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder with its bytes, but for the database's own."""

    def listed(folder: Path) -> dict[str, bytes]:
        found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "control.db" not in path.name)
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    return listed


@pytest.fixture
def unchanged(files_under, tmp_path) -> Callable[[sm.Table], Any]:
    """`with unchanged(posts): …` fails if head or files are other ones afterwards."""
    from contextlib import contextmanager

    @contextmanager
    def watch(table: sm.Table) -> Iterator[None]:
        head, files = table.head, files_under(tmp_path)
        yield
        assert table.head == head
        assert files_under(tmp_path) == files

    return watch
