"""How a table's records become rows of a target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RowKind(Enum):
    """What rows of the target stand for."""

    KEYED = "keyed"  # one current row per key
    DIFF = "diff"  # records with a sign, which cancel each other by version
    APPEND = "append"  # every record is a row


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of the target's rows, and the columns that decide it."""

    kind: RowKind
    key: tuple[str, ...] = ()
    sign: str | None = None
    version: str | None = None
    constant: tuple[str, ...] = ()  # columns that are the same in all records of a key, though they are not part of it

    @staticmethod
    def keyed(key: tuple[str, ...]) -> Layout:
        """One row per key: sending a record again changes nothing."""
        return Layout(RowKind.KEYED, key)

    @staticmethod
    def diff(
        key: tuple[str, ...], sign: str = "Sign", version: str = "Version", constant: tuple[str, ...] = ()
    ) -> Layout:
        """Records of +1 and -1 that cancel each other by key and version."""
        return Layout(RowKind.DIFF, key, sign, version, constant)

    @staticmethod
    def append() -> Layout:
        """One row per record."""
        return Layout(RowKind.APPEND)

    @property
    def is_idempotent(self) -> bool:
        """Whether a record that is sent again leaves the target as it was, whatever the target remembers of it."""
        return self.kind is RowKind.KEYED

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that may not be NULL in the target, whatever the table says of them."""
        return tuple(name for name in (*self.key, self.sign, self.version, *self.constant) if name is not None)
