"""Keys that failed: how long they wait before they are tried again, and which of them a batch has cured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import pyarrow as pa

from seamark.control import FailedKey
from seamark.tables.context import TableContext
from seamark.texts import storable
from seamark.transforms.keys import KeyTypes, columns_of, key_texts, keys_of
from seamark.transforms.scope import AllKeys, KeyFrame, Scope, key_frame_holds
from seamark.transforms.shape import Shape

# Seconds to wait after the first, second, … failure: the next run tries again at once, then the pauses grow.
PAUSES = (0.0, 60.0, 300.0, 1800.0, 7200.0, 21600.0)


def pause_after(attempts: int) -> float:
    """How long a key waits after so many failures."""
    return PAUSES[min(attempts, len(PAUSES)) - 1]


def failed_again(
    step: str, failed: Sequence[tuple[pa.Table, str]], standing: Mapping[str, FailedKey], now: float, read_at: str
) -> dict[str, FailedKey]:
    """The keys that failed in a batch as they are recorded, by text; each failure of a key counts."""
    recorded = {}
    for keys, error in failed:
        for text in key_texts(keys) if keys.column_names else ["{}"]:
            recorded[text] = failed_once_more(step, text, error, standing.get(text), now, read_at)
    return recorded


def failed_once_more(
    step: str, text: str, error: str, known: FailedKey | None, now: float, read_at: str | None
) -> FailedKey:
    """A key that failed as it is recorded; the more often it has failed, the longer it waits."""
    attempts = known.attempts + 1 if known else 1
    pause = pause_after(attempts)
    return FailedKey(
        step=step,
        key=text,
        process_ts=now,
        error=storable(error),
        attempts=attempts,
        retry_after=now + pause if pause else None,
        read_at=read_at,
    )


def failure_frame(failed: Sequence[FailedKey], columns: Sequence[str], types: KeyTypes) -> pd.DataFrame:
    """Failed keys as people look at them: key columns, error, attempts, process_ts, retry_after."""
    rows = [_failure(entry, columns, types) for entry in sorted(failed, key=lambda entry: entry.key)]
    return pd.DataFrame(rows, columns=[*columns, "error", "attempts", "process_ts", "retry_after"])


def _failure(entry: FailedKey, columns: Sequence[str], types: KeyTypes) -> dict[str, object]:
    there = tuple(name for name in columns_of(entry.key) if name in columns)
    key = keys_of([entry.key], there, types).to_pylist()[0] if there else {}
    told = {"error": entry.error, "attempts": entry.attempts, "process_ts": _moment(entry.process_ts)}
    return {**key, **told, "retry_after": None if entry.retry_after is None else _moment(entry.retry_after)}


def _moment(seconds: float) -> pd.Timestamp:
    return pd.Timestamp(seconds, unit="s", tz="UTC")


def held_by(context: TableContext, shape: Shape, scope: Scope, texts: Sequence[str]) -> list[str]:
    """Those of some recorded keys that a scope has computed."""
    if isinstance(scope, AllKeys):
        return list(texts)
    same = [text for text in texts if set(columns_of(text)) == set(scope.columns)]
    if not same:
        return []
    keys = keys_of(same, scope.columns, shape.key_types)
    holds = key_frame_holds(scope, keys) if isinstance(scope, KeyFrame) else scope.holds(keys)
    return [text for text, is_held in zip(same, holds, strict=True) if is_held]
