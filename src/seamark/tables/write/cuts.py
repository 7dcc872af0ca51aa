"""Where a change is cut into slices: by records and by bytes of values, and never between two records of one key.

The cuts follow from the sorted records alone. So they are the same whether the records are in one table on the driver
or in many runs on the executors, however the input was partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from seamark.ledger import Op
from seamark.tables.ordering import Key

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.integer[Any]]]

NO_LIMIT = 1 << 62
BLOCK_ROWS = 500_000
BLOCK_BYTES = 256 << 20  # a text column of an Arrow table ends at 2 GiB, and a task holds a few copies of its slice

KeyAt: TypeAlias = Callable[[int], Key]
"""The key of record number n of a sorted run."""
TotalBefore: TypeAlias = Callable[[int], int]
"""What the records before number n of a run come to: their number, or the bytes of their values."""


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """How much one piece holds at the most, unless the records of a single key are more: rows and bytes of values."""

    rows: int = BLOCK_ROWS
    values: int = BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class CutPlan:
    """How a change is to be cut: slices of these numbers of records first, all others by the limit."""

    limit: SizeLimit = field(default_factory=SizeLimit)
    sizes: tuple[int, ...] = ()

    def limits(self) -> Iterator[SizeLimit]:
        """The limit of each slice, without end."""
        return chain((SizeLimit(size, NO_LIMIT) for size in self.sizes), repeat(self.limit))


def cut_table(ops: Numbers, values: Numbers, plan: CutPlan) -> Iterator[tuple[int, int]]:
    """First and last + 1 of each slice of sorted records, given the op and the bytes of values of each."""
    ends, count, begin = np.cumsum(values), len(ops), 0
    for limit in plan.limits():
        if begin >= count:
            return
        before = ends[begin - 1] if begin else 0
        end = min(begin + limit.rows, count, int(np.searchsorted(ends, before + limit.values, side="right")))
        if end < count and end > begin and ops[end - 1] == Op.CORRECT_FROM:
            end -= 1
        if end <= begin:  # one key has more than a slice holds
            end = min(begin + (2 if ops[begin] == Op.CORRECT_FROM else 1), count)
        yield begin, end
        begin = end


def cut_in_order(rows: Sequence[int], values: Sequence[TotalBefore], plan: CutPlan) -> list[list[int]]:
    """Where each slice begins in every run, when the runs simply follow one another; the last entry is the end."""
    starts = [0, *(int(n) for n in np.cumsum(rows))]
    bytes_before = [0]
    for count, before in zip(rows, values, strict=True):
        bytes_before.append(bytes_before[-1] + before(count))

    def total_before(number: int) -> int:
        run = min(int(np.searchsorted(starts, number, side="right")) - 1, len(rows) - 1)
        return bytes_before[run] + values[run](number - starts[run])

    bounds, begin = [[0] * len(rows)], 0
    for limit in plan.limits():
        if begin >= starts[-1]:
            return bounds
        low, high = begin + 1, min(begin + limit.rows, starts[-1])
        while low < high:  # the greatest end whose values fit
            middle = (low + high + 1) // 2
            fits = total_before(middle) - total_before(begin) <= limit.values
            low, high = (middle, high) if fits else (low, middle - 1)
        begin = low
        bounds.append([min(max(begin - start, 0), count) for start, count in zip(starts, rows, strict=False)])
    return bounds


def cut_sorted(
    rows: Sequence[int], keys: Sequence[KeyAt], values: Sequence[TotalBefore], plan: CutPlan
) -> list[list[int]]:
    """Where each slice begins in every run, when the runs are sorted and are to be merged; the last entry is the end.

    A cut falls between two keys, never inside one, so the two records of a correction stay together.
    """
    numbers: list[TotalBefore] = [lambda number: number] * len(rows)
    places = [0] * len(rows)
    bounds = [places]
    for limit in plan.limits():
        if places == list(rows):
            return bounds
        cut = _as_much_as_fits(rows, keys, numbers, places, limit.rows)
        places = _as_much_as_fits(cut, keys, values, places, limit.values)
        bounds.append(places)
    return bounds


def _as_much_as_fits(
    rows: Sequence[int], keys: Sequence[KeyAt], totals: Sequence[TotalBefore], places: Sequence[int], most: int
) -> list[int]:
    """How far, from some places on, the records of whole keys come to at most `most`; one key is always taken."""

    def total(upto: Sequence[int]) -> int:
        return sum(before(end) - before(start) for before, start, end in zip(totals, places, upto, strict=True))

    low, high = list(places), list(rows)
    if total(high) <= most:
        return high
    while True:
        widest = max(range(len(rows)), key=lambda r: high[r] - low[r])
        pivot = keys[widest]((low[widest] + high[widest]) // 2)
        below = [_lower(keys[r], pivot, low[r], high[r]) for r in range(len(rows))]
        upto = [_upper(keys[r], pivot, below[r], high[r]) for r in range(len(rows))]
        if total(below) > most:
            high = below
        elif total(upto) <= most:
            low = upto
        else:
            return below if below != list(places) else upto


def _lower(key: KeyAt, wanted: Key, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if key(middle) < wanted else (low, middle)
    return low


def _upper(key: KeyAt, wanted: Key, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wanted < key(middle) else (middle + 1, high)
    return low
