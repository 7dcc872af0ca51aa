"""What is shown of views: their issues, what they run, and how they are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from seamark.store import DataStore
from seamark.tables import Table
from seamark.views.issues import MvIssue


@dataclass(frozen=True, slots=True)
class CheckedViews:
    """All issues of some files and tables, in the order of their places, and the phases that were not gone through."""

    ok: bool
    files: tuple[str, ...]
    errors: int
    warnings: int
    hints: int
    issues: tuple[MvIssue, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ViewQueries:
    """The queries that the runs of a view amount to, with its table in a dialect."""

    view: str
    dialect: str
    sql: str


@dataclass(frozen=True, slots=True)
class ViewLine:
    """One view of a listing. `unit` says what is refreshed at once, `waiting` how many dictionary records wait.

    `why_all_rows` is why a view with `REFRESH AUTO` is computed as a whole.
    """

    name: str
    key: tuple[str, ...]
    unit: str
    handler: str | None
    reads: tuple[str, ...]
    dictionaries: tuple[str, ...]
    waiting: int
    paused_since: datetime | None
    why_all_rows: str | None


@dataclass(frozen=True, slots=True)
class ListedViews:
    """The views that `view` shows."""

    views: tuple[ViewLine, ...]


def sql_of(store: DataStore, view: str, dialect: str) -> ViewQueries:
    """The queries of a view."""
    return ViewQueries(view, dialect, store.view(view).sql(dialect))


def list_views(store: DataStore, names: Sequence[str]) -> ListedViews:
    """Some views, or all, by name."""
    views = [store.view(name) for name in names] if names else list(store.views().values())
    states = store.control.views.all()
    lines = []
    for view in views:
        since = states[view.name].paused_since if view.name in states else None
        waiting = sum(entry.records for entry in view.backlog().deferred) if view.spec.deferred else 0
        lines.append(
            ViewLine(
                name=view.name,
                key=view.table.schema.key,
                unit=view.unit,
                handler=view.handler or None,
                reads=view.inputs,
                dictionaries=tuple(sorted(view.spec.deferred)),
                waiting=waiting,
                paused_since=None if since is None else datetime.fromtimestamp(since, UTC),
                why_all_rows=view.target.why_full,
            )
        )
    return ListedViews(tuple(lines))


def check_sources(store: DataStore, sources: Sequence[Path | Table], *, hints: bool, analyse: bool) -> CheckedViews:
    """The issues of the views in some files, folders and tables of statements, which are checked together."""
    issues = store.check_views(list(sources), hints=hints, analyse=analyse)
    counts = Counter(issue.severity for issue in issues)
    return CheckedViews(
        ok=issues.ok,
        files=tuple(source.name if isinstance(source, Table) else str(source) for source in sources),
        errors=counts["error"],
        warnings=counts["warning"],
        hints=counts["hint"],
        issues=tuple(issues),
        skipped=issues.skipped,
    )
