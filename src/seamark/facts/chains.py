"""What `log` and `show --block` show: the blocks of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime

from seamark.control import BlockEntry, TableHead
from seamark.errors import LedgerError, UnknownStep, UsedWrongly, did_you_mean, nearest
from seamark.facts.live import RunningLine, running_lines, with_killed
from seamark.facts.plain import plain
from seamark.facts.tables import RunLine, check_names, kind_of, run_lines
from seamark.ledger import AddData, ExecuteTransform
from seamark.ledger.objects import ChainFiles
from seamark.store import DataStore
from seamark.tables.care.chain_facts import step_of

HASH_PREFIX = "f1620"  # every block hash begins with it: sha3-256, written in base 16

EVENTS = {
    "seed": ("Seed",),
    "schema": ("SetDataSchema",),
    "transform": ("SetTransform",),
    "data": ("AddData", "ExecuteTransform"),
}


@dataclass(frozen=True, slots=True)
class InputInterval:
    """What a block took from an input: its records with prev_offset < offset <= new_offset."""

    table: str | None
    dataset_id: str
    prev_block: str | None
    new_block: str | None
    prev_offset: int | None
    new_offset: int | None
    records: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One block of a chain. `problem` says why its file could not be read, if it could not."""

    sequence: int
    hash: str
    system_time: datetime
    event: str
    first_offset: int | None
    last_offset: int | None
    records: int
    inputs: tuple[InputInterval, ...]
    watermark: datetime | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Log:
    """The newest blocks of a table, and the newest runs that wrote it."""

    table: str
    kind: str | None
    blocks: tuple[LogEntry, ...]
    runs: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class StepLog:
    """The newest runs of a step, the tables that it writes, and the run that is at work, if there is one."""

    step: str
    outputs: tuple[str, ...]
    runs: tuple[RunLine, ...]
    running: tuple[RunningLine, ...]


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """One block with all fields of its event, and the names of the tables whose ids it holds."""

    table: str
    hash: str
    sequence: int
    prev_hash: str | None
    system_time: datetime
    event: dict[str, object]
    tables: dict[str, str]


def read_log(store: DataStore, table: str, *, limit: int, events: str | None) -> Log:
    """The newest blocks of a table, of the given kinds of events (all, if none are given)."""
    check_names(store, [table])
    kinds = event_kinds(events) if events is not None else None
    heads = store.control.index.heads()
    names = {head.dataset_id: name for name, head in heads.items()}
    files = ChainFiles(store.warehouse / table)
    entries = store.control.index.blocks(table, newest=limit, kinds=kinds)
    return Log(
        table,
        kind_of(heads.get(table)),
        tuple(_entry(entry, files, names) for entry in entries),
        _runs(store, table, _step(heads.get(table), files), limit),
    )


def read_step_log(store: DataStore, step: str, *, limit: int) -> StepLog:
    """The newest runs of a step."""
    live = [run for run in store.live_runs() if run.step == step]
    outputs = store.step(step).spec.outputs_key
    runs = with_killed(store.control.index.runs(step, newest=limit, outputs=outputs), live, limit)
    return StepLog(step, store.step(step).outputs, run_lines(runs), running_lines(live, store.clock.now()))


def names_a_step(store: DataStore, name: str) -> bool:
    """Whether a name stands for a step and not for a table; one that is most likely a misspelt step is refused."""
    tables, steps = store.table_names(), store.step_names()
    if name in tables:
        return False
    if name not in steps and nearest(name, [*tables, *steps]) in steps:
        raise UnknownStep(name, steps)
    return name in steps


def _runs(store: DataStore, table: str, step: str | None, limit: int) -> tuple[RunLine, ...]:
    """The newest runs that wrote the table: of the step that makes it, or by hand."""
    found = [
        run for name in dict.fromkeys((table, step)) if name for run in store.control.index.runs(name, newest=limit)
    ]
    live = [run for run in store.control.live.all() if run.step == step]
    return run_lines(with_killed(found, live, limit))


def _step(head: TableHead | None, files: ChainFiles) -> str | None:
    if head is None or head.transform_block is None:
        return None
    try:
        return step_of(files.block(head.transform_block).event)
    except LedgerError:
        return None  # `verify` reports damage; the log shows what can be read


def event_kinds(text: str) -> tuple[str, ...]:
    """The kinds of events that a list such as `schema,transform` stands for."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words or [text]:
        if word not in EVENTS:
            raise UsedWrongly(f"there is no kind of event '{word}'.", hint=did_you_mean(word, list(EVENTS), "Events"))
    return tuple(kind for word in words for kind in EVENTS[word])


def _entry(entry: BlockEntry, files: ChainFiles, names: dict[str, str]) -> LogEntry:
    problem, watermark = None, None
    inputs: tuple[InputInterval, ...] = ()
    try:
        event = files.block(entry.hash).event
    except LedgerError as error:
        problem = error.message
    else:
        if isinstance(event, AddData | ExecuteTransform):
            watermark = event.new_watermark
        if isinstance(event, ExecuteTransform):
            inputs = _intervals(event, names)
    has_data = entry.first_offset is not None and entry.last_offset is not None
    return LogEntry(
        sequence=entry.sequence,
        hash=entry.hash,
        system_time=entry.system_time,
        event=entry.kind,
        first_offset=entry.first_offset,
        last_offset=entry.last_offset,
        records=(entry.last_offset or 0) - (entry.first_offset or 0) + 1 if has_data else 0,
        inputs=inputs,
        watermark=watermark,
        problem=problem,
    )


def _intervals(event: ExecuteTransform, names: dict[str, str]) -> tuple[InputInterval, ...]:
    return tuple(
        InputInterval(
            table=names.get(taken.dataset_id),
            dataset_id=taken.dataset_id,
            prev_block=taken.prev_block_hash,
            new_block=taken.new_block_hash,
            prev_offset=taken.prev_offset,
            new_offset=taken.new_offset,
            records=taken.num_records,
        )
        for taken in event.query_inputs
    )


# --- one block --------------------------------------------------------------------------------------------------------


def read_block(store: DataStore, table: str, text: str) -> BlockFacts:
    """The block of a table whose hash, with or without its usual first letters, begins with the text."""
    check_names(store, [table])
    entry = _the_one(table, text, _blocks_beginning(store, table, text))
    block = ChainFiles(store.warehouse / table).block(entry.hash)
    event = described(block.event)
    assert isinstance(event, dict)
    named = [each.dataset_id for each in getattr(block.event, "query_inputs", ())]
    named += [each.dataset_ref for each in getattr(block.event, "inputs", ())]
    names = {head.dataset_id: name for name, head in store.control.index.heads().items() if head.dataset_id in named}
    return BlockFacts(table, entry.hash, block.sequence_number, block.prev_block_hash, block.system_time, event, names)


def _blocks_beginning(store: DataStore, table: str, text: str) -> list[BlockEntry]:
    start = text.strip().lower().rstrip("…")
    starts = (start, HASH_PREFIX + start)
    found = {entry.sequence: entry for each in starts for entry in store.control.index.blocks_like(table, each)}
    return [entry for _, entry in sorted(found.items()) if entry.hash.startswith(starts)]


def _the_one(table: str, text: str, found: Sequence[BlockEntry]) -> BlockEntry:
    if not found:
        raise UsedWrongly(
            f"table '{table}' has no block whose hash begins with '{text}'.",
            hint=f"`seamark log {table}` lists its blocks.",
        )
    if len(found) > 1:
        shown = "\n".join(f"  {entry.sequence}  {entry.hash}  {entry.kind}" for entry in found[:10])
        more = f"\n  and {len(found) - 10} more" if len(found) > 10 else ""
        raise UsedWrongly(
            f"'{text}' is the beginning of {len(found)} blocks of table '{table}':\n{shown}{more}",
            hint="give more of the hash.",
        )
    return found[0]


def described(value: object) -> object:
    """A part of a block as plain values. Each object has its `kind`, for a field may hold one of several."""
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: described(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **own}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return plain(value)
