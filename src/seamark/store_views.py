"""The views of a store: checking, loading and declaring them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from seamark.config import Config
from seamark.steps.past.why import Found
from seamark.steps.running.run_config import OnChange
from seamark.store_care import StoreCare
from seamark.transforms.declare.declaration import BATCH_ROWS

if TYPE_CHECKING:
    import pandas as pd

    from seamark.views.issues import MvIssues
    from seamark.views.registry import ViewRegistry
    from seamark.views.sources import Source
    from seamark.views.view import View


def rows_behind_view(*given: Any) -> Iterator[Found]:
    """The rows behind a row of a view."""
    from seamark.views.origins import joined_rows  # who asks of no view need not wait for their parsers

    return joined_rows(*given)


class StoreViews(StoreCare):
    """What a store offers for materialized views."""

    config: Config

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

    def mv_dictionary_log(self, table: str | None = None) -> pd.DataFrame:
        """The changes of dictionaries that wait for a pass, as a pandas frame, one row per change.

        Columns: `table`, `key`, `op`, `fields` that it changes, `offset`, `system_time`, and the `views` that it waits
        for.
        """
        from seamark.views.passes.log import dictionary_log

        return dictionary_log(self._views.views().values(), table)

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
        )
