from __future__ import annotations

import dataclasses

import pytest

from seamark import ledger
from seamark.errors import ChainRuleBroken
from seamark.ledger import (
    AddPushSource,
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    MergeStrategyAppend,
    ReadStepCsv,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)

POST_ID = DataField("post_id", DataTypeInt64())
CONTENT = DataField("content", DataTypeOption(DataTypeString()))


def schema(*fields, extra=None):
    return SetDataSchema(DataSchema(fields, extra))


# --- schema -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L52")
def test_the_same_schema_again_is_no_change(root):
    with pytest.raises(ChainRuleBroken, match="expected a change, found the schema that the chain already has"):
        root.offer(schema(POST_ID, CONTENT))


@pytest.mark.scenario("L52")
@pytest.mark.parametrize(
    "changed",
    [
        schema(POST_ID, CONTENT, DataField("likes", DataTypeOption(DataTypeInt64()))),
        schema(CONTENT, POST_ID),
        schema(POST_ID, CONTENT, extra={"seamark/key": ["post_id"]}),
        schema(POST_ID, dataclasses.replace(CONTENT, extra={"example.org/unit": "text"})),
    ],
    ids=["added optional", "reordered", "attributes", "attributes of a column"],
)
def test_a_schema_may_grow(root, changed):
    assert root.add(changed).state.schema == changed.schema


@pytest.mark.scenario("L53")
@pytest.mark.parametrize(
    ("changed", "column", "expected", "found"),
    [
        (schema(POST_ID), "content", "Option<String>", "no column of that name"),
        (schema(POST_ID, DataField("text", CONTENT.type)), "content", "Option<String>", "no column of that name"),
        (schema(DataField("post_id", DataTypeInt32()), CONTENT), "post_id", "Int64", "Int32"),
        (schema(DataField("post_id", DataTypeOption(POST_ID.type)), CONTENT), "post_id", "Int64", "Option<Int64>"),
        (schema(POST_ID, DataField("content", DataTypeString())), "content", "Option<String>", "String"),
        (schema(POST_ID, CONTENT, DataField("likes", DataTypeInt64())), "likes", "Option<Int64>", "Int64"),
    ],
    ids=["removed", "renamed", "retyped", "became optional", "became required", "added required"],
)
def test_a_schema_may_not_lose_or_change_a_column(root, changed, column, expected, found):
    with pytest.raises(ChainRuleBroken) as refused:
        root.offer(changed)
    assert f"column '{column}'" in refused.value.rule
    assert (refused.value.expected, refused.value.found) == (expected, found)


def test_a_column_cannot_be_there_twice(seeded):
    with pytest.raises(ChainRuleBroken, match="column 'post_id' twice"):
        seeded.offer(schema(POST_ID, POST_ID))


def test_a_schema_says_something(seeded):
    with pytest.raises(ChainRuleBroken, match="expected a schema, found null"):
        seeded.offer(SetDataSchema())


def test_a_raw_schema_of_an_older_chain_can_be_replaced_by_a_readable_one(seeded, rows):
    seeded.add(SetDataSchema(raw_arrow_schema=b"raw"))
    with pytest.raises(ChainRuleBroken, match="already has"):
        seeded.offer(SetDataSchema(raw_arrow_schema=b"raw"))
    seeded.add(ledger.AddData(new_data=rows(0, 0)), schema(POST_ID))
    with pytest.raises(ChainRuleBroken, match="only a raw Arrow schema"):
        seeded.offer(SetDataSchema(raw_arrow_schema=b"raw"))


# --- transformation ---------------------------------------------------------------------------------------------------

INPUT = TransformInput(ledger.new_dataset_id(), "a")
ONE_QUERY = TransformSql("spark", queries=(SqlQueryStep(None, "SELECT 1"),))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (SetTransform((), ONE_QUERY), "at least one input"),
        (SetTransform((INPUT, TransformInput(INPUT.dataset_ref, "b")), ONE_QUERY), "twice"),
        (SetTransform((INPUT,), TransformSql("spark", query="SELECT 1")), "transform.query: expected null"),
        (SetTransform((INPUT,), TransformSql("spark")), "at least one query"),
        (SetTransform((INPUT,), TransformSql("spark", queries=(SqlQueryStep("x", "SELECT 1"),))), "last query"),
        (SetTransform((INPUT,), TransformSql("spark", queries=ONE_QUERY.queries * 2)), "before the last"),
    ],
)
def test_a_transformation_makes_one_output_from_its_inputs(empty_chain, event, text):
    empty_chain.add(ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.DERIVATIVE))
    with pytest.raises(ChainRuleBroken, match=text):
        empty_chain.offer(event)


def test_a_transformation_may_be_written_again(empty_chain):
    empty_chain.add(ledger.Seed(ledger.new_dataset_id(), ledger.DatasetKind.DERIVATIVE))
    empty_chain.add(SetTransform((INPUT,), ONE_QUERY), SetTransform((INPUT,), ONE_QUERY))
    assert empty_chain.state.transform == SetTransform((INPUT,), ONE_QUERY)


# --- sources ----------------------------------------------------------------------------------------------------------

PUSH = AddPushSource("default", ReadStepCsv(), MergeStrategyAppend())
POLL = SetPollingSource(ledger.FetchStepUrl("https://example.org"), ReadStepCsv(), MergeStrategyAppend())


def test_a_chain_is_pushed_to_or_polls(root):
    root.add(PUSH)
    with pytest.raises(ChainRuleBroken, match="expected no push source, found default"):
        root.offer(POLL)
    root.add(ledger.DisablePushSource("default"), POLL)
    with pytest.raises(ChainRuleBroken, match="expected no polling source"):
        root.offer(PUSH)
    root.add(ledger.DisablePollingSource(), PUSH)
    assert root.state.push_sources == (PUSH,)


def test_a_push_source_may_change_and_not_stay(root):
    root.add(PUSH)
    with pytest.raises(ChainRuleBroken, match="source 'default' as it is"):
        root.offer(PUSH)
    changed = dataclasses.replace(PUSH, read=ReadStepCsv(header=True))
    assert root.add(changed).state.push_sources == (changed,)


@pytest.mark.parametrize("source", [PUSH, POLL])
def test_a_source_has_one_schema_and_one_output(root, source):
    both = ReadStepCsv(ddl_schema=("a INT",), schema=DataSchema((POST_ID,)))
    with pytest.raises(ChainRuleBroken, match="expected ddlSchema or schema, found both"):
        root.offer(dataclasses.replace(source, read=both))
    with pytest.raises(ChainRuleBroken, match="at least one query"):
        root.offer(dataclasses.replace(source, preprocess=TransformSql("spark")))
    root.offer(dataclasses.replace(source, preprocess=ONE_QUERY))


def test_an_ethereum_source_says_which_chain(root):
    with pytest.raises(ChainRuleBroken, match="chainId or nodeUrl"):
        root.offer(dataclasses.replace(POLL, fetch=ledger.FetchStepEthereumLogs()))
    root.offer(dataclasses.replace(POLL, fetch=ledger.FetchStepEthereumLogs(chain_id=1)))


@pytest.mark.parametrize(
    "event",
    [
        ledger.SetVocab(offset_column="seq"),
        ledger.SetInfo("about posts"),
        ledger.SetLicense("MIT", "MIT License", "https://example.org"),
        ledger.SetAttachments(ledger.AttachmentsEmbedded((ledger.AttachmentEmbedded("README.md", "# Posts"),))),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_nothing_depends_on_is_accepted_and_changes_only_the_head(root, event):
    before = root.state
    after = root.add(event, event).state
    assert dataclasses.replace(after, head=before.head, sequence=before.sequence) == before
