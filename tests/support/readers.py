"""Processes that may not write where permissions say so, also where the tests are run by root."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_DROP_CAPABILITY = 24  # prctl's PR_CAPBSET_DROP
_PAST_PERMISSIONS = (1, 2, 3)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """The folder without the right to write to anything in it, while the block runs."""
    places = [folder, *folder.rglob("*")]
    modes = {place: place.stat().st_mode for place in places}
    for place in reversed(places):
        place.chmod(stat.S_IMODE(modes[place]) & ~0o222)
    try:
        yield folder
    finally:
        for place in places:
            place.chmod(stat.S_IMODE(modes[place]))


def run_as_reader(program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a Python program answers that permissions hold for: root gives up the right to pass them by."""
    command: Sequence[str] = [sys.executable, "-c", program, *arguments]
    rights = {"preexec_fn": _heed_permissions} if os.geteuid() == 0 else {}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **rights)


def _heed_permissions() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _PAST_PERMISSIONS:
        if libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the right to pass permissions by cannot be given up")


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its bytes and the time of its last change, but for Python's own."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}
