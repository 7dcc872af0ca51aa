"""What waits in dictionaries: each change with the views that have not taken it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seamark.ledger import Op
from seamark.steps.rows.fetch import read_interval
from seamark.steps.rows.keys import key_text
from seamark.steps.standing.pins import Pending
from seamark.tables.far_times import python_rows
from seamark.tables.read.source import TableSource
from seamark.transforms.keying import LAST
from seamark.transforms.step import Step

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("table", "key", "op", "fields", "offset", "system_time", "views")


@dataclass(frozen=True, slots=True)
class DictionaryEntry:
    """One change of a dictionary: which fields it changes, and which views it waits for."""

    table: str
    key: str
    op: int
    fields: tuple[str, ...]
    offset: int
    system_time: datetime
    views: tuple[str, ...]


def dictionary_log(steps: Iterable[Step], table: str | None) -> pd.DataFrame:
    """The changes that wait for dictionary passes, of one table or all, as a pandas frame with `COLUMNS`."""
    import pandas as pd

    waiting: dict[str, dict[str, Pending]] = {}
    sources: dict[str, TableSource] = {}
    for step in steps:
        for entry in step.backlog().deferred:
            if table in (None, entry.table):
                waiting.setdefault(entry.table, {})[step.name] = entry
                sources[entry.table] = step.spec.sources[entry.table]
    entries = [one for name in sorted(waiting) for one in _entries(sources[name], waiting[name])]
    return pd.DataFrame([[getattr(one, column) for column in COLUMNS] for one in entries], columns=list(COLUMNS))


def _entries(source: TableSource, waiting: Mapping[str, Pending]) -> Iterator[DictionaryEntry]:
    longest = max(waiting.values(), key=lambda entry: len(entry.blocks))
    images = read_interval(source, longest.blocks, ["op", *source.schema.names])
    rows = sorted(python_rows(images.to_arrow()), key=lambda row: row[LAST])
    times = iter(longest.blocks)
    block = next(times)
    older: Mapping[str, Any] = {}
    for row in rows:
        if row["op"] == Op.CORRECT_FROM:
            older = row
            continue
        while (block.last_offset or 0) < row[LAST]:
            block = next(times)
        views = tuple(name for name, entry in waiting.items() if entry.after is None or entry.after < row[LAST])
        yield DictionaryEntry(
            table=source.name,
            key=key_text(source.schema.key, [row[name] for name in source.schema.key]),
            op=int(row["op"]),
            fields=tuple(_changed(source, older if row["op"] == Op.CORRECT_TO else {}, row)),
            offset=row[LAST],
            system_time=block.system_time,
            views=views,
        )


def _changed(source: TableSource, older: Mapping[str, Any], newer: Mapping[str, Any]) -> Iterator[str]:
    """The fields in which two images differ; of a row that comes or goes, those that have a value."""
    for name in source.schema.names:
        if name not in source.schema.key and older.get(name) != newer[name]:
            yield name
