"""Blocks and the events in them, under the names of Open Data Fabric in snake case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TypeAlias

from seamark.ledger.data_types import DataSchema, Extra
from seamark.ledger.sources import AddPushSource, DisablePollingSource, DisablePushSource, SetPollingSource
from seamark.ledger.transform import SetTransform


class Op(IntEnum):
    """What a record says about its row. A correction is two records, `CORRECT_FROM` right before `CORRECT_TO`."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3

    @property
    def sign(self) -> str:
        """The short form: `+A`, `-R`, `-C` or `+C`."""
        return ("+A", "-R", "-C", "+C")[self.value]


class DatasetKind(IntEnum):
    """Whether data comes from outside (root) or from other datasets (derivative)."""

    ROOT = 0
    DERIVATIVE = 1


# --- what data events are made of -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """The records from `start` up to and including `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DataSlice:
    """One file of records: the hash of its rows, the hash of its bytes, its offsets and its size in bytes."""

    logical_hash: str
    physical_hash: str
    offset_interval: OffsetInterval
    size: int

    @property
    def num_records(self) -> int:
        """How many records the offsets promise."""
        return self.offset_interval.end - self.offset_interval.start + 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One file that the writer of the next block starts from."""

    physical_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """How far a source was read; `kind` says what `value` means (`odf/etag`, `odf/last-modified` or your own)."""

    source_name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class ExecuteTransformInput:
    """What a transaction took from one input: the half-open intervals `(prev, new]` of blocks and of records.

    A new value that is None means that the input did not move; the previous values are then still carried.
    """

    dataset_id: str
    prev_block_hash: str | None = None
    new_block_hash: str | None = None
    prev_offset: int | None = None
    new_offset: int | None = None

    @property
    def last_block(self) -> str | None:
        """The input's block up to which it is incorporated after this transaction."""
        return self.new_block_hash if self.new_block_hash is not None else self.prev_block_hash

    @property
    def last_offset(self) -> int | None:
        """The input's record up to which it is incorporated after this transaction."""
        return self.new_offset if self.new_offset is not None else self.prev_offset

    @property
    def num_records(self) -> int:
        """How many of the input's records this transaction took."""
        if self.new_offset is None:
            return 0
        return self.new_offset + 1 if self.prev_offset is None else self.new_offset - self.prev_offset


# --- data events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddData:
    """Data, or only a newer watermark or source state, came into a root dataset."""

    prev_checkpoint: str | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: datetime | None = None
    new_source_state: SourceState | None = None
    extra: Extra | None = None

    @property
    def last_offset(self) -> int | None:
        """The dataset's last record after this event; None while it has none."""
        return _last_offset(self.new_data, self.prev_offset)


@dataclass(frozen=True, slots=True)
class ExecuteTransform:
    """A derived dataset was brought further, from these intervals of its inputs."""

    query_inputs: tuple[ExecuteTransformInput, ...]
    prev_checkpoint: str | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: datetime | None = None

    @property
    def last_offset(self) -> int | None:
        """The dataset's last record after this event; None while it has none."""
        return _last_offset(self.new_data, self.prev_offset)


def _last_offset(new_data: DataSlice | None, prev_offset: int | None) -> int | None:
    return new_data.offset_interval.end if new_data is not None else prev_offset


# --- events about the dataset -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seed:
    """The first event of every chain: which dataset it is, and of which kind."""

    dataset_id: str
    dataset_kind: DatasetKind


@dataclass(frozen=True, slots=True)
class SetDataSchema:
    """The schema of all data that follows. `raw_arrow_schema` is how older chains say it."""

    schema: DataSchema | None = None
    raw_arrow_schema: bytes | None = None


@dataclass(frozen=True, slots=True)
class SetVocab:
    """The names of the system columns, where they are not the usual ones."""

    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


@dataclass(frozen=True, slots=True)
class AttachmentEmbedded:
    """A file's path and its text."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class AttachmentsEmbedded:
    """Files whose text is in the chain."""

    items: tuple[AttachmentEmbedded, ...]


Attachments: TypeAlias = AttachmentsEmbedded
"""How to attach files."""


@dataclass(frozen=True, slots=True)
class SetAttachments:
    """The files that belong to the dataset, such as a readme."""

    attachments: Attachments


@dataclass(frozen=True, slots=True)
class SetInfo:
    """What the dataset is about."""

    description: str | None = None
    keywords: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SetLicense:
    """The licence that the data is under."""

    short_name: str
    name: str
    website_url: str
    spdx_id: str | None = None


DataEvent: TypeAlias = AddData | ExecuteTransform
"""The events that carry offsets, checkpoints and watermarks from one to the next."""

MetadataEvent: TypeAlias = (
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource
)
"""Everything that can happen to a dataset."""


@dataclass(frozen=True, slots=True)
class Block:
    """One immutable entry of a chain. Its hash is that of its bytes: see `block_hash`."""

    system_time: datetime
    prev_block_hash: str | None
    sequence_number: int
    event: MetadataEvent
