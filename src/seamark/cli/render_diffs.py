"""How a diff's records look on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seamark.cli.cells import Fitted, FittedColumn, counted, value
from seamark.cli.render import Parts
from seamark.facts.versions import VersionHistory

if TYPE_CHECKING:
    from seamark.cli.verbs.repair import GivenUp


def given_up(facts: GivenUp) -> Parts:
    """`retry --give-up` of a diff."""
    if not facts.given_up:
        return [f"Diff '{facts.step}' has no failed visits."]
    line = f"{facts.step} has given up {counted(facts.given_up, 'visit')}: what failed is left out, for good."
    return [Text("✓ ", "green").append(line, "default")]


def versions(facts: VersionHistory) -> Parts:
    """`show --versions`."""
    key = ", ".join(f"{name}={part}" for name, part in facts.key.items())
    title = Text(facts.diff, "bold").append(f"  {key}", "not bold dim")
    if not facts.records:
        return [title, Text("no records: the diff does not know this visit", "dim")]
    line = Text()
    for text in facts.versions:
        line.append(f"{text} ", "green" if text.startswith("+") else "red")
    line.append("= " + (" ".join(facts.standing) or "nothing"), "bold")
    note = f"-{facts.fast_version} takes back what the fast supplier wrote; its own records are in the target only"
    return [title, line, _records(facts), Text(note, "dim")]


def _records(facts: VersionHistory) -> Fitted:
    shown: list[tuple[str, list[object], bool]] = [
        ("offset", [record.offset for record in facts.records], True),
        ("log", [record.log for record in facts.records], False),
        ("Sign", [f"{record.sign:+d}" for record in facts.records], True),
        ("S", [record.slow for record in facts.records], True),
        ("F", [record.fast for record in facts.records], True),
        ("Version", [record.version for record in facts.records], True),
    ]
    names = list(facts.records[0].values)
    shown += [(name, [record.values[name] for record in facts.records], False) for name in names]
    columns = [
        FittedColumn(Text(name, "bold"), tuple(value(cell) for cell in cells), is_right=is_right)
        for name, cells, is_right in shown
    ]
    return Fitted(tuple(columns))
