"""What is known of materialized views besides their chains: what was analysed, and which are paused."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select, update

from seamark.control.engine.database import Database
from seamark.control.schema import mv_views


@dataclass(frozen=True, slots=True)
class ViewState:
    """What was last analysed of a view, and since when it is paused; None if neither.

    `analysed_digest` stands for its model and the schemas of its inputs, `analysed_types` are what Spark found.
    """

    view: str
    analysed_digest: str | None = None
    analysed_types: str | None = None
    paused_since: float | None = None

    @property
    def is_paused(self) -> bool:
        """Whether it is left out of runs until somebody resumes it."""
        return self.paused_since is not None


class Views:
    """The states of views. No chain holds them: after a rebuild in a new database, nothing is paused or analysed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, view: str) -> ViewState:
        """The state of a view; of one that nobody has written about, that of a new one."""
        with self._database.read() as connection:
            row = connection.execute(select(mv_views).where(mv_views.c.view_name == view)).one_or_none()
        return ViewState(view) if row is None else ViewState(*row)

    def all(self) -> dict[str, ViewState]:
        """The states of all views that somebody has written about, by name, in one query."""
        with self._database.read() as connection:
            rows = connection.execute(select(mv_views).order_by(mv_views.c.view_name))
            return {row.view_name: ViewState(*row) for row in rows}

    def pause(self, view: str, at: float) -> None:
        """Leave a view out of runs from now on. One that is paused already stays so since when it was."""
        statement = self._database.insert(mv_views).values(view_name=view, paused_since=at)
        paused = statement.on_conflict_do_update(
            index_elements=[mv_views.c.view_name],
            set_={"paused_since": statement.excluded.paused_since},
            where=mv_views.c.paused_since.is_(None),
        )
        self._database.write_retrying(lambda connection: connection.execute(paused))

    def resume(self, view: str) -> None:
        """Let a view run again."""
        resumed = update(mv_views).where(mv_views.c.view_name == view).values(paused_since=None)
        self._database.write_retrying(lambda connection: connection.execute(resumed))

    def record_analysed(self, view: str, digest: str, types: str) -> None:
        """Remember what was analysed of a view, so that it need not be analysed again until that changes."""
        values = {"analysed_digest": digest, "analysed_types": types}
        statement = self._database.insert(mv_views).values(view_name=view, **values)
        recorded = statement.on_conflict_do_update(index_elements=[mv_views.c.view_name], set_=values)
        self._database.write_retrying(lambda connection: connection.execute(recorded))
