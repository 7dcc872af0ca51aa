"""RunConfig: how much of a step's work a run takes, as the caller asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from seamark.errors import InvalidStep

OnChange: TypeAlias = Literal["ask", "keep", "recompute"]
Dictionaries: TypeAlias = Literal["due", "now", "never"]


@dataclass(frozen=True)
class RunConfig:
    """How much of a step's work a run takes, and whether it stops at the first key that fails.

    `filters` are values that transform keys must have, `limit` is the greatest number of keys. `fail_fast` and
    `on_change` decide for this run what the step's own options say otherwise. `dictionaries` says whether a view also
    takes changes of its dictionaries: those that have waited long enough, all, or none.
    """

    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    fail_fast: bool | None = None
    on_change: OnChange | None = None
    dictionaries: Dictionaries = "never"

    def __post_init__(self) -> None:
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 0
        ):
            raise InvalidStep(
                f"limit={self.limit!r} is not a number of keys. Nothing was run.", hint="give a whole number from 0 on."
            )
        if self.dictionaries not in get_args(Dictionaries):
            raise InvalidStep(
                f"dictionaries={self.dictionaries!r} is none of {', '.join(get_args(Dictionaries))}. Nothing was run.",
                hint='"due" takes changes that have waited for views.dictionary_period, "now" all, "never" none.',
            )

    @property
    def is_partial(self) -> bool:
        """Whether a run may leave out keys that are due."""
        return bool(self.filters) or self.limit is not None
