"""How a function can be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def call_misfit(function: Callable[..., Any], given: int) -> str | None:
    """What a function takes, if it cannot be called with so many arguments; None if it can, or does not say."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*range(given))
    except TypeError:
        return f"takes {signature}"
    return None
