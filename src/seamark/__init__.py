"""Seamark keeps derived tables up to date on Spark: only what changed, exactly once, and rows can be traced back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark import ledger
    from seamark.errors import SeamarkError
    from seamark.ledger import Op
    from seamark.ledger.verify import Finding, VerifyReport
    from seamark.spark import spark_session
    from seamark.store import DataStore
    from seamark.tables import Commit, Head, Table

__version__ = "0.1.0"

__all__ = [
    "Commit",
    "DataStore",
    "Finding",
    "Head",
    "Op",
    "SeamarkError",
    "Table",
    "VerifyReport",
    "ledger",
    "spark_session",
]

# Where each name is at home. It is fetched when it is first used: `seamark --help` need not wait for all of them.
_HOMES = {
    "Commit": "seamark.tables",
    "DataStore": "seamark.store",
    "Finding": "seamark.ledger.verify",
    "Head": "seamark.tables",
    "Op": "seamark.ledger",
    "SeamarkError": "seamark.errors",
    "Table": "seamark.tables",
    "VerifyReport": "seamark.ledger.verify",
    "spark_session": "seamark.spark",
}


def __getattr__(name: str) -> object:
    if name == "ledger":
        return importlib.import_module("seamark.ledger")
    if name not in _HOMES:
        raise AttributeError(f"module 'seamark' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
