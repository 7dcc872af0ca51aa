"""The keys that a step has changed in its outputs, found when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark.steps.rows.changelist import Recipe
from seamark.steps.rows.fetch import read_interval
from seamark.steps.rows.pandas_rows import to_pandas
from seamark.tables.ordering import distinct
from seamark.tables.read.records import read_changes
from seamark.tables.read.source import TableSource

if TYPE_CHECKING:
    pass


def changed_keys_of(output: TableSource, after: int | None, upto: int | None) -> Recipe:
    """The keys of an output that its records after one and up to another are about, found when somebody looks."""

    def make() -> Any:
        key = list(output.schema.key)
        blocks = output.context.control.index.slices(output.name, after=after, upto=upto)
        found = read_interval(output, blocks, key)
        if hasattr(found, "rows"):
            return to_pandas(distinct(found.rows.select(key)))
        return read_changes(output, after=after, upto=upto).select(*key).distinct()

    return Recipe(make)
