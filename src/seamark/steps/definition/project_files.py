"""Which modules are the project's own, and which are Python's or come from installed packages."""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import ModuleType

_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = tuple(Path(path).resolve() for name in _FOLDERS if (path := sysconfig.get_path(name)))
_ALWAYS_INSTALLED = ("seamark", "pyspark", "py4j")  # a cluster has them in folders of its own


def is_installed(module: str | None, path: str | None, package: str = "") -> bool:
    """Whether a module is Python's or a package's. What belongs to `package` never is: the project may be installed."""
    top = (module or "").partition(".")[0]
    if top in _ALWAYS_INSTALLED or top.startswith("_cython_"):  # where Cython keeps the types of its functions
        return True
    if package and top == package:
        return False
    if path is None or path.startswith("<"):  # no file: made by a program, unless it is one of Python's
        return top in sys.builtin_module_names or top in sys.stdlib_module_names
    return _lies_among_packages(path)


@lru_cache(maxsize=10_000)
def _lies_among_packages(path: str) -> bool:
    place = Path(path).resolve()
    if any(place.is_relative_to(folder) for folder in _INSTALLED):
        return True
    return any(part in ("site-packages", "dist-packages") for part in place.parts)


def is_project_module(module: ModuleType) -> bool:
    """Whether a module is a file of the project: executors may not find it by name."""
    path = getattr(module, "__file__", None)
    return path is not None and not any(Path(path).resolve().is_relative_to(folder) for folder in _INSTALLED)
