"""What `failures` shows: the keys that could not be computed, why, the tries so far, and the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from seamark.control import FailedKey
from seamark.diffs.diff import Diff
from seamark.facts.steps import chosen_steps
from seamark.facts.values import part_of_key
from seamark.steps.rows.keys import key_texts
from seamark.store import DataStore
from seamark.texts import without_secrets
from seamark.transforms.step import Step


@dataclass(frozen=True, slots=True)
class FailedKeyLine:
    """A key that failed. `is_due`: the next run tries it again; else it does so from `next_try` on."""

    step: str
    key: Mapping[str, object]
    error: str
    attempts: int
    failed_at: datetime
    next_try: datetime | None
    is_due: bool


@dataclass(frozen=True, slots=True)
class FailedKeys:
    """The failed keys of some steps, and how many there are beside those that are listed."""

    failures: tuple[FailedKeyLine, ...]
    more: int


def list_failures(store: DataStore, step: str | None, key: Sequence[str], limit: int) -> FailedKeys:
    """The failed keys of one step or of all, of one step only those with given values; the newest first."""
    steps = chosen_steps(store, [step] if step else [])
    now = store.clock.now().timestamp()
    found: list[FailedKey] = []
    for chosen in steps:
        wanted = _as_recorded(chosen, key) if key else {}
        failed = chosen.failed_keys()
        found += [entry for entry in failed if wanted.items() <= json.loads(entry.key).items()]
    found.sort(key=lambda entry: (-entry.process_ts, entry.step, entry.key))
    lines = tuple(_line(entry, now) for entry in found[:limit])
    return FailedKeys(lines, len(found) - len(lines))


def _as_recorded(step: Step | Diff, key: Sequence[str]) -> dict[str, object]:
    """Values of key columns as the command line gives them, written as the keys that failed are recorded."""
    values = part_of_key(key, step.key_types, f"step '{step.name}'")
    table = pa.table({name: pa.array([value], step.key_types[name]) for name, value in values.items()})
    recorded: dict[str, object] = json.loads(key_texts(table)[0])
    return recorded


def _line(entry: FailedKey, now: float) -> FailedKeyLine:
    return FailedKeyLine(
        step=entry.step,
        key=json.loads(entry.key),
        error=without_secrets(entry.error),
        attempts=entry.attempts,
        failed_at=datetime.fromtimestamp(entry.process_ts, UTC),
        next_try=None if entry.retry_after is None else datetime.fromtimestamp(entry.retry_after, UTC),
        is_due=entry.retry_after is None or entry.retry_after <= now,
    )
