"""The control database against the chains: every row that chains have is compared with what they say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from seamark.control import UNKNOWN_OUTPUTS, FailedKey, Mode, Position, Row, Snapshots
from seamark.control.commit import block_row, head_row, key_columns, position_row
from seamark.ledger.verify import Finding, StoredBlock
from seamark.ledger.verify.report import shown
from seamark.tables.care.chain_facts import ChainFacts, Era, MadeFrom, UnusableCheckpoint, read_checkpoint
from seamark.tables.write.publish import index_entry

# The modes of commits that compute keys ahead of positions, as checkpoints name them.
_AHEAD = {mode.value for mode in Mode if mode.runs_ahead}
# Up to this many rows of one table's index are listed one by one; beyond it, only their number.
MOST_ROWS = 100
_CURE = "`seamark doctor --rebuild` builds the database again from the chains"


def differing(expected: Mapping[str, Any], found: Row) -> dict[str, tuple[Any, Any]]:
    """The columns in which a row is not as expected, with both values."""
    return {name: (value, found.get(name)) for name, value in expected.items() if found.get(name) != value}


def _finding(
    table: str, kind: str, what: str, expected: object, found: object, *, block: str | None = None, cure: str = _CURE
) -> Finding:
    text = f"table '{table}': {what}: expected {shown(expected)}, found {shown(found)}. {cure}."
    return Finding(table, block, kind, shown(expected), shown(found), text)


def _columns(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def _both(differences: Mapping[str, tuple[Any, Any]]) -> tuple[str, str]:
    wanted = _columns({name: pair[0] for name, pair in differences.items()})
    return wanted, _columns({name: pair[1] for name, pair in differences.items()})


# --- heads and the index ----------------------------------------------------------------------------------------------


def check_head(facts: ChainFacts, found: Row) -> Iterator[Finding]:
    """Whether the row of a table's head says what its chain says."""
    if facts.head is None:
        return  # the chain cannot be read to its beginning, which has been found already
    differences = differing(head_row(facts.head), found)
    if differences:
        what = "its head in the control database is not what its chain says"
        yield _finding(facts.table, "head row", what, *_both(differences), block=facts.head.head_hash)


def check_index(
    snapshots: Snapshots, table: str, blocks: Sequence[StoredBlock], *, is_whole: bool
) -> Iterator[Finding]:
    """Whether the index has a row for each block of a chain, and no other. `is_whole` if the chain could be read."""
    found = list(_index_findings(snapshots, table, blocks, is_whole=is_whole))
    yield from found[:MOST_ROWS]
    if len(found) > MOST_ROWS:
        what = f"{len(found) - MOST_ROWS} more rows of its index are not what its chain says"
        yield _finding(table, "index row", what, "the rows of its blocks", "others")


def _index_findings(
    snapshots: Snapshots, table: str, blocks: Sequence[StoredBlock], *, is_whole: bool
) -> Iterator[Finding]:
    expected = {stored.block.sequence_number: stored for stored in blocks}
    newest = max(expected, default=-1)
    beyond = []
    for row in snapshots.index(table):
        stored = expected.pop(row["sequence"], None)
        if stored is not None:
            yield from _compared(table, stored, row)
        elif is_whole or row["sequence"] not in range(newest):
            beyond.append(row)
    # What was committed while this was read has a row, and the head says so by now: it is not looked at here.
    now = snapshots.head_sequence(table) if beyond else None
    for row in beyond:
        if now is None or row["sequence"] not in range(newest + 1, now + 1):
            what = f"its index has a row for block {row['sequence']}, which its chain does not have"
            yield _finding(table, "index row", what, "no such row", _columns(row), block=str(row["hash"]))
    for sequence, stored in sorted(expected.items()):
        what = f"its index has no row for block {sequence}"
        yield _finding(table, "index row", what, stored.name, "no row", block=stored.name)


def _compared(table: str, stored: StoredBlock, row: Row) -> Iterator[Finding]:
    differences = differing(block_row(table, index_entry(stored.name, stored.block)), row)
    if differences:
        what = f"the row of block {stored.block.sequence_number} in its index is not what the block says"
        yield _finding(table, "index row", what, *_both(differences), block=stored.name)


def check_strays(rows: Iterable[Row], known: Iterable[str], what: str) -> Iterator[Finding]:
    """Rows about tables that the database has no head for."""
    for table in sorted({str(row["table_name"]) for row in rows} - set(known)):
        text = f"the control database has {what} for it, and no head"
        yield _finding(table, "head row", text, "a head", "no row")


# --- positions --------------------------------------------------------------------------------------------------------


def check_positions(
    expected: Mapping[tuple[str, str, str], Position],
    rows: Iterable[Row],
    tables: Mapping[str, str],
    folding: Collection[str],
) -> Iterator[Finding]:
    """Whether each step is on each input where its outputs' chains say. `tables` has an output of each step.

    A position may be taken back, but not that of a step which would add what it reads once more: `folding` has those.
    """
    left = dict(expected)
    for row in rows:
        step, source = row["transformation_id"], row["input_table_name"]
        position = _expected_at(expected, row, source)
        _strike_out(left, row, source)
        was_reset = row["generation"] != 0 and row["block_hash"] is None and row["record_offset"] is None
        if was_reset and (position is None or step not in folding):
            continue  # its next run computes all keys, whoever took the position back
        if position is None:
            what = f"step '{step}' has a position on it that no chain knows: it was set by hand, or changed"
            yield _finding(source, "position", what, "no position", _columns(row))
            continue
        wanted = position_row(position)
        del wanted["generation"]  # how often a position was reset is in no chain
        del wanted["outputs"]  # these may be taken over: see `_expected_at`
        differences = differing(wanted, row)
        if differences:
            what = f"the position of step '{step}' on '{source}' is not what the chain says: moved by hand, or changed"
            yield _finding(tables.get(step, source), "position", what, *_both(differences), block=position.block_hash)
    for (step, _, source), position in sorted(left.items()):
        what = f"the position of step '{step}' on '{source}' is not in the control database"
        said = _columns(position_row(position))
        yield _finding(tables.get(step, source), "position", what, said, "no row", block=position.block_hash)


Said = TypeVar("Said")


def _expected_at(expected: Mapping[tuple[str, str, str], Said], row: Row, about: str) -> Said | None:
    """What chains say of a row about a step: of its outputs, or of those that it takes over from.

    Rows from before outputs were recorded have none, and a step that lost an output continues from the rows of all.
    """
    step, outputs = row["transformation_id"], str(row["outputs"])
    if (step, outputs, about) in expected:
        return expected[step, outputs, about]
    wider = [key for key in expected if key[0] == step and key[2] == about and _is_part(outputs, key[1])]
    return expected[wider[-1]] if wider else None


def _strike_out(left: dict[tuple[str, str, str], Said], row: Row, about: str) -> None:
    """Leave out what a row speaks for."""
    step, outputs = row["transformation_id"], str(row["outputs"])
    for key in [key for key in left if key[0] == step and key[2] == about and _is_part(outputs, key[1])]:
        del left[key]


def _is_part(outputs: str, of: str) -> bool:
    return outputs == UNKNOWN_OUTPUTS or set(outputs.split(",")) <= set(of.split(","))


# --- keys of steps ----------------------------------------------------------------------------------------------------


def check_failed_keys(
    expected: Mapping[tuple[str, str, str], FailedKey], rows: Iterable[Row], tables: Mapping[str, str]
) -> Iterator[Finding]:
    """Whether the failed keys are those that the newest checkpoints have."""
    left = dict(expected)
    for row in rows:
        step, key = row["transformation_id"], _key_of(row)
        known, table = _expected_at(expected, row, key), tables.get(row["transformation_id"], "")
        _strike_out(left, row, key)
        if known is None:
            what = f"step '{step}' has a failed key {key} that its last checkpoint does not have"
            yield _finding(table, "failed key", what, "no such key", _columns(row))
            continue
        wanted = {**asdict(known), **key_columns(key), "transformation_id": step}
        del wanted["step"], wanted["outputs"]
        differences = differing(wanted, row)
        if differences:
            what = f"the failed key {key} of step '{step}' is not as its last checkpoint has it"
            yield _finding(table, "failed key", what, *_both(differences))
    for (step, _, key), failed in sorted(left.items(), key=lambda entry: entry[0]):
        what = f"step '{step}' has lost a failed key {key}: its records were not processed, and nobody tries again"
        yield _finding(tables.get(step, ""), "failed key", what, failed.error, "no row")


_COVERED = {"error": None, "attempts": 0, "retry_after": None}  # what only failed keys have


def _key_of(row: Row) -> str:
    return str(row["whole_key"] or row["key"])


def check_covered_keys(rows: Sequence[Row], chains: Iterable[ChainFacts]) -> Iterator[Finding]:
    """Whether each key that is taken as computed ahead was computed by a limited run, at the positions that it says."""
    unexplained: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        unexplained.setdefault((row["transformation_id"], _key_of(row), row["read_at"]), []).append(row)
    tables: dict[str, str] = {}
    for chain in chains:
        for era in chain.eras:
            if era.step is not None and any(step == era.step for step, _, _ in unexplained):
                tables[era.step] = chain.table
                for made in reversed(era.made):
                    for key, read_at in _computed_ahead(chain, made):
                        _explain(unexplained, era, key, read_at)
    for (step, key, _), left in unexplained.items():
        for row in left:
            what = f"step '{step}' takes the key {key} as computed ahead of its position, and no commit says so"
            yield _finding(tables.get(step, ""), "covered key", what, "no such key", _columns(row))


def _explain(unexplained: dict[tuple[str, str, str], list[Row]], era: Era, key: str, read_at: str) -> None:
    """Leave out the rows of a key that a commit of this era computed ahead."""
    rows = unexplained.get((str(era.step), key, read_at), [])
    wanted = {**_COVERED, **key_columns(key)}
    is_ours = [
        not differing(wanted, row) and (era.outputs == UNKNOWN_OUTPUTS or _is_part(str(row["outputs"]), era.outputs))
        for row in rows
    ]
    rows[:] = [row for row, ours in zip(rows, is_ours, strict=True) if not ours]


def _computed_ahead(chain: ChainFacts, made: MadeFrom) -> Iterator[tuple[str, str]]:
    """The keys that a commit computed ahead of the positions, each with where it was read, as JSON."""
    if made.checkpoint is None:
        return
    try:
        checkpoint = read_checkpoint(chain.files, made.checkpoint)
        if checkpoint.get("mode") not in _AHEAD:
            return
        offsets = {table: at["offset"] for table, at in checkpoint["read"].items()}
        read_at = json.dumps({table: -1 if offset is None else offset for table, offset in offsets.items()})
        for key in checkpoint["keys"]:
            yield json.dumps(key, ensure_ascii=False, separators=(",", ":")), read_at
    except (UnusableCheckpoint, KeyError, TypeError, AttributeError):
        return  # it explains nothing; that it cannot be used is found where checkpoints are looked at


# --- sinks ------------------------------------------------------------------------------------------------------------


def check_sinks(rows: Iterable[Row], heads: Mapping[str, int]) -> Iterator[Finding]:
    """Whether no sink is said to be further than its table is."""
    for row in rows:
        table, sequence = row["table_name"], row["sequence"]
        newest = heads.get(table)
        if newest is None or not isinstance(sequence, int) or sequence > newest:
            what = f"sink '{row['sink']}' is said to have carried a block that the table does not have"
            cure = "remove the row, and the sink asks its target how far it is"
            yield _finding(table, "sink position", what, f"{shown(newest)} or less", sequence, cure=cure)
