"""How many keys a run would compute: counted where that is cheap, else estimated from the pending records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.control import Mode
from seamark.steps.running.run_config import RunConfig
from seamark.steps.standing.pins import Pending
from seamark.tables.context import TableContext
from seamark.tables.ordering import comparable
from seamark.tables.read.local_slices import read_small
from seamark.tables.read.row_counts import count_rows
from seamark.tables.read.snapshot import snapshot_at
from seamark.tables.small import fits_on_driver
from seamark.transforms.backlog import Backlog
from seamark.transforms.declare.shape import Input, Shape
from seamark.transforms.keys.ranges import rows_at_most
from seamark.transforms.partial import changed_idx_count, waiting_keys


@dataclass(frozen=True, slots=True)
class KeyEstimate:
    """A number of keys: exact, an estimate, or, if neither, an upper bound."""

    keys: int
    is_exact: bool = False
    is_estimate: bool = False


def estimate_keys(context: TableContext, backlog: Backlog, mode: Mode) -> KeyEstimate:
    """How many keys a run in this mode would compute, without Spark."""
    shape, due = backlog.spec.shape, len(backlog.due)
    if mode.takes_no_keys:
        return KeyEstimate(0, is_exact=True)
    if not shape.group:
        return KeyEstimate(1, is_exact=True)
    every = _every_key(backlog)
    if mode.takes_all_keys:
        return KeyEstimate(every)
    if not backlog.has_records:
        return KeyEstimate(due, is_exact=True)
    waiting = [entry for entry in backlog.pending if entry.records > 0]
    if _are_counted_at_once(shape, backlog, waiting):
        found = waiting_keys(context, backlog)
        if all(entry.keys.in_memory is not None for entry in found):
            return KeyEstimate(changed_idx_count(context, backlog, RunConfig()), is_exact=True)
    if shape.shares_all_keys and not any(_is_joined(shape, entry.table) for entry in waiting):
        return KeyEstimate(due + sum(entry.records for entry in waiting))
    led_to = sum(_led_to(backlog, entry) for entry in waiting)
    return KeyEstimate(due + min(led_to, every + sum(entry.records for entry in waiting)), is_estimate=True)


def _are_counted_at_once(shape: Shape, backlog: Backlog, waiting: Sequence[Pending]) -> bool:
    """Whether the keys can be counted from a few files: few records, and few rows where they must be joined."""
    is_small = fits_on_driver(sum(entry.records for entry in waiting))
    if shape.looked_up or not shape.shares_all_keys or not is_small:
        return False
    if not any(_is_joined(shape, entry.table) for entry in waiting):
        return True
    upto = backlog.read[shape.primary.table]
    if upto is None:
        return True
    rows = rows_at_most(shape.primary, backlog.read)
    return snapshot_at(shape.primary.source, upto).base is None and fits_on_driver(rows)


def _led_to(backlog: Backlog, entry: Pending) -> int:
    """About how many keys the records of one input lead to.

    A value of a reference leads to as many keys as the primary has rows for each row of the reference; a record of
    another input to one.
    """
    shape = backlog.spec.shape
    total = 0
    for source in (source for source in shape.inputs if source.table == entry.table):
        if source.is_reference and not shape.looked_up:
            for_each = _rows(backlog, shape.primary) / max(1, _rows(backlog, source))
            total += max(1, round(_values(source, entry) * for_each))
        else:
            total += entry.records
    return total


def _rows(backlog: Backlog, source: Input) -> int:
    """How many rows an input has now."""
    head, table = backlog.heads.get(source.table), source.source
    if head is None:
        return 0
    base = next(iter(table.context.control.index.bases(source.table)), None)
    return count_rows(table.context, head, base, keyed=bool(table.schema.key)).rows


def _values(reference: Input, entry: Pending) -> int:
    """How many values of a reference the waiting records are about; at the most, if they are many or large."""
    names = list(dict.fromkeys(name for _, name in reference.join_keys))
    images = read_small(reference.source, entry.blocks, names)
    return entry.records if images is None else len(set(comparable(images)))


def _every_key(backlog: Backlog) -> int:
    """How many keys the inputs have, at the most."""
    shape = backlog.spec.shape
    holders = [i for i in shape.plain if set(shape.group) <= set(i.columns)] or [shape.primary]
    return sum(rows_at_most(source, backlog.read) for source in holders)


def _is_joined(shape: Shape, table: str) -> bool:
    return bool(shape.looked_up) or any(i.is_reference for i in shape.inputs if i.table == table)
