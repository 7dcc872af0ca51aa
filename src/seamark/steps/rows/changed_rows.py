"""The keys that a step has changed in its outputs, computed only when they are read."""

from __future__ import annotations

from typing import Any

from seamark.steps.rows.changelist import Recipe
from seamark.steps.rows.fetch import read_interval
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.tables.ordering import distinct
from seamark.tables.read.records import read_changes
from seamark.tables.read.source import TableSource


def changed_keys_of(output: TableSource, after: int | None, upto: int | None) -> Recipe:
    """A recipe for the distinct keys in an output's records with after < offset <= upto."""

    def make() -> Any:
        key = list(output.schema.key)
        blocks = output.context.control.index.slices(output.name, after=after, upto=upto)
        found = read_interval(output, blocks, key)
        if found.in_memory is not None:
            return to_pandas(distinct(found.in_memory.select(key)))
        return read_changes(output, after=after, upto=upto).select(*key).distinct()

    return Recipe(make)
