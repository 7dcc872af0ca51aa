"""The rows of the control database about bases, against the chain and against Delta's own log. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from seamark.control import Row
from seamark.ledger.verify import Finding
from seamark.tables.care.chain_facts import ChainFacts
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.verify.control import differing

_CURE = "`seamark doctor --rebuild` reads Delta's log again; `seamark verify --rows` compares the rows themselves"


def check_bases(facts: ChainFacts, rows: Iterable[Row]) -> Iterator[Finding]:
    """Whether each known base is the one that Delta's log has, true up to the block that it says."""
    if facts.dataset_id is None:
        return
    ends = {place.sequence: place.last_offset for place in facts.places.values()}
    for row in rows:
        if row["distrusted_at"] is not None:
            continue  # it is known to be wrong, and nobody reads it
        version = row["delta_version"]
        try:
            finding = _compared(facts.table, facts.files.folder / "rows", facts.dataset_id, ends, row)
        except Exception as error:  # Delta's log is text that anybody may have changed
            text = f"table '{facts.table}': Delta's log of its base {version} cannot be read: {error}. {_CURE}."
            finding = Finding(facts.table, None, "base", "Delta's log", type(error).__name__, text)
        if finding is not None:
            yield finding


def _compared(table: str, folder: Path, dataset_id: str, ends: dict[int, int | None], row: Row) -> Finding | None:
    log, version = DeltaLog(folder), row["delta_version"]
    if not isinstance(version, int) or not log.has(version):
        return None  # somebody removed it, which is allowed: then it is not used
    sequence = log.transactions(dataset_id).get(version)
    expected = {
        "sequence": sequence,
        "last_offset": None if sequence is None else ends.get(sequence),
        "row_count": log.row_count(version),
    }
    differences = differing(expected, row)
    if not differences:
        return None
    wanted, found = (", ".join(f"{name}={pair[n]}" for name, pair in differences.items()) for n in (0, 1))
    text = (
        f"table '{table}': what the control database has of its base {version} is not what Delta's log and the chain "
        f"say: expected {wanted}, found {found}. {_CURE}."
    )
    return Finding(table, None, "base", wanted, found, text)
