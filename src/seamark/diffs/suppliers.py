"""The fast supplier, for examples and tests: it writes version after version, each taking back the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamark.diffs.declare.spec import SIGN, VERSION
from seamark.errors import UsedWrongly


class FastSupplier:
    """Writes what it knows of visits straight to the target, and remembers of each only the version that it wrote last.

    `insert` takes an Arrow table of records, such as `ClickHouseSink.insert`. A record has the visit's columns, `Sign`
    and `Version`, which is the fast version itself.
    """

    def __init__(self, insert: Callable[[pa.Table], object], key: str | Sequence[str], fast_version: str) -> None:
        self._insert = insert
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._fast_version = fast_version
        self._last: dict[tuple[Any, ...], dict[str, Any]] = {}

    def publish(self, visits: Iterable[Mapping[str, Any]]) -> list[int]:
        """Write a version of each visit after taking back the one before; gives the signed versions, as written."""
        records = []
        for visit in visits:
            place = tuple(visit[name] for name in self._key)
            before = self._last.get(place)
            if before is not None:
                records.append(self._record(before, -1))
            records.append(self._record(visit, +1))
            self._last[place] = dict(visit)
        return self._write(records)

    def delete(self, *keys: Any, retract: bool = True) -> list[int]:
        """Forget visits by key; with `retract` their last versions are taken back, as a supplier does that deletes."""
        records = []
        for key in keys:
            before = self._last.pop(key if isinstance(key, tuple) else (key,), None)
            if before is None:
                raise UsedWrongly(f"the fast supplier has never published visit {key}, or has forgotten it.")
            if retract:
                records.append(self._record(before, -1))
        return self._write(records)

    def _record(self, visit: Mapping[str, Any], sign: int) -> dict[str, Any]:
        return {**visit, SIGN: sign, VERSION: visit[self._fast_version]}

    def _write(self, records: Sequence[dict[str, Any]]) -> list[int]:
        if records:
            names = dict.fromkeys(name for record in records for name in record)
            table = pa.table({name: [record.get(name) for record in records] for name in names})
            self._insert(table.set_column(table.column_names.index(SIGN), SIGN, table.column(SIGN).cast(pa.int8())))
        return [record[SIGN] * record[VERSION] for record in records]
