"""The one transaction in which new blocks, positions, failed keys and the run's record become true together."""

from __future__ import annotations

import threading
import uuid
from dataclasses import asdict, replace

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, OperationalError

from seamark import faults
from seamark.clock import to_millis
from seamark.control.engine.database import Database
from seamark.control.leases import require_lease
from seamark.control.model import (
    BlockEntry,
    CommitRequest,
    CoveredKey,
    FailedKey,
    Lease,
    Position,
    RunRecord,
    TableAppend,
    TableHead,
    indexed_key,
)
from seamark.control.scans import drop_scans, save_scans
from seamark.control.schema import block, lease, run, table_head, transform_input_offset, transform_meta
from seamark.control.staging import count_registered, forget
from seamark.errors import (
    CommitConflict,
    ControlError,
    ControlUnavailable,
    LeaseHeld,
    PositionConflict,
    StagedFilesGone,
)
from seamark.texts import MOST_LOGGED, storable

# Seconds before each try of a commit. A server that is started again is away for a second or two.
PAUSES_AFTER_A_LOST_ANSWER = (0.0, 0.0, 0.2, 1.0, 3.0)
_pause = threading.Event()  # never set: waiting on it is a pause


def write_lease_name(table: str) -> str:
    """The lease that keeps other writers off a table."""
    return f"write:{table}"


def commit(database: Database, request: CommitRequest) -> None:
    """Make a request true, all of it or nothing.

    Raises `CommitConflict` if a head moved, `PositionConflict` if a position was reset, `LeaseLost` if one of its
    leases is no longer held, `LeaseHeld` if another writer has reserved a table, `StagedFilesGone` if files were
    collected. If the database's answer is lost on the way, finds out whether the commit was made before it answers.
    """
    token = str(uuid.uuid4())
    lost: Exception | None = None
    for pause in PAUSES_AFTER_A_LOST_ANSWER:
        _pause.wait(pause)
        try:
            return _look_and_commit(database, request, token, answer_was_lost=lost is not None)
        except (ControlUnavailable, DBAPIError) as error:
            if lost is None and not _answer_was_lost(error):
                raise
            lost = error
    raise ControlUnavailable(
        f"the connection to {database.shown_url} was lost during a commit and did not come back; "
        "whether the commit was made is not known. If it was, it is complete.",
        hint="check the database and the network, look at the table's head, then run again.",
    ) from lost


def _look_and_commit(database: Database, request: CommitRequest, token: str, *, answer_was_lost: bool) -> None:
    if answer_was_lost and _stands(database, request.run.run_id, token):
        return
    try:
        database.write_retrying(lambda connection: _commit(database, connection, request, token))
    except ControlUnavailable:
        raise
    except ControlError:
        # An earlier try of ours may have got through after all: then what is in our way is our own commit.
        if not (answer_was_lost and _stands(database, request.run.run_id, token)):
            raise


def _commit(database: Database, connection: Connection, request: CommitRequest, token: str) -> None:
    now = database.now(connection)
    # Rows are locked in one order by everybody, so that nobody waits in a circle.
    for held in sorted(request.leases, key=lambda held: held.name):
        require_lease(connection, held, now)
    for append in sorted(request.appends, key=lambda a: a.table):
        _require_unreserved(connection, append.table, request.leases, now)
        _swap_head(database, connection, append)
    _require_staged(connection, request)
    for append in request.appends:
        _insert_blocks(connection, append)
    for position in request.positions:
        _move_position(database, connection, replace(position, outputs=request.outputs))
    _record_keys(database, connection, request)
    save_scans(database, connection, request.scans)
    drop_scans(connection, request.dropped_scans)
    forget(connection, request.run.run_id, request.staged)
    save_run(database, connection, replace(request.run, outputs=request.outputs or request.run.outputs), token)
    faults.reached("in-transaction")


def _require_unreserved(connection: Connection, table: str, ours: tuple[Lease, ...], now: float) -> None:
    name = write_lease_name(table)
    row = connection.execute(select(lease).where(lease.c.name == name)).one_or_none()
    if row is None or row.expires_at <= now:
        return
    if any(held.name == name and held.epoch == row.epoch for held in ours):
        return
    raise LeaseHeld(f"table '{table}' is reserved by {row.holder}. Nothing was written.", hint="wait and try again.")


def _swap_head(database: Database, connection: Connection, append: TableAppend) -> None:
    """Compare and swap: the head must still be the one that was planned on."""
    values = head_row(append.new_head)
    if append.planned_head is None:
        if database.insert_if_absent(connection, table_head, values):
            return
    else:
        planned = (table_head.c.table_name == append.table) & (table_head.c.head_hash == append.planned_head)
        if connection.execute(update(table_head).where(planned).values(**values)).rowcount == 1:
            return
    found = select(table_head.c.head_hash).where(table_head.c.table_name == append.table)
    raise CommitConflict(append.table, append.planned_head, connection.execute(found).scalar_one_or_none())


def head_row(head: TableHead) -> dict[str, object]:
    """A head as a row of `table_head`."""
    row = asdict(head)
    row["table_name"] = row.pop("table")
    row["system_time"] = to_millis(head.system_time)
    return row


def _require_staged(connection: Connection, request: CommitRequest) -> None:
    standing = count_registered(connection, request.run.run_id, request.staged)
    if standing != len(request.staged):
        raise StagedFilesGone(
            f"run {request.run.run_id} staged {len(request.staged)} files, of which {standing} are still registered. "
            "Nothing of this commit was written.",
            hint="run again; the clock may have jumped, so that `seamark gc` took the run for dead.",
        )


def block_row(table: str, entry: BlockEntry) -> dict[str, object]:
    """A block as a row of the index."""
    row = asdict(entry)
    row["table_name"] = table
    row["system_time"] = to_millis(entry.system_time)
    return row


def _insert_blocks(connection: Connection, append: TableAppend) -> None:
    connection.execute(insert(block), [block_row(append.table, entry) for entry in append.blocks])


def _move_position(database: Database, connection: Connection, new: Position) -> None:
    """Replace a position as a whole when the new one is further on, for NULL and ties too: the documents' GREATEST."""
    offsets = transform_input_offset
    which = (offsets.c.transformation_id == new.step) & (offsets.c.outputs == new.outputs)
    which &= offsets.c.input_table_name == new.input_table
    row = connection.execute(select(offsets).where(which).with_for_update()).one_or_none()
    standing_generation = 0 if row is None else row.generation
    if standing_generation != new.generation:
        raise PositionConflict(
            f"the position of step '{new.step}' on '{new.input_table}' was reset while a batch was in flight. "
            "Nothing of this batch was written.",
            hint="the next run computes all keys again.",
        )
    if row is None:
        if not database.insert_if_absent(connection, offsets, position_row(new)):
            # somebody made the row in between: now it can be compared with
            _move_position(database, connection, new)
    elif row.block_sequence is None or (new.block_sequence or 0) > row.block_sequence:
        connection.execute(update(offsets).where(which).values(**place_columns(new)))


def position_row(position: Position) -> dict[str, object]:
    """A position as a row of `transform_input_offset`."""
    return {
        "transformation_id": position.step,
        "outputs": position.outputs,
        "input_table_name": position.input_table,
        "generation": position.generation,
        **place_columns(position),
    }


def place_columns(position: Position) -> dict[str, object]:
    """The columns of that row that a run moves: how far the input has been incorporated."""
    return {
        "update_ts_offset": position.update_ts,
        "record_offset": position.record_offset,
        "block_sequence": position.block_sequence,
        "block_hash": position.block_hash,
    }


def _record_keys(database: Database, connection: Connection, request: CommitRequest) -> None:
    for step, key in request.recovered:
        gone = (transform_meta.c.transformation_id == step) & (transform_meta.c.outputs == request.outputs)
        connection.execute(delete(transform_meta).where(gone, transform_meta.c.key == indexed_key(key)))
    for failed in request.failed:
        save_failed_key(database, connection, replace(failed, outputs=request.outputs))
    for covered in request.covered:
        _save_covered_key(database, connection, covered, request.outputs)


def save_failed_key(database: Database, connection: Connection, failed: FailedKey) -> None:
    """Write a failed key over what is recorded of it."""
    values = {**asdict(failed), **key_columns(failed.key), "error": storable(failed.error)}
    values["transformation_id"] = values.pop("step")
    statement = database.insert(transform_meta).values(is_success=False, **values)
    keys = ["transformation_id", "outputs", "key"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_={"is_success": False, **values}))


def _save_covered_key(database: Database, connection: Connection, covered: CoveredKey, outputs: str) -> None:
    values = {"process_ts": covered.process_ts, "read_at": covered.read_at, "is_success": True}
    values |= {"error": None, "attempts": 0, "retry_after": None}
    names = {"transformation_id": covered.step, "outputs": outputs, **key_columns(covered.key)}
    statement = database.insert(transform_meta).values(**names, **values)
    keys = ["transformation_id", "outputs", "key"]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values))


def key_columns(key: str) -> dict[str, str | None]:
    """A key as its row has it: what the index holds, and the whole of it if that is less."""
    short = indexed_key(key)
    return {"key": short, "whole_key": None if short == key else key}


def save_run(database: Database, connection: Connection, record: RunRecord, token: str | None) -> None:
    """Write a run's row, or update it after another commit of the same run."""
    error = None if record.error is None else storable(record.error, MOST_LOGGED)
    values = {**asdict(record), "error": error, "commit_token": token}
    statement = database.insert(run).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=["run_id"], set_=values))


def _answer_was_lost(error: Exception) -> bool:
    """Whether the connection broke, so that the error alone does not say what the database did."""
    cause = error if isinstance(error, DBAPIError) else error.__cause__
    return isinstance(cause, OperationalError | DBAPIError) and bool(cause.connection_invalidated)


def _stands(database: Database, run_id: str, token: str) -> bool:
    with database.read() as connection:
        found = connection.execute(select(run.c.commit_token).where(run.c.run_id == run_id)).scalar_one_or_none()
    return bool(found == token)
