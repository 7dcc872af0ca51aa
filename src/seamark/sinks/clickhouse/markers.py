"""How far each sink has filled each table of a database: kept in that database, beside what was sent."""

from __future__ import annotations

import secrets

from seamark.sinks.clickhouse.connection import Connection, Row
from seamark.sinks.clickhouse.ddl import ask_columns, newest_insert, which_table
from seamark.sinks.target import Marker, Place, Trace
from seamark.systems.clickhouse import quoted, text

MARKERS = "seamark_sink_positions"

# One row per sink, table and target, the newest of which counts. An insert and its marker are two inserts, for
# ClickHouse has no transaction for both: so the marker is written before the insert as well, and names the block that
# may or may not be there. `inserts` is the number of the newest insert at that time: whether the table still remembers
# the block's token follows from how many came since. `adopted_by` names the sink that continues in this one's place.
# `suffix` ends the tokens of this sink's blocks: with a new one the table takes them for blocks that it never had.
# `made` is which table of this name it was: one that was made again, from a copy perhaps, knows none of the tokens.
_COLUMNS = {
    "sink": "String",
    "table_name": "String",
    "target": "String",
    "sequence": "Int64",
    "block_hash": "String",
    "doubt_sequence": "Int64",
    "doubt_hash": "String",
    "inserts": "Int64",
    "written": "UInt64",
    "at": "DateTime64(3, 'UTC')",
    "adopted_by": "String",
    "suffix": "String",
    "made": "String",
}
_NAMES = ", ".join(_COLUMNS)
_NONE = Place(-1, "")


class Markers:
    """The markers of all sinks that carry one table to one target; `sink` is the one that writes here now."""

    def __init__(self, connection: Connection, database: str, sink: str, table: str, target: str) -> None:
        self._connection = connection
        self._database = database
        self._table = f"{quoted(database)}.{quoted(MARKERS)}"
        self._sink = sink
        self._carried = table
        self._target = target
        self._asked = f"table_name = {text(table)} OR target = {text(target)}"
        self._names = f"{text(sink)}, {text(table)}, {text(target)}"
        self._rows: dict[str, Row] = {}  # the newest row of each sink, as it was read or written
        self._others: list[Row] = []  # of other tables in this target, and of this table in others

    def prepare(self) -> None:
        """Make the table of markers where there is none, and the columns that an earlier version did not have."""
        defined = ", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({defined}) "
            "ENGINE = ReplacingMergeTree(written) ORDER BY (sink, table_name, target)"
        )
        standing = {row["name"] for row in self._connection.query(ask_columns(self._database, MARKERS))}
        missing = [f"ADD COLUMN IF NOT EXISTS {name} {_COLUMNS[name]}" for name in _COLUMNS if name not in standing]
        if missing:
            self._connection.execute(f"ALTER TABLE {self._table} {', '.join(missing)}")

    def read(self, *, replicated: bool, window: tuple[int, int | None]) -> dict[str, Marker]:
        """The marker of each sink that has one, by name. A doubt is covered while the window holds its token."""
        newest = newest_insert(self._database, self._target, replicated=replicated)
        stands = which_table(self._database, self._target, replicated=replicated)
        rows = self._connection.query(
            f"SELECT {_NAMES}, toUnixTimestamp64Milli(at) AS millis, dateDiff('second', at, now64(3, 'UTC')) AS age, "
            f"{newest} AS newest, {stands} AS stands FROM {self._table} "
            f"WHERE {self._asked} ORDER BY sink, written DESC, sequence DESC LIMIT 1 BY sink, table_name, target"
        )
        ours = (self._carried, self._target)
        self._rows = {row["sink"]: row for row in rows if (row["table_name"], row["target"]) == ours}
        self._others = [row for row in rows if (row["table_name"], row["target"]) != ours]
        return {row["sink"]: _marker(row, *window) for row in self._rows.values()}

    def strangers(self) -> list[Trace]:
        """The sinks that have carried other tables to this target, as they were read."""
        return [_trace(row) for row in self._others if row["target"] == self._target]

    def elsewhere(self) -> list[Trace]:
        """The sinks that have carried a table of this name to other targets of this database, as they were read."""
        return [_trace(row) for row in self._others if row["target"] != self._target]

    def token(self, block_hash: str) -> str:
        """What the table is to know a block of this sink by."""
        row = self._rows.get(self._sink)
        return f"{block_hash}-{row['suffix']}" if row is not None and row["suffix"] else block_hash

    @property
    def doubt_inserts(self) -> int:
        """The newest insert when the sending of this sink's block in doubt began."""
        row = self._rows.get(self._sink)
        return 0 if row is None else int(row["inserts"])

    def write(self, done: Place | None, doubt: Place | None, *, replicated: bool, afresh: bool = False) -> None:
        """Let the target remember how far this sink is, and what is about to be sent; `afresh` under new tokens."""
        done, doubt = done or _NONE, doubt or _NONE
        row = self._rows.get(self._sink, {"inserts": 0, "suffix": ""})
        written, suffix = self._written(self._sink) + 1, secrets.token_hex(4) if afresh else row["suffix"]
        inserts = newest_insert(self._database, self._target, replicated=replicated)
        values = f"{done.sequence}, {text(done.hash)}, {doubt.sequence}, {text(doubt.hash)}, {inserts}, {written}"
        made = which_table(self._database, self._target, replicated=replicated)
        self._insert(f"SELECT {self._names}, {values}, now64(3, 'UTC'), '', {text(suffix)}, {made}")
        self._rows[self._sink] = {**row, "written": written, "suffix": suffix}

    def adopt(self, other: str, *, afresh: bool = False) -> None:
        """Continue in another sink's place, from where it was: its marker becomes this sink's, and the marker says so.

        Both rows are one insert, so that at any time one of the two sinks continues, and never both; and if new tokens
        are needed (`afresh`), it continues with new ones whenever it is stopped.
        """
        row, written = self._rows[other], self._written(self._sink) + 1
        row = {**row, "suffix": secrets.token_hex(4)} if afresh else row
        values = [str(row["sequence"]), text(row["block_hash"]), str(row["doubt_sequence"]), text(row["doubt_hash"])]
        values += [str(row["inserts"]), f"if(is_new, {written}, {row['written'] + 1})"]
        values += [f"fromUnixTimestamp64Milli(toInt64({row['millis']}), 'UTC')", f"if(is_new, '', {text(self._sink)})"]
        values += [text(row["suffix"]), text(row["made"])]
        sink = f"if(is_new, {text(self._sink)}, {text(other)})"
        names = self._names.removeprefix(text(self._sink))
        self._insert(f"SELECT {sink}{names}, {', '.join(values)} FROM (SELECT arrayJoin([true, false]) AS is_new)")
        self._rows[self._sink] = {**row, "sink": self._sink, "written": written, "adopted_by": ""}
        self._rows[other] = {**row, "written": row["written"] + 1, "adopted_by": self._sink}

    def void(self) -> None:
        """Forget what any sink has sent to this target, whatever the table: it holds nothing, or is a new one."""
        self._insert(
            "SELECT sink, table_name, target, -1, '', -1, '', 0, max(written) + 1, now64(3, 'UTC'), '', "
            "argMax(suffix, written), '' "
            f"FROM {self._table} WHERE target = {text(self._target)} GROUP BY sink, table_name, target"
        )
        for row in self._rows.values():
            row["written"] += 1

    def _written(self, sink: str) -> int:
        row = self._rows.get(sink)
        return 0 if row is None else int(row["written"])

    def _insert(self, selected: str) -> None:
        self._connection.execute(f"INSERT INTO {self._table} ({_NAMES}) SETTINGS async_insert=0 {selected}")


def _marker(row: Row, most: int, seconds: int | None) -> Marker:
    return Marker(
        done=_place(row["sequence"], row["block_hash"]),
        doubt=_place(row["doubt_sequence"], row["doubt_hash"]),
        is_covered=row["made"] in ("", row["stands"])
        and 0 <= row["newest"] - row["inserts"] < most
        and (seconds is None or row["age"] < seconds),
        adopted_by=row["adopted_by"] or None,
    )


def _trace(row: Row) -> Trace:
    marker = Marker(_place(row["sequence"], row["block_hash"]), _place(row["doubt_sequence"], row["doubt_hash"]))
    return Trace(row["sink"], row["table_name"], f"table '{row['target']}' of the same database", marker)


def _place(sequence: int, block_hash: str) -> Place | None:
    return Place(sequence, block_hash) if sequence >= 0 else None
