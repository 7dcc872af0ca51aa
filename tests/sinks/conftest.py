"""A store whose tables go to a real ClickHouse: the engine inside this process, and one behind HTTP."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from tests.support import SUPPORT
from tests.support.sink_visits import Visits

import seamark as sm


@pytest.fixture
def folder_url(tmp_path: Path) -> str:
    return f"chdb:///{tmp_path / 'clickhouse'}"


def arrow_rows(table: sm.Table, *rows: tuple[Any, ...]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(table.schema.columns)
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, table.schema.arrow, strict=True)]
    return pa.Table.from_arrays(arrays, names=table.schema.names)


@pytest.fixture(scope="session")
def arrow() -> Callable[..., pa.Table]:
    """Rows of a table as an Arrow frame: `arrow(posts, (1, "hello"))`."""
    return arrow_rows


# --- ClickHouse -------------------------------------------------------------------------------------------------------

USER, PASSWORD = "carrier", "s3cret/@:x"


@pytest.fixture(scope="session")
def http_engine(tmp_path_factory) -> Iterator[int]:
    """The port of a ClickHouse behind HTTP, in a process of its own."""
    folder = tmp_path_factory.mktemp("http") / "clickhouse"
    program = SUPPORT / "http_clickhouse.py"
    command = [sys.executable, program, folder, USER, PASSWORD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield int(process.stdout.readline())
        process.stdin.close()  # it ends by itself


@pytest.fixture
def server_url(http_engine: int) -> str:
    """The URL of a server, with an empty database for this test."""
    database = f"test_{secrets.token_hex(6)}"
    place = f"{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{http_engine}"
    sm.ClickHouseSink(f"clickhouse://{place}", table="none").query(f"CREATE DATABASE {database}")
    return f"clickhouse://{place}/{database}"


@pytest.fixture(params=["embedded", "server"])
def url(request: pytest.FixtureRequest) -> str:
    """A ClickHouse without tables: the test runs once inside this process and once over HTTP."""
    return request.getfixturevalue("folder_url" if request.param == "embedded" else "server_url")


# --- visits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def visits(dry: sm.DataStore, url: str, arrow: Any) -> Visits:
    """A log of visits, and its copy: the test runs once inside this process and once over HTTP."""
    return Visits(dry, url, arrow)


@pytest.fixture
def local_visits(dry: sm.DataStore, folder_url: str, arrow: Any) -> Visits:
    return Visits(dry, folder_url, arrow)
