"""How many keys a run would compute: counted where they are few, else estimated from the pending records."""

from __future__ import annotations

from dataclasses import replace

from seamark.control import Mode
from seamark.steps.running.run_config import RunConfig
from seamark.tables.context import TableContext
from seamark.tables.read.row_counts import count_rows
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import KeyEstimate
from seamark.transforms.partial import changed_idx_count, waiting_keys


def estimate_keys(context: TableContext, backlog: Backlog, mode: Mode) -> KeyEstimate:
    """How many keys a run in this mode would compute, without Spark."""
    keying, due = backlog.spec.keying, len(backlog.due)
    if mode.takes_no_keys:
        return KeyEstimate(0, is_exact=True)
    if not keying.group:
        return KeyEstimate(1, is_exact=True)
    if mode.takes_all_keys:
        return KeyEstimate(keying.every_key_at_most(backlog.read))
    if mode is Mode.DICTIONARY:
        return keying.estimate(backlog.deferred, backlog.read, lambda table: _rows(context, backlog, table))
    if not backlog.has_records:
        return KeyEstimate(due, is_exact=True)
    waiting = [entry for entry in backlog.waiting if entry.records > 0]
    if keying.are_counted_at_once(waiting, backlog.read):
        found = waiting_keys(context, backlog)
        if all(entry.keys.in_memory is not None for entry in found):
            return KeyEstimate(changed_idx_count(context, backlog, RunConfig()), is_exact=True)
    led_to = keying.estimate(waiting, backlog.read, lambda table: _rows(context, backlog, table))
    return replace(led_to, keys=due + led_to.keys)


def _rows(context: TableContext, backlog: Backlog, table: str) -> int:
    """How many rows an input has now."""
    head = backlog.heads.get(table)
    if head is None:
        return 0
    base = next(iter(context.control.index.bases(table)), None)
    return count_rows(context, head, base, keyed=bool(backlog.spec.sources[table].schema.key)).rows
