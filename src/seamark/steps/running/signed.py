"""Steps whose records have a sign: what they have written of a key is taken back before it is written anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from seamark.steps.running.pipeline import AnyStep
from seamark.tables.kinds import kind_of
from seamark.tables.table import Table


class SignedStep(AnyStep, Protocol):
    """A step that writes records with a sign and a version.

    Whoever shows or carries such records asks `as_signed`, and not what class a step is of.
    """

    @property
    def fast_version(self) -> str:
        """The column with the version that the fast supplier gave."""
        ...

    @property
    def collapsing_key(self) -> tuple[str, ...]:
        """The columns by which records that cancel each other are found."""
        ...

    @property
    def constant_columns(self) -> tuple[str, ...]:
        """The columns that are the same in all records of a key."""
        ...

    @property
    def state(self) -> Table:
        """What is known of each key."""
        ...

    def history(self, key: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The records that it has written of one key, oldest first."""
        ...


def as_signed(step: AnyStep | None) -> SignedStep | None:
    """The step, if its records have a sign."""
    if step is None or not kind_of(step.spec.definition.kind).has_signs:
        return None
    return cast("SignedStep", step)
