"""What schemas, transformations and sources may say, and how a schema may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from seamark.errors import ChainRuleBroken
from seamark.ledger.data_types import DataField, DataSchema, DataTypeOption, same_type, type_text
from seamark.ledger.events import SetDataSchema
from seamark.ledger.multiformats import is_dataset_id, normal_dataset_id
from seamark.ledger.sources import AddPushSource, FetchStepEthereumLogs, ReadStep, SetPollingSource
from seamark.ledger.state import ChainState
from seamark.ledger.transform import SetTransform, Transform

# --- schema -----------------------------------------------------------------------------------------------------------


def check_schema(state: ChainState, event: SetDataSchema) -> None:
    """`ChainRuleBroken` if the schema says nothing new, or if data written before could not be read with it."""
    if event.schema is None:
        _may_still_be_raw(state, event)
        return
    _has_each_column_once(event.schema)
    if state.schema is None:
        return  # the first schema, or the first readable one: it is not for us to interpret an older raw one
    if event.schema == state.schema:
        raise ChainRuleBroken("schema", expected="a change", found="the schema that the chain already has")
    for column in state.schema.fields:
        _column_is_kept(column, event.schema.field(column.name))
    for column in event.schema.fields:
        if state.schema.field(column.name) is None:
            _new_column_is_optional(column)


def _may_still_be_raw(state: ChainState, event: SetDataSchema) -> None:
    if event.raw_arrow_schema is None:
        raise ChainRuleBroken("schema", expected="a schema", found=None)
    if state.schema is not None:
        raise ChainRuleBroken("schema", expected="a schema that can be compared", found="only a raw Arrow schema")
    if event.raw_arrow_schema == state.raw_arrow_schema:
        raise ChainRuleBroken("schema", expected="a change", found="the schema that the chain already has")


def _has_each_column_once(schema: DataSchema) -> None:
    doubled = _doubled(field.name for field in schema.fields)
    if doubled:
        raise ChainRuleBroken("schema", expected="each column once", found=f"column '{doubled[0]}' twice")


def _column_is_kept(before: DataField, after: DataField | None) -> None:
    if after is None:
        raise ChainRuleBroken(
            f"schema: column '{before.name}'", expected=type_text(before.type), found="no column of that name"
        )
    if not same_type(before.type, after.type):
        raise ChainRuleBroken(
            f"schema: column '{before.name}'", expected=type_text(before.type), found=type_text(after.type)
        )


def _new_column_is_optional(column: DataField) -> None:
    # rows that were written before have no value for it
    if not isinstance(column.type, DataTypeOption):
        raise ChainRuleBroken(
            f"schema: new column '{column.name}'",
            expected=type_text(DataTypeOption(column.type)),
            found=type_text(column.type),
        )


# --- transformation ---------------------------------------------------------------------------------------------------


def check_transform(event: SetTransform) -> None:
    """`ChainRuleBroken` if there is no input, an input twice, or the queries do not make one output."""
    if not event.inputs:
        raise ChainRuleBroken("inputs", expected="at least one input", found="none")
    doubled = _doubled(_normal_ref(source.dataset_ref) for source in event.inputs)
    if doubled:
        raise ChainRuleBroken("inputs", expected="each input once", found=f"{doubled[0]} twice")
    _makes_one_output(event.transform)


def _normal_ref(ref: str) -> str:
    return normal_dataset_id(ref) if is_dataset_id(ref) else ref


def _makes_one_output(transform: Transform) -> None:
    if transform.query is not None:
        raise ChainRuleBroken("transform.query", expected="null, and the query in queries", found=transform.query)
    if not transform.queries:
        raise ChainRuleBroken("transform.queries", expected="at least one query", found="none")
    *named, last = transform.queries
    if last.alias is not None:
        raise ChainRuleBroken("alias of the last query", expected=None, found=last.alias)
    if any(query.alias is None for query in named):
        raise ChainRuleBroken("alias of a query before the last", expected="a name", found=None)


# --- sources ----------------------------------------------------------------------------------------------------------


def check_push_source(state: ChainState, event: AddPushSource) -> None:
    """`ChainRuleBroken` if the source is already there, its reading is ambiguous, or the chain polls."""
    if state.polling_source is not None:
        raise ChainRuleBroken("AddPushSource", expected="no polling source", found="a chain that polls its data")
    if event in state.push_sources:
        raise ChainRuleBroken("AddPushSource", expected="a change", found=f"source '{event.source_name}' as it is")
    _has_one_schema(event.read)
    if event.preprocess is not None:
        _makes_one_output(event.preprocess)


def check_polling_source(state: ChainState, event: SetPollingSource) -> None:
    """`ChainRuleBroken` if it cannot be known what to fetch, reading is ambiguous, or data is pushed to the chain."""
    if state.push_sources:
        names = ", ".join(source.source_name for source in state.push_sources)
        raise ChainRuleBroken("SetPollingSource", expected="no push source", found=names)
    if isinstance(event.fetch, FetchStepEthereumLogs) and event.fetch.chain_id is None and event.fetch.node_url is None:
        raise ChainRuleBroken("fetch", expected="chainId or nodeUrl", found=None)
    _has_one_schema(event.read)
    if event.preprocess is not None:
        _makes_one_output(event.preprocess)


def _has_one_schema(read: ReadStep) -> None:
    if read.ddl_schema is not None and read.schema is not None:
        raise ChainRuleBroken("read", expected="ddlSchema or schema", found="both")


def _doubled(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
