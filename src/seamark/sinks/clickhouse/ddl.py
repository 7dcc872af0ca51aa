"""The target's table: how it is made, and whether an existing one may be written to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from seamark.errors import TargetMismatch
from seamark.sinks.clickhouse.connection import Row
from seamark.sinks.clickhouse.insert import DELETED, OFFSET
from seamark.sinks.clickhouse.types import fits, range_of, shifts
from seamark.sinks.layout import RowKind
from seamark.sinks.target import Carried
from seamark.systems.clickhouse import clickhouse_type, quoted, text

# How many of the newest inserts a table must remember, so that a block that comes twice is noticed.
WINDOW = 10_000
WINDOW_SECONDS = 7 * 24 * 3600
_PLAIN, _REPLICATED = "non_replicated_deduplication_window", "replicated_deduplication_window"
_SECONDS = "replicated_deduplication_window_seconds"
# Where records cancel each other a merge may leave nothing of an insert. ClickHouse then removes the empty part, and
# forgets the token of everything that was in it: unless it keeps such parts.
_EMPTY_PARTS = "remove_empty_parts"

_ENGINES = {
    RowKind.KEYED: "ReplacingMergeTree",
    RowKind.DIFF: "VersionedCollapsingMergeTree",
    RowKind.APPEND: "MergeTree",
}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column that the target must have."""

    name: str
    type: str
    is_wall_clock: bool = False  # a time without a zone

    @property
    def sql(self) -> str:
        """The column as a definition."""
        return f"{quoted(self.name)} {self.type}"


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that exists in ClickHouse."""

    engine: str
    engine_full: str
    sorting_key: str
    columns: dict[str, str]  # name and type of those that can be inserted
    ordered_by: tuple[str, ...] = ()  # the columns inside the sorting key
    partition_key: str = ""
    partitioned_by: tuple[str, ...] = ()  # the columns inside the partition key
    zone: str = "UTC"  # the server's, which counts for columns without one

    @property
    def is_replicated(self) -> bool:
        """Whether its deduplication is that of replicated tables."""
        return self.engine.startswith(("Replicated", "Shared"))

    @property
    def family(self) -> str:
        """The engine without what says how it is replicated."""
        return re.sub(r"^(Replicated|Shared)", "", self.engine)

    def setting(self, name: str) -> int | None:
        """A setting of the table's own, or None where the server's default counts."""
        found = re.search(rf"\b{name} = '?(\w+)", self.engine_full)
        return _number(found[1]) if found else None


def _number(value: str) -> int:
    return int(value) if value.isdigit() else int(value == "true")


def columns_of(carried: Carried) -> list[TargetColumn]:
    """The columns that the target must have, in order."""
    required = carried.layout.required
    columns = [
        TargetColumn(
            c.name,
            clickhouse_type(c.type, nullable=c.nullable and c.name not in required),
            is_wall_clock=pa.types.is_timestamp(c.type) and c.type.tz is None,
        )
        for c in carried.schema.columns
    ]
    if carried.layout.kind is RowKind.KEYED:
        columns += [TargetColumn(OFFSET, "UInt64"), TargetColumn(DELETED, "UInt8")]
    if carried.layout.sign is not None:  # the engine takes no other type for it
        columns = [TargetColumn(c.name, "Int8") if c.name == carried.layout.sign else c for c in columns]
    return columns


def create_table(table: str, carried: Carried) -> str:
    """The statement that makes the table."""
    columns = ", ".join(column.sql for column in columns_of(carried))
    keeps = f", {_EMPTY_PARTS} = 0" if carried.layout.kind is RowKind.DIFF else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}) ENGINE = {_engine(carried)} ORDER BY {_order(carried)} "
        f"SETTINGS {_PLAIN} = {WINDOW}{keeps}"
    )


def _engine(carried: Carried) -> str:
    return f"{_ENGINES[carried.layout.kind]}({', '.join(quoted(name) for name in _arguments(carried))})"


def _arguments(carried: Carried) -> tuple[str, ...]:
    layout = carried.layout
    if layout.kind is RowKind.KEYED:
        return (OFFSET, DELETED)
    return (layout.sign, layout.version) if layout.sign and layout.version else ()


def _order(carried: Carried) -> str:
    order = carried.layout.key
    moment = carried.schema.event_time
    if carried.layout.kind is RowKind.APPEND and moment is not None and not carried.schema.column(moment).nullable:
        order = (moment,)
    if len(order) == 1:
        return quoted(order[0])
    return f"({', '.join(map(quoted, order))})" if order else "tuple()"


# --- an existing table ------------------------------------------------------------------------------------------------


def ask_table(database: str, table: str) -> str:
    """The question whether a table exists, and what it is."""
    return (
        "SELECT engine, engine_full, sorting_key, partition_key, timezone() AS zone FROM system.tables "
        f"WHERE database = {text(database)} AND name = {text(table)}"
    )


def ask_columns(database: str, table: str) -> str:
    """The question for a table's columns."""
    return (
        "SELECT name, type, default_kind, is_in_sorting_key, is_in_partition_key FROM system.columns "
        f"WHERE database = {text(database)} AND table = {text(table)} ORDER BY position"
    )


def existing_table(found: Sequence[Row], columns: Sequence[Row]) -> ExistingTable | None:
    """The table as the two answers describe it, or None if there is none."""
    if not found:
        return None
    row = found[0]
    plain = [column for column in columns if column["default_kind"] in ("", "DEFAULT")]
    return ExistingTable(
        engine=row["engine"],
        engine_full=row["engine_full"],
        sorting_key=row["sorting_key"],
        columns={column["name"]: column["type"] for column in plain},
        ordered_by=tuple(column["name"] for column in columns if column["is_in_sorting_key"]),
        partition_key=row["partition_key"],
        partitioned_by=tuple(column["name"] for column in columns if column["is_in_partition_key"]),
        zone=row["zone"],
    )


def missing_columns(carried: Carried, table: ExistingTable) -> list[TargetColumn]:
    """The columns that the target does not have."""
    return [column for column in columns_of(carried) if column.name not in table.columns]


def check_table(who: str, where: str, carried: Carried, table: ExistingTable) -> None:
    """Nothing, or `TargetMismatch` naming what does not fit; then nothing was sent."""
    for trouble in (_engine_trouble(carried, table), _order_trouble(carried, table), _column_trouble(carried, table)):
        if trouble is not None:
            raise TargetMismatch(f"{who}: {where} {trouble}. Nothing was sent.", hint=_way_out(carried, table))


def _way_out(carried: Carried, table: ExistingTable) -> str:
    made = create_table("…", carried)
    own = f"let the sink make a table of its own: another table= and create=True. It would be {made}"
    apart = _keeps_apart(carried, table)
    if carried.layout.kind is RowKind.DIFF and apart and carried.layout.sign not in apart:
        unknown = [name for name in apart if name not in carried.schema.names]
        brought = f"bring {', '.join(unknown)} in a log or the wide table, and " if unknown else ""
        return f"if no visit ever changes it, {brought}declare the diff with constant={list(apart)!r}; else {own}"
    return f"change the table, or {own}"


def _engine_trouble(carried: Carried, table: ExistingTable) -> str | None:
    wanted = _ENGINES[carried.layout.kind]
    arguments = [name.strip().strip("`") for name in _between_brackets(table.engine_full).split(",")]
    wanted_arguments = list(_arguments(carried))
    if table.family != wanted or (wanted_arguments and arguments[-len(wanted_arguments) :] != wanted_arguments):
        shown = table.engine_full.split(" ORDER BY")[0].split(" PARTITION BY")[0]
        return f"is a {shown}, and '{carried.table}' needs a {_engine(carried).replace('`', '')}"
    return None


def _between_brackets(engine_full: str) -> str:
    found = re.match(r"\w+\(([^()]*)\)", engine_full)
    return found[1] if found else ""


def _column_trouble(carried: Carried, table: ExistingTable) -> str | None:
    missing = missing_columns(carried, table)
    if missing:
        return f"lacks {', '.join(f'{column.name} {column.type}' for column in missing)}"
    for column in columns_of(carried):
        theirs = table.columns[column.name]
        is_ours = column.name not in carried.schema.names  # its values are not looked through before they are sent
        if not fits(column.type, theirs) or (is_ours and range_of(column.type, theirs) is not None):
            return f"has column '{column.name}' as {theirs}, which does not hold {column.type}"
        if column.is_wall_clock and shifts(theirs, table.zone):
            zone = "" if "'" in theirs else f" and the zone {table.zone}"
            return (
                f"has column '{column.name}' as {theirs}{zone}, which would show times without a zone (timestamp_ntz) "
                f"as other ones; it must be {column.type}"
            )
    return None


def narrow_columns(carried: Carried, table: ExistingTable) -> dict[str, tuple[int, int]]:
    """The columns that hold fewer whole numbers than ours, and from which to which."""
    ranges = {column.name: range_of(column.type, table.columns[column.name]) for column in columns_of(carried)}
    return {name: found for name, found in ranges.items() if found is not None}


def _order_trouble(carried: Carried, table: ExistingTable) -> str | None:
    """Rows of one key must meet, and rows of two must not: the order decides which rows become one."""
    layout = carried.layout
    if layout.kind is RowKind.APPEND:
        return None
    apart = _keeps_apart(carried, table)
    key = f"the key of '{carried.table}' is ({', '.join(layout.key)})"
    ordered = f"is ordered by ({table.sorting_key})"
    if apart and not set(apart) <= set(table.partitioned_by) - set(table.ordered_by):
        return f"{ordered}, and {key}: rows of one key that differ in {', '.join(apart)} would never become one"
    if apart:
        return (
            f"is partitioned by ({table.partition_key}), and {key}: rows of one key that differ in {', '.join(apart)} "
            "would never meet"
        )
    plain = {_bare(item) for item in _items(table.sorting_key)}
    if not plain >= set(layout.key):
        return f"{ordered}, and {key}: rows of two keys could become one"
    return None


def _keeps_apart(carried: Carried, table: ExistingTable) -> tuple[str, ...]:
    """The columns in which rows of one key may differ, and by which the table keeps rows apart."""
    layout = carried.layout
    if layout.kind is RowKind.APPEND:
        return ()
    together = {*layout.key, *layout.constant, layout.version}
    apart = table.ordered_by
    if layout.kind is RowKind.DIFF:  # two records that cancel each other must be in one partition to be merged away
        apart = tuple(dict.fromkeys((*apart, *table.partitioned_by)))
    return tuple(name for name in apart if name not in together)


def _items(expression: str) -> list[str]:
    """The expressions of a list, cut at the commas outside brackets and quotes."""
    items, depth, quote, start = [], 0, "", 0
    for place, sign in enumerate(expression):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and depth == 0:
            items.append(expression[start:place].strip())
            start = place + 1
    return [*items, expression[start:].strip()]


def _bare(item: str) -> str:
    """A column's name without quotes and brackets around it."""
    while item.startswith("(") and item.endswith(")"):
        item = item[1:-1].strip()
    return item.strip("`")


# --- what the table remembers of its inserts --------------------------------------------------------------------------


def memory_to_set(carried: Carried, table: ExistingTable, defaults: dict[str, int]) -> dict[str, int]:
    """The settings that must change so that the table remembers enough of its newest inserts; empty if it does."""
    wanted = {_REPLICATED: WINDOW, _SECONDS: WINDOW_SECONDS} if table.is_replicated else {_PLAIN: WINDOW}
    to_set = {name: least for name, least in wanted.items() if _current_setting(table, defaults, name) < least}
    if carried.layout.kind is RowKind.DIFF and _current_setting(table, defaults, _EMPTY_PARTS) != 0:
        to_set[_EMPTY_PARTS] = 0
    return to_set


def window_of(table: ExistingTable, defaults: dict[str, int]) -> tuple[int, int | None]:
    """How many inserts the table remembers, and for how many seconds, None if for ever."""
    if table.is_replicated:
        return _current_setting(table, defaults, _REPLICATED), _current_setting(table, defaults, _SECONDS)
    return _current_setting(table, defaults, _PLAIN), None


def _current_setting(table: ExistingTable, defaults: dict[str, int], name: str) -> int:
    own = table.setting(name)
    return own if own is not None else defaults.get(name, 0)


def ask_defaults(*, replicated: bool) -> str:
    """The question for the server's defaults of these settings."""
    source = "system.replicated_merge_tree_settings" if replicated else "system.merge_tree_settings"
    names = ", ".join(text(name) for name in (_PLAIN, _REPLICATED, _SECONDS, _EMPTY_PARTS))
    return f"SELECT name, value FROM {source} WHERE name IN ({names})"


def defaults_of(rows: Sequence[Row]) -> dict[str, int]:
    """The server's defaults, from the answer."""
    return {row["name"]: _number(row["value"]) for row in rows}


def set_memory(table: str, settings: dict[str, int]) -> str:
    """The statement that changes these settings."""
    return f"ALTER TABLE {table} MODIFY SETTING {', '.join(f'{name} = {value}' for name, value in settings.items())}"


def which_table(database: str, table: str, *, replicated: bool) -> str:
    """Which table of this name it is, as an expression; empty where that is not known.

    Another replica is another table, and knows the same inserts all the same.
    """
    if replicated:
        return "''"
    ours = f"database = {text(database)} AND name = {text(table)}"
    return f"(SELECT if(empty(max(uuid)), '', toString(max(uuid))) FROM system.tables WHERE {ours})"


def newest_insert(database: str, table: str, *, replicated: bool) -> str:
    """How many inserts a table has had, as an expression that grows by one with each part that is inserted.

    A replicated table counts in each partition by itself.
    """
    ours = f"database = {text(database)} AND table = {text(table)}"
    newest = f"SELECT max(max_block_number) AS newest FROM system.parts WHERE {ours}"
    if replicated:
        newest = f"SELECT sum(newest + 1) AS newest FROM ({newest} GROUP BY partition_id)"
    return f"(SELECT toInt64(ifNull(newest, 0)) FROM ({newest}))"
