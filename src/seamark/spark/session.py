"""Sessions: the running one, a new one, or one of a Spark Connect server."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from seamark.config import SparkSettings, masked
from seamark.errors import SparkUnavailable
from seamark.spark.conf import DELTA_CONF, runtime_conf, session_conf
from seamark.spark.jars import DELTA_COORDINATES, delta_jars, existing_jars, fetch_delta_jars
from seamark.spark.java import java_or_error
from seamark.spark.launch import launch_environment, new_run_folder, tail_of_logs
from seamark.spark.starting import starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_PORT = 15002  # Spark Connect's default
_starting = threading.Lock()


def spark_session(settings: SparkSettings | None = None) -> SparkSession:
    """The running session if there is one (it must know Delta), else a new one built from `settings`."""
    settings = settings or SparkSettings()
    quiet_query_errors()
    with _starting:
        running = _running_session()
        if running is not None:
            _check_delta(running)
            return running
        with starting():
            return _connect(settings) if settings.is_remote else _start(settings)


def quiet_query_errors() -> None:
    """Keep PySpark from printing every failed query to the terminal as JSON: the exception says the same."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _running_session() -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _check_delta(session: SparkSession) -> None:
    missing = {name: value for name, value in DELTA_CONF.items() if value not in (session.conf.get(name, "") or "")}
    if missing:
        raise SparkUnavailable(
            "the Spark session that is running is not set up for Delta: "
            + ", ".join(f"{name} is not {value}" for name, value in missing.items())
            + ". It was left as it is.",
            hint="build it with these settings and the jar "
            + f"{DELTA_COORDINATES[0]}, or let seamark.spark_session() build it before anything else does.",
        )


def _start(settings: SparkSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    inside_submit = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started the JVM and runs us
    java = None if inside_submit else java_or_error()
    found = delta_jars(settings) or fetch_delta_jars(settings)
    jars = tuple(dict.fromkeys(found.paths + existing_jars(settings.jars)))
    _use_this_python(settings)

    folder = new_run_folder()
    conf = {"spark.sql.warehouse.dir": str(folder / "spark-warehouse")} | session_conf(settings, jars)
    builder = SparkSession.builder.master(settings.master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        with launch_environment(folder, settings, java):
            return builder.getOrCreate()
    except Exception as error:
        raise SparkUnavailable(
            f"a Spark session on master '{masked(settings.master)}' could not be started: {_first_line(error)}"
            f"\nThe end of Spark's log:\n{tail_of_logs(folder)}",
            hint="check [spark] in seamark.toml; `seamark doctor` looks at Java and the jars.",
        ) from error


def _connect(settings: SparkSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    where = masked(settings.master)
    try:
        _knock(settings.master)
        session = SparkSession.builder.remote(settings.master).getOrCreate()
        for name, value in (runtime_conf(settings) | dict(settings.conf)).items():
            session.conf.set(name, value)
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark Connect to '{where}' needs packages that are not installed: {_first_line(error)}.",
            hint="pip install 'pyspark[connect]==4.2.0'.",
        ) from error
    except Exception as error:
        raise SparkUnavailable(
            f"the Spark Connect server '{where}' did not give a session: {_first_line(error)}.",
            hint="check that the server runs and that [spark] master names it.",
        ) from error
    _check_delta(session)
    return session


def _knock(url: str) -> None:
    """Fails at once when nobody listens there: Spark Connect itself would try again for ten minutes."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or _CONNECT_PORT), timeout=5).close()
    except TimeoutError:
        return  # perhaps only a proxy reaches it: let Spark Connect try


def _use_this_python(settings: SparkSettings) -> None:
    """Python workers on the interpreter that runs us; on a cluster, what the environment says wins."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if settings.is_local:
            os.environ[name] = sys.executable
        else:
            os.environ.setdefault(name, sys.executable)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
