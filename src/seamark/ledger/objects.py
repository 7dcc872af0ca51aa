"""The files of one table's chain, in the folder layout of Open Data Fabric."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from seamark.errors import ObjectChanged, ObjectMissing
from seamark.ledger.codec import decode
from seamark.ledger.events import Block
from seamark.ledger.multiformats import hash_to_text

PENDING = ".pending-"
_OBJECT = "f1620"


class Objects:
    """One folder of immutable files, each named by the hash of its bytes."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind

    def path(self, name: str) -> Path:
        """Where the object is, or would be."""
        return self.folder / name

    def put(self, data: bytes) -> str:
        """Store bytes and give their name."""
        pending = PendingFile(self.folder)
        pending.write(data)
        return pending.finish()

    def read(self, name: str) -> bytes:
        """An object's bytes as they are now, or `ObjectMissing`."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            raise ObjectMissing(self.kind, name, str(self.folder)) from None

    def read_intact(self, name: str) -> bytes:
        """The same for a caller that continues from them: `ObjectChanged` if they are not those of the name."""
        data = self.read(name)
        if object_name(hashlib.sha3_256(data).digest()) != name:
            raise ObjectChanged(self.kind, name, str(self.folder))
        return data

    def intact(self, name: str) -> Path:
        """Where an object is whose bytes are those that its name stands for; `ObjectMissing` or `ObjectChanged`.

        For a caller that hands the file to a reader that trusts it: pyarrow ends the whole process, without an
        exception, at some Parquet files with a damaged byte. A file is not looked at again until it is written to.
        """
        path = self.path(name)
        try:
            found = path.stat()
            _require_hash(path, name, found.st_size, found.st_mtime_ns)
        except FileNotFoundError:
            raise ObjectMissing(self.kind, name, str(self.folder)) from None
        except _AnotherHash:
            raise ObjectChanged(self.kind, name, str(self.folder)) from None
        return path

    def has(self, name: str) -> bool:
        """Whether the object is there."""
        return self.path(name).is_file()

    def names(self) -> Iterator[str]:
        """The names of all objects, in no order; unfinished files are not among them."""
        if self.folder.is_dir():
            yield from (entry.name for entry in os.scandir(self.folder) if entry.name.startswith(_OBJECT))

    def pending(self) -> Iterator[Path]:
        """Files that somebody has begun to write and not finished."""
        if self.folder.is_dir():
            yield from self.folder.glob(f"{PENDING}*")


class _AnotherHash(Exception):
    """A file has other bytes than its name stands for."""


@lru_cache(maxsize=10_000)
def _require_hash(path: Path, name: str, _size: int, _written: int) -> None:
    """Look at a file's bytes; what is right is looked at again when its size or time of writing changes."""
    if file_hash(path) != name:
        raise _AnotherHash


class PendingFile:
    """A file that is being written; it is hashed on the way and appears under its name only when it is whole.

    It is written beside its place and moved there at the end, also over a file of that name: the new file is as good
    as the old one, and it is fresh, so that nobody takes it for an orphan.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._path = folder / f"{PENDING}{secrets.token_hex(8)}"
        self._file: BinaryIO = self._path.open("wb")
        self._digest = hashlib.sha3_256()
        self.size = 0
        self.closed = False  # pyarrow asks

    def write(self, data: bytes) -> int:
        """Add bytes."""
        self._digest.update(data)
        self.size += memoryview(data).nbytes
        return self._file.write(data)

    def tell(self) -> int:
        """How many bytes were added so far."""
        return self.size

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Do nothing: `finish` or `discard` ends the file, not the code that writes into it."""

    def finish(self) -> str:
        """Put the file in its place, safe from a power cut, and give its name."""
        name = object_name(self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._path, self._folder / name)
        sync_folder(self._folder)
        return name

    def discard(self) -> None:
        """Drop the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make what was moved into a folder safe from a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ChainFiles:
    """The folder of one table: blocks, slices, checkpoints, the mirrored head and the table's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks = Objects(folder / "blocks", "block")
        self.data = Objects(folder / "data", "data")
        self.checkpoints = Objects(folder / "checkpoints", "checkpoint")
        self._block = lru_cache(maxsize=256)(self._read_block)

    def block(self, name: str) -> Block:
        """A decoded block. The newest few hundred are kept: a block never changes."""
        return self._block(name)

    def _read_block(self, name: str) -> Block:
        return decode(self.blocks.read(name))

    def head(self) -> str | None:
        """What `refs/head` says, or None if the folder is not a table's."""
        try:
            return (self.folder / "refs" / "head").read_text(encoding="ascii", errors="replace") or None
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def set_head(self, block_hash: str) -> None:
        """Mirror the head for readers of the folder without the database."""
        _replace_text(self.folder / "refs" / "head", block_hash)

    def alias(self) -> str | None:
        """The table's name as the folder has it, or None if it does not say."""
        try:
            return (self.folder / "info" / "alias").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def set_alias(self, name: str) -> None:
        """Write the table's name down."""
        _replace_text(self.folder / "info" / "alias", name)


def _replace_text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = path.with_name(f"{PENDING}{secrets.token_hex(8)}")
    with pending.open("w", encoding="utf-8") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())  # else a power cut could leave the new name with nothing in it
    os.replace(pending, path)


def object_name(digest: bytes) -> str:
    """The name of an object whose bytes have this sha3-256 digest."""
    return hash_to_text(b"\x16\x20" + digest)


def file_hash(path: Path) -> str:
    """The hash that a file's bytes have now."""
    with path.open("rb") as opened:
        return object_name(hashlib.file_digest(opened, "sha3_256").digest())
