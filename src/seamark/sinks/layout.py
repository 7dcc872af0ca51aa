"""How a table's records become rows of a target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Shape(Enum):
    """What rows of the target stand for."""

    KEYED = "keyed"  # one current row a key
    DIFF = "diff"  # records with a sign, which cancel each other by version
    APPEND = "append"  # every record is a row


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of the target's rows, and the columns that decide it."""

    shape: Shape
    key: tuple[str, ...] = ()
    sign: str | None = None
    version: str | None = None

    @staticmethod
    def keyed(key: tuple[str, ...]) -> Layout:
        """A row a key: sending a record again changes nothing."""
        return Layout(Shape.KEYED, key)

    @staticmethod
    def diff(key: tuple[str, ...], sign: str = "Sign", version: str = "Version") -> Layout:
        """Records of +1 and -1 that cancel each other by key and version."""
        return Layout(Shape.DIFF, key, sign, version)

    @staticmethod
    def append() -> Layout:
        """A row a record."""
        return Layout(Shape.APPEND)

    @property
    def is_idempotent(self) -> bool:
        """Whether a record that is sent again leaves the target as it was, whatever the target remembers of it."""
        return self.shape is Shape.KEYED

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that may not be NULL in the target, whatever the table says of them."""
        return tuple(name for name in (*self.key, self.sign, self.version) if name is not None)
