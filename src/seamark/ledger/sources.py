"""Where a root dataset's data comes from: polled and pushed sources, how they are read and merged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from seamark.ledger.data_types import DataSchema
from seamark.ledger.transform import Transform

# --- fetching ---------------------------------------------------------------------------------------------------------


class SourceOrdering(IntEnum):
    """The order in which several files are ingested."""

    BY_EVENT_TIME = 0
    BY_NAME = 1


class MqttQos(IntEnum):
    """What an MQTT broker promises about delivery."""

    AT_MOST_ONCE = 0
    AT_LEAST_ONCE = 1
    EXACTLY_ONCE = 2


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromMetadata:
    """Event time is what the source says about its last change."""


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromPath:
    """Event time is in the source's path, in the first group of `pattern`."""

    pattern: str
    timestamp_format: str | None = None


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromSystemTime:
    """Event time is the time of ingestion."""


EventTimeSource: TypeAlias = EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime
"""How to find an event time."""


@dataclass(frozen=True, slots=True)
class SourceCachingForever:
    """A source that was ingested once is never read again."""


SourceCaching: TypeAlias = SourceCachingForever
"""How to cache a source."""


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """A header sent with a request."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable of a container; passed through if it has no value."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class MqttTopicSubscription:
    """A topic to listen to."""

    path: str
    qos: MqttQos | None = None


@dataclass(frozen=True, slots=True)
class FetchStepUrl:
    """Fetch what is at a URL."""

    url: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    headers: tuple[RequestHeader, ...] | None = None


@dataclass(frozen=True, slots=True)
class FetchStepFilesGlob:
    """Fetch the files that match a pattern."""

    path: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    order: SourceOrdering | None = None


@dataclass(frozen=True, slots=True)
class FetchStepContainer:
    """Fetch what a container prints."""

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True)
class FetchStepMqtt:
    """Fetch the messages of MQTT topics."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    topics: tuple[MqttTopicSubscription, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchStepEthereumLogs:
    """Fetch the logs of an Ethereum chain, known by `chain_id` or by `node_url`."""

    chain_id: int | None = None
    node_url: str | None = None
    filter: str | None = None
    signature: str | None = None


FetchStep: TypeAlias = FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs
"""How to fetch data."""

# --- preparing --------------------------------------------------------------------------------------------------------


class CompressionFormat(IntEnum):
    """How fetched data is packed."""

    GZIP = 0
    ZIP = 1


@dataclass(frozen=True, slots=True)
class PrepStepDecompress:
    """Unpack the data; `sub_path` chooses a file of an archive."""

    format: CompressionFormat
    sub_path: str | None = None


@dataclass(frozen=True, slots=True)
class PrepStepPipe:
    """Send the data through a command."""

    command: tuple[str, ...]


PrepStep: TypeAlias = PrepStepDecompress | PrepStepPipe
"""How to prepare fetched data for reading."""

# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadStepCsv:
    """Read comma-separated text."""

    ddl_schema: tuple[str, ...] | None = None
    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: bool | None = None
    infer_schema: bool | None = None
    null_value: str | None = None
    date_format: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepGeoJson:
    """Read one GeoJSON feature collection."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepEsriShapefile:
    """Read a shapefile; `sub_path` chooses one of several in an archive."""

    ddl_schema: tuple[str, ...] | None = None
    sub_path: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepParquet:
    """Read Parquet."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepJson:
    """Read an array of JSON objects, found at `sub_path`."""

    sub_path: str | None = None
    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepNdJson:
    """Read JSON objects, one a line."""

    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


@dataclass(frozen=True, slots=True)
class ReadStepNdGeoJson:
    """Read GeoJSON features, one a line."""

    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


ReadStep: TypeAlias = (
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson
)
"""How to read prepared data."""

# --- merging ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeStrategyAppend:
    """Every record is appended as it comes."""


@dataclass(frozen=True, slots=True)
class MergeStrategyLedger:
    """Records whose key was seen before are left out."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeStrategySnapshot:
    """The source is the whole state: what differs from the last one is recorded."""

    primary_key: tuple[str, ...]
    compare_columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MergeStrategyChangelogStream:
    """The source already says what was appended, retracted and corrected."""

    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeStrategyUpsertStream:
    """The source gives new values by key, and deletions."""

    primary_key: tuple[str, ...]


MergeStrategy: TypeAlias = (
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream
)
"""How to combine new data with what is there."""

# --- the events -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetPollingSource:
    """From here on data can be fetched from this source."""

    fetch: FetchStep
    read: ReadStep
    merge: MergeStrategy
    prepare: tuple[PrepStep, ...] | None = None
    preprocess: Transform | None = None


@dataclass(frozen=True, slots=True)
class DisablePollingSource:
    """From here on the polling source is not used."""


@dataclass(frozen=True, slots=True)
class AddPushSource:
    """From here on data can be pushed under this source's name."""

    source_name: str
    read: ReadStep
    merge: MergeStrategy
    preprocess: Transform | None = None


@dataclass(frozen=True, slots=True)
class DisablePushSource:
    """From here on the push source of this name is not used."""

    source_name: str
