"""Finding the keys that a function fails on: the scope is split until they are alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from seamark.steps.rows.keys import key_texts
from seamark.steps.rows.scope import KeyRange, KeyValues, Scope
from seamark.steps.running.blame import KeyTrouble, function_failed
from seamark.tables.frame import CheckedFrame
from seamark.transforms.keying import GatheredRows, Keying, Results

MOST_CALLS = 200

Rows = TypeVar("Rows", bound=GatheredRows)


def compute_isolating(
    keying: Keying,
    gathered: Rows,
    call: Callable[[Rows], Sequence[CheckedFrame]],
    stack: ExitStack,
    *,
    fail_fast: bool,
    trouble: KeyTrouble | None = None,
) -> Results:
    """The results of a function for a scope; the keys that it fails on are left out, each with its error.

    One call if nothing fails. With `trouble`, the call for the whole scope has failed already and is not repeated. With
    `fail_fast` the first failing key raises `FunctionFailed`.
    """
    results = Results.none(keying.outputs)
    if gathered.holds_no_key:
        return results
    if trouble is None:
        try:
            results.add(call(gathered))
            return results
        except KeyTrouble as error:
            trouble = error
    if not keying.keys:
        return _global_failure(keying.step, trouble, results, fail_fast=fail_fast)
    gathered = gathered.kept(keying.context, stack)
    keys = gathered.sorted_keys()
    if keys.num_rows == 0:
        raise trouble.cause
    _Search(keying.step, gathered, keys, call, results, fail_fast=fail_fast).split(0, keys.num_rows, trouble)
    return results


def _global_failure(step: str, trouble: KeyTrouble, results: Results, *, fail_fast: bool) -> Results:
    if fail_fast:
        raise function_failed(step, "{}", trouble)
    results.failed.append((pa.table({"": pa.nulls(1)}).select([]), trouble.text))
    results.causes.append(trouble.cause)
    return results


@dataclass
class _Search(Generic[Rows]):
    """The search for failing keys among sorted ones; `begin` and `end` number neighbours, the latter not included."""

    step: str
    gathered: Rows
    keys: pa.Table
    call: Callable[[Rows], Sequence[CheckedFrame]]
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
            raise function_failed(self.step, key_texts(keys)[0], trouble)
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
        if self.gathered.is_narrowed_by_values:
            return KeyValues(self.keys.slice(begin, end - begin))
        after = None if begin == 0 else self._row(begin - 1)
        return KeyRange(tuple(self.keys.column_names), after, self._row(end - 1))

    def _row(self, place: int) -> tuple[object, ...]:
        return tuple(column[place].as_py() for column in self.keys.columns)
