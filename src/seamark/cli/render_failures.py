"""Keys that failed, as a person likes to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seamark.cli.cells import counted, first_line, is_longer, moment, number, value
from seamark.cli.grid import grid
from seamark.cli.render import Parts
from seamark.cli.render_steps import key_text

if TYPE_CHECKING:
    from seamark.facts.failed_keys import FailedKeyLine, FailedKeys


def failed_keys(facts: FailedKeys, step: str | None, *, with_errors: bool) -> Parts:
    """`failures`. Of each error the first line, unless all is asked for."""
    if not facts.failures:
        return ["No failed keys." if step is None else f"Step '{step}' has no failed keys."]
    shown = grid("step", "~key", ">tries", "next try (UTC)", *([] if with_errors else ["~error"]))
    for line in facts.failures:
        errors = [] if with_errors else [value(first_line(line.error))]
        shown.add_row(Text(line.step, "bold"), key_text(line.key), number(line.attempts), _next(line), *errors)
    parts: Parts = [shown]
    if facts.more:
        parts.append(f"and {facts.more:,} more: --limit shows them")
    if with_errors:
        for line in facts.failures:
            title = Text(f"\n{line.step} ", "bold").append_text(key_text(line.key))
            parts += [title.append(f"  failed {moment(line.failed_at)}:", "dim"), line.error]
        return parts
    if any(is_longer(line.error) for line in facts.failures):
        parts.append(Text(f"`{_command(step)} --errors` shows the whole errors.", "dim"))
    steps = dict.fromkeys(line.step for line in facts.failures)
    tries = " or ".join(f"`seamark retry {name}`" for name in steps)
    what = counted(len(facts.failures) + facts.more, "key")
    given_up = "with --give-up it stops trying: keys of a step until their data changes, records of a diff for good."
    parts.append(Text(f"{what}: {tries} tries now, {given_up}", "dim"))
    return parts


def _command(step: str | None) -> str:
    return f"seamark failures {step}" if step else "seamark failures"


def _next(line: FailedKeyLine) -> str | Text:
    return "with the next run" if line.is_due else moment(line.next_try)
