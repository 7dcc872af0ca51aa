"""Trying a commit again when somebody else was first, until it is made."""

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

# After this many conflicts a writer reserves its tables, so that a slow one is not outrun for ever by quick ones.
CONFLICTS_BEFORE_RESERVING = 2
# After this many it ends: a reserved table has none, unless leases run out or staged files are taken away all the time.
# A lease keeps a second run of a step away, so that conflicts of runs are rare.
MOST_CONFLICTS = 5


def until_first(
    attempt: Callable[[], T],
    conflicts: tuple[type[SeamarkError], ...],
    on_conflict: Callable[[SeamarkError, int], None],
) -> T:
    """What `attempt` returns when nobody was faster; after each conflict `on_conflict` hears of it and its number."""
    for number in range(1, MOST_CONFLICTS):
        try:
            return attempt()
        except conflicts as error:
            on_conflict(error, number)
    return attempt()


def until_committed(context: TableContext, tables: Iterable[str], attempt: Callable[[tuple[Lease, ...]], T]) -> T:
    """What `attempt` returns when nobody was faster; it gets the leases on its tables that it may write with.

    Another writer who has reserved a table is waited for, up to the store's `write_wait`.
    """
    with ExitStack() as stack:
        reserved = _Reserved(context, tables, stack)
        conflicts = (CommitConflict, StagedFilesGone, LeaseLost)
        return until_first(lambda: _in_turn(reserved, attempt), conflicts, reserved.after_conflict)


def _in_turn(reserved: _Reserved, attempt: Callable[[tuple[Lease, ...]], T]) -> T:
    """What `attempt` returns when no other writer has its tables reserved."""
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
        # In one order for everybody, so that two writers never wait for each other.
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
