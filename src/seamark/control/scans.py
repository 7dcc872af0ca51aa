"""How far scans of views, and passes over their dictionaries, have come."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Row, delete, select

from seamark.control.engine.database import Database
from seamark.control.leases import require_lease
from seamark.control.model import Lease, Scan, ScanId, ScanKind
from seamark.control.schema import mv_scans


class Scans:
    """The cursors of scans. The pages of a scan move it in their own commits: see `Progress.scans`.

    No chain holds a cursor. One that is lost costs work and never rows: the scan begins again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, scan: ScanId) -> Scan | None:
        """How far a scan has come, or None if there is no such scan."""
        with self._database.read() as connection:
            row = connection.execute(select(mv_scans).where(_is(scan))).one_or_none()
        return None if row is None else _scan(row)

    def all(self, target: str | None = None) -> list[Scan]:
        """All scans, or those of one view, the one that began first before the others."""
        wanted = select(mv_scans).order_by(mv_scans.c.started_at, *mv_scans.primary_key)
        if target is not None:
            wanted = wanted.where(mv_scans.c.target_name == target)
        with self._database.read() as connection:
            return [_scan(row) for row in connection.execute(wanted)]

    def keep(self, lease: Lease, scan: Scan) -> None:
        """Write a scan over what stands of it; `LeaseLost` if it is no longer ours to run."""

        def put(connection: Connection) -> None:
            require_lease(connection, lease, self._database.now(connection))
            save_scans(self._database, connection, [scan])

        self._database.write_retrying(put)

    def drop(self, lease: Lease, scan: ScanId) -> None:
        """Forget a scan, so that the next one begins at the first unit; `LeaseLost` if it is no longer ours to run."""

        def forget(connection: Connection) -> None:
            require_lease(connection, lease, self._database.now(connection))
            drop_scans(connection, [scan])

        self._database.write_retrying(forget)


def save_scans(database: Database, connection: Connection, scans: Sequence[Scan]) -> None:
    """Write scans over what stands of them, inside the caller's transaction."""
    for scan in scans:
        values = {
            "key_position": scan.position,
            "interval": scan.interval,
            "rows_done": scan.rows_done,
            "rate": scan.rate,
            "started_at": scan.started_at,
            "done_at": scan.done_at,
        }
        statement = database.insert(mv_scans).values(**_names(scan.id), **values)
        connection.execute(statement.on_conflict_do_update(index_elements=list(_names(scan.id)), set_=values))


def drop_scans(connection: Connection, scans: Sequence[ScanId]) -> None:
    """Forget scans, inside the caller's transaction."""
    for scan in scans:
        connection.execute(delete(mv_scans).where(_is(scan)))


def _names(scan: ScanId) -> dict[str, str]:
    return {
        "job_name": scan.job,
        "target_name": scan.target,
        "part": scan.part,
        "kind": scan.kind.value,
        "filter": scan.filter,
    }


def _is(scan: ScanId) -> ColumnElement[bool]:
    job, target, part, kind, its_filter = (mv_scans.c[name] == value for name, value in _names(scan).items())
    return job & target & part & kind & its_filter


def _scan(row: Row[tuple[object, ...]]) -> Scan:
    return Scan(
        ScanId(row.job_name, row.target_name, row.part, ScanKind(row.kind), row.filter),
        started_at=row.started_at,
        position=row.key_position,
        interval=row.interval,
        rows_done=row.rows_done,
        rate=row.rate,
        done_at=row.done_at,
    )
