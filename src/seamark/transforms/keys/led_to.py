"""About how many keys waiting records of a function's inputs lead to, without looking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seamark.steps.standing.pins import Pending
from seamark.tables.ordering import comparable
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.small import fits_on_driver
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keying import KeyEstimate
from seamark.transforms.keys.every import every_key_at_most
from seamark.transforms.keys.ranges import rows_at_most

RowsOf = Callable[[str], int]
"""How many rows an input has now."""


def are_counted_at_once(shape: Shape, waiting: Sequence[Pending], read: Mapping[str, int | None]) -> bool:
    """Whether the keys can be counted from a few files: few records, and few rows where they must be joined."""
    is_small = fits_on_driver(sum(entry.records for entry in waiting))
    if shape.looked_up or not shape.shares_all_keys or not is_small:
        return False
    if not any(_is_joined(shape, entry.table) for entry in waiting):
        return True
    upto = read[shape.primary.table]
    if upto is None:
        return True
    rows = rows_at_most(shape.primary.source, read)
    return snapshot_at(shape.primary.source, upto).base is None and fits_on_driver(rows)


def led_to(shape: Shape, waiting: Sequence[Pending], read: Mapping[str, int | None], rows_of: RowsOf) -> KeyEstimate:
    """How many keys waiting records lead to: an upper bound where the inputs have them, else an estimate."""
    records = sum(entry.records for entry in waiting)
    if shape.shares_all_keys and not any(_is_joined(shape, entry.table) for entry in waiting):
        return KeyEstimate(records)
    keys = sum(_led_to_by(shape, entry, rows_of) for entry in waiting)
    return KeyEstimate(min(keys, every_key_at_most(shape, read) + records), is_estimate=True)


def _led_to_by(shape: Shape, entry: Pending, rows_of: RowsOf) -> int:
    """About how many keys the records of one input lead to.

    A value of a reference leads to as many keys as the primary has rows for each row of the reference; a record of
    another input to one.
    """
    total = 0
    for source in (source for source in shape.inputs if source.table == entry.table):
        if source.is_reference and not shape.looked_up:
            for_each = rows_of(shape.primary.table) / max(1, rows_of(source.table))
            total += max(1, round(_values(source, entry) * for_each))
        else:
            total += entry.records
    return total


def _values(reference: Input, entry: Pending) -> int:
    """How many values of a reference the waiting records are about; at the most, if they are many or large."""
    names = list(dict.fromkeys(name for _, name in reference.join_keys))
    images = read_small(reference.source, entry.blocks, names)
    return entry.records if images is None else len(set(comparable(images)))


def _is_joined(shape: Shape, table: str) -> bool:
    return bool(shape.looked_up) or any(i.is_reference for i in shape.inputs if i.table == table)
