"""Who hears of every batch of this process: metrics and progress are made from it, and no step knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.transforms.report import StepReport

begin_observers: list[Callable[[StepReport, int, int], None]] = []
"""Called before every batch with the report so far, the batch's number and how many are known."""

batch_observers: list[Callable[[str, float], None]] = []
"""Called after every batch with its step and how many seconds it took."""
