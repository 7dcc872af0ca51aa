"""The checkpoint of an ExecuteTransform: what a commit was made from, so that it can be made again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamark.control import FailedKey, Mode
from seamark.steps.standing.pins import Pin, Taken


@dataclass(frozen=True, slots=True)
class ReadAt:
    """How far an input was when a commit read it."""

    block: str
    sequence: int
    offset: int | None

    @staticmethod
    def of(pin: Pin) -> ReadAt:
        """The position of a pin."""
        return ReadAt(pin.block_hash, pin.sequence, pin.offset)


@dataclass(frozen=True, slots=True)
class RangeMark:
    """Which range of all keys a commit covered, where the pass began to read, and whether it is the last range.

    `generations` says how often the position on each input had been reset when the pass began.
    """

    columns: tuple[str, ...]
    after: tuple[Any, ...] | None
    upto: tuple[Any, ...] | None
    first_read: Mapping[str, ReadAt]
    last: bool
    number: int = 0
    generations: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenPass:
    """A pass over all keys that continues after a commit that is not part of it."""

    mode: Mode
    mark: RangeMark


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How one commit of a step came about.

    `mode` is how the keys were found; `read` where each input was read; `taken` the records of each input, (after,
    upto], whose keys were computed; `keys` those from outside these records; `range` a range of all keys; `failed` the
    failed keys after it, and `skipped` those that failed in it. Texts of keys are JSON. `open_pass` is a
    pass over all keys that others have begun, or are to begin: a run of some keys must not make it forgotten.
    """

    step: str
    mode: Mode
    read: Mapping[str, ReadAt]
    taken: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    range: RangeMark | None = None
    failed: tuple[FailedKey, ...] = ()
    skipped: tuple[str, ...] = ()
    selected_at: Mapping[str, int | None] | None = None  # where keys found through a reference were looked up before
    open_pass: OpenPass | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # what else a kind of step needs to know, as JSON holds it
    part: tuple[int, int] = (1, 1)

    @property
    def unfinished(self) -> OpenPass | None:
        """The pass over all keys that continues after this commit, or None."""
        if self.range is not None:
            return None if self.range.last else OpenPass(self.mode, self.range)
        return self.open_pass

    def as_part(self, number: int, of: int) -> Checkpoint:
        """The same for one of several blocks of a commit."""
        return replace(self, part=(number, of))

    def encode(self) -> bytes:
        """The checkpoint as it is stored."""
        document: dict[str, Any] = {
            "seamark": 1,
            "step": self.step,
            "mode": self.mode.value,
            "part": list(self.part),
            "read": {table: _position(at) for table, at in self.read.items()},
            "taken": {table: list(interval) for table, interval in self.taken.items()},
            "keys": [json.loads(text) for text in self.keys],
            "failed": [_failed(entry) for entry in self.failed],
        }
        if self.skipped:
            document["skipped"] = [json.loads(text) for text in self.skipped]
        if self.selected_at is not None:
            document["selected_at"] = dict(self.selected_at)
        if self.range is not None:
            document["range"] = _mark(self.range)
        if self.open_pass is not None:
            document["open_pass"] = {"mode": self.open_pass.mode.value, "range": _mark(self.open_pass.mark)}
        if self.details:
            document["details"] = dict(self.details)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes) -> Checkpoint:
    """A stored checkpoint."""
    document = json.loads(data)
    ranged, opened = document.get("range"), document.get("open_pass")
    return Checkpoint(
        step=document["step"],
        mode=Mode(document["mode"]),
        read={table: ReadAt(**at) for table, at in document["read"].items()},
        taken={table: (after, upto) for table, (after, upto) in document["taken"].items()},
        keys=tuple(_text(key) for key in document["keys"]),
        range=_range(ranged) if ranged else None,
        failed=tuple(FailedKey(step=document["step"], **entry) for entry in document["failed"]),
        skipped=tuple(_text(key) for key in document.get("skipped", [])),
        selected_at=document.get("selected_at"),
        open_pass=OpenPass(Mode(opened["mode"]), _range(opened["range"])) if opened else None,
        details=document.get("details", {}),
        part=(document["part"][0], document["part"][1]),
    )


def _range(found: Mapping[str, Any]) -> RangeMark:
    return RangeMark(
        columns=tuple(found["columns"]),
        after=None if found["after"] is None else tuple(found["after"]),
        upto=None if found["upto"] is None else tuple(found["upto"]),
        first_read={table: ReadAt(**at) for table, at in found["first_read"].items()},
        last=found["last"],
        number=found["number"],
        generations=found.get("generations", {}),
    )


def _mark(mark: RangeMark) -> dict[str, Any]:
    return {
        "columns": list(mark.columns),
        "after": _values(mark.after),
        "upto": _values(mark.upto),
        "first_read": {table: _position(at) for table, at in mark.first_read.items()},
        "last": mark.last,
        "number": mark.number,
        "generations": dict(mark.generations),
    }


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _values(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _position(at: ReadAt) -> dict[str, Any]:
    return {"block": at.block, "sequence": at.sequence, "offset": at.offset}


def _failed(entry: FailedKey) -> dict[str, Any]:
    return {
        "key": entry.key,
        "process_ts": entry.process_ts,
        "error": entry.error,
        "attempts": entry.attempts,
        "retry_after": entry.retry_after,
        "read_at": entry.read_at,
    }


def taken_intervals(taken: Sequence[Taken]) -> dict[str, tuple[int | None, int | None]]:
    """The intervals of records that a batch covers, by input."""
    return {piece.table: (piece.after, piece.upto) for piece in taken}
