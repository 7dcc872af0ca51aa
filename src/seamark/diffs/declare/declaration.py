"""What a person writes to declare a diff: plain values, checked when the diff is added to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from seamark.diffs.compute.merge import Rule
from seamark.diffs.declare.spec import KEEP_GONE
from seamark.steps.running.run_config import OnChange
from seamark.tables.table import TableOrName


@dataclass(frozen=True)
class DiffDeclaration:
    """A diff as `ds.diff` takes it; docs/diffs.md says what each value does."""

    name: str
    key: str | Sequence[str]
    fast_version: str
    multiplier: int
    logs: Sequence[TableOrName]
    merge: Mapping[str, Rule] | None = None
    wide: TableOrName | None = None
    ttl: tuple[str, str | timedelta] | None = None
    deleted: str | None = None
    fast_deletes: bool = False
    keep_gone: str | timedelta = KEEP_GONE
    version: str | None = None
    constant: str | Sequence[str] = ()
    keep_intermediate: bool = False
    fail_fast: bool = False
    max_failed_keys: int = 1_000
    on_change: OnChange = "ask"
