"""Staged files: what a live run has written and not yet committed, so that nobody collects it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, delete, insert, select, text, update

from seamark.clock import Clock
from seamark.control.engine.database import Database
from seamark.control.leases import Keeper
from seamark.control.schema import block, staged
from seamark.errors import ControlUnavailable

log = logging.getLogger("seamark.control")

GRACE_SECONDS = 3600.0
SEEN_SECONDS = 60.0  # a run that lives says so more often than this
_NAMES_AT_ONCE = 1_000  # a statement has room for some ten thousand parameters
_ALIVE = ""  # the object name of the row that says "this run lives"
_NAMED_BY = {"blocks": block.c.hash, "data": block.c.slice_hash, "checkpoints": block.c.checkpoint_hash}


class Staging:
    """The registrations of staged files in a control database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @contextmanager
    def run(self, run_id: str) -> Iterator[None]:
        """Say that a run lives while the block runs; what it registered and did not commit is forgotten at its end."""
        self.register(run_id, [_ALIVE])
        with Keeper(lambda: self._touch(run_id), every=SEEN_SECONDS / 3):
            try:
                yield
            finally:
                self._forget_run(run_id)

    def _forget_run(self, run_id: str) -> None:
        gone = delete(staged).where(staged.c.run_id == run_id)
        try:
            self._database.write_retrying(lambda c: c.execute(gone))
        except ControlUnavailable as error:
            # What the run itself has to say matters more; the registrations lapse with the grace.
            log.warning("the files staged by run %s stay registered for now: %s", run_id, error)

    def register(self, run_id: str, objects: Iterable[str]) -> None:
        """Say that a run has written these files."""
        rows = [{"run_id": run_id, "object": name, "touched": self._now()} for name in objects]
        if rows:
            self._database.write_retrying(lambda c: c.execute(insert(staged), rows))

    def is_registered(self, run_id: str) -> bool:
        """Whether a run is registered as live; if not, `gc` took it for dead and may have removed its files."""
        alive = select(staged.c.run_id).where(staged.c.run_id == run_id, staged.c.object == _ALIVE)
        with self._database.read() as connection:
            return connection.execute(alive).first() is not None

    def revive(self, run_id: str) -> None:
        """Register a run as live again after `gc` took it for dead; what it staged before is no longer registered."""

        def replace_all(connection: Connection) -> None:
            connection.execute(delete(staged).where(staged.c.run_id == run_id))
            connection.execute(insert(staged).values(run_id=run_id, object=_ALIVE, touched=self._now()))

        self._database.write_retrying(replace_all)

    def live_runs(self) -> list[str]:
        """The runs that are writing now, by id."""
        alive = select(staged.c.run_id).where(staged.c.object == _ALIVE, staged.c.touched > self._now() - GRACE_SECONDS)
        with self._database.read() as connection:
            return list(connection.execute(alive.order_by(staged.c.run_id)).scalars())

    def writing_now(self) -> list[str]:
        """The runs that have said within the last minute that they live, by id: for people who look on."""
        alive = select(staged.c.run_id).where(staged.c.object == _ALIVE, staged.c.touched > self._now() - SEEN_SECONDS)
        with self._database.read() as connection:
            return list(connection.execute(alive.order_by(staged.c.run_id)).scalars())

    def _touch(self, run_id: str) -> None:
        touched = update(staged).where(staged.c.run_id == run_id).values(touched=self._now())
        self._database.write_retrying(lambda c: c.execute(touched))

    def collect(
        self, remove: Callable[[set[str], set[str]], None], candidates: Sequence[str] = (), *, dry_run: bool = False
    ) -> None:
        """Forget the registrations of dead runs, then call `remove` with the live runs and the objects to be kept.

        To be kept is what a live run has registered, and those candidates (`table/kind/name`) that a chain names by
        now: a commit takes back its registrations. All of it in one transaction that shuts out new registrations and
        commits: a file that `remove` takes away cannot be registered meanwhile, and one registered later is checked
        for existence before it is committed.
        """

        def forget_and_remove(connection: Connection) -> None:
            if not self._database.is_sqlite:
                connection.execute(text("LOCK TABLE staged IN EXCLUSIVE MODE"))
            is_dead = staged.c.touched <= self._now() - GRACE_SECONDS
            if not dry_run:
                connection.execute(delete(staged).where(is_dead))
            alive = connection.execute(select(staged.c.run_id, staged.c.object).where(~is_dead)).all()
            committed = _committed(connection, candidates)  # a statement of its own: it sees what ended before the lock
            remove({row.run_id for row in alive}, {row.object for row in alive} | committed)

        self._database.write_retrying(forget_and_remove)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _committed(connection: Connection, objects: Sequence[str]) -> set[str]:
    """Those of these objects (`table/kind/name`) that a chain names."""
    by_folder: dict[tuple[str, str], list[str]] = {}
    for path in objects:
        table, kind, name = path.split("/", 2)
        by_folder.setdefault((table, kind), []).append(name)
    found = set()
    for (table, kind), names in by_folder.items():
        for start in range(0, len(names), _NAMES_AT_ONCE):
            column = _NAMED_BY[kind]
            named = column.in_(names[start : start + _NAMES_AT_ONCE])
            rows = connection.execute(select(column).where(block.c.table_name == table, named)).scalars()
            found |= {f"{table}/{kind}/{name}" for name in rows}
    return found


def count_registered(connection: Connection, run_id: str, objects: tuple[str, ...]) -> int:
    """How many of these objects a run still has registered; nobody collects them until the transaction ends."""
    if not objects:
        return 0
    # FOR UPDATE: a plain SELECT would not wait for PostgreSQL's lock on the table, nor make the collector wait for us.
    ours = select(staged.c.object).where(staged.c.run_id == run_id).with_for_update()
    return len(set(objects).intersection(connection.execute(ours).scalars()))


def forget(connection: Connection, run_id: str, objects: tuple[str, ...]) -> None:
    """Take back the registration of objects that are now part of a chain."""
    for start in range(0, len(objects), _NAMES_AT_ONCE):
        some = staged.c.object.in_(objects[start : start + _NAMES_AT_ONCE])
        connection.execute(delete(staged).where(staged.c.run_id == run_id, some))
