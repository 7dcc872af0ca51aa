"""What time does to a diff: visits that grow too old leave the state, and old marks are forgotten.

Neither writes anything into the diff. The visits are found in the table that has them by their time, so that a look at
those that are due reads these, and not the state.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seamark.diffs.ageing.gone import Forgetting
from seamark.diffs.ageing.moments import EARLIEST, LATEST, as_moment, literal, scalar
from seamark.diffs.backlog import DiffBacklog
from seamark.diffs.compute.result import (
    CHANGES,
    MARKS,
    TIMES,
    changes_type,
    mark_record,
    mark_records,
    state_record,
    time_record,
)
from seamark.diffs.compute.visit_columns import NOW, gone, stored_side
from seamark.diffs.declare.spec import AT, EXPIRED, DiffSpec
from seamark.diffs.outcome import Outcome
from seamark.diffs.standing import as_frame, beside
from seamark.ledger import Op
from seamark.spark.frames import arrow_rows
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.rows.fetch import read_for, read_interval
from seamark.steps.rows.keys import keys_of
from seamark.steps.rows.scope import KeyFrame, KeyValues, Scope
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame, by_name, quoted
from seamark.tables.read.choice import KeyChoice
from seamark.tables.read.rows import read_images, rows_of
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.schema.ddl import UTC_MICROS

# A look goes at least this share of the time to live beyond the horizon, to see when the next visit will be due.
LEAST_AHEAD = 1024


@dataclass(frozen=True)
class Looked:
    """What a look found: what changes, and when the next one is needed.

    `parts` have the records of the visits that leave and of the marks that are forgotten. No visit that stays is older
    than `oldest`; `ahead` is how far the look went without finding one. `rows` are all visits by their time, where that
    table is made again.
    """

    parts: tuple[CheckedFrame, ...] = ()
    oldest: datetime | None = None
    ahead: timedelta | None = None
    rows: tuple[CheckedFrame, ...] | None = None


@dataclass(frozen=True)
class Expiry:
    """What is to leave the state in a run, and which marks are to be forgotten.

    `state`, `gone` and `times` are the last records of these tables before the run. Visits from before the horizon
    leave; none that has not failed is older than `since`. `failed` are the visits that are failed after the run:
    they stay.
    """

    context: TableContext
    spec: DiffSpec
    now: datetime
    state: int | None
    gone: int | None = None
    times: int | None = None
    is_due: bool = False
    rebuilds: bool = False
    since: datetime | None = None
    ahead: timedelta | None = None
    forgetting: Forgetting | None = None
    failed: tuple[str, ...] = ()

    @staticmethod
    def due(context: TableContext, spec: DiffSpec, backlog: DiffBacklog) -> Expiry:
        """What is to leave the state now."""
        times, before = backlog.times, backlog.now - spec.options.keep_gone
        rebuilds = spec.ttl is not None and not times.are_current and backlog.state_offset is not None
        return Expiry(
            context,
            spec,
            backlog.now,
            state=backlog.state_offset,
            gone=backlog.gone_offset,
            times=times.offset,
            is_due=backlog.expires,
            rebuilds=rebuilds,
            since=None if rebuilds else times.oldest,
            ahead=times.ahead,
            forgetting=Forgetting.due(spec, backlog.forgotten, backlog.gone_offset, before)
            if spec.loses_visits
            else None,
        )

    def details(self, looked: Looked, forgotten: int | None) -> dict[str, Any]:
        """What a checkpoint keeps: what it takes to look in the same way again, and where the next look continues."""
        forgetting = self.forgetting
        return {
            "now": self.now.isoformat(),
            "gone": self.gone,
            "times": self.times,
            "expires": self.is_due,
            "rebuilds": self.rebuilds,
            "since": _text(self.since),
            "looks_ahead": _seconds(self.ahead),
            "oldest": _text(looked.oldest),
            "ahead": _seconds(looked.ahead),
            "forgets": [forgetting.after, forgetting.upto, _text(forgetting.before)] if forgetting else None,
            "forgotten": forgetting.upto if forgetting else forgotten,
        }

    @staticmethod
    def then(context: TableContext, spec: DiffSpec, checkpoint: Checkpoint) -> Expiry:
        """What a commit looked for, from its checkpoint."""
        details = checkpoint.details
        now = _moment(details["now"])
        assert now is not None
        forgets, before = details["forgets"], None
        if forgets is not None:
            after, upto, text = forgets
            before = Forgetting(after, upto, datetime.fromisoformat(text))
        return Expiry(
            context,
            spec,
            now,
            state=details["state"],
            gone=details["gone"],
            times=details["times"],
            is_due=details["expires"],
            rebuilds=details["rebuilds"],
            since=_moment(details["since"]),
            ahead=timedelta(seconds=details["looks_ahead"]) if details["looks_ahead"] is not None else None,
            forgetting=before,
            failed=tuple(entry.key for entry in checkpoint.failed),
        )

    @property
    def horizon(self) -> datetime | None:
        """Visits from before it are too old."""
        return self.now - self.spec.ttl.span if self.spec.ttl else None

    def horizon_column(self) -> Column | None:
        """The same as a value of the time's column."""
        return literal(self.spec.ttl_type, self.horizon) if self.horizon is not None else None

    def now_column(self) -> Column:
        """The moment of the run."""
        return literal(UTC_MICROS, self.now)

    def look(self, outcome: Outcome, stack: ExitStack) -> Looked:
        """What time does, beside what the run's records have done."""
        if self.is_due or self.forgetting is not None:
            self.context.session()  # Spark's functions need one, and it may be that nobody has started it yet
        leaving, found = self._leaving(outcome, stack)
        parts = [part for part in (leaving, self._forgotten(outcome, leaving, stack)) if part is not None]
        moments = [moment for moment in (found.oldest, outcome.oldest) if moment is not None]
        return Looked(tuple(parts), min(moments, default=None), found.ahead, found.rows)

    # --- visits that leave --------------------------------------------------------------------------------------------

    def _leaving(self, outcome: Outcome, stack: ExitStack) -> tuple[CheckedFrame | None, Looked]:
        """The visits that leave as a part of the run, without those that its records have dealt with."""
        if not self.is_due or self.spec.ttl is None or self.horizon is None:
            return None, Looked(oldest=self.since, ahead=self.ahead)
        upto = self.horizon + self._how_far()
        entries = stack.enter_context(
            computed(self.context, SparkFrame(self._entries(upto)), self.spec.times_schema.arrow)
        )
        due, nearest = self._cut(entries)
        keys = self._free(due.select(self.spec.key_names), outcome)
        rows = None
        if self.rebuilds:
            staying = self._without(self._without(entries, outcome.touched), keys)
            rows = (staying, outcome.times)  # not the changes of times alone: a visit of the run may have kept its own
        found = Looked(oldest=nearest or upto, ahead=None if nearest else upto - self.horizon, rows=rows)
        if keys.is_known_empty:
            return None, found
        return self._part(self._left(keys), stack), found

    def _how_far(self) -> timedelta:
        """How far beyond the horizon to look: as far as the last look is away, and further if that was in vain."""
        assert self.spec.ttl is not None
        assert self.horizon is not None
        passed = self.horizon - self.since if self.since is not None else timedelta(0)
        wanted = max(passed, self.spec.ttl.span / LEAST_AHEAD, 2 * (self.ahead or timedelta(0)))
        return min(wanted, LATEST - self.horizon)

    def _entries(self, upto: datetime) -> DataFrame:
        """The visits by their time that may be due, and the next ones up to a moment; all, to make the table again."""
        assert self.spec.ttl is not None
        name = self.spec.ttl.column
        time = F.col(quoted(name))
        if self.rebuilds:
            rows = rows_of(snapshot_at(self.spec.state, self.state)).where(time.isNotNull())
        else:
            in_range = time < literal(self.spec.ttl_type, upto)
            if self.since is not None and self.since > EARLIEST:
                in_range = in_range & (time >= literal(self.spec.ttl_type, self.since))
            rows = read_images(self.spec.times, upto=self.times, choice=KeyChoice((name,), in_range))
        return rows.select(*map(quoted, self.spec.times_schema.names))

    def _cut(self, entries: CheckedFrame) -> tuple[CheckedFrame, datetime | None]:
        """The entries that are due, and the time of the next one."""
        assert self.spec.ttl is not None
        assert self.horizon is not None
        name, kind = self.spec.ttl.column, self.spec.ttl_type
        local = entries.in_memory
        if local is not None:
            is_due = pc.less(local.column(name), scalar(kind, self.horizon))
            later = local.filter(pc.invert(is_due)).column(name)
            return LocalFrame(local.filter(is_due)), as_moment(pc.min(later))
        frame, time, horizon = entries.to_spark(self.context.session), F.col(quoted(name)), literal(kind, self.horizon)
        later = arrow_rows(frame.where(time >= horizon).agg(F.min(time).alias("next")))
        return SparkFrame(frame.where(time < horizon)), as_moment(later.column("next")[0])

    def _left(self, keys: CheckedFrame) -> DataFrame:
        """The rows of the state that leave, and beside them the marks that their visits have."""
        scope = _scope(self.spec, keys)
        frame = as_frame(self.spec.state, read_for(self.spec.state, scope, self.state))
        if self.gone is not None:
            marks = as_frame(self.spec.gone, read_for(self.spec.gone, scope, self.gone))
            frame = beside(self.spec, frame, self.spec.gone, marks, gone, few=keys.in_memory is not None)
        return frame

    def _part(self, rows: DataFrame, stack: ExitStack) -> CheckedFrame:
        assert self.spec.ttl is not None
        spec, row, time = self.spec, stored_side(self.spec, lambda name: name), self.spec.ttl.column
        marks = mark_records(spec, row.fast.version, row.slow, F.lit(EXPIRED), has_mark=self.gone is not None)
        columns = {CHANGES: F.array(state_record(spec, Op.RETRACT, row)), MARKS: marks}
        if not self.rebuilds:
            columns[TIMES] = F.array(time_record(spec, Op.RETRACT, F.col(quoted(time))))
        return self._computed(rows.withColumn(NOW, self.now_column()), columns, stack)

    def _computed(self, rows: DataFrame, columns: dict[str, Column], stack: ExitStack) -> CheckedFrame:
        """A part of a run: visits, and what changes in its tables."""
        spec = self.spec
        schemas = {CHANGES: spec.state_schema, MARKS: spec.gone_schema}
        schemas |= {TIMES: spec.times_schema} if spec.ttl is not None else {}
        key = [pa.field(column.name, column.type) for column in spec.key]
        fields = [pa.field(name, changes_type(schemas[name].arrow)) for name in columns]
        frame = rows.select(*map(quoted, spec.key_names), *[value.alias(name) for name, value in columns.items()])
        return stack.enter_context(computed(self.context, SparkFrame(frame), pa.schema([*key, *fields])))

    # --- marks that are forgotten -------------------------------------------------------------------------------------

    def _forgotten(self, outcome: Outcome, leaving: CheckedFrame | None, stack: ExitStack) -> CheckedFrame | None:
        """The marks that are forgotten as a part of the run, without those that it writes itself."""
        if self.forgetting is None:
            return None
        keys = self._without(self._marked(self.forgetting), outcome.marked)
        if leaving is not None:
            keys = self._without(keys, leaving)
        if keys.is_known_empty:
            return None
        marks = as_frame(self.spec.gone, read_for(self.spec.gone, _scope(self.spec, keys), self.gone))
        old = marks.where(F.col(AT) < literal(UTC_MICROS, self.forgetting.before))
        return self._computed(old, {MARKS: F.array(mark_record(self.spec, Op.RETRACT))}, stack)

    def _marked(self, which: Forgetting) -> CheckedFrame:
        """The visits whose marks some records have written."""
        source, names = self.spec.gone, list(self.spec.key_names)
        blocks = self.context.control.index.slices(source.name, after=which.after, upto=which.upto)
        return read_interval(source, blocks, names).select(names).distinct()

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _free(self, keys: CheckedFrame, outcome: Outcome) -> CheckedFrame:
        """Keys without those of visits that the run's records have dealt with, and of those that are failed."""
        free = self._without(keys, outcome.touched)
        if not self.failed:
            return free
        return self._without(free, LocalFrame(keys_of(list(self.failed), self.spec.key_names, self.spec.key_types)))

    def _without(self, rows: CheckedFrame, others: CheckedFrame) -> CheckedFrame:
        """Rows without those that have the key of another one."""
        left = rows.anti_join(others, by_name(self.spec.key_names), self.context.session)
        # What is in memory stays there: others decide by that how to handle it.
        return left if rows.in_memory is None else LocalFrame(left.to_arrow(rows.in_memory.schema))


def _scope(spec: DiffSpec, keys: CheckedFrame) -> Scope:
    if keys.in_memory is not None:
        return KeyValues(keys.in_memory)
    return KeyFrame(spec.key_names, keys.to_spark(spec.state.context.session))


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _seconds(span: timedelta | None) -> float | None:
    return span.total_seconds() if span is not None else None
