"""A handler at work: its views are run together, once or again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from seamark.control import Leases
from seamark.errors import HandlerHeld, InvalidStep, LeaseHeld, UnknownView, ViewError
from seamark.steps.running.pipeline import reported
from seamark.steps.running.report import RunReport
from seamark.steps.running.run_config import Dictionaries, RunConfig
from seamark.texts import record_of
from seamark.views.context import MvInput
from seamark.views.issues import MvIssues
from seamark.views.view import View

log = logging.getLogger("seamark.handlers")

DICTIONARIES = "sys$dictionary"
EVERY = 5.0  # seconds from one round to the next

RunSteps = Callable[[Sequence[str], Dictionaries], RunReport]
"""Runs some steps, and the sinks that carry their tables."""


class ViewHandler:
    """Views that are kept together, and run once or again and again."""

    def __init__(self, name: str, steps: Callable[[], Mapping[str, View]], run_steps: RunSteps, leases: Leases) -> None:
        self.name = name
        self.errors = MvIssues()
        self._views: tuple[str, ...] = ()
        self._inputs: tuple[MvInput, ...] = ()
        self._steps = steps
        self._run_steps = run_steps
        self._leases = leases
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"Handler({self.name!r}: {', '.join(self.views)})"

    def declare(self, views: Sequence[str], inputs: Sequence[MvInput], errors: MvIssues) -> None:
        """Take what its statement says now; with an error it was left out, and cannot run."""
        self._views, self._inputs, self.errors = tuple(views), tuple(inputs), errors

    @property
    def views(self) -> tuple[str, ...]:
        """The names of its views."""
        return self._views

    @property
    def inputs(self) -> tuple[MvInput, ...]:
        """The tables that it follows, and how; a view's other tables are followed as streams."""
        return self._inputs

    def run(self, dictionaries: Dictionaries = "due") -> RunReport:
        """Bring its views up to their tables once, and the sinks that carry them up to the views."""
        self._refuse_errors()
        return self._run_steps(self.views, dictionaries)

    def run_dictionaries(self) -> RunReport:
        """Take all changes of dictionaries that wait for its views, and nothing else."""
        self._refuse_errors()
        return self._pass_over(lambda view: True)

    def start(self, *, every: float = EVERY) -> None:
        """Run it again and again in this process, with a pause of `every` seconds, until it is stopped.

        `ViewError` if one of its views has an error, `HandlerHeld` if it is at work already, here or elsewhere.
        """
        self._refuse_errors()
        if not every > 0:
            raise InvalidStep(
                f"every={every!r} is no number of seconds. The handler was not started.",
                hint="give a number above 0.",
            )
        with ExitStack() as stack:
            lease = f"handler:{self.name}"
            try:
                stack.enter_context(self._leases.held(lease, wait=0.0))
            except LeaseHeld:
                raise HandlerHeld(self.name, self._leases.holder(lease) or "somebody") from None
            self._stopping.clear()
            held = stack.pop_all()
            self._thread = threading.Thread(target=self._work, args=(held, every), name=lease, daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """Let the round at work be the last one, and wait for its end; False if it is still at work after that."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.is_running

    @property
    def is_running(self) -> bool:
        """Whether it is at work in this process."""
        return self._thread is not None and self._thread.is_alive()

    def _work(self, held: ExitStack, every: float) -> None:
        with held:
            while not self._stopping.is_set():
                try:
                    self.run()
                except Exception as error:  # a round that fails is followed by the next one
                    log.warning("a round of handler '%s' failed: %s", self.name, record_of(error))
                self._stopping.wait(every)

    def _pass_over(self, is_wanted: Callable[[View], bool]) -> RunReport:
        report, steps = RunReport(), self._steps()
        for name in self.views:
            if name not in steps:  # another source gave it, and does so no more
                raise UnknownView(name, list(steps))
            if not steps[name].is_paused and is_wanted(steps[name]):
                report.steps[name] = reported(name, RunConfig(), steps[name].run_dictionaries)
                report.seconds += report.steps[name].seconds
        return report

    def _refuse_errors(self) -> None:
        if self.errors:
            raise ViewError(self.errors)


class DictionaryHandler(ViewHandler):
    """The handler of all passes over dictionaries: a round takes those that are due."""

    @property
    def views(self) -> tuple[str, ...]:
        """The names of all views."""
        return tuple(self._steps())

    def run(self, dictionaries: Dictionaries = "due") -> RunReport:
        """Take the changes of dictionaries that have waited long enough, or all that wait, for all views."""
        if dictionaries == "never":
            return RunReport()
        return self._pass_over(lambda view: dictionaries == "now" or view.dictionaries_are_due)
