"""`verify`, `fold`, `gc`: taking care of what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb
from seamark.errors import UsedWrongly

if TYPE_CHECKING:
    from seamark.ledger.verify import Finding
    from seamark.tables.collect import Removed
    from seamark.tables.fold import FoldReport


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification looked at and what it found. Without `--replay` nothing was computed again."""

    ok: bool
    tables: tuple[str, ...]
    blocks: int
    replayed: int | None
    not_replayable: int | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """The tables that were folded, and those that were not, each with its reason."""

    folded: tuple[FoldReport, ...]
    skipped: tuple[FoldReport, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """What housekeeping removed, or would remove."""

    dry_run: bool
    count: int
    bytes: int
    removed: tuple[Removed, ...]


def verify(
    call: Call,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", show_default=False, help="One table; without it all of them.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also compute derived tables again, commit by commit, and compare.")
    ] = False,
) -> None:
    """Read every block, slice and checkpoint again and compare it with what the chain says.

    Ends with 1 if anything is not as it should be.
    """
    from seamark.cli import render
    from seamark.cli.facts.tables import check_names
    from seamark.cli.project import open_store_despite_trouble

    opened, trouble = open_store_despite_trouble(call.config())
    with opened as store:
        check_names(store, [table] if table else [])
        if replay and trouble is not None:
            raise trouble  # its steps are what is computed again
        with call.output.bar("Verifying") as on_block:
            report = store.verify(table, replay, on_block=on_block)
        heads = store.control.index.heads()
        tables = tuple(name for name in sorted(heads) if table in (None, name))
    if trouble is not None and report.ok:
        raise trouble  # what the pipeline ran into is not a damaged file
    verified = Verified(
        ok=report.ok,
        tables=tables,
        blocks=report.blocks,
        replayed=report.replayed if replay else None,
        not_replayable=report.not_replayable if replay else None,
        findings=report.findings,
    )
    call.show(verified, render.verified)
    if not report.ok:
        raise typer.Exit(FAILED)


def fold(
    call: Call,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", show_default=False, help="Some tables; without it all of them."),
    ] = None,
) -> None:
    """Bring the rows that are kept as Delta tables up to the newest commit, so that reading is quick again."""
    from seamark.cli import render
    from seamark.cli.facts.tables import check_names

    with call.store() as store:
        check_names(store, tables or [])
        names = tables or store.table_names()
        reports = []
        with call.output.bar("Folding") as on_table:
            for done, name in enumerate(names):
                on_table(name, done, len(names))
                reports += store.fold(name)
    folded = tuple(report for report in reports if report.folded)
    skipped = tuple(report for report in reports if not report.folded)
    call.show(Folded(folded, skipped), render.folded)


def gc(
    call: Call,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed, and remove nothing.")] = False,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="Leave alone what is younger: 30s, 5m, 2h, 1d.")
    ] = "1h",
) -> None:
    """Remove files that no chain names and no live run needs, and old versions of rows."""
    from seamark.cli import render
    from seamark.config import duration

    seconds = duration(grace)
    if seconds is None:
        raise UsedWrongly(f"--grace is '{grace}', which is no duration.", hint="write it like 30s, 5m, 2h or 1d.")
    with call.store() as store, call.output.working("Looking for what nobody needs"):
        report = store.gc(dry_run=dry_run, grace=seconds)
    call.show(Collected(dry_run, report.count, report.bytes, report.removed), render.collected)


VERBS = [
    Verb("verify", verify, "seamark verify feed --replay", "Take care"),
    Verb("fold", fold, "seamark fold posts", "Take care"),
    Verb("gc", gc, "seamark gc --dry-run --grace 1d", "Take care"),
]
