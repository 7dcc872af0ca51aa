"""Housekeeping: removing files that no chain names and no live run needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seamark.control import BlockEntry
from seamark.ledger.objects import ChainFiles
from seamark.tables.context import STAGING_FOLDER, TableContext
from seamark.tables.delta_log import DeltaLog
from seamark.tables.read import TableSource

FILES_AT_ONCE = 500  # removed while nobody can register files, so not too many


@dataclass(frozen=True, slots=True)
class Removed:
    """A file or folder that was removed, or would be."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class CollectReport:
    """What housekeeping removed, or would remove in a dry run."""

    removed: tuple[Removed, ...]
    dry_run: bool

    @property
    def count(self) -> int:
        """How many files and folders."""
        return len(self.removed)

    @property
    def bytes(self) -> int:
        """How many bytes they held."""
        return sum(entry.size for entry in self.removed)


def collect_garbage(context: TableContext, sources: list[TableSource], *, grace: float, dry_run: bool) -> CollectReport:
    """Remove orphans older than the grace, what dead runs staged, and bases that are no longer kept."""
    removed: list[Removed] = []

    def remove(path: Path) -> None:
        removed.append(Removed(str(path.relative_to(context.warehouse)), _size(path)))
        if not dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    candidates = [*_orphans(context, grace), *_staging_folders(context, grace)]
    for start in range(0, len(candidates), FILES_AT_ONCE):
        _remove_unless_needed(context, candidates[start : start + FILES_AT_ONCE], remove, grace, dry_run=dry_run)
    for source in sources:
        for path in _old_base_files(source, grace, dry_run=dry_run):
            remove(path)
    return CollectReport(tuple(removed), dry_run)


def _remove_unless_needed(
    context: TableContext, paths: list[Path], remove: Callable[[Path], None], grace: float, *, dry_run: bool
) -> None:
    """Remove those that no live run holds, now that nobody can register any."""

    def remove_dead(alive: set[str], registered: set[str]) -> None:
        for path in paths:
            is_registered = path.relative_to(context.warehouse).as_posix() in registered
            if path.name not in alive and not is_registered and path.exists() and _is_old(context, path, grace):
                remove(path)

    context.control.staging.collect(remove_dead, grace, dry_run=dry_run)


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def _is_old(context: TableContext, path: Path, grace: float) -> bool:
    return path.stat().st_mtime <= context.clock.now().timestamp() - grace


def _orphans(context: TableContext, grace: float) -> Iterator[Path]:
    """Objects that no chain names; a live run may still hold some of them."""
    folders = sorted(context.warehouse.iterdir()) if context.warehouse.is_dir() else []
    for folder in folders:
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        files = ChainFiles(folder)
        named = _named(context.control.index.blocks(folder.name))
        for objects in (files.blocks, files.data, files.checkpoints):
            for name in objects.names():
                if name not in named and _is_old(context, objects.path(name), grace):
                    yield objects.path(name)
            yield from (path for path in objects.pending() if _is_old(context, path, grace))


def _named(blocks: list[BlockEntry]) -> set[str]:
    names = {name for entry in blocks for name in (entry.hash, entry.slice_hash, entry.checkpoint_hash)}
    return {name for name in names if name is not None}


def _staging_folders(context: TableContext, grace: float) -> Iterator[Path]:
    """The folders that runs, alive or dead, stage in."""
    folder = context.warehouse / STAGING_FOLDER
    if folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if _is_old(context, path, grace))


def _old_base_files(source: TableSource, grace: float, *, dry_run: bool) -> Iterator[Path]:
    """Files of bases that are neither among the newest nor shared with one of those."""
    bases = source.context.control.index.bases(source.name)
    kept = bases[: max(1, source.context.rows.keep_bases)]
    dropped = bases[len(kept) :]
    if not dropped:
        return
    log = DeltaLog(Path(source.base_folder))
    needed = {
        path.resolve()
        for version in kept
        if log.has(version.delta_version)
        for path in log.files(version.delta_version)
    }
    for path in sorted(Path(source.base_folder).glob("*.parquet")):
        if path.resolve() not in needed and _is_old(source.context, path, grace):
            yield path
    if not dry_run:
        source.context.control.index.drop_bases(source.name, [version.delta_version for version in dropped])
