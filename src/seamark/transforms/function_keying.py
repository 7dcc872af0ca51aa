"""The keys of a function: columns of its inputs, found in them and through the references that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from seamark.errors import ComputeFailed
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.rows.scope import AllKeys, KeyRange, Scope
from seamark.steps.running.blame import KeyTrouble, blamed
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame
from seamark.tables.read.source import TableSource
from seamark.transforms.compute.call import asserted_scope, call, call_uncomputed, foreign_key_in
from seamark.transforms.compute.gather import Gathered, gather
from seamark.transforms.compute.isolate import compute_isolating
from seamark.transforms.compute.pandas_call import compute_pandas
from seamark.transforms.declare.shape import Shape
from seamark.transforms.keying import Changes, Found, GatheredRows, KeyEstimate, LoadedRows, Read, Results
from seamark.transforms.keys.counting import count_scope
from seamark.transforms.keys.every import all_keys, every_key_at_most, key_holders, keys_of_groups
from seamark.transforms.keys.led_to import are_counted_at_once, led_to
from seamark.transforms.keys.ranges import keys_per_range, ranges_of_all_keys
from seamark.transforms.keys.scopes import scope_of_commit
from seamark.transforms.keys.select import changed_keys


@dataclass(frozen=True)
class FunctionKeying:
    """The keys of a function, its inputs' rows for them, and its results.

    `batch_keys` is how many keys a range has; None is as many as fit.
    """

    shape: Shape
    function: Callable[..., Any]
    is_pandas: bool = False
    batch_keys: int | None = None

    # --- what it is made of -------------------------------------------------------------------------------------------

    @property
    def context(self) -> TableContext:
        """Where its tables are."""
        return self.shape.primary.source.context

    @property
    def step(self) -> str:
        """The step's name."""
        return self.shape.step

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that are read, each once, in declared order."""
        return self.shape.sources

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The tables that are written."""
        return self.shape.outputs

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which it is computed; none if all rows are one result."""
        return self.shape.keys

    @property
    def group(self) -> tuple[str, ...]:
        """The columns by which all keys are cut into ranges; none if there is one range only."""
        return self.shape.group

    @property
    def key_types(self) -> Mapping[str, pa.DataType]:
        """The types of the keys' columns."""
        return self.shape.key_types

    @property
    def kinds_of_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns that keys handed in may have: whole keys, groups, or what a change of an input leads to."""
        return (self.keys, self.group, *filter(None, (self.shape.group_of(source) for source in self.shape.plain)))

    @property
    def looks_back(self) -> bool:
        """Whether keys are found through references, as these were before and are now."""
        return bool(self.shape.looked_up)

    # --- from changes to keys -----------------------------------------------------------------------------------------

    def concerns_every_key(self, pending: Pending) -> bool:
        """Whether waiting records of an input concern every key."""
        inputs = [source for source in self.shape.inputs if source.table == pending.table]
        return bool(self.keys) and any(not self.shape.group_of(source) for source in inputs)

    def columns_needed(self, table: str) -> Sequence[str]:
        """The columns of an input by which its changes lead to keys."""
        needed: dict[str, None] = {}
        for source in (source for source in self.shape.inputs if source.table == table):
            if source.is_reference:
                needed.update(dict.fromkeys(theirs for _, theirs in source.join_keys))
                needed.update(dict.fromkeys(name for name in self.shape.looked_up if name in source.columns))
            elif self.shape.looked_up and source is self.shape.primary:
                needed.update(dict.fromkeys(source.columns))
            else:
                needed.update(dict.fromkeys(self.shape.group_of(source)))
        return list(needed)

    def changed_keys(self, changes: Sequence[Changes], read: Read, before: Read) -> Iterator[Found]:
        """The keys that changed records of the inputs lead to, input after input."""
        return changed_keys(self.shape, changes, read, before)

    def path_of(self, table: str) -> str:
        """How changes of an input lead to keys, for people."""
        source = next(source for source in self.shape.inputs if source.table == table)
        group = self.shape.group_of(source)
        if not self.keys:
            return "the one global result"
        if not group:
            return "every key"
        if self.shape.looked_up:
            return f"{', '.join(group)}, looked up before and now"
        if source.is_reference:
            pairs = ", ".join(f"{mine} = {theirs}" for mine, theirs in source.join_keys)
            return f"reverse join to {self.shape.primary.table} by {pairs}"
        if set(group) == set(self.keys):
            return f"its own {', '.join(group)}"
        return f"groups of {', '.join(group)}"

    # --- all keys -----------------------------------------------------------------------------------------------------

    def all_keys(self, read: Read) -> DataFrame:
        """Every key, or group of keys, that the inputs have."""
        return all_keys(self.shape, read)

    def keys_of_groups(self, groups: DataFrame, read: Read) -> DataFrame:
        """All keys of some groups."""
        return keys_of_groups(self.shape, groups, read)

    def ranges(self, read: Read) -> Sequence[KeyRange | AllKeys]:
        """Ranges that cover all keys there are, and all that there might be."""
        group = {name: self.key_types[name] for name in self.group}
        return ranges_of_all_keys(group, key_holders(self.shape), read, self.keys_per_range(read))

    def keys_per_range(self, read: Read) -> int:
        """About how many keys a range has."""
        return keys_per_range(key_holders(self.shape), read, self.batch_keys, by_python=self.is_pandas)

    def ranges_at_most(self, keys: int, read: Read) -> int:
        """About how many ranges so many keys are cut into."""
        return -(-keys // self.keys_per_range(read)) if key_holders(self.shape) else 1

    def every_key_at_most(self, read: Read) -> int:
        """How many keys the inputs have, at the most."""
        return every_key_at_most(self.shape, read)

    # --- how many -----------------------------------------------------------------------------------------------------

    def are_counted_at_once(self, waiting: Sequence[Pending], read: Read) -> bool:
        """Whether the keys that waiting records lead to can be counted from a few files."""
        return are_counted_at_once(self.shape, waiting, read)

    def estimate(self, waiting: Sequence[Pending], read: Read, rows_of: Callable[[str], int]) -> KeyEstimate:
        """How many keys waiting records lead to, without looking."""
        return led_to(self.shape, waiting, read, rows_of)

    def count(self, gathered: GatheredRows, read: Read) -> int:
        """How many keys were computed of gathered rows."""
        return count_scope(as_gathered(gathered), read)

    # --- rows and results ---------------------------------------------------------------------------------------------

    def scope_of(self, checkpoint: Checkpoint, stack: ExitStack) -> Scope | None:
        """The keys that a commit computed, from its checkpoint; None if it computed none."""
        return scope_of_commit(self, checkpoint, stack)

    def gather(self, scope: Scope, read: Read, loaded: Mapping[str, LoadedRows]) -> Gathered:
        """The rows of every input that belong to a scope."""
        return gather(self.shape, scope, read, loaded)

    def compute(
        self,
        gathered: GatheredRows,
        stack: ExitStack,
        *,
        fail_fast: bool,
        most_failed: int,
        trouble: KeyTrouble | None = None,
    ) -> Results:
        """What the function gives for gathered rows; failing keys are left out, each with its error."""
        rows = as_gathered(gathered)
        if self.is_pandas:
            return compute_pandas(
                rows, self.function, self.context, stack, fail_fast=fail_fast, most_failed=most_failed
            )

        def one_call(part: Gathered) -> list[CheckedFrame]:
            return call(self.shape, self.function, part, self.context, stack)

        return compute_isolating(self, rows, one_call, stack, fail_fast=fail_fast, trouble=trouble)

    def settle(self, gathered: GatheredRows, results: Results, read: Read, stack: ExitStack) -> tuple[Scope, Results]:
        """The scope and the results as they are: a key's rows are checked when they are computed."""
        return gathered.scope, results

    def compute_while_writing(self, gathered: GatheredRows) -> Sequence[CheckedFrame] | None:
        """What a function for Spark gives for a range of many rows, yet to be computed; None for others."""
        rows = as_gathered(gathered)
        if not isinstance(rows.scope, AllKeys | KeyRange) or rows.holds_no_key or rows.are_local or self.is_pandas:
            return None
        frames = call_uncomputed(self.shape, self.function, rows)
        pairs = zip(self.outputs, frames, strict=True)
        return [asserted_scope(self.shape, output, frame, rows.scope) for output, frame in pairs]

    def trouble_in(self, error: ComputeFailed) -> KeyTrouble:
        """The function's failure behind a failed write; raises the error if something else is behind it."""
        cause = error.__cause__ or error
        foreign = foreign_key_in(self.shape, cause)
        if foreign is not None:
            raise foreign from None
        trouble = blamed(cause)
        if not isinstance(trouble, KeyTrouble):
            raise error
        return trouble


def as_gathered(rows: GatheredRows) -> Gathered:
    """Rows that a function's keying has gathered itself."""
    assert isinstance(rows, Gathered)
    return rows
