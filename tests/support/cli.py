"""Projects for the command line: how one is written, and what command lines in this process leave behind."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seamark import DataStore

TOML = """\
pipeline  = "pipeline.py:ds"
control   = "sqlite:///seamark.db"
warehouse = "warehouse"
"""


VISITS = """\
import seamark as sm

ds = sm.DataStore()

joined_visits      = ds.table("joined_visits",      "VisitID long, y_VisitVersion int, title string")
joined_conversions = ds.table("joined_conversions", "VisitID long, y_VisitVersion int, revenue long")

ds.diff("visits", key="VisitID", fast_version="y_VisitVersion", multiplier=1000,
        logs=[joined_visits, joined_conversions], merge={"revenue": "sum"})
"""
SCHEMAS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}


def append(folder: Path, name: str, *rows: tuple[object, ...]) -> None:
    with open_store(folder) as store:
        table = store.table(name, SCHEMAS[name])
        table.append([dict(zip(table.schema.names, row, strict=True)) for row in rows])


def open_store(folder: Path) -> DataStore:
    return DataStore(f"sqlite:///{folder / 'seamark.db'}", folder / "warehouse")


@contextmanager
def surroundings_kept() -> Iterator[None]:
    """Puts back what command lines in this process leave behind."""
    before = (dict(os.environ), list(sys.path), dict(sys.modules), os.getcwd(), _logging_of())
    yield
    environment, path, modules, folder, (handlers, level, propagate) = before
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        if name == "pipeline":
            del sys.modules[name]
    logger = logging.getLogger("seamark")
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def _logging_of() -> tuple[list[logging.Handler], int, bool]:
    logger = logging.getLogger("seamark")
    return list(logger.handlers), logger.level, logger.propagate
