"""Finding the keys that a function fails on: the scope is split until they stand alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.tables.computed import computed
from seamark.tables.context import TableContext
from seamark.tables.frames import CheckedFrame, LocalFrame, SparkFrame, quoted
from seamark.transforms.compute import KeyTrouble, Results, function_failed, to_spark
from seamark.transforms.fetch import OFFSET
from seamark.transforms.gather import Gathered, has_scope
from seamark.transforms.keys import comparable, distinct, key_texts
from seamark.transforms.scope import AllKeys, KeyRange, KeyValues, Scope

MOST_CALLS = 200

Call = Callable[[Gathered], list[CheckedFrame]]


def compute_isolating(
    gathered: Gathered, call: Call, context: TableContext, stack: ExitStack, *, fail_fast: bool
) -> Results:
    """What a function gives for a scope; the keys that it fails on are left out, each with its error.

    One call if nothing fails. With `fail_fast` the first failing key raises `FunctionFailed`.
    """
    results = Results.none(gathered.shape)
    if gathered.holds_no_key:
        return results
    try:
        results.add(call(gathered))
        return results
    except KeyTrouble as trouble:
        if not gathered.shape.keys:
            return _global_failure(gathered, trouble, results, fail_fast=fail_fast)
        first = trouble
    gathered = _at_hand_or_in_files(gathered, context, stack)
    keys = sorted_keys(gathered)
    if keys.num_rows == 0:
        raise first.cause
    _Search(gathered, keys, call, results, fail_fast=fail_fast).split(0, keys.num_rows, first)
    return results


def _global_failure(gathered: Gathered, trouble: KeyTrouble, results: Results, *, fail_fast: bool) -> Results:
    if fail_fast:
        raise function_failed(gathered.shape.step, "{}", trouble)
    results.failed.append((pa.table({"": pa.nulls(1)}).select([]), trouble.text))
    results.causes.append(trouble.cause)
    return results


def _at_hand_or_in_files(gathered: Gathered, context: TableContext, stack: ExitStack) -> Gathered:
    """The same rows, computed: every further call would compute them again."""
    frames: list[CheckedFrame] = []
    for source, frame in zip(gathered.shape.inputs, gathered.frames, strict=True):
        if isinstance(frame, SparkFrame):
            schema = pa.schema([pa.field(OFFSET, pa.int64()), *source.source.schema.arrow])
            ordered = SparkFrame(frame.frame.select(*[quoted(name) for name in schema.names]))
            frame = stack.enter_context(computed(context, ordered, schema))
        frames.append(frame)
    return Gathered(gathered.shape, gathered.scope, tuple(frames))


def sorted_keys(gathered: Gathered) -> pa.Table:
    """The keys of a scope that any input has rows for, in Spark's order."""
    scope, shape = gathered.scope, gathered.shape
    if isinstance(scope, KeyValues):
        return _sorted(scope.values)
    columns = list(scope.columns or shape.group)
    pieces: list[pa.Table] = []
    for source, frame in zip(shape.inputs, gathered.frames, strict=True):
        if not has_scope(shape, KeyRange(tuple(columns), None, None), source):
            continue
        if isinstance(frame, LocalFrame):
            pieces.append(frame.rows.select(columns))
        else:
            pieces.append(_distinct_in_spark(frame.frame, columns))
    if not pieces:
        return pa.table({})
    types = pa.schema([pa.field(name, shape.key_types[name]) for name in columns])
    return _sorted(distinct(pa.concat_tables([piece.cast(types) for piece in pieces])))


def _distinct_in_spark(frame: DataFrame, columns: list[str]) -> pa.Table:
    return frame.select(*[F.col(quoted(name)) for name in columns]).distinct().toArrow()


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
    calls: int = 0

    def split(self, begin: int, end: int, trouble: KeyTrouble) -> None:
        """Find the failing ones among keys of which at least one is known to fail."""
        if end - begin == 1 or self.calls >= MOST_CALLS:
            self._blame(begin, end, trouble)
            return
        half = (begin + end) // 2
        found = self._try(begin, half)
        if found is not None:
            self.split(begin, half, found)
            found = self._try(half, end)
        elif end - half > 1:
            found = trouble  # the first half is right, so the fault is in the second: no need to call to learn that
        else:
            found = self._try(half, end)
        if found is not None:
            self.split(half, end, found)

    def _blame(self, begin: int, end: int, trouble: KeyTrouble) -> None:
        """Record keys as failed: one, or those that are not yet apart when the calls are used up."""
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
        """Neighbours as a scope: by their values if the rows are at hand, by their bounds if Spark reads them."""
        if self.gathered.are_local:
            return KeyValues(self.keys.slice(begin, end - begin))
        after = None if begin == 0 else self._row(begin - 1)
        return KeyRange(tuple(self.keys.column_names), after, self._row(end - 1))

    def _row(self, place: int) -> tuple[object, ...]:
        return tuple(column[place].as_py() for column in self.keys.columns)


def count_keys(gathered: Gathered) -> int:
    """How many keys of a scope its inputs have rows for."""
    scope, shape = gathered.scope, gathered.shape
    if isinstance(scope, KeyValues) and not scope.columns:
        return 1
    if not shape.keys or (isinstance(scope, AllKeys) and not shape.group):
        return 1
    if shape.looked_up:
        return _count_looked_up(gathered)
    columns = list(shape.keys if shape.shares_all_keys else shape.group)
    pieces = [
        to_spark(source.source, frame) if isinstance(frame, SparkFrame) else frame.rows
        for source, frame in zip(shape.inputs, gathered.frames, strict=True)
        if not source.is_reference and set(columns) <= set(source.columns)
    ]
    if all(isinstance(piece, pa.Table) for piece in pieces):
        return distinct(pa.concat_tables([piece.select(columns) for piece in pieces])).num_rows
    session = shape.primary.source.context.session()
    frames = [session.createDataFrame(p) if isinstance(p, pa.Table) else p for p in pieces]
    names = [quoted(name) for name in columns]
    union = frames[0].select(*names)
    for frame in frames[1:]:
        union = union.unionByName(frame.select(*names))
    return union.distinct().count()


def _count_looked_up(gathered: Gathered) -> int:
    scope = gathered.scope
    return scope.values.num_rows if isinstance(scope, KeyValues) else 0
