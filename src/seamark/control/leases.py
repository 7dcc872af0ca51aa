"""Leases: who may do something now, by the database's clock. The epoch distinguishes a holder from former ones."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from seamark.control.engine.database import Database
from seamark.control.model import Lease, LiveLease
from seamark.control.schema import lease as leases
from seamark.errors import LeaseHeld, LeaseLost, SeamarkError

log = logging.getLogger("seamark.control")

POLL_SECONDS = 0.1


def this_process() -> str:
    """This process as people can find it: host and number."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Leases:
    """The leases in a control database."""

    def __init__(self, database: Database, seconds: float = 30.0) -> None:
        self._database = database
        self.seconds = seconds
        self._ours: set[Lease] = set()  # those that `held` holds now

    def acquire(self, name: str, holder: str | None = None) -> Lease | None:
        """The lease, if nobody holds it now; None if somebody does. `holder` is who we are, else our process."""
        holder = holder or this_process()

        def take(connection: Connection) -> Lease | None:
            now = self._database.now(connection)
            row = connection.execute(select(leases).where(leases.c.name == name).with_for_update()).one_or_none()
            if row is None:
                return self._insert_new(connection, name, holder, now)
            if row.expires_at > now:
                return None
            values = {"holder": holder, "epoch": row.epoch + 1, "expires_at": now + self.seconds}
            connection.execute(update(leases).where(leases.c.name == name).values(**values))
            return Lease(name, holder, row.epoch + 1)

        return self._database.write_retrying(take)

    def _insert_new(self, connection: Connection, name: str, holder: str, now: float) -> Lease | None:
        row = {"name": name, "holder": holder, "epoch": 1, "expires_at": now + self.seconds}
        return Lease(name, holder, 1) if self._database.insert_if_absent(connection, leases, row) else None

    def renew(self, held: Lease) -> None:
        """Keep a lease for another term, or `LeaseLost` if it is no longer ours."""

        def prolong(connection: Connection) -> bool:
            now = self._database.now(connection)
            ours = (leases.c.name == held.name) & (leases.c.epoch == held.epoch) & (leases.c.expires_at > now)
            done = connection.execute(update(leases).where(ours).values(expires_at=now + self.seconds))
            return done.rowcount == 1

        if not self._database.write_retrying(prolong):
            text = f"the lease '{held.name}' ran out or was taken over."
            raise LeaseLost(text, hint="run again.", lease=held.name)

    def release(self, held: Lease) -> None:
        """Give a lease back, if it is still ours. Its epoch stays, so that it keeps growing."""

        def free(connection: Connection) -> None:
            ours = (leases.c.name == held.name) & (leases.c.epoch == held.epoch)
            connection.execute(update(leases).where(ours).values(expires_at=0.0))

        self._database.write_retrying(free)

    def holder(self, name: str) -> str | None:
        """Who holds a lease now, or None."""
        with self._database.read() as connection:
            now = self._database.now(connection)  # before the row: one that is renewed in between counts as held
            row = connection.execute(select(leases).where(leases.c.name == name)).one_or_none()
            return row.holder if row is not None and row.expires_at > now else None

    def live(self) -> list[LiveLease]:
        """The leases that are held now, by name."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            held = connection.execute(select(leases).where(leases.c.expires_at > now).order_by(leases.c.name))
            return [LiveLease(row.name, row.holder, row.expires_at - now) for row in held]

    def wait_until_free(self, name: str, wait: float) -> None:
        """Return when nobody holds the lease, or `LeaseHeld` after `wait` seconds."""
        waited = 0.0
        while (holder := self.holder(name)) is not None:
            if waited >= wait:
                raise _held(name, holder, wait)
            _pause.wait(POLL_SECONDS)
            waited += POLL_SECONDS

    @contextmanager
    def held(self, name: str, wait: float = 60.0, holder: str | None = None) -> Iterator[Lease]:
        """Hold a lease, renewed in the background, while the block runs; wait for it up to `wait` seconds before."""
        granted = self.acquire(name, holder)
        waited = 0.0
        while granted is None:
            if waited >= wait:
                raise _held(name, self.holder(name) or "somebody", wait)
            _pause.wait(POLL_SECONDS)
            waited += POLL_SECONDS
            granted = self.acquire(name, holder)
        lease = granted
        with Keeper(lambda: self.renew(lease), every=self.seconds / 3):
            self._ours.add(lease)
            try:
                yield lease
            finally:
                self._release_if_possible(lease)
                self._ours.discard(lease)

    def release_all(self) -> None:
        """Give back every lease that is held here, for a process that is about to end."""
        for lease in list(self._ours):
            self._release_if_possible(lease)

    def _release_if_possible(self, held: Lease) -> None:
        """Give a lease back. If that fails it ends by itself, and what was done under it remains done."""
        try:
            self.release(held)
        except SeamarkError as error:
            log.warning("the lease '%s' could not be given back and will run out: %s", held.name, error)


_pause = threading.Event()  # never set: waiting on it is a pause that other threads do not notice


def require_lease(connection: Connection, held: Lease, now: float) -> None:
    """Nothing if the lease is still ours by the database's clock, else `LeaseLost`; its row is locked meanwhile."""
    row = connection.execute(select(leases).where(leases.c.name == held.name).with_for_update()).one_or_none()
    if row is None or row.epoch != held.epoch or row.expires_at <= now:
        holder = row.holder if row is not None and row.epoch != held.epoch else "nobody"
        raise LeaseLost(
            f"the lease '{held.name}' (epoch {held.epoch}) is no longer ours: {holder} holds it now. "
            "Nothing of this commit was written.",
            hint="run again; what another run has done meanwhile is not done twice.",
            lease=held.name,
        )


def _held(name: str, holder: str, wait: float) -> LeaseHeld:
    what = "is already running" if name.startswith("step:") else "is reserved"
    return LeaseHeld(
        f"'{name}' {what}: {holder} holds its lease, and kept it for the {wait:g} s that were waited. "
        "Nothing was changed.",
        hint="wait for it to end; after a kill the lease is free again when its term is over.",
        lease=name,
    )


class Keeper:
    """Calls `renew` every so often in the background while its block runs.

    A database that is away for a moment is asked again the next time; a lease that is lost stays lost. Nothing is lost
    by either: what could not be kept alive is no longer ours, and the commit that needs it is refused.
    """

    def __init__(self, renew: Callable[[], None], every: float) -> None:
        self._renew = renew
        self._every = every
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="seamark-keeper", daemon=True)

    def _keep(self) -> None:
        while not self._done.wait(self._every):
            try:
                self._renew()
            except LeaseLost as error:
                log.warning("could not be kept alive: %s", error)
                return
            except (SeamarkError, SQLAlchemyError) as error:
                log.warning("could not be kept alive this time: %s", error)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
