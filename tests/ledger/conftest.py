"""Small chains, written down as a person would tell them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seamark import ledger
from seamark.ledger import ChainState, MetadataEvent

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


@dataclass
class Chain:
    """A chain in memory: `add` appends an event as the next block, `offer` shows what would become of it."""

    state: ChainState | None = None

    def next_block(self, event: MetadataEvent, **changes: Any) -> ledger.Block:
        values = {
            "system_time": NOON,
            "prev_block_hash": self.state.head if self.state else None,
            "sequence_number": self.state.sequence + 1 if self.state else 0,
            "event": event,
        }
        return ledger.Block(**(values | changes))

    def offer(self, event: MetadataEvent, **changes: Any) -> ChainState:
        return ledger.check_append(self.state, self.next_block(event, **changes))

    def add(self, *events: MetadataEvent, **changes: Any) -> Chain:
        for event in events:
            self.state = self.offer(event, **changes)
        return self


def mh(text: str) -> str:
    """The hash of some text, to stand for the hash of a file or block."""
    return ledger.multihash(text.encode())


def new_data(start: int, end: int) -> ledger.DataSlice:
    return ledger.DataSlice(mh("logical"), mh("physical"), ledger.OffsetInterval(start, end), 100)


SCHEMA = ledger.DataSchema(
    (
        ledger.DataField("post_id", ledger.DataTypeInt64()),
        ledger.DataField("content", ledger.DataTypeOption(ledger.DataTypeString())),
    )
)


@pytest.fixture
def seeded() -> Chain:
    """A root chain with nothing but its Seed."""
    return Chain().add(ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.ROOT))


@pytest.fixture(scope="session")
def new_root() -> Callable[[], Chain]:
    """Makes root chains, for tests that need many."""
    return lambda: Chain().add(
        ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.ROOT), ledger.SetDataSchema(SCHEMA)
    )


@pytest.fixture(scope="session")
def make_rows() -> Callable[[int, int], ledger.DataSlice]:
    """As `rows`, for tests that are run many times."""
    return new_data


@pytest.fixture
def root(seeded: Chain) -> Chain:
    """A root chain with Seed (0) and SetDataSchema (1)."""
    return seeded.add(ledger.SetDataSchema(SCHEMA))


@pytest.fixture
def hash_of() -> Callable[[str], str]:
    return mh


@pytest.fixture
def rows() -> Callable[[int, int], ledger.DataSlice]:
    """A slice with the records from the first offset up to and including the second."""
    return new_data


@pytest.fixture
def empty_chain() -> Chain:
    return Chain()


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """Known answers of Open Data Fabric's reference implementation."""
    known: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())
    return known
