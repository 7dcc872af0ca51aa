"""What `check` shows: the issues of views and handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seamark.store import DataStore
from seamark.views.issues import MvIssue


@dataclass(frozen=True, slots=True)
class CheckedViews:
    """All issues of some files, in the order of their places, and the phases that were not gone through."""

    ok: bool
    files: tuple[str, ...]
    errors: int
    warnings: int
    hints: int
    issues: tuple[MvIssue, ...]
    skipped: tuple[str, ...]


def check_files(store: DataStore, files: Sequence[Path], *, hints: bool, analyse: bool) -> CheckedViews:
    """The issues of the views in some files and folders, which are checked together."""
    issues = store.check_views(list(files), hints=hints, analyse=analyse)
    counts = Counter(issue.severity for issue in issues)
    return CheckedViews(
        ok=issues.ok,
        files=tuple(map(str, files)),
        errors=counts["error"],
        warnings=counts["warning"],
        hints=counts["hint"],
        issues=tuple(issues),
        skipped=issues.skipped,
    )
