"""The FlatBuffers layout of a block: which field of which class is in which slot, as what.

This one table drives both directions of `codec`. The order of fields is that of the wire, which is not always that of
the Python class. A union takes two slots: a byte that says which member it is (from 1), then the member.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from seamark.ledger import data_types as dt
from seamark.ledger import events as ev
from seamark.ledger import sources as so
from seamark.ledger import transform as tr


class Kind(Enum):
    """How a value is laid out."""

    HASH = auto()  # text in Python, the bytes of a multihash on the wire
    DATASET_ID = auto()  # text in Python, the bytes of a key on the wire
    BYTES = auto()
    STRING = auto()
    STRINGS = auto()
    UINT64 = auto()
    UINT32 = auto()
    INT32 = auto()
    BOOL = auto()
    ENUM16 = auto()
    ENUM32 = auto()
    TIMESTAMP = auto()  # a struct inside the table itself
    TABLE = auto()
    TABLES = auto()
    UNION = auto()
    UNIONS = auto()  # a vector cannot hold a union, so each member is wrapped in a table of its own
    EXTRA = auto()  # a table around one string of JSON


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table. An optional scalar is written even if it is 0; a required one that is 0 is left out."""

    name: str
    kind: Kind
    required: bool
    of: tuple[type[Any], ...] = ()
    slot: int = 0


def _req(name: str, kind: Kind, *of: type[Any]) -> Field:
    return Field(name, kind, True, of)


def _opt(name: str, kind: Kind, *of: type[Any]) -> Field:
    return Field(name, kind, False, of)


_EVENTS: tuple[type[Any], ...] = (
    ev.AddData,
    ev.ExecuteTransform,
    ev.Seed,
    so.SetPollingSource,
    tr.SetTransform,
    ev.SetVocab,
    ev.SetAttachments,
    ev.SetInfo,
    ev.SetLicense,
    ev.SetDataSchema,
    so.AddPushSource,
    so.DisablePushSource,
    so.DisablePollingSource,
)
_DATA_TYPES: tuple[type[Any], ...] = (
    dt.DataTypeBinary,
    dt.DataTypeBool,
    dt.DataTypeDate,
    dt.DataTypeDecimal,
    dt.DataTypeDuration,
    dt.DataTypeFloat16,
    dt.DataTypeFloat32,
    dt.DataTypeFloat64,
    dt.DataTypeInt8,
    dt.DataTypeInt16,
    dt.DataTypeInt32,
    dt.DataTypeInt64,
    dt.DataTypeUInt8,
    dt.DataTypeUInt16,
    dt.DataTypeUInt32,
    dt.DataTypeUInt64,
    dt.DataTypeList,
    dt.DataTypeMap,
    dt.DataTypeNull,
    dt.DataTypeOption,
    dt.DataTypeStruct,
    dt.DataTypeTime,
    dt.DataTypeTimestamp,
    dt.DataTypeString,
)
_READ_STEPS: tuple[type[Any], ...] = (
    so.ReadStepCsv,
    so.ReadStepGeoJson,
    so.ReadStepEsriShapefile,
    so.ReadStepParquet,
    so.ReadStepJson,
    so.ReadStepNdJson,
    so.ReadStepNdGeoJson,
)
_FETCH_STEPS: tuple[type[Any], ...] = (
    so.FetchStepUrl,
    so.FetchStepFilesGlob,
    so.FetchStepContainer,
    so.FetchStepMqtt,
    so.FetchStepEthereumLogs,
)
_EVENT_TIME_SOURCES: tuple[type[Any], ...] = (
    so.EventTimeSourceFromMetadata,
    so.EventTimeSourceFromPath,
    so.EventTimeSourceFromSystemTime,
)
_MERGE_STRATEGIES: tuple[type[Any], ...] = (
    so.MergeStrategyAppend,
    so.MergeStrategyLedger,
    so.MergeStrategySnapshot,
    so.MergeStrategyChangelogStream,
    so.MergeStrategyUpsertStream,
)
_PREP_STEPS: tuple[type[Any], ...] = (so.PrepStepDecompress, so.PrepStepPipe)
_DDL_SCHEMA = _opt("ddl_schema", Kind.STRINGS)
_SCHEMA = _opt("schema", Kind.TABLE, dt.DataSchema)
_EXTRA = _opt("extra", Kind.EXTRA)
_UNIT = _opt("unit", Kind.ENUM16, dt.TimeUnit)
_KEY = _req("primary_key", Kind.STRINGS)
_PREPROCESS = _opt("preprocess", Kind.UNION, tr.TransformSql)
_FETCH_TIMES = (
    _opt("event_time", Kind.UNION, *_EVENT_TIME_SOURCES),
    _opt("cache", Kind.UNION, so.SourceCachingForever),
)
# What both data events carry on, in the order in which they have it.
_CARRIED = (
    _opt("prev_checkpoint", Kind.HASH),
    _opt("prev_offset", Kind.UINT64),
    _opt("new_data", Kind.TABLE, ev.DataSlice),
    _opt("new_checkpoint", Kind.TABLE, ev.Checkpoint),
    _opt("new_watermark", Kind.TIMESTAMP),
)

_LAYOUT: dict[type[Any], tuple[Field, ...]] = {
    ev.Block: (
        _req("system_time", Kind.TIMESTAMP),
        _opt("prev_block_hash", Kind.HASH),
        _req("sequence_number", Kind.UINT64),
        _req("event", Kind.UNION, *_EVENTS),
    ),
    # data events
    ev.AddData: (*_CARRIED, _opt("new_source_state", Kind.TABLE, ev.SourceState), _EXTRA),
    ev.ExecuteTransform: (_req("query_inputs", Kind.TABLES, ev.ExecuteTransformInput), *_CARRIED),
    ev.ExecuteTransformInput: (
        _req("dataset_id", Kind.DATASET_ID),
        _opt("prev_block_hash", Kind.HASH),
        _opt("new_block_hash", Kind.HASH),
        _opt("prev_offset", Kind.UINT64),
        _opt("new_offset", Kind.UINT64),
    ),
    ev.DataSlice: (
        _req("logical_hash", Kind.HASH),
        _req("physical_hash", Kind.HASH),
        _req("offset_interval", Kind.TABLE, ev.OffsetInterval),
        _req("size", Kind.UINT64),
    ),
    ev.OffsetInterval: (_req("start", Kind.UINT64), _req("end", Kind.UINT64)),
    ev.Checkpoint: (_req("physical_hash", Kind.HASH), _req("size", Kind.UINT64)),
    ev.SourceState: (_req("source_name", Kind.STRING), _req("kind", Kind.STRING), _req("value", Kind.STRING)),
    # events about the dataset
    ev.Seed: (_req("dataset_id", Kind.DATASET_ID), _req("dataset_kind", Kind.ENUM32, ev.DatasetKind)),
    ev.SetVocab: (
        _opt("offset_column", Kind.STRING),
        _opt("operation_type_column", Kind.STRING),
        _opt("system_time_column", Kind.STRING),
        _opt("event_time_column", Kind.STRING),
    ),
    ev.SetAttachments: (_req("attachments", Kind.UNION, ev.AttachmentsEmbedded),),
    ev.AttachmentsEmbedded: (_req("items", Kind.TABLES, ev.AttachmentEmbedded),),
    ev.AttachmentEmbedded: (_req("path", Kind.STRING), _req("content", Kind.STRING)),
    ev.SetInfo: (_opt("description", Kind.STRING), _opt("keywords", Kind.STRINGS)),
    ev.SetLicense: (
        _req("short_name", Kind.STRING),
        _req("name", Kind.STRING),
        _opt("spdx_id", Kind.STRING),
        _req("website_url", Kind.STRING),
    ),
    # the transformation
    tr.SetTransform: (
        _req("inputs", Kind.TABLES, tr.TransformInput),
        _req("transform", Kind.UNION, tr.TransformSql),
    ),
    tr.TransformInput: (_req("dataset_ref", Kind.STRING), _opt("alias", Kind.STRING)),
    tr.TransformSql: (
        _req("engine", Kind.STRING),
        _opt("version", Kind.STRING),
        _opt("query", Kind.STRING),
        _opt("queries", Kind.TABLES, tr.SqlQueryStep),
        _opt("temporal_tables", Kind.TABLES, tr.TemporalTable),
    ),
    tr.SqlQueryStep: (_opt("alias", Kind.STRING), _req("query", Kind.STRING)),
    tr.TemporalTable: (_req("name", Kind.STRING), _KEY),
    # the schema; types that are not listed here are tables without fields
    ev.SetDataSchema: (_opt("raw_arrow_schema", Kind.BYTES), _SCHEMA),
    dt.DataSchema: (_req("fields", Kind.TABLES, dt.DataField), _EXTRA),
    dt.DataField: (_req("name", Kind.STRING), _req("type", Kind.UNION, *_DATA_TYPES), _EXTRA),
    dt.DataTypeBinary: (_opt("fixed_length", Kind.UINT64),),
    dt.DataTypeDecimal: (_req("precision", Kind.UINT32), _req("scale", Kind.INT32)),
    dt.DataTypeDuration: (_UNIT,),
    dt.DataTypeList: (_req("item_type", Kind.UNION, *_DATA_TYPES), _opt("fixed_length", Kind.UINT64)),
    dt.DataTypeMap: (
        _req("key_type", Kind.UNION, *_DATA_TYPES),
        _req("value_type", Kind.UNION, *_DATA_TYPES),
        _opt("keys_sorted", Kind.BOOL),
    ),
    dt.DataTypeOption: (_req("inner", Kind.UNION, *_DATA_TYPES),),
    dt.DataTypeStruct: (_req("fields", Kind.TABLES, dt.DataField),),
    dt.DataTypeTime: (_UNIT,),
    dt.DataTypeTimestamp: (_UNIT, _opt("timezone", Kind.STRING)),
    # sources
    so.SetPollingSource: (
        _req("fetch", Kind.UNION, *_FETCH_STEPS),
        _opt("prepare", Kind.UNIONS, *_PREP_STEPS),
        _req("read", Kind.UNION, *_READ_STEPS),
        _PREPROCESS,
        _req("merge", Kind.UNION, *_MERGE_STRATEGIES),
    ),
    so.AddPushSource: (
        _req("source_name", Kind.STRING),
        _req("read", Kind.UNION, *_READ_STEPS),
        _PREPROCESS,
        _req("merge", Kind.UNION, *_MERGE_STRATEGIES),
    ),
    so.DisablePushSource: (_req("source_name", Kind.STRING),),
    so.FetchStepUrl: (_req("url", Kind.STRING), *_FETCH_TIMES, _opt("headers", Kind.TABLES, so.RequestHeader)),
    so.FetchStepFilesGlob: (
        _req("path", Kind.STRING),
        *_FETCH_TIMES,
        _opt("order", Kind.ENUM32, so.SourceOrdering),
    ),
    so.FetchStepContainer: (
        _req("image", Kind.STRING),
        _opt("command", Kind.STRINGS),
        _opt("args", Kind.STRINGS),
        _opt("env", Kind.TABLES, so.EnvVar),
    ),
    so.FetchStepMqtt: (
        _req("host", Kind.STRING),
        _req("port", Kind.INT32),
        _opt("username", Kind.STRING),
        _opt("password", Kind.STRING),
        _req("topics", Kind.TABLES, so.MqttTopicSubscription),
    ),
    so.FetchStepEthereumLogs: (
        _opt("chain_id", Kind.UINT64),
        _opt("node_url", Kind.STRING),
        _opt("filter", Kind.STRING),
        _opt("signature", Kind.STRING),
    ),
    so.EventTimeSourceFromPath: (_req("pattern", Kind.STRING), _opt("timestamp_format", Kind.STRING)),
    so.RequestHeader: (_req("name", Kind.STRING), _req("value", Kind.STRING)),
    so.EnvVar: (_req("name", Kind.STRING), _opt("value", Kind.STRING)),
    so.MqttTopicSubscription: (_req("path", Kind.STRING), _opt("qos", Kind.ENUM32, so.MqttQos)),
    so.PrepStepDecompress: (_req("format", Kind.ENUM32, so.CompressionFormat), _opt("sub_path", Kind.STRING)),
    so.PrepStepPipe: (_req("command", Kind.STRINGS),),
    so.ReadStepCsv: (
        _DDL_SCHEMA,
        _opt("separator", Kind.STRING),
        _opt("encoding", Kind.STRING),
        _opt("quote", Kind.STRING),
        _opt("escape", Kind.STRING),
        _opt("header", Kind.BOOL),
        _opt("infer_schema", Kind.BOOL),
        _opt("null_value", Kind.STRING),
        _opt("date_format", Kind.STRING),
        _opt("timestamp_format", Kind.STRING),
        _SCHEMA,
    ),
    so.ReadStepGeoJson: (_DDL_SCHEMA, _SCHEMA),
    so.ReadStepEsriShapefile: (_DDL_SCHEMA, _opt("sub_path", Kind.STRING), _SCHEMA),
    so.ReadStepParquet: (_DDL_SCHEMA, _SCHEMA),
    so.ReadStepJson: (
        _opt("sub_path", Kind.STRING),
        _DDL_SCHEMA,
        _opt("date_format", Kind.STRING),
        _opt("encoding", Kind.STRING),
        _opt("timestamp_format", Kind.STRING),
        _SCHEMA,
    ),
    so.ReadStepNdJson: (
        _DDL_SCHEMA,
        _opt("date_format", Kind.STRING),
        _opt("encoding", Kind.STRING),
        _opt("timestamp_format", Kind.STRING),
        _SCHEMA,
    ),
    so.ReadStepNdGeoJson: (_DDL_SCHEMA, _SCHEMA),
    so.MergeStrategyLedger: (_KEY,),
    so.MergeStrategySnapshot: (_KEY, _opt("compare_columns", Kind.STRINGS)),
    so.MergeStrategyChangelogStream: (_KEY,),
    so.MergeStrategyUpsertStream: (_KEY,),
}


def _with_slots(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    placed: list[Field] = []
    slot = 0
    for field in fields:
        placed.append(Field(field.name, field.kind, field.required, field.of, slot))
        slot += 2 if field.kind is Kind.UNION else 1
    return tuple(placed)


def _members() -> set[type[Any]]:
    """Every class that is a table: those with a layout, and the members of unions that have no fields."""
    kinds = (Kind.UNION, Kind.UNIONS)
    members = {cls for fields in _LAYOUT.values() for field in fields if field.kind in kinds for cls in field.of}
    return members | set(_LAYOUT)


TABLES: dict[type[Any], tuple[Field, ...]] = {cls: _with_slots(_LAYOUT.get(cls, ())) for cls in _members()}
"""Every class that a block can hold, with its fields in wire order and their slots."""

SLOTS: dict[type[Any], int] = {
    cls: sum(2 if field.kind is Kind.UNION else 1 for field in fields) for cls, fields in TABLES.items()
}
"""How many slots each table has."""
