"""Replay: each commit of a derived table is computed again from what it read; and what a commit says of itself."""

import json

import pytest

import seamark as sm
from seamark.ledger import ExecuteTransform, SetTransform
from seamark.steps.definition.definition import from_chain


def events(store, table):
    """The events of a table, oldest first."""
    files = store.table(table).source.context.files(table)
    return [files.block(entry.hash).event for entry in reversed(store.control.index.blocks(table))]


def commits(store, table):
    return [event for event in events(store, table) if isinstance(event, ExecuteTransform)]


def checkpoint(store, table, event):
    return json.loads((store.warehouse / table / "checkpoints" / event.new_checkpoint.physical_hash).read_bytes())


@pytest.fixture
def shaky(open_store):
    """Opens the store with a step whose function fails on some texts; told from outside, so its source is the same."""
    bad = set()

    def open_it(**options):
        store = open_store()
        posts = store.table("posts", "id long, text string", key="id")
        feed = store.table("feed", "id long, text string", key="id")

        def shake(posts):
            if any(row.text in bad for row in posts.collect()):
                raise ValueError("bad text")
            return posts.selectExpr("id", "upper(text) AS text")

        store.add(sm.BatchTransform(shake, [posts], [feed], **options))
        return store

    open_it.bad = bad
    return open_it


def write(store, **texts):
    store.table("posts").upsert([{"id": int(key[1:]), "text": text} for key, text in texts.items()])


@pytest.mark.scenario("L58")
@pytest.mark.scenario("L51")
@pytest.mark.scenario("L57")
def test_commits_of_all_kinds_can_be_made_again_and_say_how_they_came_about(shaky, clock):
    store = shaky(batch_rows=2)
    step, feed = store.step("shake"), store.table("feed")
    write(store, _1="one", _2="two", _3="three")
    store.run()
    write(store, _1="eins", _2="zwei")
    write(store, _1="un", _3="drei")
    write(store, _4="vier", _5="bad")
    shaky.bad.add("bad")
    assert store.run().steps["shake"].batches == 3  # key 1 changes twice in it
    assert store.verify("feed", replay=True).ok  # with one failed key standing
    step.run_idx([{"id": 2}, {"id": 4}])
    write(store, _2="deux", _3="trois", _6="six")
    step.run_changelist(sm.ChangeList({"posts": [{"id": 3}]}))
    store.run(filters={"id": 6})
    store.run(limit=1)
    store.run()
    shaky.bad.clear()
    step.retry()
    store.offset_table.reset_offset("shake")
    store.run()
    store.table("posts").delete([{"id": 1}])
    store.run()
    store = shaky(batch_rows=2, batch_keys=2, version="2", on_change="recompute")
    store.run()

    report = store.verify("feed", replay=True)

    assert report.findings == ()
    told = [checkpoint(store, "feed", event) for event in commits(store, "feed")]
    modes = [entry["mode"] for entry in told]
    assert set(modes) == {"all keys", "changes", "keys", "changelist", "filter", "limit", "retry", "recompute"}
    assert report.replayed + report.not_replayable == len(modes)
    assert report.not_replayable == len([mode for mode in modes if mode != "recompute"])
    assert sorted(tuple(row) for row in feed.rows().collect()) == [
        (2, "DEUX"), (3, "TROIS"), (4, "VIER"), (5, "BAD"), (6, "SIX"),
    ]  # fmt: skip
    assert all(entry["part"] == [1, 1] and entry["read"]["posts"]["offset"] is not None for entry in told)
    keys = told[modes.index("keys")]
    assert keys["keys"] == [{"id": 2}, {"id": 4}]
    assert [(entry["key"], entry["attempts"]) for entry in keys["failed"]] == [('{"id":5}', 1)]
    assert told[-1]["failed"] == []


@pytest.mark.scenario("L58")
def test_every_commit_of_one_definition_is_replayed(shaky):
    store = shaky(batch_rows=2, version="1")
    step = store.step("shake")
    write(store, _1="one", _2="two", _3="bad")
    shaky.bad.add("bad")
    store.run()
    write(store, _1="eins", _2="zwei")
    write(store, _1="un", _4="vier")
    store.run(limit=1)
    store.run()
    step.run_idx([{"id": 3}])
    shaky.bad.clear()  # the function works now: what it left out then is left out again
    step.run_changelist(sm.ChangeList({"posts": [{"id": 3}]}))
    store.offset_table.reset_offset("shake")
    store.run()

    report = store.verify("feed", replay=True)

    assert report.findings == ()
    assert (report.replayed, report.not_replayable) == (len(commits(store, "feed")), 0)
    assert report.replayed >= 7


@pytest.mark.scenario("L57")
def test_checkpoints_are_chained_and_the_blocks_of_one_commit_are_numbered(open_store):
    store = open_store(block_rows=2)
    posts = store.table("posts", "id long", key="id")
    feed = store.table("feed", "id long", key="id")
    store.add(sm.BatchTransform("SELECT id FROM {posts}", [posts], [feed], name="copy"))
    posts.upsert([{"id": n} for n in range(5)])
    store.run()
    posts.upsert([{"id": 9}])
    store.run()

    made = commits(store, "feed")
    told = [checkpoint(store, "feed", event) for event in made]

    assert [(entry["mode"], entry["part"]) for entry in told] == [
        ("all keys", [1, 3]),
        ("all keys", [2, 3]),
        ("all keys", [3, 3]),
        ("changes", [1, 1]),
    ]
    chained = [None, *(event.new_checkpoint.physical_hash for event in made[:-1])]
    assert [event.prev_checkpoint for event in made] == chained
    heads = store.control.index.blocks("posts")
    assert told[-1]["read"] == {
        "posts": {"block": heads[0].hash, "sequence": heads[0].sequence, "offset": 5},
    }
    assert told[-1]["taken"] == {"posts": [4, 5]}
    assert store.verify(replay=True).ok


@pytest.mark.scenario("L51")
def test_a_function_that_gives_another_line_is_found_at_its_first_block_with_the_records(open_store):
    told = {"suffix": ""}
    store = open_store()
    posts = store.table("posts", "id long, text string", key="id")
    feed = store.table("feed", "id long, text string", key="id")

    @store.transform(inputs=[posts], outputs=[feed])
    def tell(posts):
        return posts.selectExpr("id", f"concat(text, if(id = 3, '{told['suffix']}', '')) AS text")

    posts.upsert([{"id": 1, "text": "one"}, {"id": 2, "text": "two"}])
    store.run()
    posts.upsert([{"id": 3, "text": "three"}, {"id": 4, "text": "four"}])
    store.run()
    head = feed.head
    assert store.verify("feed", replay=True).ok
    told["suffix"] = "!"

    report = store.verify("feed", replay=True)

    assert not report.ok
    (finding,) = report.findings
    assert (finding.table, finding.block, finding.kind) == ("feed", head.block_hash, "replay")
    assert finding.expected != finding.found
    assert "'text': 'three'" in finding.message
    assert "'text': 'three!'" in finding.message
    assert "four" not in finding.message
    assert feed.head == head
    assert store.verify("feed").ok


@pytest.mark.scenario("L60")
@pytest.mark.scenario("L54")
def test_each_block_of_a_sql_step_is_replayed_with_the_text_in_force_then(open_store):
    texts = [
        "SELECT id, text FROM {posts}",
        "SELECT id, upper(text) AS text FROM {posts}",
        "SELECT id, concat(text, '!') AS text FROM {posts}",
    ]
    for number, text in enumerate(texts):
        store = open_store()
        posts = store.table("posts", "id long, text string", key="id")
        feed = store.table("feed", "id long, text string", key="id")
        store.add(sm.BatchTransform(text, [posts], [feed], name="tell", on_change="keep"))
        posts.upsert([{"id": number, "text": "x"}])
        store.run()

    assert sorted(tuple(row) for row in feed.rows().collect()) == [(0, "x"), (1, "X"), (2, "x!")]
    report = store.verify("feed", replay=True)
    assert (report.findings, report.replayed, report.not_replayable) == ((), 3, 0)
    stored = [from_chain(event) for event in events(store, "feed") if isinstance(event, SetTransform)]
    assert [(entry.kind, entry.source) for entry in stored] == [("sql", text) for text in texts]


@pytest.mark.scenario("L60")
def test_blocks_of_an_older_function_are_reported_as_not_replayable_not_as_wrong(open_store):
    def as_it_is(posts):
        return posts

    def louder(posts):
        return posts.selectExpr("id", "upper(text) AS text")

    for number, function in enumerate((as_it_is, louder)):
        store = open_store()
        posts, feed = (store.table(name, "id long, text string", key="id") for name in ("posts", "feed"))
        store.add(sm.BatchTransform(function, [posts], [feed], name="tell", on_change="keep"))
        posts.upsert([{"id": number, "text": "x"}])
        store.run()

    report = store.verify("feed", replay=True)

    assert report.ok
    assert (report.replayed, report.not_replayable) == (1, 1)


@pytest.mark.scenario("L54")
def test_the_first_block_after_the_seed_tells_inputs_in_order_and_the_function_with_its_source(blog):
    blog.write_posts((1, 100, "one"))
    blog.run()
    store = blog.store
    event = events(store, "feed")[1]
    assert isinstance(event, SetTransform)
    assert [(entry.alias, entry.dataset_ref) for entry in event.inputs] == [
        (name, store.control.index.head(name).dataset_id) for name in ("posts", "profiles")
    ]
    told = from_chain(event)
    assert (told.step, told.kind, told.keys, told.outputs) == ("process_posts", "python", ("post_id",), ("feed",))
    assert told.function.endswith("process_posts")
    assert told.source.startswith("def process_posts(posts: Any, profiles: Any) -> Any:\n    keys = ")
    assert told.inputs == (("posts", False, ()), ("profiles", False, (("user_id", "id"),)))


def test_a_commit_is_computed_once_for_all_tables_that_it_wrote(ds):
    numbers = ds.table("numbers", "id long", key="id")
    outputs = [ds.table(name, "id long, twice long", key="id") for name in ("doubled", "doubled_too")]
    calls = []

    def double(numbers):
        calls.append(1)
        found = numbers.selectExpr("id", "2 * id AS twice")
        return found, found

    ds.add(sm.BatchTransform(double, [numbers], outputs, version="1"))
    for number in (1, 2):
        numbers.upsert([{"id": number}])
        assert ds.run().ok
    calls.clear()
    report = ds.verify(replay=True)
    assert (report.ok, report.replayed, len(calls)) == (True, 4, 2)
