"""What a chain carries from block to block: all that is needed to decide about the next one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seamark.ledger.data_types import DataSchema
from seamark.ledger.events import DatasetKind, SourceState
from seamark.ledger.sources import AddPushSource, SetPollingSource
from seamark.ledger.transform import SetTransform


@dataclass(frozen=True, slots=True)
class InputPosition:
    """How far an input is incorporated: its last block and, once it had records, its last record."""

    dataset_id: str
    block_hash: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class ChainState:
    """A chain as it is after its head. It is small, however long the chain is.

    `last_offset` is None while there are no records. `checkpoint` is the physical hash that the next data event must
    name, None if the last one left none. `transform_is_new` is True until the first ExecuteTransform after a
    SetTransform, which alone may start inputs over. `raw_arrow_schema` is the schema of an older chain that never had
    another. `has_data_event` says whether there was any, be it without data.
    """

    dataset_id: str
    kind: DatasetKind
    head: str
    sequence: int
    system_time: datetime
    last_offset: int | None = None
    watermark: datetime | None = None
    checkpoint: str | None = None
    source_state: SourceState | None = None
    inputs: tuple[InputPosition, ...] = ()
    schema: DataSchema | None = None
    raw_arrow_schema: bytes | None = None
    transform: SetTransform | None = None
    transform_is_new: bool = False
    has_data_event: bool = False
    polling_source: SetPollingSource | None = None
    push_sources: tuple[AddPushSource, ...] = ()

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return 0 if self.last_offset is None else self.last_offset + 1

    @property
    def has_schema(self) -> bool:
        """Whether the chain says which columns its data has."""
        return self.schema is not None or self.raw_arrow_schema is not None

    def input(self, dataset_id: str) -> InputPosition:
        """How far this input is incorporated; a position without block and offset if it never was."""
        known = (position for position in self.inputs if position.dataset_id == dataset_id)
        return next(known, InputPosition(dataset_id))
