"""Facts as a person likes to read them. Each function gives what is printed, one part after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from seamark.cli.plain import plain

if TYPE_CHECKING:
    from seamark.cli.facts.chains import BlockFacts, InputInterval, Log, LogEntry
    from seamark.cli.facts.health import Check, Health
    from seamark.cli.facts.rows import TableRows
    from seamark.cli.facts.tables import Listing, RunLine, Status
    from seamark.cli.verbs.care import Collected, Folded, Verified
    from seamark.cli.verbs.start import NewProject
    from seamark.tables.rebuild import RebuildReport

Parts = list[RenderableType]

HASH_LETTERS = 13  # the five that all hashes begin with, and eight more
_DASH = Text("–", "dim")


# --- looking ----------------------------------------------------------------------------------------------------------


def listing(facts: Listing) -> Parts:
    """`ls`."""
    if not facts.tables:
        return ["No tables yet: declare one in the pipeline with ds.table(…)."]
    shown = grid("table", "kind", "key", ">block", ">offset", ">to fold", "last commit (UTC)")
    for line in facts.tables:
        shown.add_row(
            Text(line.name, "bold"),
            line.kind or _DASH,
            ", ".join(line.key) if line.keyed else Text("append-only", "dim"),
            number(line.sequence),
            number(line.offset),
            number(line.waiting),
            moment(line.last_commit),
        )
    return [shown]


def status(facts: Status) -> Parts:
    """`status`."""
    if not facts.tables:
        return ["No tables yet: declare one in the pipeline with ds.table(…)."]
    tables = grid("table", "last commit (UTC)", "age", ">to fold")
    for state in facts.tables:
        tables.add_row(
            Text(state.name, "bold"), moment(state.last_commit), age(state.age_seconds), number(state.waiting)
        )
    parts: Parts = [tables]
    if facts.writing:
        parts += [heading("Writing now"), *[f"  run {run}" for run in facts.writing]]
    if facts.leases:
        leases = grid("lease", "~holder", ">seconds left")
        for lease in facts.leases:
            leases.add_row(lease.name, lease.holder, f"{lease.seconds_left:.0f}")
        parts += [heading("Leases"), leases]
    return parts + _runs("Last runs", facts.runs)


def log(facts: Log, *, with_runs: bool) -> Parts:
    """`log`."""
    parts: Parts = [_blocks(facts)] if facts.blocks else [f"Table '{facts.table}' has no such blocks."]
    if with_runs:
        parts += _runs("Runs", facts.runs) or ["No runs."]
    return parts


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
        return _DASH
    if entry.first_offset == entry.last_offset:
        return number(entry.first_offset)
    return f"{entry.first_offset:,} – {entry.last_offset:,}"


def _interval(taken: InputInterval) -> Text:
    name = taken.table or taken.dataset_id
    if taken.new_offset is None:
        return Text(f"{name}: nothing new", "dim")
    first = 0 if taken.prev_offset is None else taken.prev_offset + 1
    return Text(f"{name}: {first:,} – {taken.new_offset:,}")


def _runs(title: str, runs: Sequence[RunLine]) -> Parts:
    if not runs:
        return []
    shown = grid("started (UTC)", "of", "mode", ">seconds", ">in", ">out", "~outcome")
    for run in runs:
        shown.add_row(
            moment(run.started),
            Text(run.step, "bold"),
            run.mode,
            f"{run.seconds:.2f}" if run.seconds is not None else _DASH,
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
    over = f"{_count(facts.blocks, 'block')} of {_count(len(facts.tables), 'table')}"
    if facts.ok:
        return [Text("✓ ", "green").append(f"{over}: everything is as it was committed", "default")]
    parts: Parts = [Text("✗ ", "red").append(f"{over}: {_count(len(facts.findings), 'finding')}", "default")]
    for finding in facts.findings:
        title = Text("\n").append(finding.table, "bold").append(" block ", "dim")
        title.append_text(short(finding.block) if finding.block else _DASH).append(f"  {finding.kind}", "red")
        parts += [title, f"  expected  {finding.expected}\n  found     {finding.found}"]
    return parts


def folded(facts: Folded) -> Parts:
    """`fold`."""
    lines: Parts = [
        Text("✓ ", "green")
        .append(report.table, "bold default")
        .append(f" folded: {_count(report.records, 'record')}, Delta version {report.delta_version}", "default")
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
    return [shown, f"{did} {_count(facts.count, 'file')}, {facts.bytes:,} bytes."]


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
        settings.add_row(setting.key, setting.value or _DASH, origin, style="dim" if is_default else "")
    return [checks, Text(), settings, _verdict(facts.checks)]


def _told(check: Check) -> Text:
    text = Text(check.found)
    return text.append(f"\n→ {check.advice}", "yellow") if check.advice else text


def _verdict(checks: Sequence[Check]) -> Text:
    bad = sum(check.state == "bad" for check in checks)
    warned = sum(check.state == "warn" for check in checks)
    if bad:
        return Text(f"\n{_count(bad, 'thing')} to mend.", "bold red")
    return Text("\nAll is well." if not warned else f"\nIt works, with {_count(warned, 'warning')}.", "green")


def rebuilt(facts: RebuildReport) -> Parts:
    """`doctor --rebuild`."""
    restored = ", ".join(
        _count(count, what)
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


# --- pieces -----------------------------------------------------------------------------------------------------------


def grid(*headers: str) -> Table:
    """An empty table with these columns. `>` before a name puts its values to the right, `~` lets long ones fold."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for header in headers:
        justify: JustifyMethod = "right" if header.startswith(">") else "left"
        table.add_column(header.lstrip(">~"), justify=justify, overflow="fold", no_wrap=not header.startswith("~"))
    return table


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column of rows: its header, its values, and on which side they stand."""

    header: Text
    cells: tuple[Text, ...]
    is_right: bool

    @property
    def width(self) -> int:
        """What it takes to show all of it."""
        lines = [line.cell_len for text in (self.header, *self.cells) for line in text.split("\n")]
        return max(lines, default=1)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows, one a line, with the widest columns cut to the width that there is."""

    columns: tuple[FittedColumn, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gaps = 3 * (len(self.columns) - 1)
        widths = fitted([column.width for column in self.columns], options.max_width - gaps)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, width in zip(self.columns, widths, strict=True):
            justify: JustifyMethod = "right" if column.is_right else "left"
            table.add_column(column.header, justify=justify, width=width, no_wrap=True, overflow="ellipsis")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            table.add_row(*row)
        yield table


def fitted(widths: Sequence[int], available: int) -> list[int]:
    """The widths, the widest of them cut to one limit so that all fit; none is cut below a few letters."""
    limit = min(max(widths, default=0), max(available, _LEAST_WIDTH))
    while limit > _LEAST_WIDTH and sum(min(width, limit) for width in widths) > available:
        limit -= 1
    return [min(width, limit) for width in widths]


_LEAST_WIDTH = 4


def heading(text: str) -> Text:
    """The title of a section."""
    return Text(f"\n{text}", "bold")


def number(count: int | None) -> RenderableType:
    """A count with commas between thousands, or a dash."""
    return _DASH if count is None else f"{count:,}"


def moment(when: datetime | None, *, millis: bool = False) -> RenderableType:
    """A time in UTC, or a dash."""
    if when is None:
        return _DASH
    in_utc = when.astimezone(UTC)
    return f"{in_utc:%Y-%m-%d %H:%M:%S}" + (f".{in_utc.microsecond // 1000:03d}" if millis else "")


def age(seconds: float | None) -> RenderableType:
    """How long ago, in the largest fitting unit."""
    if seconds is None:
        return _DASH
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def short(block_hash: str) -> Text:
    """The beginning of a hash: enough to tell blocks apart, and accepted wherever a block is asked for."""
    return Text(block_hash[:HASH_LETTERS], "cyan")


def value(item: object) -> Text:
    """A value of a row in one line."""
    if item is None:
        return Text("NULL", "dim")
    shown = plain(item)
    text = shown if isinstance(shown, str) else str(shown).lower() if isinstance(shown, bool) else str(shown)
    return Text("".join(_visible(sign) for sign in text))


def _visible(sign: str) -> str:
    """Line breaks and control codes of a value must not reach the terminal as such."""
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
