"""Which unit may give which key: NULL and doubled keys fail their units, and a key that moves is not doubled.

A unit that fails keeps the rows that it has. So these count as given by it, and whoever claims one of their keys fails
as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import functions as F

from seamark.errors import BadOutput
from seamark.steps.rows.fetch import read_for
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyValues, Scope
from seamark.tables.frame import CheckedFrame, LocalFrame, Session, SparkFrame, by_name, quoted, union_of
from seamark.tables.ordering import Key, comparable, distinct
from seamark.tables.read.source import TableSource
from seamark.transforms.keying import Results
from seamark.views.refresh.units import ViewUnits

Compute = Callable[[pa.Table], Results]
"""Gives the rows of listed units, and those of them that failed."""

MOST_SUSPECTS = 50_000  # rows with doubled or missing keys that are looked at; a run stops at far fewer failed units


@dataclass
class Settling:
    """Decides about the rows of one batch before they are written.

    `last` is the last record of the view's table. `failed_before` are units that failed in other batches: what they
    lacked may be there now.
    """

    units: ViewUnits
    output: TableSource
    last: int | None
    compute: Compute
    failed_before: pa.Table
    _failed: dict[Key, str] = field(default_factory=dict)
    _tables: dict[Key, pa.Table] = field(default_factory=dict)  # units by what compares equal
    _tried: set[Key] = field(default_factory=set)  # units of other batches: if they fail again, nothing has changed

    def settle(self, scope: Scope, results: Results) -> tuple[Scope, Results]:
        """The scope with the units that had to be computed as well, and the rows without those of failed units."""
        if self.units.are_hidden:
            scope = self._with_others(scope, results)
        rows = self._rows(results)
        self._fail_unfit(rows)
        if self.units.are_hidden:
            self._fail_claimed(rows, results)
        if self._failed:
            rows = self._without_failed(rows)
        for key, text in self._failed.items():
            if key not in self._tried:
                results.failed.append((self._tables[key], text))
                results.causes.append(BadOutput(text))
        results.outputs = [[rows]]
        return self._without_tried(scope), results

    def _rows(self, results: Results) -> CheckedFrame:
        pieces = results.outputs[0]
        return union_of(pieces, self._session) if pieces else LocalFrame(self.output.schema.arrow.empty_table())

    @property
    def _session(self) -> Session:
        return self.output.context.session

    # --- units of other batches ---------------------------------------------------------------------------------------

    def _with_others(self, scope: Scope, results: Results) -> Scope:
        """The scope with units that failed before, and with those under which a key stands that is given here now."""
        if isinstance(scope, AllKeys):
            return scope
        tried = _outside(scope, self.failed_before)
        if tried.num_rows:
            self._tried = set(comparable(tried))
            scope = self._join(scope, results, tried)
        while (holders := self._holders_outside(scope, self._rows(results))).num_rows:
            scope = self._join(scope, results, holders)
        return scope

    def _join(self, scope: Scope, results: Results, units: pa.Table) -> Scope:
        more = self.compute(units)
        results.outputs[0] += more.outputs[0]
        for (failed, text), cause in zip(more.failed, more.causes, strict=True):
            for place, key in enumerate(comparable(failed)):
                self._tables[key] = failed.slice(place, 1)
                if key in self._tried:
                    self._failed[key] = text
                else:
                    results.failed.append((failed.slice(place, 1), text))
                    results.causes.append(cause)
        if isinstance(scope, KeyFrame):
            return KeyFrame(scope.columns, scope.frame.unionByName(LocalFrame(units).to_spark(self._session)))
        assert isinstance(scope, KeyValues), "all units are one range where their keys may move"
        return KeyValues(
            distinct(pa.concat_tables([scope.values, units.select(scope.columns).cast(scope.values.schema)]))
        )

    def _holders_outside(self, scope: Scope, rows: CheckedFrame) -> pa.Table:
        """The units outside a scope under which keys stand that rows of the scope have."""
        standing = self._standing_with(rows.select(self.output.schema.key).distinct())
        held = standing.select(self.units.keys).distinct().to_arrow(self.units.schema)
        return _outside(scope, held)

    def _standing_with(self, keys: CheckedFrame) -> CheckedFrame:
        """The current rows of the view with these keys: their units and keys."""
        columns = [*dict.fromkeys([*self.units.keys, *self.output.schema.key])]
        local = keys.in_memory
        if self.last is None or keys.is_known_empty:
            return LocalFrame(self.output.schema.arrow.empty_table().select(columns))
        if local is not None:
            return read_for(self.output, KeyValues(local), self.last, columns).select(columns)
        scope = KeyFrame(tuple(keys.names), keys.to_spark(self._session))
        return read_for(self.output, scope, self.last, columns).select(columns)

    def _standing_of(self, units: pa.Table) -> CheckedFrame:
        """The current rows of some units: their units and keys."""
        columns = [*dict.fromkeys([*self.units.keys, *self.output.schema.key])]
        if self.last is None or units.num_rows == 0:
            return LocalFrame(self.output.schema.arrow.empty_table().select(columns))
        return read_for(self.output, KeyValues(units), self.last, columns).select(columns)

    # --- rows that fail -----------------------------------------------------------------------------------------------

    def _fail_unfit(self, rows: CheckedFrame) -> None:
        """Fail units with NULL where the table needs a value, and those that give a key that is given already."""
        for name in self.output.schema.required:
            wanted = "its key has no NULL" if name in self.output.schema.key else "the table needs a value there"
            missing = rows.where_null(name).select(self.units.keys)
            for unit in _each(_few(missing.distinct(), self.units.schema)):
                self._fail(unit, f"column '{name}' is NULL, and {wanted}")
        doubled = self._doubled(rows)
        by_key: defaultdict[Key, list[pa.Table]] = defaultdict(list)
        for row, key in zip(_each(doubled), comparable(doubled.select(self.output.schema.key)), strict=True):
            by_key[key].append(row)
        for same in by_key.values():
            self._fail_doubled(same)

    def _doubled(self, rows: CheckedFrame) -> pa.Table:
        """Of keys that several rows have, the units and keys of these rows."""
        key, columns = list(self.output.schema.key), [*dict.fromkeys([*self.units.keys, *self.output.schema.key])]
        schema = pa.schema([self.output.schema.arrow.field(name).with_nullable(True) for name in columns])
        local = rows.in_memory
        if local is not None:
            keys = comparable(local.select(key))
            counts = Counter(keys)
            return local.select(columns).filter(pa.array([counts[one] > 1 for one in keys], pa.bool_())).cast(schema)
        narrow = rows.select(columns)
        several = narrow.to_spark(self._session).groupBy(*map(quoted, key)).count().where(F.col("count") > 1)
        found = narrow.semi_join(SparkFrame(several.select(*map(quoted, key))), by_name(key), self._session)
        return found.first(MOST_SUSPECTS).to_arrow(schema)

    def _fail_doubled(self, rows: Sequence[pa.Table]) -> None:
        """Fail units that give one key several times; of several units all but the one that may keep it."""
        key, shown = rows[0].select(self.output.schema.key), self._shown(rows[0])
        if any(column.null_count for column in key.columns):
            return  # that is why they fail
        units = Counter(comparable(self._unit(row))[0] for row in rows)
        tables = {comparable(self._unit(row))[0]: self._unit(row) for row in rows}
        for unit, count in units.items():
            if count > 1:
                self._fail(tables[unit], f"{count} rows have the key {shown}")
        claimants = [unit for unit in units if unit not in self._failed]
        if len(claimants) < 2:
            return
        holders = set(comparable(self._standing_with(LocalFrame(key)).select(self.units.keys).to_arrow()))
        keeps = next((unit for unit in claimants if unit in holders), min(claimants))
        for unit in claimants:
            if unit != keeps:
                self._fail(tables[unit], f"the key {shown} is given by {self._named(tables[keeps])} as well")

    def _fail_claimed(self, rows: CheckedFrame, results: Results) -> None:
        """Fail units that give a key which a failed unit keeps, until nothing changes."""
        news = [*self._tables.values(), *(table for table, _ in results.failed if table.column_names)]
        while news:
            kept = self._standing_of(distinct(pa.concat_tables([one.cast(self.units.schema) for one in news])))
            claims = self._claims(rows, kept)
            news = []
            for row, holder in claims:
                unit = self._unit(row)
                if comparable(unit)[0] in self._failed or comparable(unit) == comparable(holder):
                    continue
                text = f"the key {self._shown(row)} is kept by {self._named(holder)}, which failed"
                self._fail(unit, text)
                news.append(unit)

    def _claims(self, rows: CheckedFrame, kept: CheckedFrame) -> list[tuple[pa.Table, pa.Table]]:
        """The rows of the batch with a key that is kept, and the unit that keeps it."""
        key = list(self.output.schema.key)
        held = kept.to_arrow()
        if held.num_rows == 0:
            return []
        holders = dict(zip(comparable(held.select(key)), _each(held.select(self.units.keys)), strict=True))
        columns = [*dict.fromkeys([*self.units.keys, *key])]
        mine = rows.select(columns).semi_join(LocalFrame(held.select(key)), by_name(key), self._session)
        local = mine.first(MOST_SUSPECTS).to_arrow()
        keys = comparable(local.select(key))
        return [(row, holders[one]) for row, one in zip(_each(local), keys, strict=True)]

    # --- small things -------------------------------------------------------------------------------------------------

    def _fail(self, unit: pa.Table, text: str) -> None:
        key = comparable(unit)[0] if unit.column_names else ()
        if key not in self._failed:
            self._failed[key] = text
            self._tables[key] = unit

    def _unit(self, row: pa.Table) -> pa.Table:
        return row.select(self.units.keys).cast(self.units.schema)

    def _shown(self, row: pa.Table) -> str:
        values = row.select(self.output.schema.key).to_pylist()[0]
        return ", ".join(f"{name}={value}" for name, value in values.items())

    def _named(self, unit: pa.Table) -> str:
        """A unit for people: the part where there are several, and what it is a unit by."""
        return self.units.shown(unit.to_pylist()[0])

    def _without_failed(self, rows: CheckedFrame) -> CheckedFrame:
        if not self.units.keys:
            return LocalFrame(self.output.schema.arrow.empty_table())
        failed = pa.concat_tables([self._tables[key].cast(self.units.schema) for key in self._failed])
        return rows.anti_join(LocalFrame(failed), by_name(self.units.keys), self._session)

    def _without_tried(self, scope: Scope) -> Scope:
        """The scope without units of other batches that failed again: nothing is known of them that was not."""
        again = [self._tables[key] for key in self._tried if key in self._failed]
        if not again:
            return scope
        left_out = LocalFrame(pa.concat_tables([one.cast(self.units.schema) for one in again]))
        if isinstance(scope, KeyValues):
            kept = LocalFrame(scope.values).anti_join(left_out, by_name(scope.columns), self._session)
            return KeyValues(kept.to_arrow())
        assert isinstance(scope, KeyFrame)
        kept = SparkFrame(scope.frame).anti_join(left_out, by_name(scope.columns), self._session)
        return KeyFrame(scope.columns, kept.to_spark(self._session))


def _each(rows: pa.Table) -> list[pa.Table]:
    return [rows.slice(place, 1) for place in range(rows.num_rows)]


def _few(rows: CheckedFrame, schema: pa.Schema) -> pa.Table:
    if not schema.names:  # all rows are one unit: only whether there is a row matters
        return schema.empty_table() if rows.is_empty() else pa.table({"": pa.nulls(1)}).select([])
    return rows.first(MOST_SUSPECTS).to_arrow(schema)


def _outside(scope: Scope, units: pa.Table) -> pa.Table:
    """Those of some units that do not belong to a scope."""
    if isinstance(scope, AllKeys) or units.num_rows == 0:
        return units.slice(0, 0)
    if isinstance(scope, KeyFrame):
        left = LocalFrame(units).anti_join(
            SparkFrame(scope.frame), by_name(scope.columns), lambda: scope.frame.sparkSession
        )
        return left.to_arrow(units.schema)
    held = scope.holds(units)
    return units.filter(pa.array([not one for one in held], pa.bool_()))
