"""Building the control database again from the chains alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seamark.config import load_config
from seamark.control import BaseVersion, Control, Restored, meanwhile_moved
from seamark.errors import ChainRuleBroken, LedgerError, StoreError, TableError
from seamark.ledger import AddData, Block, ExecuteTransform
from seamark.ledger.chain import walk_back
from seamark.ledger.objects import ChainFiles
from seamark.ledger.rules import check_append
from seamark.ledger.state import ChainState
from seamark.tables.care.chain_facts import ChainFacts, LostCheckpoint, NamedBlock, failures_of, positions_of
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.write.publish import index_entry

log = logging.getLogger("seamark.rebuild")

NOT_RESTORED = ("leases", "runs", "positions of sinks", "pauses and scans of views", "the scheduler's tables")


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was restored, and what chains do not hold.

    `lost` names the steps whose failed keys could not be restored, because their last checkpoint is not the one that
    its block names: nothing was taken from it.
    """

    tables: int
    blocks: int
    positions: int
    failed_keys: int
    not_restored: tuple[str, ...] = NOT_RESTORED
    lost: tuple[LostCheckpoint, ...] = ()


def chain_folders(warehouse: Path) -> Iterator[Path]:
    """The folders of tables: those that have a `refs/head`. Any other folder is not a table."""
    if warehouse.is_dir():
        for folder in sorted(warehouse.iterdir()):
            if not folder.name.startswith(".") and (folder / "refs" / "head").is_file():
                yield folder


def rebuild_control(control: Control, warehouse: Path) -> RebuildReport:
    """Replace the contents of the control database by what the chains in a warehouse say, and report on it.

    `StoreError`, with nothing replaced, if somebody writes meanwhile: a commit would be lost.
    """
    _refuse_live_runs(control)
    heads = {str(row["table_name"]): str(row["head_hash"]) for row in control.snapshots.now().heads}
    mirrored = _mirrored_heads(warehouse)
    restored: list[Restored] = []
    facts: list[ChainFacts] = []
    for name, start in _starts(warehouse, mirrored, heads):
        table, chain = read_table(warehouse / name, start)
        restored.append(table)
        facts.append(chain)
    positions, failures = positions_of(facts), failures_of(facts)

    def check() -> None:
        moved = _mirrored_heads(warehouse).items() ^ mirrored.items()
        if moved:
            raise meanwhile_moved(min(name for name, _ in moved))

    failed = failures.failed
    control.restore(restored, list(positions.values()), list(failed.values()), heads_before=heads, check=check)
    blocks = sum(len(table.blocks) for table in restored)
    return RebuildReport(len(restored), blocks, len(positions), len(failed), lost=failures.lost)


def _refuse_live_runs(control: Control) -> None:
    live = control.staging.live_runs()
    if live:
        raise StoreError(
            f"{len(live)} run(s) write to this store now: {', '.join(live)}. Nothing was changed.",
            hint="stop what is writing, then try again; a run that was killed counts as live for an hour.",
        )


def _mirrored_heads(warehouse: Path) -> dict[str, str | None]:
    return {folder.name: ChainFiles(folder).head() for folder in chain_folders(warehouse)}


def _starts(
    warehouse: Path, mirrored: dict[str, str | None], known: dict[str, str]
) -> Iterator[tuple[str, str | None]]:
    """Each table's name, and the block that its chain is to be read from.

    That is `refs/head`, unless the database has a later block of the chain: its writer was killed before it could
    mirror the head, and the commit must not be lost.
    """
    for name in sorted({*mirrored, *known}):
        found, head = mirrored.get(name), known.get(name)
        if head is not None and head != found and _leads_to(ChainFiles(warehouse / name), head, found):
            yield name, head
        elif name in mirrored:
            yield name, found


def _leads_to(files: ChainFiles, head: str, ancestor: str | None) -> bool:
    """Whether the chain that ends with `head` exists and holds a block; None is before the first block, so in any."""
    try:
        return ancestor in (None, *(name for name, _ in walk_back(files, head)))
    except (LedgerError, OSError):
        return False


def read_table(folder: Path, start: str | None) -> tuple[Restored, ChainFacts]:
    """One table's chain, read from end to end and checked by the rules on the way, as the control database holds it."""
    files = ChainFiles(folder)
    blocks = [] if start is None else list(reversed(list(walk_back(files, start))))
    _check_rules(folder.name, files, blocks)
    facts = ChainFacts.of(folder.name, files, blocks)
    if facts.head is None:
        raise ChainRuleBroken("first block", expected="Seed", found=None, table=folder.name)
    entries = tuple(index_entry(name, block) for name, block in blocks)
    return Restored(facts.head, entries, tuple(_bases(facts, blocks))), facts


def _check_rules(table: str, files: ChainFiles, blocks: list[NamedBlock]) -> None:
    state: ChainState | None = None
    for name, block in blocks:
        try:
            state = check_append(state, block, name, data=files.blocks.read(name))
        except ChainRuleBroken as error:
            raise error.on(table) from None


def _bases(facts: ChainFacts, blocks: list[NamedBlock]) -> Iterator[BaseVersion]:
    """The bases that Delta's log has: of each block the newest version, because an older one was written again."""
    assert facts.dataset_id is not None
    ends = {block.sequence_number: _end(block) for _, block in blocks}
    seen = set()
    try:
        delta = DeltaLog(facts.files.folder / "rows")
        for version, sequence in delta.transactions(facts.dataset_id).items():
            last_offset = ends.get(sequence)
            if last_offset is not None and sequence not in seen and delta.is_whole(version):
                seen.add(sequence)
                yield BaseVersion(facts.table, version, sequence, last_offset, delta.row_count(version))
    except (TableError, OSError, ValueError, KeyError, TypeError) as error:
        # No rows are lost: they are read from the slices until the next fold.
        log.warning("the base of '%s' is not restored, for Delta's log cannot be read: %s", facts.table, error)


def _end(block: Block) -> int | None:
    event = block.event
    return event.last_offset if isinstance(event, AddData | ExecuteTransform) else None


def rebuild_store(control: str | None, warehouse: str | Path | None, schema: str | None) -> RebuildReport:
    """Build the control database again from the chains in a warehouse, and say what was restored.

    Arguments that are None come from the environment, from `seamark.toml`, or from the defaults.
    """
    folder = None if warehouse is None else str(warehouse)
    config = load_config(required=False, control=control, control_schema=schema, warehouse=folder)
    database = Control(config.control, schema=config.control_schema)
    try:
        return rebuild_control(database, Path(config.warehouse))
    finally:
        database.close()
