"""Where views are written: a text, a file, a folder of files, or a table of statements."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import reduce
from pathlib import Path

from seamark.errors import UnknownTable, UnreadableSource
from seamark.spark.frames import arrow_rows
from seamark.tables.catalog import Catalog
from seamark.tables.far_times import python_rows
from seamark.tables.read.few_rows import read_first
from seamark.tables.read.rows import rows_of
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.table import Table
from seamark.views.language.script import Reading, read_script
from seamark.views.table_info import MvTableInfo

STATEMENT_COLUMNS = ("statement_no", "statement_text")
MOST_STATEMENTS = 100_000
_LIKE_A_PATH = re.compile(r"[^\s;]+\.sql", re.IGNORECASE)

Source = str | Path | Table
"""A text of statements, the path of a file or folder, or a table of statements."""


def read_views(source: Source | Sequence[Source]) -> Reading:
    """The views and handlers of a source, or of several together, not yet linked.

    `UnreadableSource` if a file is not there, or a table is no table of statements.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return reduce(Reading.__add__, map(read_views, source), Reading())
    if isinstance(source, Table):
        return _read_table(source)
    path = as_path(source)
    if path is None:
        return read_script(str(source))
    if path.is_dir():
        return _read_folder(path)
    return read_script(_text_of(path), str(path))


def as_path(source: str | Path) -> Path | None:
    """The path that a source is, or None if it is a text: one line without `;` that is there or ends in `.sql`."""
    if isinstance(source, Path):
        return source
    if not source.strip() or "\n" in source or ";" in source:
        return None
    if _LIKE_A_PATH.fullmatch(source):
        return Path(source)
    try:
        return Path(source) if Path(source).exists() else None
    except (OSError, ValueError):  # too long for a name, or with a sign that no name has
        return None


def _read_folder(folder: Path) -> Reading:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".sql" and path.is_file())
    if not files:
        raise UnreadableSource(f"there is no file *.sql in the folder {folder}.", hint="name another folder or a file.")
    return reduce(Reading.__add__, [read_script(_text_of(path), str(path)) for path in files])


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            f"the file {path} is not UTF-8: byte {error.start} cannot be read.", hint="save it as UTF-8."
        ) from None
    except OSError as error:
        raise UnreadableSource(
            f"the file {path} cannot be read: {(error.strerror or type(error).__name__).lower()}.",
            hint="give a path that is there, or the text of the statements itself.",
        ) from None


def _read_table(table: Table) -> Reading:
    """The statements of a table in the order of their numbers; what is NULL says nothing."""
    missing = [name for name in STATEMENT_COLUMNS if name not in table.schema.names]
    if missing:
        raise UnreadableSource(
            f"table '{table.name}' has no column {', '.join(missing)}: it is no table of statements.",
            hint="a table of statements has the columns statement_no and statement_text.",
        )
    number, text = STATEMENT_COLUMNS
    snapshot = snapshot_at(table.source, table.head.offset)
    few = read_first(snapshot, MOST_STATEMENTS)
    rows = python_rows(arrow_rows(rows_of(snapshot)) if few is None else few)
    written = [row for row in rows if row[number] is not None and row[text] is not None]
    written.sort(key=lambda row: row[number])
    scripts = [read_script(str(row[text]), f"{table.name}[{row[number]}]") for row in written]
    return reduce(Reading.__add__, scripts, Reading())


class CatalogTables:
    """The tables of a store as checks see them, without some of them. Each is looked up once."""

    def __init__(self, catalog: Catalog, without: Collection[str] = ()) -> None:
        self._catalog = catalog
        self._without = without
        self._names = tuple(name for name in catalog.names() if name not in without)
        self._found: dict[str, MvTableInfo] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all tables."""
        return self._names

    def find(self, name: str) -> MvTableInfo | None:
        """What is known of the table of this name, or None."""
        if name in self._without:
            return None
        if name not in self._found:
            try:
                table = self._catalog.known(name)
            except UnknownTable:
                return None
            self._found[name] = MvTableInfo(name, table.schema.visible, table.changefeeds)
        return self._found[name]
