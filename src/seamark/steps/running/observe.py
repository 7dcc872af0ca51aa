"""Callbacks around every batch: for metrics and progress of this process, and for the caller of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.steps.running.report import StepReport

begin_observers: list[Callable[[StepReport, int, int], None]] = []
"""Called before every batch with the report so far, the batch's number and how many are known."""

batch_observers: list[Callable[[str, float], None]] = []
"""Called after every batch with its step and how many seconds it took."""

OnBatch = Callable[["StepReport", int], None]
"""Called after each batch of a run with the report so far, and how many batches are known to follow."""


def silent(_report: StepReport, _left: int) -> None:
    """The default `OnBatch`: does nothing."""
