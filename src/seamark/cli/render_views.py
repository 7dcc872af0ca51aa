"""How views look on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seamark.cli.cells import counted
from seamark.cli.render import Parts

if TYPE_CHECKING:
    from seamark.facts.views import CheckedViews
    from seamark.views.issues import MvIssue

_STYLES = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan"}


def checked(facts: CheckedViews) -> Parts:
    """`check`."""
    parts: Parts = []
    for issue in facts.issues:
        parts += [*_issue(issue), Text()]
    kinds = ((facts.errors, "error"), (facts.warnings, "warning"), (facts.hints, "hint"))
    found = ", ".join(counted(count, kind) for count, kind in kinds if count) or "no issues"
    mark = Text("✓ ", "green") if facts.ok else Text("✗ ", "red")
    parts.append(mark.append(f"{', '.join(facts.files)}: {found}", "default"))
    if facts.skipped and not facts.ok:
        parts.append(Text(f"  Not checked because of errors before: {', '.join(facts.skipped)}.", "dim"))
    elif facts.skipped:
        parts.append(Text(f"  Not checked: {', '.join(facts.skipped)}.", "dim"))
    return parts


def _issue(issue: MvIssue) -> Parts:
    """Place, severity and kind, the message, and the line with a caret under the first sign to blame."""
    head, *line = str(issue).split("\n")
    where = f"{issue.source}:" if issue.source else ""
    place = f"{where}{issue.line}:{issue.column}: "
    title = Text(place, "dim").append(issue.severity, _STYLES[issue.severity])
    title.append(head[len(place) + len(issue.severity) :], "not bold default")
    return [title, *[Text(each, "dim", no_wrap=True, overflow="ellipsis") for each in line]]
