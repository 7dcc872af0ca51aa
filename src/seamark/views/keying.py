"""The keys of a view: units, found through the joins of its SELECT, and the rows that the SELECT gives for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from seamark.control import Mode
from seamark.errors import ComputeFailed
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import PastCommit, read_at_commit
from seamark.steps.rows.fetch import read_for
from seamark.steps.rows.keys import columns_of, keys_of
from seamark.steps.rows.scope import AllKeys, KeyRange, KeyValues, Scope
from seamark.steps.running.blame import KeyTrouble, blamed
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, LocalFrame, by_name, union_of
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.read.source import TableSource
from seamark.transforms.compute.isolate import compute_isolating
from seamark.transforms.keying import (
    ChangedBlocks,
    Changes,
    Found,
    GatheredRows,
    KeyEstimate,
    LoadedRows,
    Read,
    Results,
)
from seamark.transforms.keys.ranges import keys_per_range, ranges_of_all_keys, rows_at_most
from seamark.transforms.keys.scopes import changes_taken, scope_of_commit
from seamark.views.passes.page import page_in
from seamark.views.passes.units import PageUnits
from seamark.views.paths.actions import Action, PathKind
from seamark.views.refresh.find import Finder
from seamark.views.refresh.gather import GatheredUnits, every_unit, gather_units
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.select import Selection
from seamark.views.refresh.settle import Settling
from seamark.views.refresh.units import PART, PartUnits, ViewUnits


@dataclass(frozen=True)
class ViewKeying:
    """The units of a view, the rows of its tables for them, and what its SELECT gives.

    `gives_each_key_once` says that no two rows can have one key, however the tables change. `why_all_rows` is why all
    rows are one unit though the view need not have been such a one.
    """

    step: str
    sources: Mapping[str, TableSource]
    output: TableSource
    units: ViewUnits
    gives_each_key_once: bool = False
    why_all_rows: str = ""
    batch_keys: int | None = None
    at: PastCommit | None = None  # the commit that is computed again, if it is one

    # --- what it is made of -------------------------------------------------------------------------------------------

    @property
    def context(self) -> TableContext:
        """Where its tables are."""
        return self.output.context

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The view's table."""
        return (self.output,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of its rows that hold their unit; none if all rows are one."""
        return self.units.keys

    @property
    def group(self) -> tuple[str, ...]:
        """The same: all of a unit is refreshed at once."""
        return self.units.keys

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The types of these columns."""
        return self.units.types

    @property
    def kinds_of_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns that units handed in have."""
        return (self.units.keys,)

    @property
    def looks_back(self) -> bool:
        """Whether units are looked for in versions since the last commit: groups and partitions are."""
        return any(not part.unit.is_owner for part in self.units.parts) and bool(self.units.keys)

    def tables(self, read: Read, before: Read) -> ViewTables:
        """Its tables at the positions of a run."""
        return ViewTables(self.sources, read, {**dict.fromkeys(self.sources), **before})

    # --- from changes to units ----------------------------------------------------------------------------------------

    def concerns_every_key(self, pending: Pending) -> bool:
        """Whether waiting records of a table concern every unit."""
        if not self.keys:
            return False
        at = dict.fromkeys(self.sources)
        change = ChangedBlocks(pending.table, tuple(pending.blocks))
        return Finder(self.units, self.tables(at, at)).concerns_every_unit(change)

    def columns_needed(self, table: str) -> Sequence[str]:
        """The columns of a table that the view uses."""
        used = {name for action in self._actions(table) for name in action.used}
        return [name for name in self.sources[table].schema.names if name in used]

    def changed_keys(self, changes: Sequence[Changes], read: Read, before: Read) -> Iterator[Found]:
        """The units that changed records of the tables lead to, table after table."""
        finder = Finder(self.units, self.tables(read, before), lambda part: self.standing_units(part.part.alias))
        return finder.changed_units(changes)

    def standing_units(self, part: str | None) -> CheckedFrame:
        """The units of the rows that stand, perhaps of one part only."""
        last = self.last_record
        if last is None:
            return LocalFrame(self.units.schema.empty_table())
        rows = read_for(self.output, AllKeys(), last, self.keys).select(self.keys)
        if part is None or PART not in self.keys:
            return rows
        its = LocalFrame(pa.table({PART: pa.array([part], self.key_types[PART])}))
        return rows.semi_join(its, by_name([PART]), self.context.session)

    def path_of(self, table: str) -> str:
        """The kinds of path that lead from a table's changes to units, for people."""
        if not self.keys:
            return f"all rows ({self.why_all_rows})" if self.why_all_rows else "all rows"
        shown = []
        for part in self.units.parts:
            for action in part.paths.actions:
                if action.table == table:
                    alias = part.part.source(action.source).alias
                    of = f"{part.part.alias}.{alias}" if len(self.units.parts) > 1 else alias
                    shown.append((of, str(action.kind)))
        if len({kind for _, kind in shown}) == 1:
            return shown[0][1]
        return ", ".join(f"{alias}: {kind}" for alias, kind in shown)

    def _actions(self, table: str) -> Iterator[Action]:
        for part in self.units.parts:
            yield from (action for action in part.paths.actions if action.table == table)

    # --- all units ----------------------------------------------------------------------------------------------------

    def all_keys(self, read: Read) -> DataFrame:
        """Every unit that the tables have; of groups also those that are gone and still have rows."""
        tables, session = self.tables(read, read), self.context.session
        found = [self.units.as_keys(part, every_unit(part, tables), session) for part in self.units.parts]
        if self.looks_back:
            found.append(self.standing_units(None))
        return union_of(found, session).distinct().to_spark(session)

    def keys_of_groups(self, groups: DataFrame, read: Read) -> DataFrame:
        """The units themselves."""
        return groups

    def ranges(self, read: Read) -> Sequence[KeyRange | AllKeys]:
        """Ranges that cover all units; one where the left-most rows do not hold them, or where keys may move."""
        holder = self._holder()
        if holder is None:
            return [AllKeys(self.keys)]
        part = self.units.parts[0]
        columns = dict(zip(part.leftmost_columns, (self.key_types[name] for name in part.columns), strict=True))
        found = ranges_of_all_keys(columns, [holder], read, keys_per_range([holder], read, self.batch_keys))
        names = dict(zip(part.columns, range(len(part.columns)), strict=True))
        return [_renamed(scope, self.keys, [names[key] for key in self.keys]) for scope in found]

    @property
    def has_ranges(self) -> bool:
        """Whether all units can be cut into ranges that are read by their bounds."""
        return self._holder() is not None

    def ranges_at_most(self, keys: int, read: Read) -> int:
        """About how many ranges so many units are cut into."""
        holder = self._holder()
        return 1 if holder is None else -(-keys // keys_per_range([holder], read, self.batch_keys))

    def _holder(self) -> TableSource | None:
        """The left-most table, if its rows hold the units and these lie in the key."""
        if self.units.are_hidden or not self.keys or not self.units.parts[0].are_of_leftmost:
            return None
        part = self.units.parts[0]
        if len(set(part.leftmost_columns)) < len(part.leftmost_columns):
            return None
        return self.leftmost_table(part)

    def every_key_at_most(self, read: Read) -> int:
        """How many units there are at the most: as many as left-most rows."""
        if not self.keys:
            return 1
        return sum(rows_at_most(source, read) for source in self._leftmost_tables())

    def leftmost_table(self, part: PartUnits) -> TableSource:
        """The left-most table of a part."""
        return self.sources[str(part.part.source(part.unit.leftmost).table)]

    def _leftmost_tables(self) -> list[TableSource]:
        return [self.leftmost_table(part) for part in self.units.parts]

    # --- how many -----------------------------------------------------------------------------------------------------

    def are_counted_at_once(self, waiting: Sequence[Pending], read: Read) -> bool:
        """Whether the units that waiting records lead to can be counted from the records alone."""
        actions = [action for entry in waiting for action in self._actions(entry.table)]
        straight = all(action.kind in (PathKind.SYNC, PathKind.TRANSFORM) and not action.literals for action in actions)
        return straight and all(part.unit.is_owner for part in self.units.parts)

    def estimate(self, waiting: Sequence[Pending], read: Read, rows_of: Callable[[str], int]) -> KeyEstimate:
        """About how many units waiting records lead to: for each hop as many more as there are rows to each."""
        total = 0
        for entry in waiting:
            for action in self._actions(entry.table):
                if action.kind is PathKind.EVERY_KEY:
                    return KeyEstimate(self.every_key_at_most(read))
                leftmost = sum(rows_of(source.name) for source in self._leftmost_tables())
                is_grab = action.kind is PathKind.GRAB
                for_each = max(1.0, leftmost / max(1, rows_of(entry.table))) if is_grab else 1.0
                total += round(entry.records * for_each)
        return KeyEstimate(total, is_estimate=True)

    def count(self, gathered: GatheredRows, read: Read) -> int:
        """How many units were computed."""
        rows = as_units(gathered)
        if not self.keys:
            return 1
        if isinstance(rows.scope, KeyValues):
            return int(rows.scope.values.num_rows)
        if len(rows.parts) == 1 and self.units.parts[0].unit.is_owner:
            known = self._rows_exactly(read) if isinstance(rows.scope, AllKeys) else None
            return rows.parts[0].frames[self.units.parts[0].unit.leftmost].count() if known is None else known
        return rows.unit_count()

    def _rows_exactly(self, read: Read) -> int | None:
        (source,) = self._leftmost_tables()
        return snapshot_at(source, read[source.name]).row_count

    # --- rows and results ---------------------------------------------------------------------------------------------

    def scope_of(self, checkpoint: Checkpoint, stack: ExitStack) -> Scope | None:
        """The units that a commit computed, from its checkpoint; None if it computed none."""
        page = page_in(checkpoint.details, self.key_types)
        if page is None or not self.keys:
            return scope_of_commit(self, checkpoint, stack)
        read = read_at_commit(checkpoint)
        before = {**dict.fromkeys(read), **(checkpoint.selected_at or {})}
        changes = None if checkpoint.mode is Mode.SCAN else changes_taken(self.context, checkpoint)
        return PageUnits(self, read, before, changes).scope(page, checkpoint.keys, stack)

    def gather(self, scope: Scope, read: Read, loaded: Mapping[str, LoadedRows]) -> GatheredUnits:
        """The rows of every table that the units of a scope are made of."""
        return gather_units(self.units, self.tables(read, read), scope)

    def compute(
        self,
        gathered: GatheredRows,
        stack: ExitStack,
        *,
        fail_fast: bool,
        most_failed: int,
        trouble: KeyTrouble | None = None,
    ) -> Results:
        """The rows that the SELECT gives; units that it fails on are left out, each with its error."""
        selection = Selection(self.units, self.output)

        def one_call(part: GatheredUnits) -> list[CheckedFrame]:
            return [selection.computed(part, stack)]

        return compute_isolating(self, as_units(gathered), one_call, stack, fail_fast=fail_fast, trouble=trouble)

    def compute_while_writing(self, gathered: GatheredRows) -> Sequence[CheckedFrame] | None:
        """The rows, yet to be computed, if they are many and none of them can have to be looked at before."""
        rows = as_units(gathered)
        many = isinstance(rows.scope, AllKeys | KeyRange) and not rows.holds_no_key and not rows.are_local
        if not many or not self.gives_each_key_once:
            return None
        return [Selection(self.units, self.output).uncomputed(rows)]

    def trouble_in(self, error: ComputeFailed) -> KeyTrouble:
        """The failure of the SELECT behind a failed write; raises the error if something else is behind it."""
        trouble = blamed(error.__cause__ or error)
        if not isinstance(trouble, KeyTrouble):
            raise error
        return trouble

    def settle(self, gathered: GatheredRows, results: Results, read: Read, stack: ExitStack) -> tuple[Scope, Results]:
        """The scope with units that had to be computed as well, and the rows without those of units that fail."""
        rows = as_units(gathered)
        if self.gives_each_key_once:
            return rows.scope, results

        def compute(units: pa.Table) -> Results:
            part = gather_units(self.units, rows.tables, KeyValues(units))
            return self.compute(part, stack, fail_fast=False, most_failed=units.num_rows)

        settling = Settling(self.units, self.output, self.last_record, compute, self._failed_before())
        return settling.settle(rows.scope, results)

    @property
    def last_record(self) -> int | None:
        """The last record of the view's table before the commit."""
        if self.at is not None:
            return self.at.last_before
        head = self.context.control.index.head(self.output.name)
        return None if head is None else head.last_offset

    def _failed_before(self) -> pa.Table:
        """Units that failed before; a commit of the past names those among them that it has computed."""
        entries = self.context.control.index.failed_keys(self.step) if self.at is None else ()
        texts = [entry.key for entry in entries if set(columns_of(entry.key)) == set(self.keys)]
        return keys_of(texts, self.keys, self.key_types) if self.keys else pa.table({})


def as_units(rows: GatheredRows) -> GatheredUnits:
    """Rows that a view's keying has gathered itself."""
    assert isinstance(rows, GatheredUnits)
    return rows


def _renamed(scope: KeyRange | AllKeys, keys: tuple[str, ...], places: Sequence[int]) -> KeyRange | AllKeys:
    """The same range under the names of the view's columns."""
    if isinstance(scope, AllKeys):
        return AllKeys(keys)
    bounds = [None if bound is None else tuple(bound[place] for place in places) for bound in (scope.after, scope.upto)]
    return KeyRange(keys, bounds[0], bounds[1])
