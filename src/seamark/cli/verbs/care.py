"""`verify`, `heads`, `fold`, `gc`: taking care of what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.failures import FAILED
from seamark.cli.verbs import Verb
from seamark.errors import HeadMismatch, UsedWrongly

if TYPE_CHECKING:
    from seamark.config import Config
    from seamark.ledger.verify import Finding, NotReplayable, OnBlock, VerifyReport
    from seamark.tables.care.collect import Removed
    from seamark.tables.care.fold import FoldReport


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification looked at and what it found. Without `--replay` nothing was computed again."""

    ok: bool
    tables: tuple[str, ...]
    blocks: int
    replayed: int | None
    not_replayable: int | None
    skipped: tuple[NotReplayable, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class HeadLine:
    """A table and the hash of its newest block."""

    table: str
    head: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of all tables that have a chain."""

    heads: tuple[HeadLine, ...]


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
    rows: Annotated[
        bool, typer.Option("--rows", help="Also compare the rows that folds keep as Delta tables with the log.")
    ] = False,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect",
            metavar="FILE",
            show_default=False,
            help="Heads written down before, with `seamark heads`: chains must still hold them.",
        ),
    ] = None,
) -> None:
    """Compare all files, chains and rows of the control database with one another.

    Ends with 1 if anything does not agree. What this shows, and against whom, docs/verify.md says.
    """
    from seamark.cli import render
    from seamark.cli.project import open_store_despite_trouble
    from seamark.facts.tables import check_names

    expected = None if expect is None else _heads_in(expect)  # before the project's folder becomes the current one
    config = call.config()
    try:
        opened, trouble = open_store_despite_trouble(config)
    except HeadMismatch as mismatch:
        if replay:
            raise  # the steps that would compute again are in the pipeline, which cannot be run
        with call.output.bar("Verifying") as on_block:
            report = _unopened(config, table, mismatch, rows=rows, expect=expected, on_block=on_block)
        tables = tuple(sorted({finding.table for finding in report.findings if finding.table}))
    else:
        with opened as store:
            check_names(store, [table] if table else [])
            if replay and trouble is not None:
                raise trouble  # its steps are what is computed again
            with call.output.bar("Verifying") as on_block:
                report = store.verify(table, replay, rows=rows, expect=expected, on_block=on_block)
            heads = store.control.index.heads()
            tables = tuple(name for name in sorted(heads) if table in (None, name))
        if trouble is not None and report.ok:
            raise trouble  # what the pipeline ran into is not a damaged file
    heads_found = None if expected is None else [name for name in expected if table in (None, name)]
    call.show(_verified(report, tables, replay=replay), partial(render.verified, rows=rows, expected=heads_found))
    if not report.ok:
        raise typer.Exit(FAILED)


def _verified(report: VerifyReport, tables: tuple[str, ...], *, replay: bool) -> Verified:
    """A report as it is shown; what is computed again is counted only if somebody asked for it."""
    return Verified(
        ok=report.ok,
        tables=tables,
        blocks=report.blocks,
        replayed=report.replayed if replay else None,
        not_replayable=report.not_replayable if replay else None,
        skipped=report.skipped,
        findings=report.findings,
    )


def _heads_in(file: Path) -> dict[str, str]:
    from seamark.tables.verify import read_heads

    try:
        return read_heads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsedWrongly(
            f"the expected heads in {file} cannot be read: {reason}.",
            hint="write them down with `seamark heads > heads.txt`.",
        ) from None


def _unopened(
    config: Config,
    table: str | None,
    mismatch: HeadMismatch,
    *,
    rows: bool,
    expect: dict[str, str] | None,
    on_block: OnBlock,
) -> VerifyReport:
    """The report on a store that refuses to be opened; its refusal is raised if nothing else explains it."""
    from seamark.tables.verify import verify_unopened

    report = verify_unopened(config, table, rows=rows, expect=expect, on_block=on_block)
    if report.ok:
        raise mismatch
    return report


def heads(call: Call) -> None:
    """Print each table and the hash of its newest block, to be kept where nobody who can write to the store can.

    `seamark verify --expect FILE` compares them later: a chain that was rewritten does not hold them any more.
    """
    from seamark.cli import render

    with call.store() as store:
        found = store.heads()
    lines = tuple(HeadLine(name, head.block_hash, head.sequence) for name, head in found.items() if head.block_hash)
    call.show(Heads(lines), render.heads)
    if not lines:
        call.output.note("No table has a block yet.")


def fold(
    call: Call,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", show_default=False, help="Some tables; without it all of them."),
    ] = None,
) -> None:
    """Bring the rows that are kept as Delta tables up to the newest commit, so that reading is quick again."""
    from seamark.cli import render
    from seamark.facts.tables import check_names

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
    Verb("heads", heads, "seamark heads > heads.txt", "Take care"),
    Verb("fold", fold, "seamark fold posts", "Take care"),
    Verb("gc", gc, "seamark gc --dry-run --grace 1d", "Take care"),
]
