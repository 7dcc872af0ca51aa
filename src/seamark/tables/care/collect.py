"""Housekeeping: removing files that no chain names and no live run needs."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.control import (
    GRACE_SECONDS,
    BaseVersion,
    BlockEntry,
    LiveRun,
    may_be_output,
    outputs_of_lease,
)
from seamark.errors import LeaseHeld
from seamark.ledger.objects import ChainFiles
from seamark.tables.context import STAGING_FOLDER, TableContext
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.source import TableSource

log = logging.getLogger("seamark.gc")

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
    """Remove orphans older than the grace, what dead runs staged, and bases that are no longer kept.

    The grace applies to the age of files and to how long ago a base was replaced. It never makes a live run count as
    dead.
    """
    removed: list[Removed] = []

    def remove(path: Path) -> None:
        removed.append(Removed(str(path.relative_to(context.warehouse)), _size(path)))
        if not dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    candidates = [*_orphans(context, grace), *_staging_folders(context, grace)]
    for start in range(0, len(candidates), FILES_AT_ONCE):
        _remove_unless_needed(context, candidates[start : start + FILES_AT_ONCE], remove, grace, dry_run=dry_run)
    for source in sources:
        _collect_bases(source, remove, grace, dry_run=dry_run)
    return CollectReport(tuple(removed), dry_run)


def _remove_unless_needed(
    context: TableContext, paths: list[Path], remove: Callable[[Path], None], grace: float, *, dry_run: bool
) -> None:
    """Remove the paths that no live run holds and no chain names; meanwhile nobody can register or commit files."""
    names = {path: path.relative_to(context.warehouse).as_posix() for path in paths}
    objects = [names[path] for path in paths if not names[path].startswith(f"{STAGING_FOLDER}/")]

    def remove_dead(alive: set[str], kept: set[str]) -> None:
        for path in paths:
            is_needed = path.name in alive or names[path] in kept
            if not is_needed and path.exists() and _is_old(context, path, grace):
                remove(path)

    context.control.staging.collect(remove_dead, objects, dry_run=dry_run)


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def _is_old(context: TableContext, path: Path, grace: float) -> bool:
    try:
        written = path.stat().st_mtime
    except FileNotFoundError:  # since it was listed, a live run has renamed or removed it
        return False
    return written <= context.clock.now().timestamp() - grace


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
            # An unfinished file may belong to a live run, whatever the grace: nothing records its owner.
            yield from (path for path in objects.pending() if _is_old(context, path, max(grace, GRACE_SECONDS)))


def _named(blocks: list[BlockEntry]) -> set[str]:
    names = {name for entry in blocks for name in (entry.hash, entry.slice_hash, entry.checkpoint_hash)}
    return {name for name in names if name is not None}


def _staging_folders(context: TableContext, grace: float) -> Iterator[Path]:
    """The folders that runs, alive or dead, stage in."""
    folder = context.warehouse / STAGING_FOLDER
    if folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if _is_old(context, path, grace))


def _collect_bases(source: TableSource, remove: Callable[[Path], None], grace: float, *, dry_run: bool) -> None:
    """Forget the bases that are no longer kept, then remove the files that no kept one has, while nobody folds."""
    index, leases = source.context.control.index, source.context.control.leases
    if dry_run:
        bases = index.bases(source.name)
        for path in _old_base_files(source, _kept(source, bases, grace), grace):
            remove(path)
        return
    if not Path(source.base_folder).is_dir():
        return
    try:
        with leases.held(f"fold:{source.name}", wait=0.0):
            bases = index.bases(source.name)
            kept = _kept(source, bases, grace)
            dropped = [version.delta_version for version in bases if version.delta_version not in kept]
            if dropped:  # before its files are removed: nobody may choose a base with missing files
                index.drop_bases(source.name, dropped)
            # Asked again: a run that began meanwhile may have chosen a base just before it was dropped.
            for path in _old_base_files(source, kept | _kept(source, bases, grace), grace):
                remove(path)
    except LeaseHeld:
        log.info("'%s' is being folded: its old bases are left for the next time", source.name)


def _kept(source: TableSource, bases: list[BaseVersion], grace: float) -> set[int]:
    """The Delta versions of the bases to be kept."""
    log_of_base = DeltaLog(Path(source.base_folder))
    replaced_at = [log_of_base.written_at(version.delta_version) for version in bases]
    since = source.context.clock.now().timestamp() - grace
    for run in source.context.control.live.all():
        if run.is_alive and _may_read(source, run):
            # A margin of our own, not the caller's grace: the run's clock may differ from that of the files.
            since = min(since, run.started - GRACE_SECONDS)
    kept = bases_to_keep(replaced_at, newest=max(1, source.context.rows.keep_bases), since=since)
    return {version.delta_version for version, is_kept in zip(bases, kept, strict=True) if is_kept}


def bases_to_keep(written: Sequence[float | None], *, newest: int, since: float) -> list[bool]:
    """For each base, newest first, by the time it was written: whether it is kept.

    It is kept if it is among the newest, or was still the newest at some moment after `since`: a run that began after
    that moment may be reading it.
    """
    replaced = [None, *written][: len(written)]  # a base is the newest one until the next is written
    return [place < newest or (moment is not None and moment > since) for place, moment in enumerate(replaced)]


def _may_read(source: TableSource, run: LiveRun) -> bool:
    """Whether a run may read a table: whether it is one of its inputs or outputs.

    A step that this program does not declare may write tables beside its outputs, so it may read any.
    """
    makers, outputs = source.context.makers, outputs_of_lease(run.lease.name)
    if source.name in run.pins or makers.get(source.name) == run.step or run.step not in makers.values():
        return True
    return outputs is not None and may_be_output(source.name, outputs)


def _old_base_files(source: TableSource, kept: set[int], grace: float) -> list[Path]:
    """Files that are neither of a base that is kept nor of Delta's newest version.

    The newest version may be a fold that was killed before its base was recorded: the next fold continues from it.
    """
    log_of_base = DeltaLog(Path(source.base_folder))
    versions, newest = set(kept), log_of_base.newest()
    if newest is not None:
        versions.add(newest)
    needed = {path.resolve() for version in versions if log_of_base.has(version) for path in log_of_base.files(version)}
    files = sorted(Path(source.base_folder).glob("*.parquet"))
    return [path for path in files if path.resolve() not in needed and _is_old(source.context, path, grace)]
