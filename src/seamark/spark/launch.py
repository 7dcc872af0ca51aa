"""The launch of Spark's JVM, with everything it prints in a file.

Spark's launcher sources `spark-env.sh` of the folder that SPARK_CONF_DIR names. A folder made for each session holds
such a file, which sends all that the JVM prints to a log beside it and chooses Java. So this process's own stdout and
stderr are never touched, whichever threads are writing to them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from seamark.config import SparkSettings
from seamark.spark.java import JavaFound, home_of

_run_folder: Path | None = None

_SPARK_ENV = """\
{conf_dir}
{java_home}
{local_ip}
SPARK_SUBMIT_OPTS="-Dlog4j2.configurationFile={folder}/log4j2.properties ${{SPARK_SUBMIT_OPTS:-}}"
exec >>{launch_log} 2>&1
"""

_LOG4J = """\
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss'Z'}}{{UTC}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
# Spark counts itself as a shell under Python, and gives a shell's level to everything
logger.shell.name = org.apache.spark.repl.Main
logger.shell.level = {level}
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""


def spark_log() -> Path | None:
    """The file that Spark of this process logs to, or None when this process started none."""
    return _run_folder / "spark.log" if _run_folder else None


def new_run_folder() -> Path:
    """A temporary folder for one session's configuration and logs, removed when this process ends."""
    global _run_folder
    folder = _run_folder = Path(tempfile.mkdtemp(prefix="seamark-spark-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@contextlib.contextmanager
def launch_environment(folder: Path, settings: SparkSettings, java: JavaFound | None) -> Iterator[None]:
    """The environment in which Spark's launcher finds our `spark-env.sh`; the user's own configuration still counts."""
    own_conf = os.environ.get("SPARK_CONF_DIR") or _conf_of_spark_home()
    conf_dir = ""
    if own_conf:
        own_env = shlex.quote(f"{own_conf}/spark-env.sh")
        conf_dir = f"SPARK_CONF_DIR={shlex.quote(own_conf)}\nif [ -f {own_env} ]; then . {own_env}; fi"
    script = _SPARK_ENV.format(
        conf_dir=conf_dir,
        java_home=f"JAVA_HOME={shlex.quote(str(home_of(java, folder)))}" if java else "",
        local_ip="SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}" if settings.is_local else "",
        folder=folder,
        launch_log=shlex.quote(str(folder / "launch.log")),
    )
    (folder / "spark-env.sh").write_text(script)
    (folder / "log4j2.properties").write_text(_LOG4J.format(folder=folder, level=settings.log_level.lower()))

    before = {name: os.environ.get(name) for name in ("SPARK_CONF_DIR", "SPARK_ENV_LOADED")}
    os.environ["SPARK_CONF_DIR"] = str(folder)
    os.environ.pop("SPARK_ENV_LOADED", None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _conf_of_spark_home() -> str | None:
    home = os.environ.get("SPARK_HOME")
    return f"{home}/conf" if home and Path(home, "conf").is_dir() else None


def tail_of_logs(folder: Path, lines: int = 15) -> str:
    """The last lines that the launcher and Spark wrote."""
    text = "".join(
        (folder / name).read_text(errors="replace") for name in ("launch.log", "spark.log") if (folder / name).exists()
    )
    return "\n".join(text.strip().splitlines()[-lines:]) or "(empty)"
