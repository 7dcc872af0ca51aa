"""Finding the keys that a function fails on: the scope is split until they are alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pyarrow as pa

from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import OFFSET
from seamark.steps.rows.keys import key_texts
from seamark.steps.rows.scope import KeyFrame, KeyRange, KeyValues, Scope
from seamark.steps.running.blame import KeyTrouble, function_failed
from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame, as_its, quoted, same_as_its
from seamark.tables.ordering import comparable, distinct
from seamark.tables.read.rows import read_images
from seamark.transforms.compute.call import Results
from seamark.transforms.compute.gather import Gathered, has_scope
from seamark.transforms.keys.candidates import all_keys

MOST_CALLS = 200

Call = Callable[[Gathered], list[CheckedFrame]]


def compute_isolating(
    gathered: Gathered,
    call: Call,
    context: TableContext,
    stack: ExitStack,
    *,
    fail_fast: bool,
    trouble: KeyTrouble | None = None,
) -> Results:
    """The results of a function for a scope; the keys that it fails on are left out, each with its error.

    One call if nothing fails. With `trouble`, the call for the whole scope has failed already and is not repeated. With
    `fail_fast` the first failing key raises `FunctionFailed`.
    """
    results = Results.none(gathered.shape)
    if gathered.holds_no_key:
        return results
    if trouble is None:
        try:
            results.add(call(gathered))
            return results
        except KeyTrouble as error:
            trouble = error
    if not gathered.shape.keys:
        return _global_failure(gathered, trouble, results, fail_fast=fail_fast)
    gathered = _in_memory_or_in_files(gathered, context, stack)
    keys = sorted_keys(gathered)
    if keys.num_rows == 0:
        raise trouble.cause
    _Search(gathered, keys, call, results, fail_fast=fail_fast).split(0, keys.num_rows, trouble)
    return results


def _global_failure(gathered: Gathered, trouble: KeyTrouble, results: Results, *, fail_fast: bool) -> Results:
    if fail_fast:
        raise function_failed(gathered.shape.step, "{}", trouble)
    results.failed.append((pa.table({"": pa.nulls(1)}).select([]), trouble.text))
    results.causes.append(trouble.cause)
    return results


def _in_memory_or_in_files(gathered: Gathered, context: TableContext, stack: ExitStack) -> Gathered:
    """The same rows, computed: every further call would compute them again."""
    if gathered.shape.looked_up:
        return gathered  # a part of the scope is read on its own
    frames: list[CheckedFrame] = []
    for source, frame in zip(gathered.shape.inputs, gathered.frames, strict=True):
        schema = pa.schema([pa.field(OFFSET, pa.int64()), *source.source.schema.arrow])
        frames.append(stack.enter_context(computed(context, frame.select(schema.names), schema)))
    return replace(gathered, frames=tuple(frames))


def sorted_keys(gathered: Gathered) -> pa.Table:
    """The keys of a scope that any input has rows for, in Spark's order."""
    scope, shape = gathered.scope, gathered.shape
    if isinstance(scope, KeyValues):
        return _sorted(scope.values)
    if shape.looked_up:
        return _sorted(_looked_up_keys(gathered))
    columns = list(scope.columns or shape.group)
    pieces: list[pa.Table] = []
    for source, frame in zip(shape.inputs, gathered.frames, strict=True):
        if not has_scope(shape, KeyRange(tuple(columns), None, None), source):
            continue
        pieces.append(frame.select(columns).distinct().to_arrow())
    if not pieces:
        return pa.table({})
    types = pa.schema([pa.field(name, shape.key_types[name]) for name in columns])
    return _sorted(distinct(pa.concat_tables([piece.cast(types) for piece in pieces])))


def _looked_up_keys(gathered: Gathered) -> pa.Table:
    """The keys of a scope that are found through references: those of the primary's rows, and the reference's own."""
    shape, scope = gathered.shape, gathered.scope
    keys = all_keys(shape, gathered.read)
    home = shape.home_reference(shape.looked_up[0])
    if set(shape.keys) <= set(home.columns):
        own = read_images(home.source, upto=gathered.read[home.table])
        keys = keys.unionByName(own.select(*[quoted(name) for name in shape.keys])).distinct()
    if isinstance(scope, KeyFrame):
        wanted = as_its(scope.frame, scope.columns)
        keys = keys.join(wanted, same_as_its(keys, wanted, scope.columns), "left_semi")
    types = pa.schema([pa.field(name, shape.key_types[name]) for name in shape.keys])
    return arrow_rows(keys).select(list(shape.keys)).cast(types)


def _sorted(keys: pa.Table) -> pa.Table:
    order = sorted(enumerate(comparable(keys)), key=lambda entry: entry[1])
    return keys.take(pa.array([place for place, _ in order], pa.int64()))


@dataclass
class _Search:
    """The search for failing keys among sorted ones; `begin` and `end` number neighbours, the latter not included."""

    gathered: Gathered
    keys: pa.Table
    call: Call
    results: Results
    fail_fast: bool = field(kw_only=True)
    calls: int = 1  # the one that failed is the first

    def split(self, begin: int, end: int, trouble: KeyTrouble, owed: int = 0) -> None:
        """Find the failing ones among keys of which at least one is known to fail.

        `owed` calls are kept for the second halves that still wait: a group that nobody looked into would be blamed.
        """
        if end - begin == 1 or self.calls + owed + 2 > MOST_CALLS:
            self._blame(begin, end, trouble)
            return
        half = (begin + end) // 2
        found = self._try(begin, half)
        if found is not None:
            self.split(begin, half, found, owed + 1)
            found = self._try(half, end)
        elif end - half > 1:
            found = trouble  # the first half works, so a failing key is in the second: no call needed to know
        else:
            found = self._try(half, end)
        if found is not None:
            self.split(half, end, found, owed)

    def _blame(self, begin: int, end: int, trouble: KeyTrouble) -> None:
        """Record keys as failed: one, or several that are not split yet when the calls are used up."""
        keys = self.keys.slice(begin, end - begin)
        if self.fail_fast:
            raise function_failed(self.gathered.shape.step, key_texts(keys)[0], trouble)
        self.results.failed.append((keys, trouble.text))
        self.results.causes.append(trouble.cause)

    def _try(self, begin: int, end: int) -> KeyTrouble | None:
        """Compute some keys: None if that went well."""
        self.calls += 1
        try:
            part = self.gathered.narrowed(self._part(begin, end))
            if not part.holds_no_key:
                self.results.add(self.call(part))
        except KeyTrouble as trouble:
            return trouble
        return None

    def _part(self, begin: int, end: int) -> Scope:
        """Neighbours as a scope: by their values if the rows are in memory, by their bounds if Spark reads them."""
        if self.gathered.are_local or self.gathered.shape.looked_up:
            return KeyValues(self.keys.slice(begin, end - begin))
        after = None if begin == 0 else self._row(begin - 1)
        return KeyRange(tuple(self.keys.column_names), after, self._row(end - 1))

    def _row(self, place: int) -> tuple[object, ...]:
        return tuple(column[place].as_py() for column in self.keys.columns)
