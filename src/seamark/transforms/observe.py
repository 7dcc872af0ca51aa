"""Who is told of every batch of this process: metrics are made of it, and no step knows them."""

from __future__ import annotations

from collections.abc import Callable

batch_observers: list[Callable[[str, float], None]] = []
"""Called after every batch with its step and how many seconds it took."""
