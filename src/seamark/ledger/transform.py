"""How a derived dataset is made: its inputs, and the queries that make its data from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SqlQueryStep:
    """One query of several. Its result is known to later ones as `alias`; the last one has none, it is the output."""

    alias: str | None = None
    query: str = ""


@dataclass(frozen=True, slots=True)
class TemporalTable:
    """An input that a stream engine is to see as a table with a key."""

    name: str
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransformSql:
    """Queries for an engine. `query` is for definitions made by hand; in a chain they are in `queries`."""

    engine: str
    version: str | None = None
    query: str | None = None
    queries: tuple[SqlQueryStep, ...] | None = None
    temporal_tables: tuple[TemporalTable, ...] | None = None


Transform: TypeAlias = TransformSql
"""How to define a transformation."""


@dataclass(frozen=True, slots=True)
class TransformInput:
    """A dataset that a transformation reads (`did:odf:…` once resolved), and its name in the queries."""

    dataset_ref: str
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class SetTransform:
    """From here on the dataset's data is made from these inputs by this transformation."""

    inputs: tuple[TransformInput, ...]
    transform: Transform
