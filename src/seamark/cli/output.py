"""Where output goes: tidy text for people, one JSON document for programs, progress and errors on stderr."""

from __future__ import annotations

import json as json_text
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO, TypeAlias, TypeVar

from rich.console import Console
from rich.text import Text

from seamark.cli.failures import Failure, failure_of
from seamark.cli.signals import Terminated
from seamark.facts.plain import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

Facts = TypeVar("Facts")
OnProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with what is being worked on, how much of it is done, and how much there is, if that is known."""

_STARTING = "Starting Spark"

_NO_LIMIT = 100_000  # in a pipe or a file nothing is cut


class Output:
    """The two streams of a call."""

    def __init__(self, *, json: bool, stdout: TextIO, debug: bool = False) -> None:
        self.json = json
        self._debug = debug
        self._stdout = stdout
        self._people = _console(stdout)
        self._errors = _console(sys.stderr)
        self._shows_progress = self._errors.is_terminal and not json

    def show(self, facts: Facts, render: Callable[[Facts], Sequence[RenderableType]]) -> None:
        """Print facts: as JSON, or as `render` shows them to people."""
        if self.json:
            self._document(plain(facts))
            return
        for part in render(facts):
            self._people.print(part, soft_wrap=isinstance(part, str))  # a string stays as it is: it may be YAML

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the result as it comes."""
        return self._people.is_terminal

    def text(self, text: str) -> None:
        """Print a text as it is, for programs that are not ours."""
        self._stdout.write(text)
        self._stdout.flush()

    def again_and_again(self, look: Callable[[], Sequence[RenderableType]], seconds: float) -> None:
        """Draw on the terminal what `look` finds, again after so many seconds, until Ctrl-C."""
        from rich.console import Group
        from rich.live import Live

        with Live(console=self._people, auto_refresh=False, screen=True) as live:
            try:
                while True:
                    live.update(Group(*look()), refresh=True)
                    time.sleep(seconds)
            except Terminated:
                raise
            except KeyboardInterrupt:
                return

    def note(self, text: str) -> None:
        """Say something to people that is not part of the result."""
        self._errors.print(Text(text, "dim"))

    def fail(self, failure: Failure) -> None:
        """Show an error: what happened, and what to do."""
        if failure.trace:
            self._errors.print(failure.trace.rstrip(), soft_wrap=True)
        if self.json:
            self._document({"error": {"type": failure.type, "message": failure.message, "hint": failure.hint}})
            return
        self._errors.print(Text("Error: ", "bold red").append(failure.message, "not bold default"))
        if failure.hint:
            self._errors.print(Text("Hint: ", "bold cyan").append(failure.hint, "not bold default"))

    def trace(self, error: BaseException | None) -> None:
        """Show the stack trace of an error in a result, if the call asked for stack traces."""
        if error is not None and self._debug:
            self._errors.print(failure_of(error, debug=True).trace, soft_wrap=True)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show on a terminal that work of unknown length is in progress."""
        if not self._shows_progress:
            yield
            return
        from seamark.spark.starting import looking_on

        status = self._errors.status(f"{what} …")
        with status, looking_on(lambda begins: status.update(f"{_STARTING if begins else what} …")):
            yield

    @contextmanager
    def bar(self, what: str) -> Iterator[OnProgress]:
        """A progress bar on a terminal, which is gone when the work is done; nothing elsewhere.

        While Spark is being started it says so instead of what is being worked on.
        """
        if not self._shows_progress:
            yield lambda _label, _done, _total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        from seamark.spark.starting import looking_on

        # Rich's own clock stops when a count is full for the first time, and one bar may count one table after another.
        clock = TextColumn("{task.elapsed:.0f} s", style="progress.elapsed")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), clock)
        with Progress(*columns, console=self._errors, transient=True) as progress:
            task = progress.add_task(what, total=None)
            shown = what

            def show(label: str, done: int, total: int | None) -> None:
                nonlocal shown
                shown = f"{what} {label}"
                progress.update(task, description=shown, completed=done, total=total)

            def on_start(begins: bool) -> None:
                progress.update(task, description=_STARTING if begins else shown, refresh=True)

            with looking_on(on_start):
                yield show

    def _document(self, document: object) -> None:
        self._stdout.write(json_text.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        self._stdout.flush()


def _console(stream: TextIO) -> Console:
    is_terminal = hasattr(stream, "isatty") and stream.isatty()
    width = None if is_terminal or os.environ.get("COLUMNS") else _NO_LIMIT
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


@contextmanager
def clean_stdout(wanted: bool) -> Iterator[TextIO]:
    """The real stdout; if it is `wanted` clean, whatever others print meanwhile goes to stderr."""
    if not wanted:
        yield sys.stdout
        return
    real, kept = sys.stdout, _kept_aside(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield kept or real
    finally:
        if kept is not None:
            kept.flush()
            os.dup2(kept.fileno(), real.fileno())
            kept.close()


def _kept_aside(stream: TextIO) -> TextIO | None:
    """A second way to where the stream leads, while child processes that inherit it are led to stderr."""
    try:
        number = stream.fileno()
    except OSError:  # not a real file: somebody in this process is listening
        return None
    stream.flush()
    kept = os.fdopen(os.dup(number), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), number)
    return kept
