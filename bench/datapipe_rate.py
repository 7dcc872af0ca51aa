"""Datapipe's rate: installed in a virtual environment of its own, on a PostgreSQL server of the bench's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.postgres import postgres_server

# The newest release on the registry: what a user of Datapipe has today (offsets were never merged there). Pandas and
# SQLAlchemy are held to the lines that it was made with, so that a later one cannot change the figure.
DATAPIPE = "0.15.0"
REQUIREMENTS = (f"datapipe-core=={DATAPIPE}", "pandas<3", "sqlalchemy<2.1")

CHUNKS = (1_000, 5_000, 20_000)  # Datapipe's default, and what a user would try next


def datapipe_rate(rows: int) -> float:
    """Rows a second of a first run over so many rows, at Datapipe's best chunk size."""
    python = datapipe_python()
    # No waiting for the disk, and memory enough: Datapipe is measured at its best.
    with postgres_server(synchronous_commit="off", shared_buffers="512MB") as address:
        command = [python, Path(__file__).with_name("datapipe_program.py"), f"postgresql://{address}", str(rows)]
        ended = subprocess.run([*command, *map(str, CHUNKS)], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"Datapipe's run failed:\n{ended.stderr}")
    return rows / min(json.loads(ended.stdout.splitlines()[-1]).values())


def datapipe_python() -> Path:
    """The Python that has Datapipe, installed now if it is not there yet."""
    folder = cache_folder() / f"datapipe-{DATAPIPE}-python-{sys.version_info.major}.{sys.version_info.minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True, stdout=subprocess.DEVNULL
        )
        ready.touch()
    return python


def cache_folder() -> Path:
    """Where the bench keeps what it need not fetch again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seamark-bench"


if __name__ == "__main__":
    print(f"{datapipe_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000):.0f} rows/s")
