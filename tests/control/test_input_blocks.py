"""A block may only have read what its inputs' chains hold."""

from datetime import timedelta

import pyarrow as pa
import pytest

from seamark.control import RunRecord
from seamark.errors import ChainRuleBroken
from seamark.ledger import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
    multihash,
    new_dataset_id,
)
from seamark.ledger.chain import ChainDraft
from seamark.tables.schema.table_schema import declare
from seamark.tables.write.publish import begin_chain, declare_schema, plan_table, publish
from seamark.tables.write.writing import writing

FEED = declare("feed", "post_id long", "post_id", None)


@pytest.fixture
def store(open_store):
    """Posts in two commits."""
    opened = open_store()
    posts = opened.table("posts", "number long")
    posts.append(pa.table({"number": [1]}))
    posts.append(pa.table({"number": [2]}))
    return opened


def run_step(store, **taken):
    """Commit an ExecuteTransform on `feed` that took this interval of `posts`, or of another dataset."""
    context = store.table("posts").source.context
    posts = store.control.index.head("posts")
    planned = plan_table(context, "feed")
    begun = planned.state.system_time if planned.state else posts.system_time
    draft = ChainDraft(planned.state, begun + timedelta(milliseconds=1))
    dataset = taken.pop("dataset_id", posts.dataset_id)
    if planned.state is None:
        begin_chain(draft, DatasetKind.DERIVATIVE)
        queries = (SqlQueryStep(None, "SELECT 1"),)
        draft.add(SetTransform((TransformInput(dataset, "posts"),), TransformSql("seamark", queries=queries)))
        declare_schema(draft, FEED)
    draft.add(ExecuteTransform((ExecuteTransformInput(dataset, **taken),), prev_offset=None))
    with writing(context) as run:
        publish(context, run, RunRecord(run.run_id, "step", "changes", 0.0), [(planned, draft)])


@pytest.mark.scenario("L39")
def test_a_block_that_is_not_in_the_inputs_chain_is_refused(store):
    foreign = multihash(b"somebody else's block")

    with pytest.raises(ChainRuleBroken, match=f"block of input 'posts'.*found {foreign}"):
        run_step(store, new_block_hash=foreign)

    assert store.control.index.head("feed") is None


@pytest.mark.scenario("L39")
def test_a_block_that_lies_before_the_last_one_read_is_refused(store):
    newest, *_, first = store.control.index.blocks("posts")
    run_step(store, new_block_hash=newest.hash, new_offset=1)
    head = store.control.index.head("feed")

    with pytest.raises(ChainRuleBroken, match=f"newBlockHash of input 'posts'.*found {first.hash}"):
        run_step(store, prev_block_hash=newest.hash, new_block_hash=first.hash, prev_offset=1)

    assert store.control.index.head("feed") == head


@pytest.mark.scenario("L39")
def test_an_input_that_is_no_table_of_the_store_is_refused(store):
    stranger = new_dataset_id()

    with pytest.raises(ChainRuleBroken, match=f"input: expected a table of this store, found {stranger}"):
        run_step(store, dataset_id=stranger, new_block_hash=multihash(b"x"))
