"""What a database's refusal means: whether it is the statement's fault, whether to try again, and what to do next."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError

READ_ONLY_FILE = "the file is read-only: give yourself the right to write to it and to its folder."
_OTHERWISE = "check that it runs and that the URL, user and password are right; `seamark doctor` tries it."

_NO_RIGHT, _LOCK_NOT_AVAILABLE, _DEADLOCK = "42501", "55P03", "40P01"
# What PostgreSQL refuses for reasons outside the statement: a missing right (above); the connection (08), the state of
# the transaction, such as read-only or idle for too long (25), and the operator of the server (57).
_OUTSIDE_CLASSES = ("08", "25", "57")

_BY_SQLITE_CODE = {
    sqlite3.SQLITE_READONLY: READ_ONLY_FILE,
    sqlite3.SQLITE_CANTOPEN: "its folder does not exist or may not be written to: correct `control`.",
    sqlite3.SQLITE_NOTADB: "the file is something else, or damaged: correct `control`, or restore it from a copy.",
    sqlite3.SQLITE_BUSY: "another program has kept it locked: wait for it to end, then run again.",
    sqlite3.SQLITE_FULL: "free some space on its disk, then run again.",
}
_BY_SQLSTATE = {
    "25006": "the server is a read-only copy: let `control` name the one that is written to.",
    "25P03": "this machine was too busy, or asleep, in the middle of a transaction: run again.",
    _NO_RIGHT: "give the user the right to it on the server.",
    "57P01": "the server was stopped, or ended the connection: run again when it is up.",
}
# A connection that could not be opened has no code: PostgreSQL's client library gives only a text.
_BY_TEXT_OF_CONNECTING = (
    ("password authentication failed", "correct user or password in `control`."),
    ("Connection refused", "start the server, or correct host and port in `control`."),
    ("resolve host", "correct the host in `control`, or check the network's name service."),
    ("does not exist", "create it, or correct its name in `control`."),
)


def hint_for(error: DBAPIError) -> str:
    """What to do about a database that cannot be used."""
    hint = _BY_SQLITE_CODE.get(_sqlite_code(error)) or _BY_SQLSTATE.get(_sqlstate(error))
    if hint is None and not _sqlstate(error):
        hint = next((hint for sign, hint in _BY_TEXT_OF_CONNECTING if sign in str(error.orig)), None)
    return hint or _OTHERWISE


def is_outside_trouble(error: DBAPIError) -> bool:
    """Whether the database could not be used, rather than that it was asked for something wrong."""
    # For a file that is not a database SQLite raises DatabaseError itself; the classes below it mean other things
    if isinstance(error, OperationalError) or type(error) is DatabaseError or error.connection_invalidated:
        return True
    return _sqlstate(error) == _NO_RIGHT or _sqlstate(error).startswith(_OUTSIDE_CLASSES)


def is_lock_timeout(error: OperationalError) -> bool:
    """Whether others held a lock for too long, so that another try may succeed."""
    return _sqlstate(error) in (_LOCK_NOT_AVAILABLE, _DEADLOCK) or _sqlite_code(error) == sqlite3.SQLITE_BUSY


def _sqlstate(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _sqlite_code(error: DBAPIError) -> int:
    """SQLite's primary code, which the lowest byte holds; 0, which means no error, for other databases."""
    return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF
