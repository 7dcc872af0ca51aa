"""What a verb is given: how it was called, the project it works on, and where its output goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from seamark.cli.logs import set_up_logging
from seamark.cli.output import Output
from seamark.errors import ConfigError, UsedWrongly

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seamark.config import Config
    from seamark.store import DataStore

Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Manners:
    """The options of every verb. They may come before the verb, after it, or both."""

    json: bool = False
    debug: bool = False
    log_json: bool = False
    verbose: bool = False
    project: Path | None = None

    def __or__(self, before: Manners) -> Manners:
        return Manners(
            json=self.json or before.json,
            debug=self.debug or before.debug,
            log_json=self.log_json or before.log_json,
            verbose=self.verbose or before.verbose,
            project=self.project or before.project,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb."""

    manners: Manners
    output: Output
    context: typer.Context

    def config(self) -> Config:
        """The settings of the project, with logging set up as they say."""
        from seamark.config import load_config

        folder = self.manners.project
        if folder is not None and not folder.is_dir():
            raise ConfigError(
                f"{folder} is a file, not a folder." if folder.exists() else f"there is no folder {folder}.",
                hint=f"--project takes the folder of a project; `seamark init {folder}` makes one.",
            )
        config = load_config(folder)
        set_up_logging(config, json=self.manners.log_json, verbose=self.manners.verbose)
        return config

    @contextmanager
    def store(self, *, loads_views: bool = True, shows_errors_of_views: bool = False) -> Iterator[DataStore]:
        """The project's store, as its pipeline declares it, with the views of its files.

        Views that were left out are named, unless the verb shows their errors itself.
        """
        from seamark.cli.project import open_store
        from seamark.cli.signals import given_back
        from seamark.steps.running.attempt import give_back_runs

        with (
            open_store(self.config(), loads_views=loads_views) as store,
            given_back(lambda: give_back_runs(store.control)),
        ):
            if (left_out := ", ".join(store.left_out_views())) and not shows_errors_of_views:
                self.output.note(f"Left out, because of errors that `seamark check` shows: {left_out}.")
            yield store

    def show(self, facts: Facts, render: Callable[[Facts], Sequence[RenderableType]]) -> None:
        """Print facts: as JSON for programs, or as `render` shows them to people."""
        self.output.show(facts, render)

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Whether a person agrees; somebody who cannot be asked must have said `--yes`."""
        if yes:
            return True
        if self.output.json or not sys.stdin.isatty():
            raise UsedWrongly(
                "this must be confirmed, and there is no terminal to ask on. Nothing was changed.",
                hint="add --yes if it is what you want.",
            )
        return typer.confirm(question, err=True)
