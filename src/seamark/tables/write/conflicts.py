"""The one retry loop for commits: plan again when another writer was first, and reserve the tables if that repeats."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TypeVar

from seamark.control import Lease, write_lease_name
from seamark.errors import CommitConflict, LeaseHeld, LeaseLost, SeamarkError, StagedFilesGone
from seamark.tables.context import TableContext

T = TypeVar("T")

log = logging.getLogger("seamark.commit")

# After this many conflicts a writer reserves its tables: otherwise fast writers could starve a slow one.
CONFLICTS_BEFORE_RESERVING = 2
# After this many it gives up: a reserved table has no conflicts, unless leases expire or `gc` keeps removing its files.
# A lease keeps a second run of a step away, so that conflicts of runs are rare.
MOST_CONFLICTS = 5


def retry_on_conflict(
    attempt: Callable[[], T],
    conflicts: tuple[type[SeamarkError], ...],
    on_conflict: Callable[[SeamarkError, int], None],
) -> T:
    """What `attempt` returns once it meets no conflict; `on_conflict` is called with each conflict and its number."""
    for number in range(1, MOST_CONFLICTS):
        try:
            return attempt()
        except conflicts as error:
            on_conflict(error, number)
    return attempt()


def until_committed(context: TableContext, tables: Iterable[str], attempt: Callable[[tuple[Lease, ...]], T]) -> T:
    """What `attempt` returns once it meets no conflict; it is called with the leases that reserve its tables, if any.

    Waits for another writer that has reserved a table, up to the store's `write_wait`.
    """
    with ExitStack() as stack:
        reserved = _Reserved(context, tables, stack)
        conflicts = (CommitConflict, StagedFilesGone, LeaseLost)
        return retry_on_conflict(lambda: _when_free(reserved, attempt), conflicts, reserved.after_conflict)


def _when_free(reserved: _Reserved, attempt: Callable[[tuple[Lease, ...]], T]) -> T:
    """Call `attempt` once no other writer has its tables reserved."""
    while True:
        reserved.wait_for_others()
        try:
            return attempt(reserved.leases)
        except LeaseHeld:
            if reserved.leases:
                raise


class _Reserved:
    """The reservations of one writer: none at first, and after some conflicts all of its tables."""

    def __init__(self, context: TableContext, tables: Iterable[str], stack: ExitStack) -> None:
        self._leases = context.control.leases
        self._wait = context.write_wait
        # Every writer reserves in this order, so that two never deadlock.
        self._tables = sorted(tables)
        self._stack = stack
        self.leases: tuple[Lease, ...] = ()

    def wait_for_others(self) -> None:
        """Wait until nobody else has a table of ours reserved."""
        if not self.leases:
            for table in self._tables:
                self._leases.wait_until_free(write_lease_name(table), self._wait)

    def after_conflict(self, error: SeamarkError, number: int) -> None:
        """Reserve the tables, if there were conflicts enough. A lease that is lost and is none of ours ends it."""
        if isinstance(error, LeaseLost):
            if error.lease not in [lease.name for lease in self.leases]:
                raise error
            self._stack.close()
            self.leases = ()
        shown = "', '".join(self._tables)
        log.info("table '%s': somebody else was faster, so the write is planned again", shown)
        if number >= CONFLICTS_BEFORE_RESERVING and not self.leases:
            self.leases = tuple(self._reserve(table) for table in self._tables)

    def _reserve(self, table: str) -> Lease:
        return self._stack.enter_context(self._leases.held(write_lease_name(table), wait=self._wait))
