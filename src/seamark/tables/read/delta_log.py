"""Delta's log, read as plain files without a Spark job: which files a version has, and which block it was folded to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from seamark.errors import TableError

_REWRITE_SIGN = "#"  # separates the application from the Delta version in a rewrite; no dataset id contains it


class DeltaLog:
    """The log of the Delta table in a folder. Folds are its only writers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "_delta_log"

    def has(self, version: int) -> bool:
        """Whether a version is there: somebody may have removed the folder by hand."""
        return self._path(version).is_file()

    def is_whole(self, version: int) -> bool:
        """Whether a version is there with all of its files: those of an old one may have been collected."""
        return self.has(version) and all(path.is_file() for path in self.files(version))

    def written_at(self, version: int) -> float | None:
        """When a version was written, in seconds since 1970; None if it is not there."""
        try:
            return self._path(version).stat().st_mtime
        except FileNotFoundError:
            return None

    def newest(self) -> int | None:
        """The newest version, or None."""
        return next(self._versions(), None)

    def version_of(self, app: str, transaction: int) -> int | None:
        """The version that was written as this transaction of an application, or None."""
        return next((v for v, done in self.transactions(app).items() if done == transaction), None)

    def transactions(self, app: str) -> dict[int, int]:
        """The transaction that each version was written as by an application, newest version first.

        Delta accepts a transaction once: to write it again, use `rewrite_app(app)`.
        """
        found = {}
        for version in self._versions():
            for action in self._actions(version):
                transaction = action.get("txn")
                if transaction and transaction["appId"].partition(_REWRITE_SIGN)[0] == app:
                    found[version] = int(transaction["version"])
        return found

    def rewrite_app(self, app: str) -> str:
        """The application to write under when Delta has this transaction already and would skip a second one."""
        newest = self.newest()
        return f"{app}{_REWRITE_SIGN}{0 if newest is None else newest + 1}"

    def features(self) -> set[str]:
        """The table features that a writer of the newest version must support."""
        for version in self._versions():
            for action in self._actions(version):
                if "protocol" in action:
                    return set(action["protocol"].get("writerFeatures") or ())
        for version in sorted(self._checkpoints(), reverse=True):
            for action in pq.read_table(self._path(version, "checkpoint.parquet"), columns=["protocol"]).to_pylist():
                if action["protocol"]:
                    return set(action["protocol"].get("writerFeatures") or ())
        return set()

    def row_count(self, version: int) -> int:
        """How many rows a version has, from the statistics of its files."""
        live = self._live_files(version)
        return sum(self._rows_of(path, stats) for path, stats in live.items())

    def files(self, version: int) -> tuple[Path, ...]:
        """The Parquet files of a version, cached until the log entry itself is replaced."""
        entry = self._path(version).stat()
        return _files_of(self._folder.parent, version, (entry.st_ino, entry.st_mtime_ns))

    def _live_files(self, version: int) -> dict[str, str | None]:
        """The files of a version with their statistics: from the last checkpoint on, or from the beginning."""
        checkpoint = max((v for v in self._checkpoints() if v <= version), default=None)
        live: dict[str, str | None] = {}
        if checkpoint is not None:
            for action in self._checkpoint(checkpoint):
                self._refuse_unless_plain(action)
                if action["add"]:
                    live[action["add"]["path"]] = action["add"].get("stats")
        for number in range(0 if checkpoint is None else checkpoint + 1, version + 1):
            for action in self._actions(number):
                self._refuse_unless_plain(action)
                if "remove" in action:
                    live.pop(action["remove"]["path"], None)
                if "add" in action:
                    live[action["add"]["path"]] = action["add"].get("stats")
        return live

    def _refuse_unless_plain(self, action: dict[str, Any]) -> None:
        """Refuse Delta features by which the rows of a version are not simply the rows in its files."""
        configured = dict((action.get("metaData") or {}).get("configuration") or {})
        if (action.get("add") or {}).get("deletionVector"):
            found = "deletion vectors"
        elif configured.get("delta.columnMapping.mode", "none") != "none":
            found = "column mapping"
        else:
            return
        raise TableError(
            f"the base in {self._folder.parent} was written with {found}, which Seamark does not read.",
            hint="remove that folder and fold the table again; nothing is lost, the chain has every row.",
        )

    def _rows_of(self, path: str, stats: str | None) -> int:
        counted = json.loads(stats).get("numRecords") if stats else None
        return pq.read_metadata(self._folder.parent / unquote(path)).num_rows if counted is None else int(counted)

    def _versions(self) -> Iterator[int]:
        paths = sorted(self._folder.glob("*.json"), reverse=True)
        return (int(path.stem) for path in paths if path.stem.isdigit())

    def _checkpoints(self) -> Iterator[int]:
        names = (path.name.split(".")[0] for path in self._folder.glob("*.checkpoint.parquet"))
        return (int(name) for name in names if name.isdigit())

    def _checkpoint(self, version: int) -> list[dict[str, Any]]:
        path = self._path(version, "checkpoint.parquet")
        actions: list[dict[str, Any]] = pq.read_table(path, columns=["add", "metaData"]).to_pylist()
        return actions

    def _path(self, version: int, ending: str = "json") -> Path:
        return self._folder / f"{version:020d}.{ending}"

    def _actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path(version).read_text().splitlines() if line.strip()]


@lru_cache(maxsize=512)
def _files_of(folder: Path, version: int, _entry: tuple[int, int]) -> tuple[Path, ...]:
    live = DeltaLog(folder)._live_files(version)
    return tuple(folder / unquote(path) for path in sorted(live))
