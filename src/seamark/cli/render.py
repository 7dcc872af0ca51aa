"""Facts as a person likes to read them. Each function gives what is printed, one part after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from seamark.cli.cells import DASH, Fitted, FittedColumn, counted, grid, heading, moment, number, short, value
from seamark.cli.plain import plain

if TYPE_CHECKING:
    from seamark.cli.facts.chains import BlockFacts, InputInterval, Log, LogEntry, StepLog
    from seamark.cli.facts.health import Check, Health
    from seamark.cli.facts.rows import TableRows
    from seamark.cli.facts.tables import RunLine
    from seamark.cli.verbs.care import Collected, Folded, Verified
    from seamark.cli.verbs.start import NewProject
    from seamark.tables.rebuild import RebuildReport

Parts = list[RenderableType]


# --- looking ----------------------------------------------------------------------------------------------------------


def log(facts: Log, *, with_runs: bool) -> Parts:
    """`log`."""
    parts: Parts = [_blocks(facts)] if facts.blocks else [f"Table '{facts.table}' has no such blocks."]
    if with_runs:
        parts += runs("Runs", facts.runs) or ["No runs."]
    return parts


def step_log(facts: StepLog) -> Parts:
    """`log` of a step."""
    title = Text(facts.step, "bold").append(f"  writes {', '.join(facts.outputs)}", "not bold dim")
    return [title, *(runs("Runs", facts.runs) or ["It has not run yet."])]


def _blocks(facts: Log) -> Table:
    has_watermark = any(entry.watermark for entry in facts.blocks)
    has_inputs = any(entry.inputs for entry in facts.blocks)
    extra = [*(["watermark (UTC)"] if has_watermark else []), *(["~from"] if has_inputs else [])]
    shown = grid(">block", "hash", "time (UTC)", "~event", ">offsets", ">records", *extra)
    for entry in facts.blocks:
        cells = [
            number(entry.sequence),
            short(entry.hash),
            moment(entry.system_time, millis=True),
            entry.event if entry.problem is None else Text(f"{entry.event} (unreadable: {entry.problem})", "red"),
            _offsets(entry),
            number(entry.records or None),
        ]
        cells += [moment(entry.watermark)] if has_watermark else []
        cells += [Text("\n").join(_interval(taken) for taken in entry.inputs)] if has_inputs else []
        shown.add_row(*cells)
    return shown


def _offsets(entry: LogEntry) -> RenderableType:
    if entry.first_offset is None:
        return DASH
    if entry.first_offset == entry.last_offset:
        return number(entry.first_offset)
    return f"{entry.first_offset:,} – {entry.last_offset:,}"


def _interval(taken: InputInterval) -> Text:
    name = taken.table or taken.dataset_id
    if taken.new_offset is None:
        return Text(f"{name}: nothing new", "dim")
    first = 0 if taken.prev_offset is None else taken.prev_offset + 1
    return Text(f"{name}: {first:,} – {taken.new_offset:,}")


def runs(title: str, lines: Sequence[RunLine]) -> Parts:
    """Runs, newest first, under a title; nothing if there are none."""
    if not lines:
        return []
    shown = grid("started (UTC)", "of", "mode", ">seconds", ">in", ">out", "~outcome")
    for run in lines:
        shown.add_row(
            moment(run.started),
            Text(run.step, "bold"),
            run.mode,
            f"{run.seconds:.2f}" if run.seconds is not None else DASH,
            number(run.rows_in),
            number(run.rows_out),
            outcome(run),
        )
    return [heading(title), shown]


def outcome(run: RunLine) -> Text:
    """How a run ended, with its error if it has one."""
    text = Text(run.outcome, "green" if run.outcome == "done" else "red")
    return text.append(f": {run.error}", "default") if run.error else text


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
    return Fitted(tuple(columns))


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def _how_many(facts: TableRows) -> str:
    if not facts.rows and not facts.more:
        return "no rows"
    count = f"{len(facts.rows)} row{'' if len(facts.rows) == 1 else 's'}"
    return f"the first {count}; --limit shows more" if facts.more else count


def block(facts: BlockFacts) -> Parts:
    """`show --block`."""
    about = {
        "hash": facts.hash,
        "previous": facts.prev_hash,
        "sequence": facts.sequence,
        "system time": plain(facts.system_time),
    }
    tree = Tree(Text(f"{facts.table}, block {facts.sequence}", "bold"), guide_style="dim")
    for name, item in about.items():
        tree.add(Text(f"{name}: ", "dim").append_text(_leaf(item)))
    _branch(tree, "event", facts.event)
    return [tree]


def _branch(tree: Tree, name: str, item: object) -> None:
    label = Text(f"{name}: ", "dim")
    if isinstance(item, Mapping) and (kind := type_text(item)) is not None:
        tree.add(label.append(kind, "default"))
    elif isinstance(item, Mapping) and item:
        kind = item.get("kind")
        inner = tree.add(label.append(str(kind), "bold not dim") if kind else label)
        for key, part in item.items():
            if key != "kind":
                _branch(inner, str(key), part)
    elif isinstance(item, list) and item:
        inner = tree.add(label)
        for place, part in enumerate(item):
            _branch(inner, *_named(place, part))
    else:
        tree.add(label.append_text(_leaf(item)))


def _named(place: int, part: object) -> tuple[str, object]:
    """A column of a schema by its name and type; any other item of a list by its place."""
    if isinstance(part, Mapping) and part.get("kind") == "DataField" and not part.get("extra"):
        return str(part["name"]), part["type"]
    return str(place), part


def type_text(item: Mapping[str, object]) -> str | None:
    """A column's type in one line, such as `List(Int64) or NULL`; None if the item is no type."""
    kind = str(item.get("kind", ""))
    if not kind.startswith("DataType"):
        return None
    parts = [part for key, part in item.items() if key != "kind" and part is not None]
    if kind == "DataTypeOption" and isinstance(item["inner"], Mapping):
        return f"{type_text(item['inner'])} or NULL"
    inner = ", ".join(_type_part(part) for part in parts)
    return kind.removeprefix("DataType") + (f"({inner})" if inner else "")


def _type_part(part: object) -> str:
    if isinstance(part, Mapping):
        return type_text(part) or f"{part.get('name')} {_type_part(part.get('type'))}"
    if isinstance(part, list):
        return ", ".join(_type_part(each) for each in part)
    return str(part)


def _leaf(item: object) -> Text:
    return Text("none", "dim italic") if item is None or item in ([], {}) else Text(str(item))


# --- taking care ------------------------------------------------------------------------------------------------------


def verified(facts: Verified) -> Parts:
    """`verify`."""
    over = f"{counted(facts.blocks, 'block')} of {counted(len(facts.tables), 'table')}"
    again = _replayed(facts)
    if facts.ok:
        return [Text("✓ ", "green").append(f"{over}: everything is as it was committed", "default"), *again]
    findings = counted(len(facts.findings), "finding")
    parts: Parts = [Text("✗ ", "red").append(f"{over}: {findings}", "default"), *again]
    for finding in facts.findings:
        title = Text("\n").append(finding.table, "bold").append(" block ", "dim")
        title.append_text(short(finding.block) if finding.block else DASH).append(f"  {finding.kind}", "red")
        parts += [title, f"  expected  {finding.expected}\n  found     {finding.found}"]
    return parts


def _replayed(facts: Verified) -> Parts:
    if facts.replayed is None:
        return []
    told = f"  {counted(facts.replayed, 'block')} computed again"
    if facts.not_replayable:
        told += f", {facts.not_replayable:,} not: made by a function that is no longer there"
    return [told]


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


_SIGNS = {"ok": Text("✓", "green"), "warn": Text("!", "bold yellow"), "bad": Text("✗", "bold red")}


def health(facts: Health) -> Parts:
    """`doctor`."""
    checks = Table(box=None, show_header=False, pad_edge=False)
    checks.add_column(no_wrap=True)
    checks.add_column(no_wrap=True, style="bold")
    checks.add_column(overflow="fold")
    for check in facts.checks:
        checks.add_row(_SIGNS[check.state], check.name, _told(check))
    settings = grid("setting", "~value", "from")
    for setting in facts.settings:
        is_default = setting.origin == "default"
        origin = Text(setting.origin, "dim" if is_default else "")
        settings.add_row(setting.key, setting.value or DASH, origin, style="dim" if is_default else "")
    return [checks, Text(), settings, _verdict(facts.checks)]


def _told(check: Check) -> Text:
    text = Text(check.found)
    return text.append(f"\n→ {check.advice}", "yellow") if check.advice else text


def _verdict(checks: Sequence[Check]) -> Text:
    bad = sum(check.state == "bad" for check in checks)
    warned = sum(check.state == "warn" for check in checks)
    if bad:
        return Text(f"\n{counted(bad, 'thing')} to mend.", "bold red")
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
    return [
        Text("✓ ", "green").append(f"Restored from the chains: {restored}.", "default"),
        f"  Not in the chains, so not restored: {', '.join(facts.not_restored)}.",
    ]


def new_project(facts: NewProject) -> Parts:
    """`init`."""
    files = [Text(f"  {name}") for name in facts.files]
    commands = [Text(f"  {command}", "bold") for command in facts.next]
    return [f"Made a project in {facts.folder}:", *files, Text("\nTry:"), *commands]
