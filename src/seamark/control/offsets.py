"""Positions of steps on their inputs, set by hand: by a time, or taken back. Runs move them in the commit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlalchemy import ColumnElement, Connection, Table, case, delete, func, insert, literal, or_, select, update

from seamark.control.commit import place_columns, position_row
from seamark.control.engine.database import Database
from seamark.control.model import UNKNOWN_OUTPUTS, Adoption, Position
from seamark.control.schema import block, table_head, transform_input_offset, transform_meta
from seamark.errors import OffsetError, UnknownTable, did_you_mean

_offset = transform_input_offset
_LATEST = 2**63 - 1  # what a BigInteger holds
NOT_KNOWN: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Backlog:
    """A step's position on one input, and what comes after it. Times are seconds since 1970."""

    step: str
    input_table: str
    update_ts: float | None
    record_offset: int | None
    pending_records: int
    oldest_pending_at: float | None  # when the oldest pending record was committed
    outputs: str


@dataclass(frozen=True, slots=True)
class _Place:
    """The end of a commit in an input's chain; all None means the beginning."""

    record_offset: int | None = None
    block_sequence: int | None = None
    block_hash: str | None = None


def first_millisecond_from(seconds: float) -> int:
    """The first whole millisecond that is not before a time: commits with a smaller system time came before it.

    A commit's time as a float is its milliseconds divided by 1000, so the comparison is made among such floats: the one
    that a commit gave leads back to exactly its millisecond.
    """
    bound = math.ceil(Fraction(seconds) * 1000)
    if (bound - 1) / 1000 >= seconds:  # the float is a hair above the millisecond that it was made from
        bound -= 1
    return max(-_LATEST, min(bound, _LATEST))


class Offsets:
    """What the control database knows of positions, and how to move them without a run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def raise_to(self, times: Mapping[tuple[str, str], float], outputs: Mapping[str, str] = NOT_KNOWN) -> None:
        """Move positions, by (step, input), up to the newest commit before a time; all of them or none.

        A position whose time is as late or later stays as it is, and none goes back to an earlier record. `outputs`
        says what each step fills; where that is not known, all positions of a step of that name are meant.
        """
        for (step, table), time in times.items():
            if not math.isfinite(time):
                raise OffsetError(
                    f"the offset of step '{step}' on '{table}' cannot be {time}. Nothing was changed.",
                    hint="give a time in seconds since 1970.",
                )

        def raise_all(connection: Connection) -> None:
            _require_tables(connection, {table for _, table in times})
            for (step, table), time in sorted(times.items()):  # in one order, so that two of these cannot deadlock
                known = [outputs[step]] if step in outputs else _outputs_of(connection, step)
                for filled in known or [UNKNOWN_OUTPUTS]:
                    self._raise(connection, step, filled, table, float(time))

        if times:
            self._database.write_retrying(raise_all)

    def _raise(self, connection: Connection, step: str, outputs: str, table: str, time: float) -> None:
        place = _newest_before(connection, table, first_millisecond_from(time))
        at = (place.record_offset, place.block_sequence, place.block_hash)
        raised = Position(step, table, time, *at, outputs=outputs)
        new = self._database.insert(_offset).values(**position_row(raised))
        # One statement compares and writes, so that a run that commits meanwhile is either seen or comes after it. The
        # run may be further than the time says: then its position stays. A NULL on the right makes this untrue.
        is_further = or_(_offset.c.block_sequence.is_(None), new.excluded.block_sequence > _offset.c.block_sequence)
        position = {
            name: case((is_further, new.excluded[name]), else_=_offset.c[name])
            for name in ("record_offset", "block_sequence", "block_hash")
        }
        is_later = or_(_offset.c.update_ts_offset.is_(None), _offset.c.update_ts_offset < new.excluded.update_ts_offset)
        connection.execute(
            new.on_conflict_do_update(
                index_elements=["transformation_id", "outputs", "input_table_name"],
                set_={"update_ts_offset": new.excluded.update_ts_offset, **position},
                where=is_later,
            )
        )

    def reset(
        self, step: str, table: str | None = None, inputs: Sequence[str] = (), outputs: str | None = None
    ) -> None:
        """Take back a step's position on one input or on all, so that its next run computes all keys.

        An input without a position has nothing to take back; if it is known as an input of the step it gets an empty
        one, which makes a pass over all keys that was cut off start over. Without `outputs` all steps of that name
        are meant.
        """
        mine = _rows_of(_offset, step, outputs)
        which = mine if table is None else mine & (_offset.c.input_table_name == table)
        first = Position(step, "", None, None, None, None, generation=1, outputs=outputs or UNKNOWN_OUTPUTS)
        # by the generation a batch in flight notices that its commit would swallow the reset
        taken_back = update(_offset).where(which).values(**place_columns(first), generation=_offset.c.generation + 1)
        covered = _rows_of(transform_meta, step, outputs) & transform_meta.c.is_success.is_(True)

        def reset_all(connection: Connection) -> None:
            if connection.execute(taken_back).rowcount == 0:
                unread = [name for name in inputs if table in (None, name)]
                if not unread:
                    _refuse_unread_input(connection, step, table, mine)
                for name in unread:
                    row = position_row(replace(first, input_table=name))
                    self._database.insert_if_absent(connection, _offset, row)
            # what limited runs have computed ahead is to be computed again, too
            connection.execute(delete(transform_meta).where(covered))

        self._database.write_retrying(reset_all)

    def adopt(self, adoption: Adoption) -> None:
        """Take over positions and keys for a step's outputs, unless it has positions of its own by now.

        Keys without a position are left from a first pass that was cut off before those who adopt had run: what is
        taken over is newer, and takes their place.
        """
        step, ours = adoption.step, adoption.to_outputs
        own = select(func.count()).select_from(_offset).where(_rows_of(_offset, step, ours))
        theirs = select(_offset).where(_rows_of(_offset, step, adoption.from_outputs)).with_for_update()

        def take_over(connection: Connection) -> None:
            connection.execute(theirs)  # of two who adopt at once, one waits here and finds its own below
            if connection.execute(own).scalar_one():
                return
            connection.execute(delete(transform_meta).where(_rows_of(transform_meta, step, ours)))
            for table in (_offset, transform_meta):
                _move_or_copy(connection, table, adoption)
            for position in adoption.lowered:
                which = _rows_of(_offset, step, ours) & (_offset.c.input_table_name == position.input_table)
                connection.execute(update(_offset).where(which).values(**place_columns(position)))

        self._database.write_retrying(take_over)

    def backlogs(self, step: str | None = None) -> list[Backlog]:
        """How far a step, or every step, is on its inputs and what is pending there, in one query.

        A step has a line for each input and for all outputs that it ever filled.
        """
        read_upto = func.coalesce(_offset.c.record_offset, -1)
        oldest_pending = (
            select(block.c.system_time)
            .where(block.c.table_name == _offset.c.input_table_name, block.c.last_offset > read_upto)
            .order_by(block.c.last_offset)
            .limit(1)
            .scalar_subquery()
        )
        pending = func.coalesce(table_head.c.last_offset, -1) - read_upto
        wanted = (
            select(
                _offset.c.transformation_id,
                _offset.c.outputs,
                _offset.c.input_table_name,
                _offset.c.update_ts_offset,
                _offset.c.record_offset,
                pending.label("pending"),
                oldest_pending.label("oldest_pending"),
            )
            .join(table_head, table_head.c.table_name == _offset.c.input_table_name, isouter=True)
            .order_by(_offset.c.transformation_id, _offset.c.input_table_name)
        )
        if step is not None:
            wanted = wanted.where(_offset.c.transformation_id == step)
        with self._database.read() as connection:
            return [
                Backlog(
                    step=row.transformation_id,
                    input_table=row.input_table_name,
                    update_ts=row.update_ts_offset,
                    record_offset=row.record_offset,
                    pending_records=max(0, row.pending),
                    oldest_pending_at=None if row.oldest_pending is None else row.oldest_pending / 1000,
                    outputs=row.outputs,
                )
                for row in connection.execute(wanted)
            ]


def _require_tables(connection: Connection, tables: set[str]) -> None:
    known = sorted(connection.execute(select(table_head.c.table_name)).scalars())
    for name in sorted(tables.difference(known)):
        raise UnknownTable(name, known)


def _newest_before(connection: Connection, table: str, millis: int) -> _Place:
    """The end of the newest commit of a table whose system time is less than `millis`."""
    mine = block.c.table_name == table
    newest = (
        select(block.c.sequence, block.c.hash)
        .where(mine, block.c.system_time < millis)
        .order_by(block.c.system_time.desc(), block.c.sequence.desc())
        .limit(1)
    )
    last_block = connection.execute(newest).one_or_none()
    if last_block is None:
        return _Place()
    # a block that only moves a watermark or the schema has no records; the last one is further back then
    with_data = select(block.c.last_offset).where(
        mine, block.c.sequence <= last_block.sequence, block.c.last_offset.is_not(None)
    )
    record = connection.execute(with_data.order_by(block.c.sequence.desc()).limit(1)).scalar_one_or_none()
    return _Place(record, last_block.sequence, last_block.hash)


def _rows_of(table: Table, step: str, outputs: str | None) -> ColumnElement[bool]:
    mine = table.c.transformation_id == step
    return mine if outputs is None else mine & (table.c.outputs == outputs)


def _move_or_copy(connection: Connection, table: Table, adoption: Adoption) -> None:
    theirs = _rows_of(table, adoption.step, adoption.from_outputs)
    if adoption.from_outputs == UNKNOWN_OUTPUTS:
        connection.execute(update(table).where(theirs).values(outputs=adoption.to_outputs))
    else:  # the chain of an output that the step no longer fills still decides about those rows
        copied = [literal(adoption.to_outputs) if c is table.c.outputs else c for c in table.c]
        names = [column.name for column in table.c]
        connection.execute(insert(table).from_select(names, select(*copied).where(theirs)))


def _outputs_of(connection: Connection, step: str) -> list[str]:
    wanted = select(_offset.c.outputs).where(_offset.c.transformation_id == step).distinct()
    return sorted(connection.execute(wanted).scalars())


def _refuse_unread_input(connection: Connection, step: str, table: str | None, mine: ColumnElement[bool]) -> None:
    inputs = sorted(set(connection.execute(select(_offset.c.input_table_name).where(mine)).scalars()))
    if table is not None and inputs:
        raise OffsetError(
            f"step '{step}' has no position on table '{table}'. Nothing was reset.",
            hint=did_you_mean(table, inputs, f"Inputs that '{step}' has positions on"),
        )
