"""The views of a store: checking, loading and declaring them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seamark.errors import ConfigError, UnknownHandler, did_you_mean
from seamark.steps.past.why import Found
from seamark.steps.running.report import RunReport
from seamark.steps.running.run_config import Dictionaries, OnChange
from seamark.store_sinks import StoreSinks
from seamark.tables.table import Table
from seamark.transforms.declare.declaration import BATCH_ROWS

if TYPE_CHECKING:
    import pandas as pd

    from seamark.views.handler import ViewHandler
    from seamark.views.issues import MvIssues
    from seamark.views.registry import ViewRegistry
    from seamark.views.sources import Source
    from seamark.views.view import View


def rows_behind_view(*given: Any) -> Iterator[Found]:
    """The rows behind a row of a view."""
    from seamark.views.origins import joined_rows  # who asks of no view need not wait for their parsers

    return joined_rows(*given)


def _as_seen_from(folder: Path, file: str) -> Path:
    """A file by its way from the project's folder, if that is the current one: issues name it so."""
    path = Path(file)
    return path.relative_to(folder) if folder == Path.cwd() and path.is_relative_to(folder) else path


class StoreViews(StoreSinks, ABC):
    """What a store offers for materialized views."""

    def check_views(self, source: Source | Sequence[Source], *, hints: bool = False, analyse: bool = True) -> MvIssues:
        """All issues of views and handlers, in the order of their places. Nothing is changed.

        `source` is a text of statements, the path of a file or folder, a table of statements, or several of these,
        which are checked together. `hints` adds what could be quicker. Without `analyse` Spark is not asked.
        """
        return self._views.check(source, hints=hints, analyse=analyse)

    def load_views(
        self,
        source: Source | Sequence[Source],
        name: str | None = None,
        *,
        strict: bool = True,
        on_change: OnChange | None = None,
    ) -> MvIssues:
        """Load views and handlers: their views become steps, in place of those that this source gave before.

        With an error nothing is loaded and `ViewError` says all of them; unless `strict`, what has none is loaded, and
        `left_out` of the result names the rest. Texts without a `name` are one source.
        """
        return self._views.load(source, name, strict=strict, on_change=on_change)

    def load_project_views(self) -> None:
        """Load the views that `views.files` and `views.table` of `seamark.toml` name, all that have no error.

        `left_out_views` has the others. The command line does so after it has run the pipeline; a program of the
        project's own does so once it has declared its tables.
        """
        if sources := self.project_views():
            self.load_views(sources, "views of the project", strict=False)

    def project_views(self) -> list[Path | Table]:
        """The files, folders and table of statements that `views.files` and `views.table` of `seamark.toml` name."""
        found: list[Path | Table] = [_as_seen_from(self.config.folder, file) for file in self.config.views.files]
        table = self.config.views.table
        if table is not None and table not in self._catalog.names():
            raise ConfigError(
                f"there is no table '{table}', which views.table names ({self.config.origin('views.table')}).",
                hint=did_you_mean(table, self._catalog.names(), "Tables"),
            )
        return [*found, self._catalog.known(table)] if table is not None else found

    def view(
        self,
        name: str,
        select: str | None = None,
        key: str | Sequence[str] | None = None,
        *,
        refresh: Literal["incremental", "full", "auto"] = "incremental",
        dictionaries: Sequence[str] = (),
        batch_rows: int = BATCH_ROWS,
        batch_keys: int | None = None,
        on_change: OnChange = "ask",
    ) -> View:
        """The view of this name; with a SELECT it is declared: a table that is kept equal to it.

        `refresh` says what happens where not every change has a unit to compute again: `"incremental"` refuses,
        `"full"` computes all rows whenever a table changed, `"auto"` does so only then. `dictionaries` are tables whose
        changes wait for a pass.
        """
        if select is None:
            return self._views.view(name)
        from seamark.views.model import MvRefresh
        from seamark.views.spec import ViewOptions

        options = ViewOptions(batch_rows=batch_rows, batch_keys=batch_keys, on_change=on_change)
        return self._views.declare(name, select, key, MvRefresh(refresh), dictionaries, options)

    def views(self) -> dict[str, View]:
        """All views by name."""
        return self._views.views() if self._has_views else {}

    def mv_dictionary_log(self, table: str | None = None) -> pd.DataFrame:
        """The changes of dictionaries that wait for a pass, as a pandas frame, one row per change.

        Columns: `table`, `key`, `op`, `fields` that it changes, `offset`, `system_time`, and the `views` that it waits
        for.
        """
        from seamark.views.passes.log import dictionary_log

        return dictionary_log(self._views.views().values(), table)

    def left_out_views(self) -> dict[str, MvIssues]:
        """The views and handlers that were left out when their source was loaded, by name, with their errors."""
        return self._views.left_out() if self._has_views else {}

    def refuse_left_out(self, names: Iterable[str]) -> None:
        """Raise `ViewError` if one of these views or handlers was left out when its source was loaded."""
        if self._has_views:
            self._views.refuse_left_out(names)

    @property
    def _has_views(self) -> bool:
        """Whether anybody has asked for views: else their parsers are not even imported."""
        return "_views" in vars(self)

    # --- handlers -----------------------------------------------------------------------------------------------------

    def handler(self, name: str) -> ViewHandler:
        """The handler of this name; `sys$dictionary` is the one of all passes over dictionaries."""
        handlers = self.handlers()
        if name not in handlers:
            raise UnknownHandler(name, list(handlers))
        return handlers[name]

    def handlers(self) -> dict[str, ViewHandler]:
        """All handlers by name, also those that were left out because one of their views has an error."""
        return self._views.handlers()

    @abstractmethod
    def _run_views(self, views: Sequence[str], dictionaries: Dictionaries) -> RunReport:
        """Run some views, and the sinks that carry them."""

    @cached_property
    def _views(self) -> ViewRegistry:
        from seamark.views.registry import ViewRegistry  # who has no views need not wait for their parsers

        return ViewRegistry(
            self._context,
            self._catalog,
            self._pipeline,
            self._context.session,
            self.config.scheduler.wait,
            self.config.views,
            self._destinations,
            self._carry,
            self._run_views,
        )
