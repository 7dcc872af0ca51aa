"""The control database: heads, positions, failed keys, runs, staged files, leases, and the commit. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seamark.clock import Clock, SystemClock
from seamark.control.commit import commit, save_run, write_lease_name
from seamark.control.engine.database import Database
from seamark.control.index import Index
from seamark.control.leases import Keeper, Leases
from seamark.control.live import LiveRuns
from seamark.control.mode import Mode
from seamark.control.model import (
    UNKNOWN_OUTPUTS,
    Adoption,
    BaseVersion,
    BlockEntry,
    CommitRequest,
    CoveredKey,
    FailedKey,
    Lease,
    LiveLease,
    LiveRun,
    Position,
    RunRecord,
    RunTotals,
    Scan,
    ScanId,
    ScanKind,
    TableAppend,
    TableHead,
    may_be_output,
    outputs_key,
    outputs_of_lease,
    step_lease_name,
)
from seamark.control.offsets import Backlog, Offsets
from seamark.control.rebuild import Restored, meanwhile_moved, restore
from seamark.control.scans import Scans
from seamark.control.sinks import SinkBacklog, SinkPosition, Sinks
from seamark.control.snapshot import Row, Snapshot, Snapshots
from seamark.control.staging import GRACE_SECONDS, Staging
from seamark.control.views import Views, ViewState

__all__ = [
    "GRACE_SECONDS",
    "UNKNOWN_OUTPUTS",
    "Adoption",
    "Backlog",
    "BaseVersion",
    "BlockEntry",
    "CommitRequest",
    "Control",
    "CoveredKey",
    "Database",
    "FailedKey",
    "Index",
    "Keeper",
    "Lease",
    "Leases",
    "LiveLease",
    "LiveRun",
    "LiveRuns",
    "Mode",
    "Offsets",
    "Position",
    "Restored",
    "Row",
    "RunRecord",
    "RunTotals",
    "Scan",
    "ScanId",
    "ScanKind",
    "Scans",
    "SinkBacklog",
    "SinkPosition",
    "Sinks",
    "Snapshot",
    "Snapshots",
    "Staging",
    "TableAppend",
    "TableHead",
    "ViewState",
    "Views",
    "may_be_output",
    "meanwhile_moved",
    "outputs_key",
    "outputs_of_lease",
    "step_lease_name",
    "write_lease_name",
]


class Control:
    """A control database with all that can be done with it."""

    def __init__(
        self, url: str, *, schema: str | None = None, clock: Clock | None = None, lease_seconds: float = 30.0
    ) -> None:
        self.database = Database(url, lease_seconds, schema)
        self.clock: Clock = clock or SystemClock()
        self.index = Index(self.database)
        self.leases = Leases(self.database, lease_seconds)
        self.live = LiveRuns(self.database)
        self.offsets = Offsets(self.database)
        self.scans = Scans(self.database)
        self.sinks = Sinks(self.database)
        self.snapshots = Snapshots(self.database)
        self.staging = Staging(self.database, self.clock)
        self.views = Views(self.database)

    def commit(self, request: CommitRequest) -> None:
        """Make a request true, all of it or nothing: see `seamark.control.commit`."""
        commit(self.database, request)

    def record_run(self, record: RunRecord) -> None:
        """Write the row of a run that committed nothing, such as one that failed."""
        self.database.write_retrying(lambda connection: save_run(self.database, connection, record, None))

    def restore(
        self,
        tables: list[Restored],
        positions: list[Position],
        failed: list[FailedKey],
        *,
        heads_before: Mapping[str, str],
        check: Callable[[], None],
    ) -> None:
        """Replace heads, index, bases, positions and failed keys by what the chains say, unless a head has moved."""
        restore(self.database, tables, positions, failed, heads_before=heads_before, check=check)

    def close(self) -> None:
        """Give back all connections."""
        self.database.close()
