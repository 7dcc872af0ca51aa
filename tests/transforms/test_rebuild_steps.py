"""The control database is lost: the chains of real steps give back positions, failed keys and unfinished passes."""

import pytest
from sqlalchemy import delete

import seamark as sm
from seamark.control.schema import metadata, seamark_schema


@pytest.fixture
def bad():
    return set()


@pytest.fixture
def open_steps(tmp_path, spark, clock, control_url, bad):
    """Opens the store as another process would: posts -> feed, and feed with profiles -> lines and words."""
    opened = []

    def open_it(**options):
        store = sm.DataStore(control_url, tmp_path / "warehouse", spark=spark, clock=clock)
        opened.append(store)
        posts = store.table("posts", "id long, user long, text string", key="id")
        profiles = store.table("profiles", "user long, name string", key="user")
        feed = store.table("feed", "id long, user long, text string", key="id")
        lines, lengths = (store.table(n, "id long, line string", key="id") for n in ("lines", "lengths"))
        store.calls = []

        @store.transform(inputs=[posts], outputs=[feed], **{"version": "1", **options})
        def shake(posts):
            found = posts.collect()
            store.calls.append(sorted(row.id for row in found))
            if any(row.text in bad for row in found):
                raise ValueError("bad text")
            return posts

        reference = sm.JoinSpec(profiles, join_keys={"user": "user"})

        @store.transform(inputs=[feed, reference], outputs=[lines, lengths], version="1")
        def tell(feed, profiles):
            joined = feed.join(profiles, "user", "left")
            line = joined.selectExpr("id", "concat(coalesce(name, '?'), ': ', text) AS line")
            return line, line.selectExpr("id", "cast(length(line) AS string) AS line")

        return store

    yield open_it
    for store in opened:
        store.close()


def write(store, *rows):
    store.table("posts").upsert([{"id": n, "user": 100, "text": text} for n, text in rows])


def lines(store):
    return sorted(row.line for row in store.table("lines").rows().collect())


def known(store):
    index = store.control.index
    return {
        "heads": index.heads(),
        "blocks": {name: index.blocks(name) for name in index.heads()},
        "positions": sorted(index.positions(), key=lambda p: (p.step, p.input_table)),
        "failed": sorted(index.failed_keys(), key=lambda k: k.key),
    }


def lose_everything(store):
    with store.control.database.write() as connection:
        for table in metadata.sorted_tables:
            if table is not seamark_schema:
                connection.execute(delete(table))
    store.close()


def rebuild(store, control_url, tmp_path):
    lose_everything(store)
    return sm.DataStore.rebuild(control_url, tmp_path / "warehouse")


def stop_after(batches):
    def on_batch(report, _left):
        if report.batches == batches:
            raise KeyboardInterrupt

    return on_batch


@pytest.mark.scenario("T45")
def test_positions_and_failed_keys_come_back_and_the_next_run_does_only_what_is_due(
    open_steps, bad, control_url, tmp_path, clock
):
    store = open_steps()
    store.table("profiles").upsert([{"user": 100, "name": "Alice"}])
    write(store, (1, "one"), (2, "bad"))
    bad.add("bad")
    store.run()
    store.run()  # the second failure of 2: due in a minute
    write(store, (3, "three"))
    store.run()
    before = known(store)
    assert [(key.key, key.attempts) for key in before["failed"]] == [('{"id":2}', 2)]

    report = rebuild(store, control_url, tmp_path)

    assert (report.positions, report.failed_keys, report.tables) == (3, 1, 5)
    store = open_steps()
    assert known(store) == before
    assert not store.run().did_something
    bad.clear()
    clock.advance(minutes=2)
    assert store.run().steps["shake"].appended == 1
    assert store.calls == [[2]]
    assert lines(store) == ["Alice: bad", "Alice: one", "Alice: three"]
    write(store, (1, "eins"))
    assert store.run().steps["tell"].corrected == 2
    assert store.step("shake").failures().empty
    assert store.verify(replay=True).ok


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_a_first_pass_over_all_keys_that_was_cut_off_goes_on_and_is_not_taken_as_done(
    open_steps, control_url, tmp_path
):
    store = open_steps(batch_keys=2)
    write(store, *[(n, "x") for n in range(6)])
    with pytest.raises(KeyboardInterrupt):
        store.step("shake").run_full(on_batch=stop_after(1))

    report = rebuild(store, control_url, tmp_path)

    assert report.positions == 0
    store = open_steps(batch_keys=2)
    assert store.plan()["shake"].mode == "all keys"
    store.run()
    assert store.calls == [[2, 3], [4, 5]]
    assert len(lines(store)) == 6
    assert not store.run().did_something


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("meanwhile", [False, True], ids=["at once", "after a run of some keys"])
def test_a_recompute_that_was_cut_off_goes_on_though_the_chain_has_older_positions(
    open_steps, control_url, tmp_path, meanwhile
):
    store = open_steps(batch_keys=2)
    write(store, *[(n, "x") for n in range(6)])
    store.run()
    store = open_steps(batch_keys=2, version="2", on_change="recompute")
    with pytest.raises(KeyboardInterrupt):
        store.step("shake").run_full(on_batch=stop_after(2))
    if meanwhile:
        store.step("shake").run_idx([{"id": 0}])

    report = rebuild(store, control_url, tmp_path)

    assert report.positions == 3
    store = open_steps(batch_keys=2, version="2")
    assert store.run().steps["shake"].mode == "recompute"
    assert store.calls == [[4, 5]]
    assert not store.run().did_something


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_a_pass_after_a_reset_that_was_cut_off_is_not_taken_as_done(open_steps, control_url, tmp_path):
    store = open_steps(batch_keys=2)
    write(store, *[(n, "x") for n in range(4)])
    store.run()
    store.offset_table.reset_offset("shake")
    with pytest.raises(KeyboardInterrupt):
        store.step("shake").run_full(on_batch=stop_after(1))

    rebuild(store, control_url, tmp_path)

    store = open_steps(batch_keys=2)
    assert store.run().steps["shake"].mode == "all keys"
    assert store.calls == [[0, 1], [2, 3]]  # chains do not tell of resets, so there may have been another one
    assert not store.run().did_something


@pytest.mark.scenario("T45")
@pytest.mark.parametrize("control_url", ["sqlite"], indirect=True)
def test_what_limited_runs_computed_ahead_is_computed_again_and_nothing_is_hidden(open_steps, control_url, tmp_path):
    store = open_steps()
    write(store, (1, "one"))
    store.run()
    write(store, (2, "two"), (3, "three"), (4, "four"))
    store.run("shake", limit=2)
    assert store.step("shake").get_changed_idx_count() == 1

    rebuild(store, control_url, tmp_path)

    store = open_steps()
    assert store.step("shake").get_changed_idx_count() == 3
    store.run()
    assert lines(store) == ["?: four", "?: one", "?: three", "?: two"]
    assert not store.run().did_something
