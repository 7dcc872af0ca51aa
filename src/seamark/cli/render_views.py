"""How views look on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seamark.cli.cells import DASH, counted, moment, number
from seamark.cli.grid import grid
from seamark.cli.render import Parts
from seamark.cli.render_steps import counts_of

if TYPE_CHECKING:
    from seamark.facts.runs import StepResult
    from seamark.facts.views import CheckedViews, ListedViews, ViewQueries
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


def queries(facts: ViewQueries) -> Parts:
    """`sql`: the text as it is, however wide, so that it can be run."""
    return [facts.sql.rstrip()]


def scanned(facts: StepResult) -> Parts:
    """`scan`."""
    return counts_of(facts)


def views(facts: ListedViews) -> Parts:
    """`view`."""
    if not facts.views:
        return ["No views yet: declare one with ds.view(…), or name files in `views.files`."]
    shown = grid("view", "~key", "refreshed by", "~reads", "handler", ">waiting", "state")
    for line in facts.views:
        reads = ", ".join(f"{name} (batch)" if name in line.dictionaries else name for name in line.reads)
        paused = Text("paused", "yellow") if line.paused_since else Text("runs", "green")
        cells = (", ".join(line.key), line.unit, reads, line.handler or DASH, number(line.waiting or None), paused)
        shown.add_row(Text(line.name, "bold"), *cells)
    since = [line for line in facts.views if line.paused_since is not None]
    return [shown, *[f"{line.name} is paused since {moment(line.paused_since)} UTC." for line in since]]


def _issue(issue: MvIssue) -> Parts:
    """Place, severity and kind, the message, and the line with a caret under the first sign to blame."""
    head, *line = str(issue).split("\n")
    where = f"{issue.source}:" if issue.source else ""
    place = f"{where}{issue.line}:{issue.column}: "
    title = Text(place, "dim").append(issue.severity, _STYLES[issue.severity])
    title.append(head[len(place) + len(issue.severity) :], "not bold default")
    return [title, *[Text(each, "dim", no_wrap=True, overflow="ellipsis") for each in line]]
