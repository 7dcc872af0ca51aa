"""Reading the control database: heads, the index of blocks, bases, positions, failed keys, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Row, delete, false, func, or_, select, update

from seamark.clock import from_millis, to_millis
from seamark.control.engine.database import Database
from seamark.control.model import (
    BaseVersion,
    BlockEntry,
    CoveredKey,
    FailedKey,
    Position,
    RunRecord,
    RunTotals,
    TableHead,
)
from seamark.control.schema import base, block, run, table_head, transform_input_offset, transform_meta
from seamark.errors import HeadMismatch

# Where a block was folded twice, the later Delta version is the one that was written again.
_NEWEST_BASE = (base.c.sequence.desc(), base.c.delta_version.desc())


class Index:
    """What the control database knows of chains and steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def heads(self) -> dict[str, TableHead]:
        """All heads by table, in one query."""
        with self._database.read() as connection:
            return {row.table_name: _head(row) for row in connection.execute(select(table_head))}

    def head(self, table: str) -> TableHead | None:
        """A table's head, or None if it has no chain yet."""
        with self._database.read() as connection:
            row = connection.execute(select(table_head).where(table_head.c.table_name == table)).one_or_none()
            return None if row is None else _head(row)

    def slices(self, table: str, *, after: int | None, upto: int | None) -> list[BlockEntry]:
        """The blocks with data that hold any record with after < offset <= upto, oldest first."""
        wanted = select(block).where(block.c.table_name == table, block.c.last_offset.is_not(None))
        if after is not None:
            wanted = wanted.where(block.c.last_offset > after)
        if upto is not None:
            wanted = wanted.where(block.c.first_offset <= upto)
        return self._blocks(wanted.order_by(block.c.sequence))

    def blocks(
        self,
        table: str,
        *,
        newest: int | None = None,
        kinds: Sequence[str] | None = None,
        upto: int | None = None,
        upto_time: datetime | None = None,
    ) -> list[BlockEntry]:
        """Blocks of a table, newest first: at most `newest` of them, of the given kinds, up to a sequence or a time."""
        wanted = select(block).where(block.c.table_name == table).order_by(block.c.sequence.desc())
        if kinds is not None:
            wanted = wanted.where(block.c.kind.in_(list(kinds)))
        if upto is not None:
            wanted = wanted.where(block.c.sequence <= upto)
        if upto_time is not None:
            wanted = wanted.where(block.c.system_time <= to_millis(upto_time))
        return self._blocks(wanted if newest is None else wanted.limit(newest))

    def oldest(self, table: str, kind: str) -> BlockEntry | None:
        """The oldest block of a kind in a table's chain, or None."""
        found = self._blocks(
            select(block).where(block.c.table_name == table, block.c.kind == kind).order_by(block.c.sequence).limit(1)
        )
        return found[0] if found else None

    def block_at(self, table: str, block_hash: str) -> BlockEntry | None:
        """The block with this hash in a table's chain, or None."""
        found = self._blocks(select(block).where(block.c.table_name == table, block.c.hash == block_hash))
        return found[0] if found else None

    def blocks_like(self, table: str, start: str) -> list[BlockEntry]:
        """The blocks of a table whose hash starts, or ends, with the given text."""
        like = block.c.hash.startswith(start, autoescape=True) | block.c.hash.endswith(start, autoescape=True)
        return self._blocks(select(block).where(block.c.table_name == table, like).order_by(block.c.sequence))

    def commit_holding(self, table: str, offset: int) -> list[BlockEntry]:
        """The blocks with data of the commit that holds a record, oldest first; empty if there is no such record."""
        with self._database.read() as connection:
            when = select(block.c.system_time).where(
                block.c.table_name == table, block.c.first_offset <= offset, block.c.last_offset >= offset
            )
            moment = connection.execute(when).scalar_one_or_none()
        if moment is None:
            return []
        same = select(block).where(block.c.table_name == table, block.c.system_time == moment)
        return self._blocks(same.where(block.c.last_offset.is_not(None)).order_by(block.c.sequence))

    def _blocks(self, wanted: Any) -> list[BlockEntry]:
        with self._database.read() as connection:
            return [_block(row) for row in connection.execute(wanted)]

    def bases(self, table: str) -> list[BaseVersion]:
        """The kept bases of a table, newest first, but for those that are distrusted."""
        wanted = select(base).where(base.c.table_name == table, base.c.distrusted_at.is_(None))
        with self._database.read() as connection:
            return [_base(row) for row in connection.execute(wanted.order_by(*_NEWEST_BASE))]

    def all_bases(self) -> dict[str, list[BaseVersion]]:
        """The kept bases of all tables, newest first, in one query, but for those that are distrusted."""
        found: dict[str, list[BaseVersion]] = {}
        wanted = select(base).where(base.c.distrusted_at.is_(None)).order_by(*_NEWEST_BASE)
        with self._database.read() as connection:
            for row in connection.execute(wanted):
                found.setdefault(row.table_name, []).append(_base(row))
        return found

    def add_base(self, version: BaseVersion) -> None:
        """Remember a base; the same Delta version again changes nothing."""
        values = {name: getattr(version, name) for name in ("delta_version", "sequence", "last_offset", "row_count")}
        statement = self._database.insert(base).values(table_name=version.table, **values).on_conflict_do_nothing()
        self._database.write_retrying(lambda c: c.execute(statement))

    def distrust_bases(self, table: str, delta_versions: Sequence[int], now: float) -> None:
        """Remember that some bases of a table hold other rows than its log, so that nobody reads them."""
        ours = (base.c.table_name == table) & base.c.delta_version.in_(list(delta_versions))
        told = update(base).where(ours, base.c.distrusted_at.is_(None)).values(distrusted_at=now)
        self._database.write_retrying(lambda c: c.execute(told))

    def distrusted_bases(self, table: str) -> set[int]:
        """The Delta versions of a table that are distrusted."""
        wanted = select(base.c.delta_version).where(base.c.table_name == table, base.c.distrusted_at.is_not(None))
        with self._database.read() as connection:
            return set(connection.execute(wanted).scalars())

    def drop_bases(self, table: str, delta_versions: Sequence[int] | None = None) -> None:
        """Forget some bases of a table, or all of them."""
        gone = delete(base).where(base.c.table_name == table)
        if delta_versions is not None:
            gone = gone.where(base.c.delta_version.in_(list(delta_versions)))
        self._database.write_retrying(lambda c: c.execute(gone))

    def tail_sizes(self) -> dict[str, tuple[int, int]]:
        """Records and slices after the newest base, by table, for all tables that have data."""
        newest = select(base.c.table_name, func.max(base.c.last_offset).label("folded"))
        folded = newest.where(base.c.distrusted_at.is_(None)).group_by(base.c.table_name).subquery()
        after_base = block.c.last_offset > func.coalesce(folded.c.folded, -1)
        records = func.coalesce(func.sum(block.c.last_offset - block.c.first_offset + 1), 0)
        counted = (
            select(block.c.table_name, records, func.count())
            .join(folded, folded.c.table_name == block.c.table_name, isouter=True)
            .where(block.c.last_offset.is_not(None), after_base)
            .group_by(block.c.table_name)
        )
        with self._database.read() as connection:
            return {name: (int(rows), int(slices)) for name, rows, slices in connection.execute(counted)}

    def positions(self, step: str | None = None) -> list[Position]:
        """The positions of a step, or of all steps, for whatever outputs."""
        wanted = select(transform_input_offset)
        if step is not None:
            wanted = wanted.where(transform_input_offset.c.transformation_id == step)
        with self._database.read() as connection:
            return [_position(row) for row in connection.execute(wanted)]

    def failed_keys(self, step: str | None = None) -> list[FailedKey]:
        """The failed keys of a step, or of all steps, for whatever outputs."""
        wanted = select(transform_meta).where(transform_meta.c.is_success.is_(False))
        if step is not None:
            wanted = wanted.where(transform_meta.c.transformation_id == step)
        with self._database.read() as connection:
            return [_failed_key(row) for row in connection.execute(wanted)]

    def covered_keys(self, step: str, outputs: str | None = None) -> list[CoveredKey]:
        """The keys that limited runs of a step have computed ahead of its positions, for these or whatever outputs."""
        meta = transform_meta
        wanted = select(meta.c.key, meta.c.whole_key, meta.c.process_ts, meta.c.read_at)
        wanted = wanted.where(meta.c.transformation_id == step, meta.c.is_success.is_(True))
        if outputs is not None:
            wanted = wanted.where(meta.c.outputs == outputs)
        with self._database.read() as connection:
            found = connection.execute(wanted)
            return [CoveredKey(step, row.whole_key or row.key, row.process_ts, row.read_at) for row in found]

    def newest_before(self, table: str, sequence: int) -> BlockEntry | None:
        """The newest block with data at or before a sequence, or None if there is none."""
        wanted = select(block).where(block.c.table_name == table, block.c.sequence <= sequence)
        wanted = wanted.where(block.c.last_offset.is_not(None)).order_by(block.c.sequence.desc()).limit(1)
        found = self._blocks(wanted)
        return found[0] if found else None

    def runs(self, step: str | None = None, newest: int = 20, outputs: str | None = None) -> list[RunRecord]:
        """The newest runs, of one step or of all; with `outputs` those of the step that has these."""
        wanted = select(run).order_by(run.c.started.desc()).limit(newest)
        if step is not None:
            wanted = wanted.where(_runs_of(step, outputs))
        with self._database.read() as connection:
            return [_run(row) for row in connection.execute(wanted)]

    def run_modes(self, step: str, since: float, outputs: str | None = None) -> tuple[str, ...]:
        """The modes of a step's runs that began after a moment, each once."""
        wanted = select(run.c.mode).where(_runs_of(step, outputs), run.c.started > since)
        wanted = wanted.distinct().order_by(run.c.mode)
        with self._database.read() as connection:
            return tuple(connection.execute(wanted).scalars())

    def last_changes(self) -> dict[str, datetime]:
        """When each table that has records got its newest ones, by table."""
        newest = select(block.c.table_name, func.max(block.c.system_time).label("at")).group_by(block.c.table_name)
        with self._database.read() as connection:
            rows = connection.execute(newest.where(block.c.last_offset.is_not(None)))
            return {row.table_name: from_millis(row.at) for row in rows}

    def run_totals(self, steps: Mapping[str, str] | Sequence[str]) -> list[RunTotals]:
        """What the runs of these steps did in all, and the newest run of each; a step without runs is left out.

        Given with their outputs, they are the steps with these.
        """
        if isinstance(steps, Mapping):
            ours = or_(false(), *[_runs_of(step, outputs) for step, outputs in steps.items()])
        else:
            ours = run.c.step.in_(list(steps))
        runs = func.count().label("runs")
        rows = [func.sum(func.coalesce(column, 0)).label(column.name) for column in (run.c.rows_in, run.c.rows_out)]
        counted = select(run.c.step, run.c.outcome, runs, *rows).where(ours).group_by(run.c.step, run.c.outcome)
        place = func.row_number().over(partition_by=run.c.step, order_by=(run.c.started.desc(), run.c.run_id.desc()))
        ranked = select(run, place.label("place")).where(ours).subquery()
        newest = select(*[ranked.c[column.name] for column in run.c]).where(ranked.c.place == 1).order_by(ranked.c.step)
        with self._database.read_at_once() as connection:  # a run that ends between the two would be counted in one
            totals = connection.execute(counted.order_by(run.c.step, run.c.outcome)).all()
            last = [_run(row) for row in connection.execute(newest)]
        return [_totals(record, [row for row in totals if row.step == record.step]) for record in last]

    def failed_key_counts(self) -> dict[tuple[str, str], int]:
        """How many failed keys there are, by step and outputs, for the steps that have any."""
        meta = transform_meta.c
        counted = select(meta.transformation_id, meta.outputs, func.count().label("failed"))
        counted = counted.group_by(meta.transformation_id, meta.outputs).where(meta.is_success.is_(False))
        with self._database.read() as connection:
            return {(row.transformation_id, row.outputs): row.failed for row in connection.execute(counted)}


def _runs_of(step: str, outputs: str | None) -> ColumnElement[bool]:
    """The runs of a step; those from before outputs were recorded count for any."""
    mine = run.c.step == step
    return mine if outputs is None else mine & or_(run.c.outputs.is_(None), run.c.outputs == outputs)


def _head(row: Row[Any]) -> TableHead:
    values = dict(row._mapping)
    for name, value in values.items():
        _check_kind(row.table_name, table_head.c[name], value)
    try:
        moment = from_millis(values.pop("system_time"))
    except (ValueError, OverflowError):
        raise _made_up(row.table_name, "system_time", row.system_time) from None
    return TableHead(table=values.pop("table_name"), system_time=moment, **values)


def _check_kind(table: str, column: Column[Any], value: object) -> None:
    """Refuse a value of another kind than its column's: SQLite keeps any, if somebody else writes it."""
    if value is None and column.nullable:
        return
    if not isinstance(value, column.type.python_type):
        raise _made_up(table, column.name, value)


def _made_up(table: object, name: str, value: object) -> HeadMismatch:
    shown = repr(value)
    return HeadMismatch(
        f"table '{table}': the control database has {shown[:80]}{'…' if len(shown) > 80 else ''} as the {name} of its "
        "head, which no commit has written. Nothing was changed.",
        hint="build the database again from the chains with `seamark doctor --rebuild`.",
    )


def _block(row: Row[Any]) -> BlockEntry:
    values = dict(row._mapping)
    values.pop("table_name")
    return BlockEntry(system_time=from_millis(values.pop("system_time")), **values)


def _base(row: Row[Any]) -> BaseVersion:
    values = dict(row._mapping)
    values.pop("distrusted_at")
    return BaseVersion(table=values.pop("table_name"), **values)


def _position(row: Row[Any]) -> Position:
    return Position(
        step=row.transformation_id,
        input_table=row.input_table_name,
        update_ts=row.update_ts_offset,
        record_offset=row.record_offset,
        block_sequence=row.block_sequence,
        block_hash=row.block_hash,
        generation=row.generation,
        outputs=row.outputs,
    )


def _failed_key(row: Row[Any]) -> FailedKey:
    values = dict(row._mapping)
    values.pop("is_success")
    key = values.pop("whole_key") or values["key"]
    return FailedKey(step=values.pop("transformation_id"), **{**values, "key": key})


def _run(row: Row[Any]) -> RunRecord:
    values = dict(row._mapping)
    values.pop("commit_token")
    return RunRecord(**values)


def _totals(newest: RunRecord, by_outcome: Sequence[Row[Any]]) -> RunTotals:
    return RunTotals(
        step=newest.step,
        runs={row.outcome: row.runs for row in by_outcome},
        rows_in=sum(int(row.rows_in) for row in by_outcome),
        rows_out=sum(int(row.rows_out) for row in by_outcome),
        newest=newest,
    )
