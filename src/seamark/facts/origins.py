"""What `why` shows: where a row came from, down to the records of root tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.errors import UsedWrongly
from seamark.facts.tables import check_names
from seamark.facts.values import named_values
from seamark.facts.versions import diff_named
from seamark.steps.past.why import Provenance
from seamark.store import DataStore


@dataclass(frozen=True, slots=True)
class Origin:
    """A row: the record that made it, its block, the step and how it came to run, and the input rows behind it."""

    table: str
    key: Mapping[str, object]
    offset: int
    block: str
    step: str | None
    mode: str | None
    values: Mapping[str, object]
    inputs: tuple[Origin, ...]
    omitted: int


@dataclass(frozen=True, slots=True)
class Origins:
    """Where a row came from, and the definitions of the steps on the way, as they were in force, by name."""

    row: Origin
    definitions: Mapping[str, str]


def find_origins(store: DataStore, table: str, pairs: Sequence[str], most: int) -> Origins:
    """Where the row with a key came from. A column that does not exist, or a part of the key only, is refused."""
    diff = diff_named(store, table)
    if diff is not None and table == diff.name:
        table = diff.state.name
    check_names(store, [table])
    found = store.table(table)
    if not found.key:
        raise UsedWrongly(
            f"table '{table}' is append-only: its records have no key to ask by.",
            hint=f"`seamark log {table}` shows its blocks.",
        )
    types = {name: found.schema.column(name).type for name in found.key}
    key = named_values(pairs, types, f"table '{table}'")
    missing = [name for name in found.key if name not in key]
    if missing:
        raise UsedWrongly(
            f"the key of table '{table}' is {', '.join(found.key)}: {', '.join(missing)} is not given.",
            hint=f"write `seamark why {table} {' '.join(f'{name}=…' for name in found.key)}`.",
        )
    provenance = store.why(table, key, most=most)
    definitions = {row.step: row.definition for row in provenance.walk() if row.step and row.definition}
    return Origins(_origin(provenance), definitions)


def _origin(found: Provenance) -> Origin:
    return Origin(
        table=found.table,
        key=found.key,
        offset=found.offset,
        block=found.block,
        step=found.step,
        mode=found.mode,
        values=found.row or {},
        inputs=tuple(_origin(behind) for behind in found.inputs),
        omitted=found.omitted,
    )
