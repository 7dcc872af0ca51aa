"""What a run shows on a terminal while it lasts: the step at work, its place among all, its batches and keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seamark.cli.cells import counted

if TYPE_CHECKING:
    from seamark.cli.output import OnProgress
    from seamark.sinks.report import SinkReport
    from seamark.steps.running.report import StepReport


class RunProgress:
    """Shows how far a run over these steps and sinks is."""

    def __init__(self, show: OnProgress, names: Sequence[str]) -> None:
        self._show = show
        self._names = list(names)

    def on_step(self, name: str) -> None:
        """A step or sink is looked at, and run if it has work."""
        self._show(self._place(name), 0, None)

    def on_begin(self, report: StepReport, number: int, known: int) -> None:
        """A batch begins."""
        done = f", {counted(report.keys, 'key')} done" if report.keys else ""
        self._show(f"{self._place(report.step)}: batch {number} of {known}{done}", number - 1, known)

    def on_batch(self, report: StepReport, left: int) -> None:
        """A batch is committed."""
        known = report.batches + left
        what = f"batch {report.batches} of {known} done, {counted(report.keys, 'key')}"
        self._show(f"{self._place(report.step)}: {what}", report.batches, known)

    def on_page(self, report: StepReport, left: int) -> None:
        """A page of a scan is committed; how many are left is not known."""
        done = f"{counted(report.batches, 'page')} done, {counted(report.keys, 'key')}"
        self._show(f"{self._place(report.step)}: {done}", report.batches, None)

    def on_block(self, report: SinkReport, left: int) -> None:
        """A sink has sent a block."""
        known = report.blocks + left
        what = f"block {report.blocks} of {known} sent, {counted(report.records, 'record')}"
        self._show(f"{self._place(report.sink)}: {what}", report.blocks, known)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """While this lasts, batches of this process that begin are shown."""
        from seamark.steps.running.observe import begin_observers

        begin_observers.append(self.on_begin)
        try:
            yield
        finally:
            begin_observers.remove(self.on_begin)

    def _place(self, name: str) -> str:
        return f"{name} ({self._names.index(name) + 1}/{len(self._names)})" if name in self._names else name
