"""DuckDB in this process: started on first use, with little memory, and able to read one warehouse only."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A locked DuckDB cannot change its allowed folders, so each warehouse has its own connection. A process usually has one
# warehouse; in tests and tools that use many, the least recently used connection is dropped.
MOST_CONNECTIONS = 2

_SETTINGS = {
    "memory_limit": "256MB",
    "threads": "2",
    "async_threads": "2",
    "temp_directory": "",  # what does not fit is left to Spark; by default DuckDB would write beside the program
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # a table's name is never a variable of a caller
    "enable_external_file_cache": "false",  # every read goes to the file
}

_BATCH_ROWS = 2_048  # as many as DuckDB computes at once

_lock = threading.Lock()
_connections: OrderedDict[tuple[int, str], DuckDBPyConnection] = OrderedDict()


def cursor(warehouse: Path) -> DuckDBPyConnection:
    """A cursor for one thread, of the connection that reads files below this warehouse."""
    place = _place(warehouse)
    with _lock:
        if place not in _connections:
            _connections[place] = _connect(place[1])
            while len(_connections) > MOST_CONNECTIONS:
                _connections.popitem(last=False)  # not closed: cursors of it may still be in use
        _connections.move_to_end(place)
        return _connections[place].cursor()


def forget(warehouse: Path) -> None:
    """Drop the connection of a warehouse: after some errors DuckDB refuses every later query on it."""
    with _lock:
        _connections.pop(_place(warehouse), None)


def query(using: DuckDBPyConnection, text: str, *parameters: object) -> pa.RecordBatchReader:
    """The rows that a query returns, in batches. Pass values as parameters, never inside the text."""
    # Not `execute`: that copies rows on their way to Arrow.
    return using.sql(text, params=list(parameters)).to_arrow_reader(_BATCH_ROWS)


def quoted(name: str) -> str:
    """A column's name as DuckDB reads it whatever signs it has."""
    return '"' + name.replace('"', '""') + '"'


def _place(warehouse: Path) -> tuple[int, str]:
    # The process id: a forked child inherits the connection, but not the threads that DuckDB works with.
    # The real path: DuckDB compares what links lead to.
    return os.getpid(), os.path.realpath(warehouse)


def _connect(warehouse: str) -> DuckDBPyConnection:
    import duckdb  # here: few programs need it, and the import is slow

    made = duckdb.connect(":memory:", config=dict(_SETTINGS))
    made.execute("SET allowed_directories = [$1]", [warehouse + os.sep])
    made.execute("SET enable_external_access = false")
    made.execute("SET lock_configuration = true")
    return made
