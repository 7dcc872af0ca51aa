"""Trying a commit again when somebody else was first, until it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from seamark.control import Lease, write_lease_name
from seamark.errors import CommitConflict, LeaseHeld, StagedFilesGone
from seamark.tables.read.rows import TableSource

T = TypeVar("T")

log = logging.getLogger("seamark.commit")

# After this many conflicts a writer reserves the table, so that a slow one is not outrun for ever by quick ones.
CONFLICTS_BEFORE_RESERVING = 2
# After this many it ends: a reserved table has none, unless leases run out or staged files are taken away all the time.
MOST_CONFLICTS = 5


def until_committed(source: TableSource, attempt: Callable[[tuple[Lease, ...]], T]) -> T:
    """What `attempt` returns when nobody was faster; it gets the leases on the table that it may write with.

    Another writer who has reserved the table is waited for, up to the store's `write_wait`.
    """
    conflicts = 0
    with ExitStack() as reserved:
        leases: tuple[Lease, ...] = ()
        while True:
            _wait_for_others(source, leases)
            try:
                return attempt(leases)
            except LeaseHeld:
                if leases:
                    raise
            except (CommitConflict, StagedFilesGone):
                conflicts += 1
                if conflicts >= MOST_CONFLICTS:
                    raise
                log.info("table '%s': somebody else was faster, so the write is planned again", source.name)
                if conflicts >= CONFLICTS_BEFORE_RESERVING and not leases:
                    leases = (reserved.enter_context(_reserved(source)),)


@contextmanager
def _reserved(source: TableSource) -> Iterator[Lease]:
    context = source.context
    with context.control.leases.held(write_lease_name(source.name), wait=context.write_wait) as lease:
        yield lease


def _wait_for_others(source: TableSource, leases: tuple[Lease, ...]) -> None:
    if not leases:
        source.context.control.leases.wait_until_free(write_lease_name(source.name), source.context.write_wait)
