"""A run that writes: its staging folder, its registered objects, and its error if `gc` removed them meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import ComputeFailed, ObjectMissing, SeamarkError, StagedFilesGone, StoreError
from seamark.ledger import Checkpoint, multihash
from seamark.ledger.chain import ChainDraft, DraftBlock
from seamark.ledger.objects import ChainFiles, sync_folder
from seamark.tables.context import TableContext
from seamark.tables.write.commit_checks import check_blocks
from seamark.tables.write.slices import SliceInfo

if TYPE_CHECKING:
    from seamark.tables.write.publish import Planned


class Writing:
    """One run that writes: the folder for what it stages, and the objects that it has registered."""

    def __init__(self, context: TableContext, run_id: str, folder: Path | None = None) -> None:
        self._context = context
        self.run_id = run_id
        self.folder = folder or context.staging_folder(run_id)
        self.registered: list[str] = []
        self.new_chains: list[tuple[Planned, ChainDraft]] = []  # without records; the next commit begins them

    def folder_of(self, table: str) -> Path:
        """Where the slices of one table are staged: those of two may be equal, and each needs its own."""
        return self.folder / "slices" / table

    def adopt_slices(self, files: ChainFiles, slices: Sequence[SliceInfo]) -> None:
        """Register slices in the run's folder, then move them into the table's folder.

        In this order, so that every file in the table's folder is registered or committed: `gc` removes any other.
        """
        names = list(dict.fromkeys(piece.physical_hash for piece in slices))
        self._register(files.folder, "data", names)
        files.data.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                os.replace(self.folder_of(files.folder.name) / name, files.data.path(name))
            except FileNotFoundError as error:
                raise self._gone(name) from error
        if names:
            sync_folder(files.data.folder)

    def put_checkpoint(self, files: ChainFiles, data: bytes) -> Checkpoint:
        """Register a checkpoint, write it, and return the reference that a block holds."""
        name = multihash(data)
        self._register(files.folder, "checkpoints", [name])
        files.checkpoints.put(data)
        return Checkpoint(name, len(data))

    def put_blocks(self, files: ChainFiles, blocks: Sequence[DraftBlock]) -> None:
        """Register blocks, then write them."""
        self._register(files.folder, "blocks", [block.hash for block in blocks])
        for block in blocks:
            files.blocks.put(block.data)

    def blame_collection(self, error: Exception) -> None:
        """Raise `StagedFilesGone` if `gc` took this run for dead and the error may come from its missing files."""
        may_be_files = isinstance(error, ComputeFailed | ObjectMissing) or not isinstance(error, SeamarkError)
        if may_be_files and not self._context.control.staging.is_registered(self.run_id):
            raise self._gone("it is no longer registered") from error

    def revive(self) -> None:
        """Continue after `StagedFilesGone`: everything for the next commit must be staged and registered again."""
        self._context.control.staging.revive(self.run_id)
        self.registered.clear()

    def check(self, table: str, files: ChainFiles, blocks: list[DraftBlock], new_heads: Mapping[str, str]) -> None:
        """Refuse blocks that may not be committed; `StagedFilesGone` if a file that this run has staged is missing."""
        try:
            check_blocks(table, files, blocks, self._context.control.index, new_heads)
        except ObjectMissing as error:
            folder = "checkpoints" if error.kind == "checkpoint" else error.kind
            if f"{files.folder.name}/{folder}/{error.name}" not in self.registered:
                raise
            raise self._gone(error.name) from error

    def _gone(self, what: str) -> StagedFilesGone:
        return StagedFilesGone(
            f"a file that run {self.run_id} had staged is gone: {what}. Nothing of this commit was written.",
            hint="run again; the clock may have jumped, so that `seamark gc` took the run for dead.",
        )

    def _register(self, folder: Path, kind: str, names: list[str]) -> None:
        objects = [f"{folder.name}/{kind}/{name}" for name in dict.fromkeys(names)]
        objects = [name for name in objects if name not in self.registered]
        self._context.control.staging.register(self.run_id, objects)
        self.registered += objects


@contextmanager
def writing(context: TableContext) -> Iterator[Writing]:
    """A run that writes: registered as live while the block runs, and removes its staging folder at the end.

    After `gc` took the run for dead, errors become `StagedFilesGone`: missing files may have caused them. With a
    read-only control database the run stages in a temporary folder: its results can be compared, never committed.
    """
    if context.control.database.is_read_only:
        with tempfile.TemporaryDirectory(prefix="seamark-") as elsewhere:
            yield Writing(context, str(uuid.uuid4()), Path(elsewhere))
        return
    run = Writing(context, str(uuid.uuid4()))
    with context.control.staging.run(run.run_id):
        _make_folder(context, run.folder)
        try:
            yield run
        except Exception as error:
            run.blame_collection(error)
            raise
        finally:
            shutil.rmtree(run.folder, ignore_errors=True)


def _make_folder(context: TableContext, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the warehouse folder {context.warehouse} cannot be written to: {error.strerror} "
            f"({error.filename}). Nothing was written.",
            hint="make the folder, mount its disk or give yourself the right to write to it, or correct `warehouse`: "
            "`seamark doctor` shows where it is set.",
        ) from error
