"""A step whose definition changes: what is refused, what is kept, what is computed again; and warnings of chance."""

import logging

import pytest
from pyspark.sql import functions as F

import seamark as sm
from seamark.errors import DefinitionChanged
from seamark.ledger import ExecuteTransform, Seed, SetDataSchema, SetTransform


def as_it_is(posts):
    return posts.select("post_id", "content")


def shouted(posts):
    return posts.select("post_id", F.upper("content").alias("content"))


@pytest.fixture
def declare(open_store):
    """Opens the store as another process would, with this function for its step."""

    def open_it(function, *, outputs=("feed",), **options):
        store = open_store()
        store.table("posts", "post_id long, content string", key="post_id")
        for name in outputs:
            store.table(name, "post_id long, content string", key="post_id")
        store.add(sm.BatchTransform(function, ["posts"], outputs, name="shout", **options))
        return store

    return open_it


def rows(table):
    return sorted((row.post_id, row.content) for row in table.rows().collect())


def events(store, table):
    files = store.table(table).source.context.files(table)
    return [files.block(entry.hash).event for entry in reversed(store.control.index.blocks(table))]


@pytest.mark.scenario("X69")
@pytest.mark.scenario("X70")
def test_a_changed_function_is_asked_about_then_kept_or_recomputed(declare):
    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": 1, "content": "hi"}, {"post_id": 2, "content": "HO"}])
    assert store.run().ok
    store.table("posts").upsert([{"post_id": 3, "content": "new"}])

    store = declare(shouted)
    head = store.table("feed").head
    with pytest.raises(DefinitionChanged) as refused:
        store.step("shout").run_full()
    for partial in (
        lambda: store.step("shout").run_full(sm.RunConfig(limit=1)),
        lambda: store.step("shout").run_idx([{"post_id": 1}]),
        lambda: store.step("shout").run_changelist(sm.ChangeList({"posts": [{"post_id": 1}]})),
    ):
        with pytest.raises(DefinitionChanged):
            partial()
    assert "step 'shout'" in str(refused.value)
    assert '-    return posts.select("post_id", "content")' in str(refused.value)
    assert '+    return posts.select("post_id", F.upper("content").alias("content"))' in str(refused.value)
    assert 'on_change="keep"' in refused.value.hint
    assert 'on_change="recompute"' in refused.value.hint
    report = store.run()
    assert not report.ok
    assert isinstance(report.steps["shout"].error, DefinitionChanged)
    assert store.plan()["shout"].mode == "refused"
    assert (store.table("feed").head, rows(store.table("feed"))) == (head, [(1, "hi"), (2, "HO")])

    assert store.run(on_change="keep").steps["shout"].keys == 1
    assert rows(store.table("feed")) == [(1, "hi"), (2, "HO"), (3, "NEW")]
    kinds = [type(event) for event in events(store, "feed")]
    assert kinds == [Seed, SetTransform, SetDataSchema, ExecuteTransform, SetTransform, ExecuteTransform]
    assert not store.run().did_something

    store = declare(as_it_is, on_change="recompute")
    done = store.run().steps["shout"]
    assert (done.keys, done.appended, done.corrected) == (3, 0, 1)
    assert rows(store.table("feed")) == [(1, "hi"), (2, "HO"), (3, "new")]
    assert not store.run().did_something


@pytest.mark.scenario("X70")
def test_a_definition_that_is_kept_is_written_once_without_any_records(declare):
    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": 1, "content": "hi"}])
    store.run()
    store = declare(shouted, on_change="keep")

    done = store.run().steps["shout"]

    assert (done.keys, done.rows_out, done.mode) == (0, 0, "definition")
    assert not declare(shouted).run().did_something
    assert rows(store.table("feed")) == [(1, "hi")]


@pytest.mark.scenario("X70")
@pytest.mark.scenario("X66")
def test_a_partial_run_does_not_end_a_recompute_that_is_to_come(declare):
    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": n, "content": "hi"} for n in (1, 2, 3, 4)])
    store.run()
    store = declare(shouted, on_change="recompute")
    step = store.step("shout")

    assert step.run_idx([{"post_id": 3}]).keys == 1
    assert step.run_full(sm.RunConfig(limit=1)).keys == 1
    assert rows(store.table("feed")) == [(1, "HI"), (2, "hi"), (3, "HI"), (4, "hi")]

    assert store.plan()["shout"].mode == "recompute"
    assert store.run().steps["shout"].corrected == 2
    assert rows(store.table("feed")) == [(1, "HI"), (2, "HI"), (3, "HI"), (4, "HI")]
    assert not store.run().did_something


@pytest.mark.scenario("X70")
def test_a_limited_run_with_keep_takes_only_what_changed(declare):
    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": n, "content": "hi"} for n in (1, 2)])
    store.run()
    store.table("posts").upsert([{"post_id": 3, "content": "new"}])
    store = declare(shouted, on_change="keep")

    assert store.run(limit=5).steps["shout"].keys == 1

    assert rows(store.table("feed")) == [(1, "hi"), (2, "hi"), (3, "NEW")]
    assert not store.run().did_something


@pytest.mark.scenario("X82")
def test_an_added_output_is_filled_for_all_keys_and_the_others_get_no_record(declare):
    def twice(posts):
        return posts.select("post_id", "content"), posts.select("post_id", F.upper("content").alias("content"))

    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": 1, "content": "hi"}, {"post_id": 2, "content": "ho"}])
    store.run()
    last = store.table("feed").head.offset

    store = declare(twice, outputs=("feed", "loud"))
    assert store.plan()["shout"].mode == "recompute"
    assert store.run().steps["shout"].appended == 2

    assert rows(store.table("loud")) == [(1, "HI"), (2, "HO")]
    assert store.table("feed").head.offset == last
    assert not store.run().did_something
    store.table("posts").upsert([{"post_id": 2, "content": "hey"}])
    store.run()
    assert (rows(store.table("feed"))[1], rows(store.table("loud"))[1]) == ((2, "hey"), (2, "HEY"))
    assert store.verify(replay=True).ok


# --- chance and clocks ------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X83")
def test_chance_and_clocks_in_a_plan_are_warned_of_by_name_and_the_run_goes_on(declare, caplog):
    def lucky(posts):
        return posts.selectExpr("post_id", "concat(content, rand(), current_timestamp()) AS content")

    caplog.set_level(logging.WARNING, "seamark.run")
    store = declare(as_it_is)
    store.table("posts").upsert([{"post_id": 1, "content": "now() and rand"}])
    assert store.run().ok
    assert caplog.messages == []

    store = declare(lucky, on_change="recompute")
    assert store.run().ok

    assert [text.split(":")[0] for text in caplog.messages] == [
        "step 'shout' uses rand()",
        "step 'shout' uses current_timestamp()",
    ]
    assert len(rows(store.table("feed"))) == 1
