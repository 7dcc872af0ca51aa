"""The corpus of SELECTs: files of cases, each with what is expected of it in front."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.views import SHOP

from seamark.views.checks.check import Surroundings, check
from seamark.views.language.script import read_view
from seamark.views.paths.actions import ActionKeysGrab, ActionKeysTransform, Paths, paths_of

FIXTURES = Path(__file__).parents[1] / "views" / "fixtures"
_CASE = re.compile(r"^-- # (?P<name>.*)\n(?P<expected>(?:--   .*\n)+)(?P<select>(?:(?!-- # ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One SELECT, and what is expected: its unit and paths, or its refusals."""

    file: str
    name: str
    expected: tuple[str, ...]
    select: str

    @property
    def is_refused(self) -> bool:
        return any("NotIncremental" in line for line in self.expected)


def cases() -> list[Case]:
    found = []
    for file in sorted(FIXTURES.glob("*.sql")):
        for match in _CASE.finditer(file.read_text(encoding="utf-8")):
            expected = tuple(line.removeprefix("--   ") for line in match["expected"].splitlines())
            found.append(Case(file.stem, match["name"], expected, match["select"].strip()))
    return found


def described(select: str) -> tuple[str, ...]:
    """What the product says of a SELECT, in the words of the fixtures."""
    checked = check(read_view("v", select, ["any_key"]), Surroundings(SHOP))
    refused = [issue for issue in checked.issues if issue.kind in ("NotIncremental", "ParserError")]
    if refused:
        return tuple(f"{i.line}:{i.column} {i.kind}: {i.message.partition('. ')[2] or i.message}" for i in refused)
    assert not [i for i in checked.issues if i.kind.startswith(("Unknown", "Illegal", "Forward", "Duplicate"))], str(
        checked.issues
    )
    lines: list[str] = []
    for part in checked.context.targets[0].parts:
        lines += _paths(paths_of(part))
    return tuple(lines)


def _paths(paths: Paths) -> list[str]:
    unit = ", ".join(column.shown for column in paths.unit.columns)
    return [f"{paths.unit.kind.value} ({unit})", *(_action(paths, number) for number in range(len(paths.actions)))]


def _action(paths: Paths, number: int) -> str:
    action = paths.actions[number]
    shown = f"{action.table}: {action.kind.value}"
    if isinstance(action, ActionKeysTransform):
        shown += f" ({', '.join(action.columns)})"
    elif isinstance(action, ActionKeysGrab):
        for hop in action.hops:
            pairs = ", ".join(f"{one} → {other}" for one, other in hop.pairs)
            shown += f" to {paths.part.source(hop.upto).table} ({pairs})"
    literals = "".join(f", if {literal.sql(str(action.table))}" for literal in action.literals)
    return f"{shown}; uses {', '.join(sorted(action.used)) or 'none'}{literals}"
