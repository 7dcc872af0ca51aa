"""Verifying a chain: every block, slice and checkpoint read again and compared with what the chain says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from seamark.errors import ChainRuleBroken, SeamarkError
from seamark.ledger.codec import decode
from seamark.ledger.events import AddData, Block, Checkpoint, ExecuteTransform, SetDataSchema, SetVocab
from seamark.ledger.objects import ChainFiles
from seamark.ledger.rules import check_append
from seamark.ledger.state import ChainState
from seamark.ledger.verify.columns import SliceColumns, SystemNames
from seamark.ledger.verify.files import look
from seamark.ledger.verify.report import Finding, OnBlock, VerifyReport, shown
from seamark.ledger.verify.slices import SliceVerifier


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block as it is in its file: the name that leads to it, its bytes, and what they say."""

    name: str
    data: bytes
    block: Block


@dataclass(frozen=True, slots=True)
class StoredChain:
    """The blocks of a table that can be read, oldest first, and what keeps the walk back from being whole."""

    table: str
    files: ChainFiles
    blocks: tuple[StoredBlock, ...]
    findings: tuple[Finding, ...]


def verify_chain(table: str, files: ChainFiles, head: str, on_block: OnBlock | None = None) -> VerifyReport:
    """Verify a whole chain from its head back to its seed, with the data and checkpoints that it names."""
    return verify_stored(read_chain(table, files, head), on_block)


def read_chain(table: str, files: ChainFiles, head: str) -> StoredChain:
    """All blocks from the head back that can be read, and what is wrong with their files."""
    newest_first: list[StoredBlock] = []
    findings: list[Finding] = []
    name: str | None = head
    while name is not None:
        seen = look(files.blocks.path(name))
        if seen.data is None:
            findings.append(_no_block(table, name, seen.instead or f"a file of {seen.size} bytes"))
            break
        if seen.hash != name:
            findings.append(_block_differs(table, name, seen.hash or ""))
        try:
            block = decode(seen.data)
        except SeamarkError as error:
            text = f"table '{table}': block {name} cannot be read: {error}"
            findings.append(Finding(table, name, "unreadable block", "a block", "other bytes", text))
            break
        if newest_first and block.sequence_number >= newest_first[-1].block.sequence_number:
            findings.append(_chain_breaks(table, newest_first[-1], block))
            break
        newest_first.append(StoredBlock(name, seen.data, block))
        name = block.prev_block_hash
    return StoredChain(table, files, tuple(reversed(newest_first)), tuple(findings))


def verify_stored(chain: StoredChain, on_block: OnBlock | None = None) -> VerifyReport:
    """Verify the blocks of a chain by the rules, and the slices and checkpoints that they name."""
    table, findings = chain.table, list(chain.findings)
    state: ChainState | None = None
    slices = SliceVerifier(SliceColumns())
    broken = bool(findings)
    for done, stored in enumerate(chain.blocks, start=1):
        if not broken:
            try:
                state = check_append(state, stored.block, stored.name, data=stored.data)
            except SeamarkError as error:
                broken = True  # what follows rests on this block, so it cannot be judged by the rules any more
                findings.append(_rule_broken(table, stored.name, error))
        slices.columns = _columns_after(slices.columns, stored.block)
        findings += _verify_data(chain, stored, slices)
        if on_block is not None:
            on_block(table, done, len(chain.blocks))
    return VerifyReport(len(chain.blocks), tuple(findings))


def _columns_after(columns: SliceColumns, block: Block) -> SliceColumns:
    match block.event:
        case SetDataSchema(schema=schema):
            return replace(columns, schema=schema)
        case SetVocab() as vocabulary:
            return replace(columns, names=SystemNames.of(vocabulary))
        case _:
            return columns


def _verify_data(chain: StoredChain, stored: StoredBlock, slices: SliceVerifier) -> Iterator[Finding]:
    event = stored.block.event
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_checkpoint is not None:
        yield from _verify_checkpoint(chain, stored.name, event.new_checkpoint)
    if event.new_data is not None:
        path = chain.files.data.path(event.new_data.physical_hash)
        trouble = slices.trouble(path, event.new_data, stored.block)
        if trouble is not None:
            yield _finding(chain.table, stored.name, *trouble)


def _verify_checkpoint(chain: StoredChain, block: str, checkpoint: Checkpoint) -> Iterator[Finding]:
    expected, size = checkpoint.physical_hash, checkpoint.size
    seen = look(chain.files.checkpoints.path(expected))
    if seen.instead is not None:
        kind = "missing checkpoint" if seen.instead == "nothing" else "unreadable checkpoint"
        yield _finding(chain.table, block, kind, expected, seen.instead, f"checkpoint {expected} is not there")
    elif seen.hash != expected:
        found = str(seen.hash)
        yield _finding(chain.table, block, "checkpoint hash", expected, found, f"checkpoint {expected} was changed")
    elif seen.size != size:
        what = f"checkpoint {expected} has another size"
        yield _finding(chain.table, block, "checkpoint size", str(size), str(seen.size), what)


# --- what is said -----------------------------------------------------------------------------------------------------


def _finding(table: str, block: str, kind: str, expected: str, found: str, what: str) -> Finding:
    text = f"table '{table}', block {block}: {what}: {kind} expected {expected}, found {found}."
    return Finding(table, block, kind, expected, found, text)


def _no_block(table: str, name: str, instead: str) -> Finding:
    if instead == "nothing":
        text = f"table '{table}': block {name} is not there, nor can be found what came before it."
        return Finding(table, name, "missing block", name, instead, text)
    text = f"table '{table}': where block {name} should be is {instead}; what came before it cannot be found."
    return Finding(table, name, "unreadable block", "a block", instead, text)


def _block_differs(table: str, expected: str, found: str) -> Finding:
    text = (
        f"table '{table}': the bytes of block {expected} have the hash {found}. "
        "The block was damaged or replaced; nothing vouches for it, nor for what comes before it."
    )
    return Finding(table, expected, "block hash", expected, found, text)


def _chain_breaks(table: str, follower: StoredBlock, block: Block) -> Finding:
    """Without this the walk could go round for ever: a block that was put in an older one's place leads back to it."""
    expected, found = str(follower.block.sequence_number - 1), str(block.sequence_number)
    text = f"table '{table}': the block before {follower.name} has sequence {found}, where {expected} belongs."
    return Finding(table, follower.name, "sequenceNumber", expected, found, text)


def _rule_broken(table: str, block: str, error: SeamarkError) -> Finding:
    if not isinstance(error, ChainRuleBroken):
        return Finding(table, block, "unreadable block", "a block", error.message, f"table '{table}': {error}")
    return Finding(table, block, error.rule, shown(error.expected), shown(error.found), str(error.on(table)))
