"""Failed keys: how long they wait before they are retried, and which of them a batch has computed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.control import FailedKey
from seamark.steps.rows.keys import KeyTypes, columns_of, key_texts, keys_of, value_from_json
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.steps.rows.scope import AllKeys, KeyFrame, Scope, key_frame_holds
from seamark.texts import storable

if TYPE_CHECKING:
    import pandas as pd

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
    """Failed keys as a pandas frame: key columns, error, attempts, process_ts, retry_after."""
    import pandas as pd  # the import is slow: a process that only shows a row does without

    entries = sorted(failed, key=lambda entry: entry.key)
    shown = pd.DataFrame(
        [_shown(entry) for entry in entries], columns=["error", "attempts", "process_ts", "retry_after"]
    )
    return shown if not columns else pd.concat([to_pandas(_keys(entries, columns, types)), shown], axis=1)


def _keys(entries: Sequence[FailedKey], columns: Sequence[str], types: KeyTypes) -> pa.Table:
    """The values of these key columns, in their types; NULL where a key does not have the column."""
    rows = [json.loads(entry.key) for entry in entries]
    values = [[value_from_json(row.get(name), types[name]) for row in rows] for name in columns]
    arrays = [pa.array(mine, types[name]) for mine, name in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _shown(entry: FailedKey) -> dict[str, object]:
    shown = {"error": entry.error, "attempts": entry.attempts, "process_ts": _moment(entry.process_ts)}
    return {**shown, "retry_after": None if entry.retry_after is None else _moment(entry.retry_after)}


def _moment(seconds: float) -> pd.Timestamp:
    import pandas as pd

    return pd.Timestamp(seconds, unit="s", tz="UTC")


def held_by(scope: Scope, types: Mapping[str, pa.DataType], texts: Sequence[str]) -> list[str]:
    """The recorded keys that belong to a scope, and so were computed with it. `types` are those of the key columns."""
    if isinstance(scope, AllKeys):
        return list(texts)
    same = [text for text in texts if set(columns_of(text)) == set(scope.columns)]
    if not same:
        return []
    keys = keys_of(same, scope.columns, types)
    holds = key_frame_holds(scope, keys) if isinstance(scope, KeyFrame) else scope.holds(keys)
    return [text for text, is_held in zip(same, holds, strict=True) if is_held]
