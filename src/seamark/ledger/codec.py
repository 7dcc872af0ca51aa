"""Blocks to bytes and back. The bytes are canonical: one block has one encoding, so that its hash can be computed.

Bytes that are stored are hashed and checked as they are, never encoded again: generations of the format differ in how
they align a timestamp, so a second encoding of an old block would have another hash.
"""

from __future__ import annotations

from typing import Any

from seamark.errors import LedgerError, MalformedBlock
from seamark.ledger import reader, writer
from seamark.ledger.events import Block
from seamark.ledger.multiformats import multihash


def encode(block: Block) -> bytes:
    """The block's canonical bytes, in manifest version 3; `MalformedBlock` if a value does not fit its field."""
    try:
        return writer.manifest(writer.table(block))
    except LedgerError:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise MalformedBlock(f"the block cannot be written: {error}.") from error


def decode(data: bytes | bytearray | memoryview) -> Block:
    """The block in these bytes, of manifest version 2 or 3.

    Raises `UnsupportedBlockVersion` for another version, `InvalidIdentifier` for a text that is not a hash or id, and
    `MalformedBlock` for all else that is wrong with the bytes.
    """
    content = reader.manifest_content(bytes(data))
    block: Any = reader.table(content, Block)
    assert isinstance(block, Block)
    return block


def block_hash(data: bytes | memoryview) -> str:
    """The hash of a block's bytes, which is its name and what the next block calls `prev_block_hash`."""
    return multihash(data)
