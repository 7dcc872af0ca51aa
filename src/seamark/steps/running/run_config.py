"""RunConfig: how much of a step's work a run takes, as the caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from seamark.errors import InvalidStep

OnChange: TypeAlias = Literal["ask", "keep", "recompute"]


@dataclass(frozen=True)
class RunConfig:
    """How much of a step's work a run takes, and whether it stops at the first key that fails.

    `filters` are values that transform keys must have, `limit` is the greatest number of keys. `fail_fast` and
    `on_change` decide for this run what the step's own options say otherwise.
    """

    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    fail_fast: bool | None = None
    on_change: OnChange | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 0
        ):
            raise InvalidStep(
                f"limit={self.limit!r} is not a number of keys. Nothing was run.", hint="give a whole number from 0 on."
            )

    @property
    def is_partial(self) -> bool:
        """Whether a run may leave out keys that are due."""
        return bool(self.filters) or self.limit is not None
