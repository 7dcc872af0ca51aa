"""How a run's work is cut into batches: pure decisions over pins, positions and the index of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seamark.steps.standing.pins import Pending, Taken

# With fewer pending records than this, going by changes is always fast enough; only with more may computing all keys
# be cheaper.
ALL_KEYS_FLOOR = 100_000
FIRST_RUN = "first run"


def cut_batches(pending: Sequence[Pending], batch_rows: int) -> list[tuple[Taken, ...]]:
    """The batches in which pending changes are taken: one if they are few enough, else input after input.

    A batch ends where a block ends, and holds more than `batch_rows` records only if one block does.
    """
    waiting = [entry for entry in pending if entry.records > 0]
    if sum(entry.records for entry in waiting) <= batch_rows:
        return [tuple(entry.whole() for entry in waiting)] if waiting else []
    batches: list[tuple[Taken, ...]] = []
    for entry in waiting:
        begin = 0
        while begin < len(entry.blocks):
            end = begin + 1
            while end < len(entry.blocks) and entry.upto_block(end + 1, begin).records <= batch_rows:
                end += 1
            batches.append((entry.upto_block(end, begin),))
            begin = end
    return batches


def all_keys_because(
    pending: Sequence[Pending], concerns_every_key: Callable[[Pending], bool], rows: int
) -> str | None:
    """Why a run must, or should, compute all keys; None if it should find keys by changes.

    `concerns_every_key` says whether waiting records of an input do; `rows` is how many rows all inputs have.
    """
    fresh = [entry.table for entry in pending if not entry.was_read]
    if fresh:
        never = all(entry.position is None for entry in pending)
        return FIRST_RUN if never else f"no position on {', '.join(fresh)}: it was reset or is a new input"
    changed = [entry for entry in pending if entry.records > 0]
    for entry in changed:
        if concerns_every_key(entry):
            return f"'{entry.table}' changed, which concerns every key"
    waiting = sum(entry.records for entry in changed)
    if waiting > max(rows, ALL_KEYS_FLOOR):
        return f"{waiting} records wait, more than the inputs have rows ({rows})"
    return None
