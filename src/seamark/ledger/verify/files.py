"""Looking at the files of a chain without ever raising, whatever is where a file should be."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger.objects import object_name

# A file up to this size is read once, into memory; of a larger one only what is looked at.
SMALL = 8 << 20
_WINDOW = 1 << 16


class FileBytes:
    """The bytes of a file too large to be held, read where they are looked at."""

    def __init__(self, opened: BinaryIO, size: int) -> None:
        self._opened = opened
        self._size = size
        self._start, self._window = 0, b""

    def reader(self) -> pa.NativeFile:
        """The whole file for one of Arrow's readers, which reads what it needs."""
        return pa.PythonFile(self._opened, mode="r")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int | slice) -> int | bytes:
        if isinstance(place, slice):
            start, stop, _ = place.indices(self._size)
            self._opened.seek(start)
            return self._opened.read(max(0, stop - start))
        if not 0 <= place < self._size:
            raise IndexError(place)
        if not self._start <= place < self._start + len(self._window):
            self._opened.seek(place)
            self._start, self._window = place, self._opened.read(_WINDOW)
        return self._window[place - self._start]


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was found: its hash and size, and its bytes if they are few; or what is there instead."""

    hash: str | None = None
    size: int = 0
    data: bytes | None = None
    instead: str | None = None


def look(path: Path, small: int = SMALL) -> Seen:
    """The file at a path; what is there instead, if it is no file or cannot be read.

    Its bytes are kept up to `small` of them.
    """
    try:
        # A pipe or device would keep a reader waiting for ever: nothing but a plain file is read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, ValueError):  # the latter: no file has such a name
        return Seen(instead="nothing")
    except OSError as error:
        return Seen(instead=_reason(error))
    try:
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return Seen(instead="a folder" if stat.S_ISDIR(found.st_mode) else "something that is not a file")
            if found.st_size <= small:
                data = opened.read(found.st_size + 1)
                if len(data) == found.st_size:  # else somebody is writing to it
                    return Seen(object_name(hashlib.sha3_256(data).digest()), len(data), data)
                opened.seek(0)
            digest = hashlib.file_digest(opened, "sha3_256").digest()
            return Seen(object_name(digest), opened.tell())
    except OSError as error:
        return Seen(instead=_reason(error))


def _reason(error: OSError) -> str:
    return "a folder" if isinstance(error, IsADirectoryError) else error.strerror or type(error).__name__
