"""Building the control database again from the chains alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from seamark.control import BaseVersion, Control, FailedKey, Position, Restored, TableHead, meanwhile_moved
from seamark.errors import ChainRuleBroken, ObjectMissing, StoreError
from seamark.ledger import (
    AddData,
    Block,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetTransform,
    TransformSql,
)
from seamark.ledger.chain import walk_back
from seamark.ledger.objects import ChainFiles
from seamark.ledger.rules import check_append
from seamark.ledger.state import ChainState
from seamark.tables.delta_log import DeltaLog
from seamark.tables.publish import index_entry, table_head

NOT_RESTORED = ("leases", "runs", "positions of sinks", "the scheduler's tables")


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was restored, and what chains cannot tell."""

    tables: int
    blocks: int
    positions: int
    failed_keys: int
    not_restored: tuple[str, ...] = NOT_RESTORED


def chain_folders(warehouse: Path) -> Iterator[Path]:
    """The folders of tables: those that have a `refs/head`. Any other folder is not a table."""
    if warehouse.is_dir():
        for folder in sorted(warehouse.iterdir()):
            if not folder.name.startswith(".") and (folder / "refs" / "head").is_file():
                yield folder


def rebuild_control(control: Control, warehouse: Path) -> RebuildReport:
    """Replace what the control database knows by what the chains in a warehouse say.

    Nothing is replaced, and `StoreError` raised, if somebody writes meanwhile: a commit would be lost.
    """
    _refuse_live_runs(control)
    heads = {name: head.head_hash for name, head in control.index.heads().items()}
    mirrored = _mirrored_heads(warehouse)
    chains = [_Chain(warehouse / name, start) for name, start in _starts(warehouse, mirrored, heads)]
    names = {chain.head.dataset_id: chain for chain in chains}
    positions = [position for chain in chains for position in chain.positions(names)]
    newest = {(p.step, p.input_table): p for p in sorted(positions, key=lambda p: p.block_sequence or -1)}
    failed = {(k.step, k.key): k for chain in _newest_of_each_step(chains) for k in chain.failed_keys()}
    restored = [chain.restored() for chain in chains]

    def check() -> None:
        moved = _mirrored_heads(warehouse).items() ^ mirrored.items()
        if moved:
            raise meanwhile_moved(min(name for name, _ in moved))

    control.restore(restored, list(newest.values()), list(failed.values()), heads_before=heads, check=check)
    return RebuildReport(len(restored), sum(len(r.blocks) for r in restored), len(newest), len(failed))


def _newest_of_each_step(chains: Sequence[_Chain]) -> list[_Chain]:
    """The chains that a step wrote last: one that it has not written since then tells of keys that are cured."""
    newest: dict[str | None, datetime] = {}
    for chain in chains:
        step, moment = chain.step(), chain.head.system_time
        newest[step] = max(moment, newest.get(step, moment))
    return [chain for chain in chains if chain.head.system_time == newest[chain.step()]]


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

    That is `refs/head`, unless the database knows better: a commit whose writer was killed before it could mirror the
    head stands all the same.
    """
    for name in sorted({*mirrored, *known}):
        found, head = mirrored.get(name), known.get(name)
        if head is not None and head != found and _leads_to(ChainFiles(warehouse / name), head, found):
            yield name, head
        elif name in mirrored:
            yield name, found


def _leads_to(files: ChainFiles, head: str, ancestor: str | None) -> bool:
    """Whether the chain that ends with `head` is there and holds a block; None stands for what is before the first."""
    try:
        return ancestor in (None, *(name for name, _ in walk_back(files, head)))
    except ObjectMissing:
        return False


class _Chain:
    """One table's chain, read from end to end and checked by the rules on the way."""

    def __init__(self, folder: Path, start: str | None) -> None:
        self.name = folder.name
        self.files = ChainFiles(folder)
        self.blocks = [] if start is None else list(reversed(list(walk_back(self.files, start))))
        self.head = self._checked_head()
        self._sequences = {name: block.sequence_number for name, block in self.blocks}

    def _checked_head(self) -> TableHead:
        state: ChainState | None = None
        newest: dict[str, str] = {}
        for name, block in self.blocks:
            try:
                state = check_append(state, block, name, data=self.files.blocks.read(name))
            except ChainRuleBroken as error:
                raise error.on(self.name) from None
            newest[_role(block)] = name
        if state is None:
            raise ChainRuleBroken("first block", expected="Seed", found=None, table=self.name)
        return table_head(
            self.name,
            state,
            data_block=newest.get("data"),
            schema_block=newest.get("schema"),
            transform_block=newest.get("transform"),
        )

    def restored(self) -> Restored:
        """Head, index and bases."""
        return Restored(self.head, tuple(index_entry(name, block) for name, block in self.blocks), tuple(self._bases()))

    def _bases(self) -> Iterator[BaseVersion]:
        log = DeltaLog(self.files.folder / "rows")
        ends = {block.sequence_number: _end(block) for _, block in self.blocks}
        for version, sequence in log.transactions(self.head.dataset_id).items():
            last_offset = ends.get(sequence)
            if last_offset is not None:
                yield BaseVersion(self.name, version, sequence, last_offset, log.row_count(version))

    def positions(self, inputs: dict[str, _Chain]) -> Iterator[Position]:
        """How far the step that writes this table has come, from its last ExecuteTransform."""
        event, step = self._last_transform(), self.step()
        if event is None or step is None:
            return
        for slice_ in event.query_inputs:
            chain = inputs.get(slice_.dataset_id)
            if chain is None or slice_.last_block is None:
                continue
            block = chain.block(slice_.last_block)
            yield Position(
                step=step,
                input_table=chain.name,
                update_ts=block.system_time.timestamp() if block else None,
                record_offset=slice_.last_offset,
                block_sequence=block.sequence_number if block else None,
                block_hash=slice_.last_block,
            )

    def failed_keys(self) -> Iterator[FailedKey]:
        """The failed keys that stand, from the last checkpoint."""
        event, step = self._last_transform(), self.step()
        if event is None or step is None or event.new_checkpoint is None:
            return
        checkpoint = json.loads(self.files.checkpoints.read(event.new_checkpoint.physical_hash))
        for failed in checkpoint.get("failed", []):
            yield FailedKey(step=step, **failed)

    def block(self, name: str) -> Block | None:
        """A block of this chain, or None."""
        return self.files.block(name) if name in self._sequences else None

    def _last_transform(self) -> ExecuteTransform | None:
        name = self.head.data_block
        event = self.files.block(name).event if name else None
        return event if isinstance(event, ExecuteTransform) else None

    def step(self) -> str | None:
        """The name of the step that writes this table."""
        name = self.head.transform_block
        return step_of(self.files.block(name).event) if name else None


def step_of(event: MetadataEvent) -> str | None:
    """The step whose definition a SetTransform holds: the alias of its first query."""
    if isinstance(event, SetTransform) and isinstance(event.transform, TransformSql) and event.transform.queries:
        return event.transform.queries[0].alias
    return None


def _role(block: Block) -> str:
    match block.event:
        case AddData() | ExecuteTransform():
            return "data"
        case SetDataSchema():
            return "schema"
        case SetTransform():
            return "transform"
        case Seed():
            return "seed"
        case _:
            return "other"


def _end(block: Block) -> int | None:
    event = block.event
    return event.last_offset if isinstance(event, AddData | ExecuteTransform) else None
