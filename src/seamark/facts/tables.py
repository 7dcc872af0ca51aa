"""What `ls` and `status` show of tables: what they are, how far they are, and who works on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.control import BaseVersion, RunRecord, TableHead
from seamark.errors import UnknownTable
from seamark.ledger import DatasetKind
from seamark.store import DataStore
from seamark.tables import Table
from seamark.tables.read.row_counts import RowCount, count_rows
from seamark.texts import without_secrets


@dataclass(frozen=True, slots=True)
class TableLine:
    """One table of a listing. A table that was never written has no kind, sequence, offset or last commit yet.

    `last_commit` may have moved only a watermark or a schema; `last_change` is when the newest records came in.
    """

    name: str
    kind: str | None
    keyed: bool
    key: tuple[str, ...]
    event_time: str | None
    sequence: int | None
    offset: int | None
    waiting: int
    last_commit: datetime | None
    rows: int
    rows_are_exact: bool
    last_change: datetime | None


@dataclass(frozen=True, slots=True)
class TableState:
    """How fresh a table is, and how many of its records wait to be folded."""

    name: str
    last_commit: datetime | None
    age_seconds: float | None
    waiting: int


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """A lease that somebody holds now."""

    name: str
    holder: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run that did something or failed."""

    run_id: str
    step: str
    mode: str
    started: datetime
    ended: datetime | None
    seconds: float | None
    rows_in: int | None
    rows_out: int | None
    outcome: str
    error: str | None


def list_tables(store: DataStore) -> tuple[TableLine, ...]:
    """All tables with kind, key, head, rows, and what waits to be folded."""
    index = store.control.index
    heads, tails, bases, changes = index.heads(), index.tail_sizes(), index.all_bases(), index.last_changes()
    return tuple(
        _line(table, heads.get(name), tails.get(name, (0, 0))[0], next(iter(bases.get(name, ())), None), changes)
        for name, table in store.tables().items()
    )


def _line(
    table: Table, head: TableHead | None, waiting: int, base: BaseVersion | None, changes: Mapping[str, datetime]
) -> TableLine:
    none = RowCount(0, is_exact=True)
    counted = count_rows(table.source.context, head, base, keyed=bool(table.key)) if head else none
    return TableLine(
        name=table.name,
        kind=kind_of(head),
        keyed=bool(table.key),
        key=table.key,
        event_time=table.schema.event_time,
        sequence=head.sequence if head else None,
        offset=head.last_offset if head else None,
        waiting=waiting,
        last_commit=head.system_time if head else None,
        rows=counted.rows,
        rows_are_exact=counted.is_exact,
        last_change=changes.get(table.name),
    )


def kind_of(head: TableHead | None) -> str | None:
    """`root`, `derived`, or None for a table that was never written: its first commit decides."""
    if head is None:
        return None
    return "root" if head.kind == DatasetKind.ROOT.name.lower() else "derived"


def table_states(store: DataStore, now: datetime) -> tuple[TableState, ...]:
    """How fresh every table is."""
    heads, tails = store.control.index.heads(), store.control.index.tail_sizes()
    return tuple(_state(name, heads.get(name), tails.get(name, (0, 0))[0], now) for name in store.table_names())


def live_leases(store: DataStore) -> tuple[LeaseLine, ...]:
    """The leases that are held now."""
    return tuple(LeaseLine(held.name, held.holder, held.seconds_left) for held in store.control.leases.live())


def _state(name: str, head: TableHead | None, waiting: int, now: datetime) -> TableState:
    if head is None:
        return TableState(name, None, None, waiting)
    # a clock that was turned back makes no commit of the future
    age = max(0.0, (now - head.system_time).total_seconds())
    return TableState(name, head.system_time, age, waiting)


def run_lines(runs: Sequence[RunRecord]) -> tuple[RunLine, ...]:
    """Rows of the `run` table as they are shown."""
    return tuple(
        RunLine(
            run_id=run.run_id,
            step=run.step,
            mode=run.mode,
            started=datetime.fromtimestamp(run.started, UTC),
            ended=datetime.fromtimestamp(run.ended, UTC) if run.ended is not None else None,
            seconds=round(max(0.0, run.ended - run.started), 3) if run.ended is not None else None,
            rows_in=run.rows_in,
            rows_out=run.rows_out,
            outcome=run.outcome,
            error=without_secrets(run.error) if run.error else None,
        )
        for run in runs
    )


def check_names(store: DataStore, names: Sequence[str]) -> None:
    """Refuse the name of a table that is neither declared nor stored."""
    known = store.table_names()
    for name in names:
        if name not in known:
            raise UnknownTable(name, known)
