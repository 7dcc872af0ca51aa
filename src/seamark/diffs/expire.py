"""Visits that are too old for the state: they leave it, and write nothing into the diff."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.diffs import news
from seamark.diffs.declare import DiffSpec
from seamark.diffs.outcome import Outcome, as_moment
from seamark.diffs.situation import DiffSituation
from seamark.ledger import Op
from seamark.tables.context import TableContext
from seamark.tables.frames import quoted
from seamark.tables.read import all_of, read_rows


@dataclass(frozen=True)
class Expiry:
    """Whether visits are to leave the state, and which: those whose time lies before the horizon."""

    context: TableContext
    spec: DiffSpec
    state: int | None
    horizon: datetime | None = None
    is_due: bool = False
    oldest: datetime | None = None

    @staticmethod
    def due(context: TableContext, spec: DiffSpec, situation: DiffSituation) -> Expiry:
        """What is to leave the state now."""
        state, oldest = situation.state_offset, situation.oldest
        return Expiry(context, spec, state, situation.horizon, situation.expires, oldest)

    def leaving(self, outcome: Outcome) -> DataFrame | None:
        """The visits that leave as records of the state, without those that the run has dealt with; None if none do."""
        if not self.is_due or self.horizon is None:
            return None
        rows = read_rows(self.spec.state, upto=self.state)
        gone = rows.where(self._is_too_old(rows))
        touched = outcome.touched()
        if touched is not None:
            frame = touched.select(*[F.col(quoted(n)).alias(f"its {n}") for n in self.spec.key_names])
            same = [gone[quoted(name)] == frame[quoted(f"its {name}")] for name in self.spec.key_names]
            gone = gone.join(frame, all_of(same), "left_anti")
        return gone.select(F.lit(int(Op.RETRACT)).cast("int").alias("op"), *map(quoted, self.spec.state_schema.names))

    def _is_too_old(self, rows: DataFrame) -> Column:
        assert self.spec.ttl is not None
        assert self.horizon is not None
        return news.before(self.spec, rows[quoted(self.spec.ttl.column)], self.horizon)

    def oldest_after(self, outcome: Outcome) -> datetime | None:
        """The time of the oldest visit that stays, or an earlier one: when it has passed, the state is looked at."""
        if self.spec.ttl is None:
            return None
        known = self.oldest
        if self.is_due:
            rows = read_rows(self.spec.state, upto=self.state)
            staying = rows.where(~self._is_too_old(rows))
            known = as_moment(staying.agg(F.min(quoted(self.spec.ttl.column))).toArrow().column(0)[0].as_py())
        return min((moment for moment in (known, outcome.oldest) if moment is not None), default=None)
