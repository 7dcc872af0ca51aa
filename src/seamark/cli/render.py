"""Facts as a person likes to read them. Each function gives what is printed, one part after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from seamark.cli.cells import (
    DASH,
    Fitted,
    FittedColumn,
    age,
    counted,
    first_line,
    heading,
    is_longer,
    moment,
    number,
    short,
    under,
    value,
)
from seamark.cli.grid import KEPT_TOGETHER, Grid, grid, wrapped
from seamark.control import Mode

if TYPE_CHECKING:
    from seamark.cli.verbs.care import Collected, Folded, Heads, Verified
    from seamark.cli.verbs.start import NewProject
    from seamark.facts.chains import InputInterval, Log, LogEntry, StepLog
    from seamark.facts.health import Check, Health
    from seamark.facts.live import RunningLine
    from seamark.facts.rows import TableRows
    from seamark.facts.tables import RunLine
    from seamark.tables.care.rebuild import RebuildReport

Parts = list[RenderableType]


# --- looking ----------------------------------------------------------------------------------------------------------


def log(facts: Log, *, with_runs: bool, with_errors: bool = False) -> Parts:
    """`log`."""
    parts: Parts = [_blocks(facts)] if facts.blocks else [f"Table '{facts.table}' has no such blocks."]
    if with_runs:
        parts += runs("Runs", facts.runs, with_errors=with_errors) or ["No runs."]
    return parts


def step_log(facts: StepLog, *, with_errors: bool = False) -> Parts:
    """`log` of a step."""
    title = Text(facts.step, "bold").append(f"  writes {', '.join(facts.outputs)}", "not bold dim")
    at_work: Parts = [heading("Running now"), running(facts.running)] if facts.running else []
    ended = runs("Runs", facts.runs, with_errors=with_errors)
    return [title, *at_work, *ended] if at_work or ended else [title, "It has not run yet."]


def running(lines: Sequence[RunningLine]) -> Grid:
    """Runs that are at work."""
    shown = grid("step", "mode", "since (UTC)", ">for", "~batch", "host", ">process")
    for line in lines:
        batch = f"{line.batch:,} of {line.batches:,}" if line.batch else Text("looking what waits", "dim")
        process = str(line.process) if line.process is not None else DASH
        since, passed = moment(line.since), age(line.seconds)
        shown.add_row(Text(line.step, "bold"), line.mode, since, passed, batch, line.host, process)
    return shown


def _blocks(facts: Log) -> Grid:
    has_watermark = any(entry.watermark for entry in facts.blocks)
    has_inputs = any(entry.inputs for entry in facts.blocks)
    has_problem = any(entry.problem for entry in facts.blocks)
    extra = [*(["watermark (UTC)"] if has_watermark else []), *(["~from"] if has_inputs else [])]
    extra += ["~unreadable"] if has_problem else []
    shown = grid(">block", "hash", "time (UTC)", "event", ">offsets", ">records", *extra)
    for entry in facts.blocks:
        cells = [
            number(entry.sequence),
            short(entry.hash),
            moment(entry.system_time, millis=True),
            entry.event if entry.problem is None else Text(entry.event, "red"),
            _offsets(entry),
            number(entry.records or None),
        ]
        cells += [moment(entry.watermark)] if has_watermark else []
        taken = [_interval(each) for each in entry.inputs if each.new_offset is not None]
        cells += [Text(", ").join(taken)] if has_inputs else []
        cells += [Text(first_line(entry.problem or ""), "red")] if has_problem else []
        shown.add_row(*cells)
    return shown


def _offsets(entry: LogEntry) -> str | Text:
    if entry.first_offset is None:
        return DASH
    if entry.first_offset == entry.last_offset:
        return number(entry.first_offset)
    return f"{entry.first_offset:,} – {entry.last_offset:,}"


def _interval(taken: InputInterval) -> Text:
    """The records that a block took from an input: those after the previous offset, up to the new one."""
    name = taken.table or taken.dataset_id
    first = 0 if taken.prev_offset is None else taken.prev_offset + 1
    return Text(f"{name}: {first:,} – {taken.new_offset:,}".replace(" ", KEPT_TOGETHER))


def runs(title: str, lines: Sequence[RunLine], *, with_errors: bool = False) -> Parts:
    """Runs, newest first, under a title; nothing if there are none. Of an error the first line, unless all is asked."""
    if not lines:
        return []
    has_error = any(run.error for run in lines) and not with_errors
    columns = ("started (UTC)", "~of", "mode", ">seconds", ">in", ">out", "outcome", *(["~error"] if has_error else []))
    shown = grid(*columns)
    for run in lines:
        cells = [
            moment(run.started),
            Text(run.step, "bold"),
            run.mode,
            f"{run.seconds:.2f}" if run.seconds is not None else DASH,
            number(run.rows_in),
            number(run.rows_out),
            Text(run.outcome, "green" if run.outcome == "done" else "red"),
        ]
        shown.add_row(*cells, *([value(first_line(run.error or ""))] if has_error else []))
    failed = [run for run in lines if run.error]
    if with_errors:
        return [heading(title), shown, *[part for run in failed for part in _whole_error(run)]]
    longer = dict.fromkeys(run.step for run in failed if is_longer(run.error or "") and run.mode != Mode.SEND)
    hints = [Text(f"`seamark log {step} --errors` shows the whole error.", "dim") for step in longer]
    return [heading(title), shown, *hints]


def _whole_error(run: RunLine) -> Parts:
    title = Text(f"\n{run.step}", "bold").append(f"  {moment(run.started)}, {run.outcome}:", "not bold dim")
    return [title, run.error or ""]


def rows(facts: TableRows) -> Parts:
    """`show`."""
    key = f"key {', '.join(facts.key)}" if facts.key else "append-only"
    about = [facts.kind or "never written", key]
    about += [f"event time {facts.event_time}"] if facts.event_time else []
    about += [f"as of offset {facts.as_of:,}"] if facts.as_of is not None else []
    title = Text(facts.table, "bold").append(f"  {', '.join(about)}", "not bold dim")
    return [title, _values(facts), Text(_how_many(facts), "dim")]


def _values(facts: TableRows) -> Fitted:
    columns = []
    for column in facts.columns:
        kind = column.type + ("" if column.nullable else " NOT NULL")
        header = Text(column.name, "bold").append(f"\n{kind}", "not bold dim")
        cells = tuple(value(row[column.name]) for row in facts.rows)
        columns.append(FittedColumn(header, cells, is_right=column.type.startswith(_NUMBERS)))
    return Fitted(tuple(columns), "… where a value does not fit; --json shows all of it.")


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def _how_many(facts: TableRows) -> str:
    if not facts.rows and not facts.more:
        return "no rows"
    count = f"{len(facts.rows)} row{'' if len(facts.rows) == 1 else 's'}"
    return f"the first {count}; --limit shows more" if facts.more else count


# --- taking care ------------------------------------------------------------------------------------------------------


def verified(facts: Verified, *, rows: bool = False, expected: Sequence[str] | None = None) -> Parts:
    """`verify`, which may have compared `rows` too, and found the heads of tables that were `expected`."""
    over = f"{counted(facts.blocks, 'block')} of {counted(len(facts.tables), 'table')}"
    again = _replayed(facts)
    if facts.ok:
        also = ["files, chains and control database agree"]
        also += ["the rows of bases are those of the log"] if rows else []
        also += [f"{counted(len(expected), 'expected head')} found"] if expected is not None else []
        return [Text("✓ ", "green").append(f"{over}: {'; '.join(also)}", "default"), *again]
    findings = counted(len(facts.findings), "finding")
    parts: Parts = [Text("✗ ", "red").append(f"{over}: {findings}", "default"), *again]
    for finding in facts.findings:
        title = Text("\n").append(finding.table, "bold").append(" block ", "dim")
        title.append_text(short(finding.block) if finding.block else DASH).append(f"  {finding.kind}", "red")
        parts += [title, under(finding.message), _beside("expected", finding.expected), _beside("found", finding.found)]
    return parts


def heads(facts: Heads) -> Parts:
    """`heads`: a line that can be read again, whatever the width of the terminal."""
    lines = [Text(f"{line.table} {line.head}", no_wrap=True, overflow="ignore") for line in facts.heads]
    return [*lines]


def _replayed(facts: Verified) -> Parts:
    if facts.replayed is None:
        return []
    replayed = f"{counted(facts.replayed, 'block')} computed again"
    if facts.not_replayable:
        replayed += f", {facts.not_replayable:,} not"
    reasons = [f"{entry.table}: {counted(entry.blocks, 'block')} not: {entry.reason}" for entry in facts.skipped]
    return [under(line) for line in (replayed, *reasons)]


def _beside(word: str, text: str) -> Padding:
    """A value beside what it is, below itself where it wraps."""
    line = Table.grid(Column(width=10), Column(overflow="fold"))
    line.add_row(word, Text(text))
    return Padding(line, (0, 0, 0, 2), expand=False)


def folded(facts: Folded) -> Parts:
    """`fold`."""
    lines: Parts = [
        Text("✓ ", "green")
        .append(report.table, "bold default")
        .append(f" folded: {counted(report.records, 'record')}, Delta version {report.delta_version}", "default")
        for report in facts.folded
    ]
    lines += [Text("· ").append(r.table, "bold").append(f" skipped: {r.reason}", "dim") for r in facts.skipped]
    return lines or ["No tables yet."]


def collected(facts: Collected) -> Parts:
    """`gc`."""
    if not facts.removed:
        return ["Nothing to remove."]
    shown = grid("~file", ">bytes")
    for entry in facts.removed:
        shown.add_row(entry.path, number(entry.size))
    did = "Would remove" if facts.dry_run else "Removed"
    return [shown, f"{did} {counted(facts.count, 'file')}, {facts.bytes:,} bytes."]


@dataclass(frozen=True, slots=True)
class Checks:
    """A sign, a name and a text on each line; a long text wraps between words, beside the name."""

    lines: tuple[tuple[Text, Text, Text], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = 5 + max((name.cell_len for _, name, _ in self.lines), default=0)
        for sign, name, text in self.lines:
            begin = Text.assemble(sign, "  ", name)
            begin.pad_right(indent - begin.cell_len)
            for place, line in enumerate(wrapped(text, options.max_width - indent)):
                yield begin.append_text(line) if place == 0 else Text(" " * indent).append_text(line)


_SIGNS = {"ok": Text("✓", "green"), "warn": Text("!", "bold yellow"), "bad": Text("✗", "bold red")}


def health(facts: Health) -> Parts:
    """`doctor`."""
    checks = Checks(tuple((_SIGNS[check.state], Text(check.name, "bold"), _found(check)) for check in facts.checks))
    settings = grid("setting", "~value", "from")
    for setting in facts.settings:
        is_default = setting.origin == "default"
        origin = Text(setting.origin, "dim" if is_default else "")
        settings.add_row(setting.key, setting.value or DASH, origin, style="dim" if is_default else "")
    return [checks, Text(), settings, _verdict(facts.checks)]


def _found(check: Check) -> Text:
    text = Text(check.found)
    return text.append(f"\n→ {check.advice}", "yellow") if check.advice else text


def _verdict(checks: Sequence[Check]) -> Text:
    bad = sum(check.state == "bad" for check in checks)
    warned = sum(check.state == "warn" for check in checks)
    if bad:
        return Text(f"\n{counted(bad, 'thing')} to fix.", "bold red")
    return Text("\nAll is well." if not warned else f"\nIt works, with {counted(warned, 'warning')}.", "green")


def rebuilt(facts: RebuildReport) -> Parts:
    """`doctor --rebuild`."""
    restored = ", ".join(
        counted(count, what)
        for count, what in (
            (facts.tables, "table"),
            (facts.blocks, "block"),
            (facts.positions, "position"),
            (facts.failed_keys, "failed key"),
        )
    )
    lost = [
        Text("✗ ", "red").append(
            f"The failed keys of step '{entry.step}' could not be restored: the last checkpoint of table "
            f"'{entry.table}', {entry.checkpoint}, cannot be used: {entry.reason}. Nothing was taken from it. "
            "Restore the file from a copy of the warehouse and rebuild again.",
            "default",
        )
        for entry in facts.lost
    ]
    return [
        Text("✓ ", "green").append(f"Restored from the chains: {restored}.", "default"),
        f"  Not in the chains, so not restored: {', '.join(facts.not_restored)}.",
        *lost,
    ]


def new_project(facts: NewProject) -> Parts:
    """`init`."""
    files = [Text(f"  {name}") for name in facts.files]
    commands = [Text(f"  {command}", "bold") for command in facts.next]
    return [f"Made a project in {facts.folder}:", *files, Text("\nTry:"), *commands]
