"""What all tests share: one Spark session, and a PostgreSQL server that is started when a test first asks for it."""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine, make_url, text
from tests.support.postgres import postgres_server

import seamark as sm
from seamark.tables import small

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.pop("COLUMNS", None)  # tests that run side by side are given one; what goes into a pipe has no width

# On a busy machine an example may take long to be made: that says nothing about the code.
settings.register_profile("seamark", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("seamark")


# --- time -------------------------------------------------------------------------------------------------------------


class TurnableClock:
    """A clock that stands still until somebody turns it, forward or back."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, **by: float) -> None:
        self._now += timedelta(**by)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds=max(seconds, 0.0))


@pytest.fixture
def clock() -> TurnableClock:
    """A clock that shows the present, and stands still until the test turns it."""
    return TurnableClock()


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def spark():
    """The session that all tests share, built as Seamark builds it."""
    from seamark.spark import SparkSettings, spark_session

    session = spark_session(SparkSettings(driver_memory="2g"))
    yield session
    session.stop()


class JobCounter:
    """How many Spark jobs a block started."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext

    def __enter__(self) -> "JobCounter":
        self._before = self._newest()
        return self

    def __exit__(self, *_: object) -> None:
        self.jobs = self._newest() - self._before - 1

    def _newest(self) -> int:
        """The number of a job started now: Spark numbers them one after another."""
        self._context.setJobGroup(group := f"count {uuid4()}", "count")
        self._context.parallelize([1], 1).count()
        (job,) = self._context.statusTracker().getJobIdsForGroup(group)
        return job


@pytest.fixture
def count_jobs(spark: Any) -> Callable[[], JobCounter]:
    return lambda: JobCounter(spark)


class NoSpark:
    """Stands where a session would, for work that must not need one."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for '{name}'")


@pytest.fixture
def no_spark() -> NoSpark:
    return NoSpark()


# --- what is small ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def set_small() -> Callable[..., None]:
    """Sets how many records, and bytes of them, the driver takes; with 0 everything goes through Spark's tasks."""

    def patch(patcher: pytest.MonkeyPatch, records: int | None = None, values: int | None = None) -> None:
        assert records is not None or values is not None, "nothing would be set"
        if records is not None:
            patcher.setattr(small, "SMALL_RECORDS", records)
        if values is not None:
            patcher.setattr(small, "SMALL_BYTES", values)

    return patch


@pytest.fixture
def large(set_small: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for the driver."""
    set_small(monkeypatch, 0)


class Fetched:
    """What came from Spark to the driver: rows and bytes of each fetch."""

    def __init__(self) -> None:
        self.fetches: list[tuple[int, int]] = []

    def clear(self) -> None:
        self.fetches.clear()

    @property
    def most_rows(self) -> int:
        return max((rows for rows, _ in self.fetches), default=0)

    @property
    def most_bytes(self) -> int:
        return max((size for _, size in self.fetches), default=0)


@pytest.fixture
def fetched(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """Watches what comes from Spark to the driver."""
    found, kind = Fetched(), type(spark.range(1))
    to_arrow, collect = kind.toArrow, kind.collect

    def watched_arrow(frame: Any) -> Any:
        table = to_arrow(frame)
        found.fetches.append((table.num_rows, table.nbytes))
        return table

    def watched_rows(frame: Any) -> Any:
        rows = collect(frame)
        found.fetches.append((len(rows), len(repr(rows))))
        return rows

    monkeypatch.setattr(kind, "toArrow", watched_arrow)
    monkeypatch.setattr(kind, "collect", watched_rows)
    return found


# --- stores -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., sm.DataStore]]:
    """Opens the store of this test, or one of several; called again, as another process would open it."""
    opened = []

    def open_it(folder: str = "", **options: Any) -> sm.DataStore:
        (place := tmp_path / folder).mkdir(exist_ok=True)
        opened.append(sm.DataStore(f"sqlite:///{place / 'control.db'}", place / "warehouse", **options))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def ds(open_store: Callable[..., sm.DataStore], spark: Any) -> sm.DataStore:
    return open_store(spark=spark)


@pytest.fixture
def dry(open_store: Callable[..., sm.DataStore], no_spark: NoSpark) -> sm.DataStore:
    """A store for what needs no Spark."""
    return open_store(spark=no_spark)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, with logical decoding."""
    with postgres_server(wal_level="logical", max_connections=200) as address:
        yield f"postgresql+psycopg://{address}"


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """A fresh, empty database for one test."""
    name = f"test_{secrets.token_hex(6)}"
    server = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(postgres).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def control_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty control database: the test runs once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'control.db'}"
    return request.getfixturevalue("postgres_url")
