"""What `why` shows: where a row came from, down to the records of root tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamark.facts.values import key_types, named_values, refuse_part_of_key
from seamark.facts.versions import table_meant
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
    found = table_meant(store, table)
    name, whose = found.name, f"table '{found.name}'"
    types = key_types(found, f"`seamark log {name}` shows its blocks.")
    key = named_values(pairs, types, whose)
    example = " ".join(f"{column}=…" for column in types)
    refuse_part_of_key(key, types, whose, hint=f"write `seamark why {name} {example}`.")
    provenance = store.why(name, key, most=most)
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
