"""What `show --versions` shows: the records that a diff has written of one visit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seamark.diffs.declare.spec import LOG, SIGN, SLOW, VERSION
from seamark.errors import UsedWrongly
from seamark.facts.tables import check_names
from seamark.facts.values import key_values
from seamark.steps.running.signed import SignedStep, as_signed
from seamark.store import DataStore
from seamark.tables import Table


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One record: when it was committed, which log it came from, its versions, and what it says of the visit."""

    offset: int
    time: datetime
    log: str
    sign: int
    slow: int
    fast: int
    version: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class VersionHistory:
    """What a diff has written of a visit, oldest first, as signed versions and as records; `standing` is what is left.

    The fast supplier's own records are not among them: they are in the target only.
    """

    diff: str
    key: Mapping[str, object]
    fast_version: str
    versions: tuple[str, ...]
    standing: tuple[str, ...]
    records: tuple[VersionLine, ...]


def table_meant(store: DataStore, name: str) -> Table:
    """The table that a name stands for: by that of a diff its state is meant. An unknown name is refused."""
    diff = _diff_named(store, name)
    if diff is not None and name == diff.name:
        return diff.state
    check_names(store, [name])
    return store.table(name)


def _diff_named(store: DataStore, name: str) -> SignedStep | None:
    """The diff of this name, or of this name of its records' or state's table; None if there is none."""
    return next((diff for diff in _diffs(store) if name in (diff.name, *diff.outputs)), None)


def _diffs(store: DataStore) -> list[SignedStep]:
    return [signed for step in store.steps().values() if (signed := as_signed(step)) is not None]


def read_versions(store: DataStore, name: str, given: Sequence[str]) -> VersionHistory:
    """What a diff has written of one visit."""
    diff = _diff_named(store, name)
    if diff is None:
        known = [each.name for each in _diffs(store)]
        raise UsedWrongly(
            f"there is no diff '{name}', and only a diff has versions.",
            hint=f"diffs are {', '.join(known)}." if known else "`ds.diff(…)` declares one.",
        )
    key = key_values(given, diff.key_types, f"diff '{diff.name}'")
    fast = diff.fast_version
    apart = (*diff.key_types, SIGN, SLOW, fast, VERSION, LOG, "offset", "system_time")
    records = tuple(
        VersionLine(
            offset=record["offset"],
            time=record["system_time"],
            log=record[LOG],
            sign=record[SIGN],
            slow=record[SLOW],
            fast=record[fast],
            version=record[VERSION],
            values={column: value for column, value in record.items() if column not in apart},
        )
        for record in diff.history(key)
    )
    return VersionHistory(
        diff=diff.name,
        key=key,
        fast_version=fast,
        versions=tuple(_signed(record.sign, record.version) for record in records),
        standing=_standing(records),
        records=records,
    )


def _signed(sign: int, version: int) -> str:
    return f"{'+' if sign > 0 else '-'}{version}"


def _standing(records: Sequence[VersionLine]) -> tuple[str, ...]:
    """What is left when records of one version cancel each other."""
    sums: dict[int, int] = {}
    for record in records:
        sums[record.version] = sums.get(record.version, 0) + record.sign
    return tuple(_signed(total, version) for version, total in sums.items() for _ in range(abs(total)))
