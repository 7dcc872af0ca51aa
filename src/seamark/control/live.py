"""Runs of steps that are at work: for people who watch, and for those that must not remove what the runs read."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, select, update

from seamark.control.engine.database import Database
from seamark.control.model import Lease, LiveRun, outputs_of_lease
from seamark.control.schema import lease as leases
from seamark.control.schema import live_run
from seamark.control.schema import run as runs
from seamark.errors import ControlUnavailable

log = logging.getLogger("seamark.control")

KILLED = "killed"
KILLED_TEXT = "the process ended without finishing: it was killed, or its machine went down."


class LiveRuns:
    """The runs at work in a control database. A run that committed nothing is there too, while it lasts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, begun: LiveRun) -> None:
        """Say that a run is at work and how far it reads; runs that died with the same lease are put on record."""
        row = {
            "run_id": begun.run_id,
            "step": begun.step,
            "lease_name": begun.lease.name,
            "epoch": begun.lease.epoch,
            "place": begun.lease.holder,
            "mode": begun.mode,
            "started": begun.started,
            "batch": begun.batch,
            "batches": begun.batches,
        }
        row["pins"] = json.dumps(begun.pins)

        def put(connection: Connection) -> None:
            for dead in connection.execute(select(live_run).where(live_run.c.lease_name == begun.lease.name)).all():
                self._put_on_record(connection, dead, KILLED, KILLED_TEXT)
            connection.execute(delete(live_run).where(live_run.c.lease_name == begun.lease.name))
            connection.execute(insert(live_run).values(**row))

        self._database.write_retrying(put)

    def _put_on_record(
        self, connection: Connection, dead: Row[Any], outcome: str, error: str, ended: float | None = None
    ) -> None:
        """Record how a run ended: over the row of its last commit, or as a row of its own if it made none."""
        values = {"step": dead.step, "mode": dead.mode, "started": dead.started, "pins": dead.pins, "ended": ended}
        values["outputs"] = outputs_of_lease(dead.lease_name)
        end = {"outcome": outcome, "error": error}
        statement = self._database.insert(runs).values(run_id=dead.run_id, **values, **end)
        connection.execute(statement.on_conflict_do_update(index_elements=["run_id"], set_=end))

    def stop(self, run_id: str, outcome: str, error: str, ended: float) -> None:
        """Put a run on record as ended before it was done, and list it as at work no longer."""
        ours = live_run.c.run_id == run_id

        def put(connection: Connection) -> None:
            for found in connection.execute(select(live_run).where(ours)).all():
                self._put_on_record(connection, found, outcome, error, ended)
            connection.execute(delete(live_run).where(ours))

        self._database.write_retrying(put)

    def move_pins(self, run_id: str, pins: Mapping[str, int | None]) -> None:
        """Say that a run reads further than it said."""
        self._update(run_id, pins=json.dumps(dict(pins)))

    def at_batch(self, run_id: str, batch: int, batches: int, mode: str) -> None:
        """Say which batch a run is at, of how many that are known."""
        self._update(run_id, batch=batch, batches=batches, mode=mode)

    def _update(self, run_id: str, **values: object) -> None:
        statement = update(live_run).where(live_run.c.run_id == run_id).values(**values)
        self._database.write_retrying(lambda connection: connection.execute(statement))

    def end(self, run_id: str) -> None:
        """Say that a run has ended, whatever came of it."""
        gone = delete(live_run).where(live_run.c.run_id == run_id)
        try:
            self._database.write_retrying(lambda connection: connection.execute(gone))
        except ControlUnavailable as error:  # how the run ended matters more; the next one of the step clears it away
            log.warning("run %s stays listed as at work for now: %s", run_id, error)

    def all(self) -> list[LiveRun]:
        """The runs that have not ended, oldest first; those that were killed are not alive."""
        held = and_(leases.c.name == live_run.c.lease_name, leases.c.epoch == live_run.c.epoch)
        wanted = select(live_run, leases.c.expires_at).join(leases, held, isouter=True).order_by(live_run.c.started)
        with self._database.read() as connection:
            now = self._database.now(connection)
            return [_live_run(row, now) for row in connection.execute(wanted)]


def _live_run(row: Row[Any], now: float) -> LiveRun:
    return LiveRun(
        run_id=row.run_id,
        step=row.step,
        lease=Lease(row.lease_name, row.place, row.epoch),
        mode=row.mode,
        started=row.started,
        pins=json.loads(row.pins),
        batch=row.batch,
        batches=row.batches,
        is_alive=row.expires_at is not None and row.expires_at > now,
    )
