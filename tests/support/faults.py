"""Single faults of a store: each file changed in some ways, each row of the control database in each of its columns."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One change of a store: where, in which column of a row if it is in one, what is done, and to which table."""

    place: str  # a file's path in the warehouse, or a table of the control database
    what: str
    names: tuple[str, ...]  # a finding about it has one of these as its table, or in its message
    do: Callable[[Path], None]
    column: str | None = None
    row: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.place} {dict(list(self.row)[:4]) or ''} {self.what}"


class FaultyStore:
    """The files of a small store: faults are done to copies of its database and to its warehouse, restored after."""

    def __init__(self, built: Path, folder: Path) -> None:
        self.folder, self.warehouse = folder, folder / "warehouse"
        shutil.copytree(built, folder)
        with sqlite3.connect(folder / "control.db") as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        self._database = (folder / "control.db").read_bytes()
        self.files = {path: path.read_bytes() for path in sorted(self.warehouse.rglob("*")) if path.is_file()}
        self._count = 0
        self.restore()

    @property
    def database(self) -> Path:
        return self.folder / f"control-{self._count}.db"

    def restore(self) -> None:
        """A database of its own for the next fault: what was opened and refused may still hold the last one."""
        for path in self.folder.glob("control-*.db*"):
            path.unlink()
        self._count += 1
        self.database.write_bytes(self._database)
        for path in self.warehouse.rglob("*"):
            if path.is_file() and path not in self.files:
                path.unlink()
        for path, data in self.files.items():
            if path.is_dir():
                path.rmdir()
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)

    # --- files --------------------------------------------------------------------------------------------------------

    def file_faults(self) -> Iterator[Fault]:
        for path, data in self.files.items():
            place = str(path.relative_to(self.warehouse))
            for what, do in self._changes(path, data):
                yield Fault(place, what, (place.split("/")[0],), do)

    def _changes(self, path: Path, data: bytes) -> Iterator[tuple[str, Callable[[Path], None]]]:
        for at in sorted({0, len(data) // 2, len(data) - 1}):
            flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            yield f"bit of byte {at} flipped", lambda _, flipped=flipped: path.write_bytes(flipped)
        yield "cut in half", lambda _: path.write_bytes(data[: len(data) // 2])
        yield "emptied", lambda _: path.write_bytes(b"")
        yield "removed", lambda _: path.unlink()
        yield "a folder instead", lambda _: (path.unlink(), path.mkdir())
        sibling = self._sibling(path, data)
        if sibling is not None:
            yield "replaced by a sibling", lambda _: path.write_bytes(sibling)

    def _sibling(self, path: Path, data: bytes) -> bytes | None:
        others = [other for other in self.files if other.suffix == path.suffix and self.files[other] != data]
        near = [other for other in others if other.parent == path.parent]
        alike = [other for other in others if other.parent.name == path.parent.name]
        return next((self.files[other] for other in near + alike), None)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def row_faults(self) -> Iterator[Fault]:
        with sqlite3.connect(self.database) as connection:
            connection.row_factory = sqlite3.Row
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = list(connection.execute(f"PRAGMA table_info({table})"))
                rows = list(connection.execute(f"SELECT rowid AS place, * FROM {table}"))
                for row in rows:
                    yield from _faults_of_row(table, columns, rows, row)
        connection.close()


def _faults_of_row(table: str, columns: list[Any], rows: list[Any], row: Any) -> Iterator[Fault]:
    values = {column["name"]: row[column["name"]] for column in columns}
    names = tuple(str(value) for value in values.values() if isinstance(value, str))

    def fault(what: str, statement: str, *given: Any, column: str | None = None) -> Fault:
        def do(database: Path) -> None:
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute(statement, given)

        return Fault(table, what, names, do, column, tuple(values.items()))

    here = f"WHERE rowid = {row['place']}"
    yield fault("removed", f"DELETE FROM {table} {here}")
    for column in columns:
        name, value = column["name"], values[column["name"]]
        for other in _others(column, value, [entry[name] for entry in rows]):
            yield fault(f"{name} = {other!r}", f"UPDATE {table} SET {name} = ? {here}", other, column=name)
    keys = [column["name"] for column in columns if column["pk"]] or [columns[0]["name"]]
    shown = ", ".join(f"{_another(values[c])!r}" if c in {keys[-1], "dataset_id"} else c for c in values)
    yield fault(f"copied, with another {keys[-1]}", f"INSERT INTO {table} SELECT {shown} FROM {table} {here}")


def _another(value: Any) -> Any:
    return f"{value}x" if isinstance(value, str) else (value or 0) + 1_000


def _others(column: Any, value: Any, known: list[Any]) -> list[Any]:
    """Other values that could stand there: another row's, a near one, NULL where it may be, a text among numbers."""
    is_text = column["type"] == "TEXT"
    others = [other for other in known if other not in (None, value)][:1]
    if column["type"] == "BOOLEAN":
        others.append(1 - value)
    elif value is None:
        others.append("x" if is_text else 1)
    else:
        others.append(f"{value}x" if is_text else value + 1)
    if value is not None and not column["notnull"]:
        others.append(None)
    if not is_text:
        others.append("odd")
    return list(dict.fromkeys(others))
